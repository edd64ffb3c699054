"""Simulation by names, as the command line and a notebook ask for it."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rltune.cluster import Cluster
from rltune.engine.guard import Guard
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import Progress, run_pipeline
from rltune.engine.search import Search
from rltune.engine.turns import MAX_PREEMPTIONS, MIN_RUN_S, TURN_S, Turns, get_turns
from rltune.estimate import Estimator, get_estimator
from rltune.inputs import require_inputs
from rltune.jobs import Jobs
from rltune.opt_in import for_replay
from rltune.placement.placers import Placement
from rltune.policy.base import Policy, Score
from rltune.schedule import Schedule


def simulate(
    jobs: Jobs,
    cluster: Cluster,
    policy: str | Policy | Score = "fcfs",
    backfill: str = "none",
    placement: str | Placement = "best-fit",
    estimator: str | Estimator | NDArray[np.float64] = "history",
    head: str = "pool",
    commit: bool = False,
    seed: int = 0,
    *,
    view: int = 0,
    cycle_s: float = 0.0,
    guard: str | Guard | None = None,
    search: str | int | Search | None = None,
    preempt: str | Turns | None = None,
    min_run_s: float = MIN_RUN_S,
    max_preemptions: int = MAX_PREEMPTIONS,
    turn_s: float = TURN_S,
    remaining: str = "ends-now",
    progress: Progress | None = None,
) -> Schedule:
    """Run the jobs to their end and say when and where each ran, in the order given.

    Args:
        jobs: The workload, from `rltune.read_trace(path)` or `rltune.Jobs.from_...`.
        cluster: The machine, from `rltune.Cluster.load(name_or_path)` or `rltune.Cluster.uniform(...)`.
        policy: Who runs next: a name (`rltune policies` lists them), a model's file, `mine.py:score`, a function that
            scores the queue, or an object.
        backfill: Who may overtake: "none", "fit-first", "easy", "conservative", "whole-nodes" or "shadow".
        placement: How nodes are chosen: "best-fit", "first-fit", "spread", "hierarchical", "exclusive", "slurm", "milp"
            or "auto".
        estimator: What is known of run times: a name, `mine.py:Name`, an object, or one number of seconds a job.
        head: What a job that does not fit blocks: its "pool", or all others ("global").
        commit: Whether to run as RLScheduler's machine does.
        seed: For everything that is drawn.
        view: How many of the oldest waiting jobs the policy sees; 0 = all.
        cycle_s: How often the policy is asked; 0 = in every pass.
        guard: A bound on how long a job may be overtaken, such as "24h:4x".
        search: How many orders are tried before each pass, such as 16.
        preempt: The order by which running jobs that are `preemptible` give way: "las", "gittins", "srsf" or "policy";
            "off" if nobody does.
        min_run_s: How long a spell lasts at least, its restart apart, before it may be cut short.
        max_preemptions: How often one job may be displaced.
        turn_s: How often running and waiting jobs are compared though nothing happens.
        remaining: What reservations take running jobs to have left: "ends-now" (their estimates, and nothing past
            them), or "history" (what jobs that ran as long had left).
        progress: Called with the jobs ended and the jobs in all.

    Returns the schedule: it prints itself; `.summary()` measures it, `.to_polars()` has a row a job.

        schedule = rltune.simulate(jobs, cluster, policy="saf", backfill="easy", estimator="history")
    """
    require_inputs(jobs, cluster)
    settings: dict[str, Any] = {"head": head, "commit": commit, "seed": seed, "view": view, "cycle_s": cycle_s}
    turns = get_turns(preempt, min_run_s, max_preemptions, turn_s)
    around: dict[str, Any] = {"guard": guard, "search": search, "preempt": turns, "remaining": remaining}
    pipeline = parse_pipeline(policy, backfill, placement, **around, **settings)
    return run_pipeline(for_replay(jobs, cluster), cluster, pipeline, get_estimator(estimator), progress, perf_counter)

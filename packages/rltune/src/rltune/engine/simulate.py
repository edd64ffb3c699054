"""Simulation by names, as the command line and a notebook ask for it."""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from rltune.cluster import Cluster
from rltune.engine.guard import Guard
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import Progress, run_pipeline
from rltune.engine.search import Search
from rltune.estimate import Estimator, get_estimator
from rltune.jobs import Jobs
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
    progress: Progress | None = None,
) -> Schedule:
    """Run the jobs to their end and say when and where each ran, in the order given."""
    settings = {"head": head, "commit": commit, "seed": seed, "view": view, "cycle_s": cycle_s}
    pipeline = parse_pipeline(policy, backfill, placement, guard=guard, search=search, **settings)
    return run_pipeline(jobs, cluster, pipeline, get_estimator(estimator), progress, perf_counter)

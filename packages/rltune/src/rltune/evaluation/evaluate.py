"""Evaluate pipelines on held-out windows of a trace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.errors import unknown
from rltune.estimate import get_estimator
from rltune.evaluation.choose import Choice, choose
from rltune.evaluation.comparison import find_contender
from rltune.evaluation.evaluation import Evaluation
from rltune.evaluation.results import Results
from rltune.inputs import require_inputs
from rltune.parallel import Here, Spread
from rltune.trials.groups import Groups
from rltune.trials.leak import leaks
from rltune.trials.lineup import line_up, unique
from rltune.trials.outcome import MEASURED
from rltune.trials.parts import Part, split
from rltune.trials.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rltune.cluster import Cluster
    from rltune.jobs import Jobs

    Progress = Callable[[int, int, str], None]  # windows done, windows in all, the part


def evaluate(
    jobs: Jobs,
    cluster: Cluster,
    policies: Sequence[Any],
    backfills: Sequence[str] = ("none",),
    placements: Sequence[str] = ("best-fit",),
    estimator: Any = "history",
    *,
    pipelines: Sequence[str] = (),
    holdout: float = 0.1,
    size: int = 1024,
    every: int = 64,
    contended_s: float = 600.0,
    select: bool = False,
    baseline: str | None = None,
    metric: str = "wait",
    head: str = "pool",
    view: int = 0,
    cycle_s: float = 0.0,
    seed: int = 0,
    spread: Spread | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Run pipelines on the contended windows of the held-out part of a trace, and divide them by a reference.

    A window of `size` jobs starts at every `every`th job of the last `holdout` of the trace, from an idle cluster; all
    that had ended before it is known to estimators and policies that learn. Results do not depend on where the work is
    spread.

    Args:
        jobs: The workload, from `rltune.read_trace(path)` or `rltune.Jobs.from_...`.
        cluster: The machine, from `rltune.Cluster.load(name_or_path)` or `rltune.Cluster.uniform(...)`.
        policies: Who runs next: names, model files, files such as `mine.py:score`, functions or objects.
        backfills: Who may overtake, each with each policy.
        placements: How nodes are chosen, each with each policy.
        estimator: What is known of run times: a name, `mine.py:Name`, an object, or one number of seconds a job.
        pipelines: Further pipelines one by one, as tables name them: "learned + easy, milp:8".
        holdout: The share of the trace that is held out, at its end.
        size: The jobs of a window.
        every: How many jobs lie between the starts of two windows.
        contended_s: A window counts if FCFS without backfilling waits more than this on average.
        select: Whether to choose the best pipelines first, on the part before of equal length, and to run only those
            on the test part.
        baseline: The reference: a label or a policy; FCFS if not told, with `select` the best rule.
        metric: What to choose and compare by: "wait", "jct", "slowdown", "wait-p99" or "utilisation".
        head: What a job that does not fit blocks: its "pool", or all others ("global").
        view: How many of the oldest waiting jobs a policy sees; 0 = all.
        cycle_s: How often a policy is asked; 0 = in every pass.
        seed: For everything that is drawn.
        spread: Where the work is done; in this process if not told.
        progress: Called with the windows done, the windows in all and the part.

    Returns the evaluation: it prints itself, and `.to_dict()` has everything.

        made = rltune.evaluate(jobs, cluster, ["saf", "learned"], ["none", "easy"], select=True)
    """
    require_inputs(jobs, cluster)
    require_measured(metric)
    ordered, estimator = in_order(jobs, estimator)
    contenders = line_up(policies, backfills, placements, pipelines)
    parts = split(len(ordered), holdout)
    groupings = (Groups.by_size(ordered), Groups.by_vc(ordered))
    settings = {"head": head, "view": view, "cycle_s": cycle_s, "seed": seed}
    trial = Trial(ordered, cluster, contenders, estimator, size, contended_s, settings, groupings)
    work = spread or Here()
    validation: Results | None = None
    choices: tuple[Choice, ...] = ()
    if select:
        validation = run_part(trial, parts.validation, every, work, progress)
        choices = choose(validation, metric)
        trial = replace(trial, pipelines=unique([contenders[0], *(c.pipeline for c in choices)]))
        baseline = baseline or next((c.pipeline.label for c in reversed(choices) if c.side == "static"), None)
    reference = find_contender(trial.pipelines, baseline)
    test = run_part(trial, parts.test, every, work, progress)
    name = get_estimator(estimator).name
    looked_at = (parts.validation, parts.test) if select else (parts.test,)
    warnings = leaks(contenders, ordered, looked_at)
    if cycle_s:
        warnings += (f"Policies are asked every {cycle_s:g} s, multifactor too.",)
    return Evaluation(test, reference, metric, name, contended_s, groupings, validation, choices, warnings)


def run_part(trial: Trial, part: Part, every: int, spread: Spread, progress: Progress | None = None) -> Results:
    """Run the windows of one part."""
    starts = part.starts(trial.size, every)

    def tell(done: int) -> None:
        if progress is not None:
            progress(done, len(starts), f"{part.name} part")

    outcomes = spread.map(trial, starts, tell)
    return Results.of(part, trial.pipelines, starts, outcomes, trial.size, every, trial.settings["seed"])


def in_order(jobs: Jobs, estimator: Any) -> tuple[Jobs, Any]:
    """Put jobs, and estimates that were given job by job, into the order of submit."""
    order = np.argsort(jobs.submit_s, kind="stable")
    return jobs.take(order), estimator[order] if isinstance(estimator, np.ndarray) else estimator


def require_measured(metric: str) -> None:
    """Refuse a metric that is not kept by window."""
    if metric not in MEASURED:
        raise unknown("metric", metric, MEASURED, "to evaluate by")

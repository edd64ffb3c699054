"""Evaluate pipelines on held-out windows of a trace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.evaluation.choose import Choice, choose
from rltune.evaluation.comparison import find_contender
from rltune.evaluation.evaluation import Evaluation
from rltune.evaluation.results import Results
from rltune.parallel import Here, Spread
from rltune.trials.groups import Groups
from rltune.trials.leak import Exam, leaks
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
    that had ended before it is known to estimators and policies that learn. It counts if FCFS without backfilling
    waits more than `contended_s` on average. With `select` the best pipelines are first chosen on the part before, of
    equal length, and only those are run on the test part. `pipelines` are further ones, as tables name them. Results
    do not depend on where the work is spread.
    """
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
    exams = [Exam.of_part(ordered, part, chooses=part is parts.validation) for part in looked_at]
    warnings = leaks([c.policy for c in contenders], exams)
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
        raise InputError(f"no metric {metric!r} to evaluate by; there are: {', '.join(MEASURED)}")

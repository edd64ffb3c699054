"""Evaluate pipelines on held-out windows of a trace."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rltune.engine.guard import Guard
from rltune.engine.pipeline import Pipeline
from rltune.engine.search import Search
from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.evaluation.choose import Choice, choose
from rltune.evaluation.evaluation import Evaluation
from rltune.evaluation.results import Results
from rltune.parallel import Here, Spread
from rltune.trials.contention import fcfs_schedule, is_contended, mean_wait_s
from rltune.trials.groups import Groups
from rltune.trials.leak import leaks
from rltune.trials.outcome import MEASURED, Outcome
from rltune.trials.parts import Part, split
from rltune.trials.pipelines import find_pipeline, line_up, unique
from rltune.trials.trial import Trial, in_order

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
    pipelines: Sequence[str | Pipeline] = (),
    guard: str | Guard | None = None,
    search: str | int | Search | None = None,
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
    settings: dict[str, Any] = {"head": head, "view": view, "cycle_s": cycle_s, "seed": seed}
    contenders = beside_fcfs(
        line_up(policies, backfills, placements, pipelines, guard=guard, search=search, **settings)
    )
    parts = split(len(ordered), holdout)
    groupings = (Groups.by_size(ordered), Groups.by_vc(ordered))
    trial = HeldOut(Trial(ordered, cluster, estimator, seed=seed), contenders, size, contended_s, groupings)
    work = spread or Here()
    validation: Results | None = None
    choices: tuple[Choice, ...] = ()
    if select:
        validation = run_part(trial, parts.validation, every, work, progress)
        choices = choose(validation, metric)
        trial = replace(trial, pipelines=unique([contenders[0], *(c.pipeline for c in choices)]))
        baseline = baseline or next((c.pipeline.label for c in reversed(choices) if c.side == "static"), None)
    reference = find_pipeline(trial.pipelines, baseline)
    test = run_part(trial, parts.test, every, work, progress)
    name = get_estimator(estimator).name
    looked_at = (parts.validation, parts.test) if select else (parts.test,)
    warnings = leaks(contenders, ordered, looked_at)
    if cycle_s:
        warnings += (f"Policies are asked every {cycle_s:g} s, multifactor too.",)
    return Evaluation(test, reference, metric, name, contended_s, groupings, validation, choices, warnings)


@dataclass(frozen=True)
class HeldOut:
    """Called with the row at which a window starts: what every pipeline made of it, or None if it is not contended."""

    trial: Trial
    pipelines: tuple[Pipeline, ...]  # FCFS without backfilling is the first
    size: int
    contended_s: float
    groupings: tuple[Groups, ...]

    def __call__(self, first: int) -> list[Outcome] | None:
        """Run the window under every pipeline, if it is contended."""
        fcfs = fcfs_schedule(self.trial.window(first, self.size), self.trial.cluster)
        if not is_contended(mean_wait_s(fcfs), self.contended_s):
            return None
        made = (
            fcfs if pipeline == Pipeline() else self.trial.run(pipeline, first, self.size)
            for pipeline in self.pipelines
        )
        return [Outcome.of(schedule, first, self.groupings) for schedule in made]


def beside_fcfs(pipelines: Sequence[Pipeline]) -> tuple[Pipeline, ...]:
    """Put FCFS without backfilling first, whether it was asked for or not."""
    like = pipelines[0]
    fcfs = replace(Pipeline(), head=like.head, view=like.view, cycle_s=like.cycle_s, seed=like.seed)
    return unique([fcfs, *pipelines])


def run_part(trial: HeldOut, part: Part, every: int, spread: Spread, progress: Progress | None = None) -> Results:
    """Run the windows of one part."""
    starts = part.starts(trial.size, every)

    def tell(done: int) -> None:
        if progress is not None:
            progress(done, len(starts), f"{part.name} part")

    outcomes = spread.map(trial, starts, tell)
    return Results.of(part, trial.pipelines, starts, outcomes, trial.size, every, trial.trial.seed)


def require_measured(metric: str) -> None:
    """Refuse a metric that is not kept by window."""
    if metric not in MEASURED:
        raise InputError(f"no metric {metric!r} to evaluate by; there are: {', '.join(MEASURED)}")

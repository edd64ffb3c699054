"""Evaluate pipelines on held-out windows of a trace."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rltune.engine.guard import Guard
from rltune.engine.pipeline import Pipeline
from rltune.engine.search import Search
from rltune.engine.turns import Turns
from rltune.errors import unknown
from rltune.estimate import get_estimator
from rltune.estimate.estimator_names import AUTO
from rltune.evaluation.choose import choose
from rltune.evaluation.evaluation import Evaluation
from rltune.evaluation.recorded_waits import recorded_in_windows
from rltune.evaluation.results import Results
from rltune.inputs import require_inputs
from rltune.opt_in import for_replay, told_of
from rltune.parallel import Here, Spread
from rltune.trials.contention import CONTENDED_S, fcfs_schedule, is_contended, mean_wait_s
from rltune.trials.estimator_choice import choose_estimator
from rltune.trials.groups import Groups
from rltune.trials.intervals import FEWEST
from rltune.trials.leak import Exam, leaks
from rltune.trials.measures import COMPARED, usual_metric
from rltune.trials.outcome import Outcome
from rltune.trials.parts import Part, grown_sizes, split, usual_size
from rltune.trials.pipelines import find_pipeline, line_up, unique
from rltune.trials.trial import Trial, in_order
from rltune.trials.windows import parse_sliding

STARTS_A_WINDOW = 16  # windows start so often, unless told

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
    preempt: str | Turns | None = None,
    remaining: str | None = None,
    holdout: float = 0.0,
    windows: str | None = None,
    size: int = 0,
    every: int = 0,
    contended_s: float | None = None,
    select: bool = False,
    baseline: str | None = None,
    metric: str | None = None,
    head: str = "pool",
    view: int = 0,
    cycle_s: float = 0.0,
    commit: bool = False,
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
        guard: A bound on how long a job may be overtaken, around every policy of `policies`.
        search: How many orders are tried before each pass, around every policy of `policies`.
        preempt: The order by which running jobs that are `preemptible` give way, such as "las", around every policy of
            `policies`.
        remaining: What reservations take running jobs to have left, around every policy of `policies`: "ends-now" or
            "history".
        holdout: The share of the trace that is held out, at its end; 0 = a tenth, more of a short history.
        windows: The next three in the words of the command line: "1024:every=64:contended=600".
        size: The jobs of a window; 0 = 1,024, fewer where a part has no room for three of them.
        every: How many jobs lie between the starts of two windows; 0 = a sixteenth of a window.
        contended_s: A window counts if FCFS without backfilling waits more than this on average; None = 600, and if too
            few windows do for an interval, 60, or any queue.
        select: Whether to choose the best pipelines first, on the part before of equal length, and to run only those
            on the test part.
        baseline: The reference: a label or a policy; FCFS if not told, with `select` the best rule.
        metric: What to choose and compare by: "wait", "delay", "jct", "slowdown", "wait-p99", "delay-p99" or
            "utilisation"; if not told the wait, or the delay if jobs take turns.
        head: What a job that does not fit blocks: its "pool", or all others ("global").
        view: How many of the oldest waiting jobs a policy sees; 0 = all.
        cycle_s: How often a policy is asked; 0 = in every pass.
        commit: Whether to run as RLScheduler's machine does.
        seed: For everything that is drawn.
        spread: Where the work is done; in this process if not told.
        progress: Called with the windows done, the windows in all and the part.

    Returns the evaluation: it prints itself, and `.to_dict()` has everything.

        made = rltune.evaluate(jobs, cluster, ["saf", "learned"], ["none", "easy"], select=True)
    """
    require_inputs(jobs, cluster)
    if metric is not None:
        require_measured(metric)
    settings: dict[str, Any] = {"head": head, "view": view, "cycle_s": cycle_s, "commit": commit, "seed": seed}
    around: dict[str, Any] = {"guard": guard, "search": search, "preempt": preempt, "remaining": remaining}
    contenders = beside_fcfs(line_up(policies, backfills, placements, pipelines, **around, **settings))
    metric = metric or usual_metric(contenders)
    ordered, estimator = in_order(for_replay(jobs, cluster), estimator)
    parts, work = split(len(ordered), holdout), spread or Here()
    cut = settle_cut(ordered, cluster, parts.test, work, _asked_cut(windows, size, every, contended_s))
    chosen = None
    if isinstance(estimator, str) and estimator == AUTO:
        looked_at_first = parts.validation if select else parts.test
        chosen = choose_estimator(ordered, cluster, looked_at_first.first, cut.size, seed)
        estimator = chosen.taken
    trial = Trial(ordered, cluster, estimator, seed=seed)
    groupings = (Groups.by_size(ordered), Groups.by_vc(ordered))
    held_out = HeldOutTrial(trial, contenders, cut.size, cut.contended_s, groupings)
    validation = run_part(held_out, parts.validation, cut.every, work, progress) if select else None
    choices = choose(validation, metric) if validation is not None else ()
    if select:
        held_out = replace(held_out, pipelines=unique([contenders[0], *(c.pipeline for c in choices)]))
        baseline = baseline or next((c.pipeline.label for c in reversed(choices) if c.side == "static"), None)
    reference = find_pipeline(held_out.pipelines, baseline)
    test = run_part(held_out, parts.test, cut.every, work, progress)
    warnings = _warnings(ordered, contenders, (parts.validation, parts.test) if select else (parts.test,), test)
    warnings = warnings if chosen is None else (*warnings, chosen.told())
    name = get_estimator(estimator).name
    return Evaluation(test, reference, metric, name, cut.contended_s, groupings, validation, choices, warnings)


def _warnings(jobs: Jobs, contenders: Sequence[Pipeline], looked_at: Sequence[Part], test: Results) -> tuple[str, ...]:
    """Return what a reader must know: who has seen these jobs, how far waits are from recorded ones, which machine."""
    exams = [Exam.of_part(jobs, part, chooses=part is not looked_at[-1]) for part in looked_at]
    said = [*leaks([c.policy for c in contenders], exams), *told_of(jobs), *recorded_in_windows(jobs, test)]
    if contenders[0].commit:
        said.append("Pipelines run on RLScheduler's machine (commit mode).")
    if cycle_s := contenders[0].cycle_s:
        said.append(f"Policies are asked every {cycle_s:g} s, multifactor too.")
    return tuple(said)


@dataclass(frozen=True)
class WindowCut:
    """How a part is cut into windows, and from which wait on they count."""

    size: int
    every: int
    contended_s: float

    def with_threshold(self, jobs: Jobs, cluster: Cluster, part: Part, spread: Spread) -> WindowCut | None:
        """Return the same with the usual threshold, or a lower one if too few windows wait as long; None if none does.

        Windows are counted before anything is compared, and by FCFS alone, so that no result can choose the threshold.
        """
        starts = part.starts(self.size, self.every)
        waits = spread.map(FcfsWait(jobs, cluster, self.size), starts)
        kept = {
            threshold: [start for start, wait in zip(starts, waits, strict=True) if is_contended(wait, threshold)]
            for threshold in (CONTENDED_S, CONTENDED_S / 10, 0.0)
        }
        enough = [threshold for threshold, found in kept.items() if part.disjoint(found, self.size) >= FEWEST]
        some = [threshold for threshold, found in kept.items() if found]
        return replace(self, contended_s=(enough or some)[0]) if some else None


def _asked_cut(windows: str | None, size: int, every: int, contended_s: float | None) -> tuple[int, int, float | None]:
    """Return how windows are asked for, in words or by numbers; what is 0 or None is left to the history."""
    if windows is None:
        return size, every, contended_s
    sliding = parse_sliding(windows, min_wait_s=CONTENDED_S if contended_s is None else contended_s)
    return sliding.size, sliding.every, sliding.min_wait_s


def settle_cut(
    jobs: Jobs,
    cluster: Cluster,
    part: Part,
    spread: Spread,
    asked: tuple[int, int, float | None],
    starts_a_window: int = STARTS_A_WINDOW,
) -> WindowCut:
    """Settle what was left to the history: size (0), distance (0) and threshold (None) of the windows."""
    size, every, contended_s = asked
    sizes = (size,) if size else grown_sizes(part, usual_size(part))
    cuts = (WindowCut(each, every or max(1, each // starts_a_window), contended_s or 0.0) for each in sizes)
    if contended_s is not None:
        return next(cuts)
    settled = (cut.with_threshold(jobs, cluster, part, spread) for cut in cuts)
    return next(filter(None, settled), WindowCut(sizes[0], every or max(1, sizes[0] // starts_a_window), 0.0))


@dataclass(frozen=True)
class FcfsWait:
    """Called with the row at which a window starts: how long jobs of it wait under FCFS without backfilling."""

    jobs: Jobs
    cluster: Cluster
    size: int

    def __call__(self, first: int) -> float:
        """Return the mean wait."""
        return mean_wait_s(fcfs_schedule(self.jobs.window(first, self.size), self.cluster))


@dataclass(frozen=True)
class HeldOutTrial:
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
    same = {name: getattr(like, name) for name in ("head", "view", "cycle_s", "commit", "seed")}
    fcfs = replace(Pipeline(), **same)
    return unique([fcfs, *pipelines])


def run_part(trial: HeldOutTrial, part: Part, every: int, spread: Spread, progress: Progress | None = None) -> Results:
    """Run the windows of one part."""
    starts = part.starts(trial.size, every)

    def tell(done: int) -> None:
        if progress is not None:
            progress(done, len(starts), f"{part.name} part")

    outcomes = spread.map(trial, starts, tell)
    return Results.of(part, trial.pipelines, starts, outcomes, trial.size, every)


def require_measured(metric: str) -> None:
    """Refuse a metric that is not kept by window."""
    if metric not in COMPARED:
        raise unknown("metric", metric, COMPARED, "to evaluate by")

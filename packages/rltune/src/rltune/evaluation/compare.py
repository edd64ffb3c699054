"""Run every pipeline on every window, and compare."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rltune.cluster import Cluster
from rltune.engine.guard import Guard
from rltune.engine.pipeline import Pipeline, learns
from rltune.engine.search import Search
from rltune.engine.turns import Turns
from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.evaluation.comparison import Comparison, Run
from rltune.inputs import require_inputs
from rltune.jobs import Jobs
from rltune.metrics import Bound, lower_bound, summarise
from rltune.opt_in import for_replay, told_of
from rltune.parallel import spread_over
from rltune.policy.portfolio import taken_notes
from rltune.schedule import Schedule
from rltune.trials.contention import fcfs_wait_s
from rltune.trials.leak import Exam, leaks
from rltune.trials.measures import metric_of, usual_metric
from rltune.trials.pipelines import Contender, contenders_of, line_up
from rltune.trials.trial import Trial, fresh_caches, in_order
from rltune.trials.windows import SlidingSpec, Spec, Steady, Window, WindowSpec, choose_windows, parse_windows

Progress = Callable[[int, int, str], None]  # runs done, runs planned, what was done last


def compare(
    jobs: Jobs,
    cluster: Cluster,
    policies: Sequence[Any],
    backfills: Sequence[str] = ("none",),
    placements: Sequence[str] = ("best-fit",),
    windows: Spec | str = "steady",
    estimator: Any = "history",
    baseline: str | None = None,
    metric: str | None = None,
    *,
    pipelines: Sequence[str | Pipeline] = (),
    estimators: Sequence[str | None] = (),
    guard: str | Guard | None = None,
    search: str | int | Search | None = None,
    preempt: str | Turns | None = None,
    remaining: str | None = None,
    warm: bool = False,
    head: str = "pool",
    commit: bool = False,
    view: int = 0,
    cycle_s: float = 0.0,
    seed: int = 0,
    confidence: float = 0.95,
    workers: int = 1,
    progress: Progress | None = None,
) -> Comparison:
    """Run each policy with each backfilling and placement on the same windows, and pair the results by window.

    Args:
        jobs: The workload, from `rltune.read_trace(path)` or `rltune.Jobs.from_...`.
        cluster: The machine, from `rltune.Cluster.load(name_or_path)` or `rltune.Cluster.uniform(...)`.
        policies: Who runs next: names, files such as `mine.py:score`, functions or objects.
        backfills: Who may overtake: "none", "fit-first", "easy", "conservative", "whole-nodes" or "shadow".
        placements: How nodes are chosen: "best-fit", "first-fit", "spread", "hierarchical", "exclusive", "slurm",
            "milp" or "auto".
        windows: Which parts are run, in the words of the command line: "steady" measures the whole trace after its
            first 20 % of time, from the jobs that were running and waiting then (where no starts are recorded, after a
            simulated warm-up); "steady:0.3", "20x1024", "20x1024:contended=600", "1024:every=64"; None or "whole" for
            the whole trace from an idle cluster. Or an object of `rltune.evaluation`.
        estimator: What is known of run times: a name, `mine.py:Name`, an object, or one number of seconds a job.
        baseline: The contender that the others are compared with: its label or its policy; the first if not told.
        metric: What to compare by: a name such as "wait" or "slowdown", or your own as `mine.py:name`; if not told the
            wait, or the delay if jobs take turns.
        pipelines: Further pipelines one by one, as objects or as tables name them: "saf + easy, milp:8".
        estimators: By what name each of `pipelines` knows run times, None for what all others know; if not told,
            all know the same.
        guard: A bound on how long a job may be overtaken, around every policy of `policies`.
        search: How many orders are tried before each pass, around every policy of `policies`.
        preempt: The order by which running jobs that are `preemptible` give way, such as "las", around every policy of
            `policies`.
        remaining: What reservations take running jobs to have left, around every policy of `policies`: "ends-now" or
            "history".
        warm: Whether estimators and policies that learn start each window from the jobs before it that had ended.
        head: What a job that does not fit blocks: its "pool", or all others ("global").
        commit: Whether to run as RLScheduler's machine does.
        view: How many of the oldest waiting jobs a policy sees; 0 = all.
        cycle_s: How often a policy is asked; 0 = in every pass.
        seed: For everything that is drawn.
        confidence: Of the intervals.
        workers: How many processes. With several, policies and estimators given as objects must be picklable; the
            results do not depend on the number.
        progress: Called with the runs done, the runs planned and what was done last.

    Returns the comparison: it prints itself; `.table()`, `.details()`, `.to_json()` and `.runs` have the rest. Ctrl-C
    gives the comparison of what has been done so far, with `complete` False; several workers first finish the runs
    that they are in.

        made = rltune.compare(jobs, cluster, ["fcfs", "saf"], ["none", "easy"], estimator="history", baseline="fcfs")
    """
    require_inputs(jobs, cluster)
    jobs = for_replay(jobs, cluster)
    if metric is not None:
        metric_of(metric)
    windows = parse_windows(windows, seed) if isinstance(windows, str) else windows
    settings: dict[str, Any] = {"head": head, "commit": commit, "view": view, "cycle_s": cycle_s, "seed": seed}
    around: dict[str, Any] = {"guard": guard, "search": search, "preempt": preempt, "remaining": remaining}
    lined_up = line_up(policies, backfills, placements, pipelines, estimators=estimators, **around, **settings)
    learners = require_warm(lined_up, estimator, windows) if warm else ()
    ordered, guess = in_order(jobs, estimator)
    chosen, notes = choose_windows(ordered, windows, _fcfs_wait(ordered, cluster), cluster.gpu_count)
    trials = _trials(Trial(ordered, cluster, guess, warm, seed), len(lined_up), estimators)
    bench = Bench(trials, chosen, lined_up)
    tasks = list(itertools.product(range(len(chosen)), range(len(lined_up))))
    known = leaks([p.policy for p in lined_up], [_exam(ordered, chosen)])
    runs = _collect(bench, tasks, workers, progress)
    taken = taken_notes(
        (pipeline.label, (run.schedule.settings.policy for run in runs if run.contender == i))
        for i, pipeline in enumerate(lined_up)
    )
    return Comparison.build(
        runs=runs,
        windows=chosen,
        contenders=_contenders(lined_up, [get_estimator(trial.estimator).name for trial in trials]),
        baseline=baseline,
        metric=metric or usual_metric(lined_up),
        confidence=confidence,
        seed=seed,
        about=_about(windows, chosen),
        notes=(*known, *taken, *notes, *_warm_notes(learners, chosen), *told_of(ordered)),
    )


def _trials(trial: Trial, pipelines: int, own: Sequence[str | None]) -> tuple[Trial, ...]:
    """Return who knows what of run times, one a pipeline; the last ones may know them in a way of their own."""
    of: dict[str | None, Trial] = {None: trial}
    for known in own:
        if known not in of:
            of[known] = replace(trial, estimator=known, **fresh_caches())
    return (*(trial for _ in range(pipelines - len(own))), *(of[known] for known in own))


def _contenders(pipelines: Sequence[Pipeline], known: Sequence[str]) -> tuple[Contender, ...]:
    """Name the pipelines, with what each knows of run times where that differs."""
    settings = [pipeline.settings(name) for pipeline, name in zip(pipelines, known, strict=True)]
    return contenders_of(settings, by_estimator=len(set(known)) > 1)


def _about(windows: Spec, chosen: tuple[Window, ...]) -> str:
    if isinstance(windows, Steady):
        return windows.told(chosen[0])
    return str(windows) if windows else "whole trace, from an idle cluster"


def _exam(jobs: Jobs, windows: tuple[Window, ...]) -> Exam:
    """Return the jobs that count in some window."""
    counts = np.zeros(len(jobs), dtype=bool)
    for window in windows:
        rows = slice(window.first, window.first + window.count)
        begin, end = window.interval_s or (-np.inf, np.inf)
        counts[rows] |= (jobs.submit_s[rows] >= begin) & (jobs.submit_s[rows] < end)
    return Exam(jobs.take(np.flatnonzero(counts)))


def require_warm(pipelines: Sequence[Pipeline], estimator: Any, windows: Spec) -> tuple[str, ...]:
    """Name what can start warm; refuse a warm start where there can be none."""
    if not isinstance(windows, WindowSpec | SlidingSpec):
        raise InputError("a warm start needs jobs before those that are run: give windows such as 20x1024")
    guess = get_estimator(estimator)
    names = [f"estimator {guess.name}"] if learns(guess) else []
    names += dict.fromkeys(f"policy {p.policy_name}" for p in pipelines if learns(p.policy))
    if not names:
        raise InputError(f"nothing here can start warm: neither estimator {guess.name} nor a policy learns from jobs")
    return tuple(names)


@dataclass(frozen=True)
class Bench:
    """All that a run needs but the pipeline's number and the window's; sent once to every process."""

    trials: tuple[Trial, ...]  # one a pipeline; those that know run times alike share one
    windows: tuple[Window, ...]
    pipelines: tuple[Pipeline, ...]
    bounds: dict[tuple[int, bytes], Bound] = field(default_factory=dict)  # by window and the jobs that ran

    def run(self, task: tuple[int, int]) -> Run:
        """Simulate one window under one pipeline, and sum it up."""
        number, which = task
        window = self.windows[number]
        schedule = self.trials[which].run_window(self.pipelines[which], window)
        return Run(which, number, schedule, summarise(schedule, window.interval_s, self._bound(number, schedule)))

    def _bound(self, number: int, schedule: Schedule) -> Bound:
        measured = schedule.ran
        if (interval := self.windows[number].interval_s) is not None:
            submit = schedule.jobs.submit_s
            measured = measured & (submit >= interval[0]) & (submit < interval[1])
        key = (number, np.packbits(measured).tobytes())
        if key not in self.bounds:
            self.bounds[key] = lower_bound(schedule.jobs, schedule.cluster, measured)
        return self.bounds[key]


def _perform(bench: Bench, tasks: Sequence[tuple[int, int]], workers: int) -> Generator[Run]:
    """Yield the runs, in the order of the tasks from one process, as they are finished from several."""
    with spread_over(min(workers, len(tasks))) as spread, closing(spread.each(bench.run, tasks)) as made:
        for _, run in made:
            yield run


def _warm_notes(learners: tuple[str, ...], windows: tuple[Window, ...]) -> tuple[str, ...]:
    if not learners:
        return ()
    who = f"{', '.join(learners)} began each window with what had ended before it, the same for all pipelines"
    cold = sum(window.first == 0 for window in windows)
    return (f"Warm start: {who}.", *(["The window at the trace's beginning has no job before it."] if cold else []))


def _collect(bench: Bench, tasks: list[tuple[int, int]], workers: int, progress: Progress | None) -> tuple[Run, ...]:
    """Gather runs until all are there or the user interrupts; with nothing done yet the interrupt goes on."""
    runs: list[Run] = []
    try:
        with closing(_perform(bench, tasks, workers)) as made:
            for run in made:
                runs.append(run)
                if progress:
                    progress(len(runs), len(tasks), bench.pipelines[run.contender].label)
    except KeyboardInterrupt:
        if not runs:
            raise
    return tuple(sorted(runs, key=lambda run: (run.window, run.contender)))


def _fcfs_wait(jobs: Jobs, cluster: Cluster) -> Callable[[Window], float]:
    return lambda window: fcfs_wait_s(jobs.window(window.first, window.count), cluster)

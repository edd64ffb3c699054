"""Run every contender on every window, and compare."""

from __future__ import annotations

import itertools
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.errors import InputError
from rltune.evaluation.comparison import Comparison
from rltune.trials.leak import Exam, leaks
from rltune.trials.measures import metric_of
from rltune.trials.runs import Bench, Contender, Run, learns, perform
from rltune.trials.windows import Spec, Window, WindowSpec, choose_windows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rltune.cluster import Cluster
    from rltune.jobs import Jobs
    from rltune.trials.runs import Engine

    Progress = Callable[[int, int, str], None]  # runs done, runs planned, what was done last


def compare(
    jobs: Jobs,
    cluster: Cluster,
    policies: Sequence[Any],
    backfills: Sequence[str] = ("none",),
    placements: Sequence[str] = ("best-fit",),
    windows: Spec = None,
    estimator: Any = "oracle",
    baseline: str | None = None,
    metric: str = "wait",
    *,
    warm: bool = False,
    head: str = "pool",
    commit: bool = False,
    view: int = 0,
    cycle_s: float = 0.0,
    seed: int = 0,
    confidence: float = 0.95,
    resamples: int = 5000,
    workers: int = 1,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> Comparison:
    """Run each policy with each backfilling and placement on the same windows, and pair the results by window.

    `windows` is None for the whole trace, a `Steady` for the whole with a warm-up left out, or a `WindowSpec`.
    With `warm` estimators and policies that learn start each window from the jobs before it that had ended, all alike.
    The baseline is a contender's label or a policy's name, the first contender if not told. With several workers
    policies and estimators given as objects must be picklable; the results do not depend on the number of workers.
    Ctrl-C gives the comparison of what has been done so far, with `complete` False; several workers first finish the
    runs that they are in.
    `engine` replaces `rltune.simulate`.
    """
    metric_of(metric)
    contenders = line_up(policies, backfills, placements)
    learners: tuple[str, ...] = ()
    if warm:
        contenders, estimator, learners = warmable(contenders, estimator, windows)
    ordered = jobs
    if np.any(np.diff(jobs.submit_s) < 0):
        order = np.argsort(jobs.submit_s, kind="stable")
        ordered = jobs.take(order)
        estimator = estimator[order] if isinstance(estimator, np.ndarray) else estimator
    settings = {"estimator": estimator, "head": head, "commit": commit, "view": view, "cycle_s": cycle_s, "seed": seed}
    chosen, notes = choose_windows(ordered, windows, _fcfs_wait(Bench(ordered, cluster, (), (), {}, engine)))
    bench = Bench(ordered, cluster, chosen, contenders, settings, engine, warm)
    tasks = list(itertools.product(range(len(chosen)), range(len(contenders))))
    return Comparison.build(
        runs=_collect(bench, tasks, workers, progress),
        windows=chosen,
        contenders=contenders,
        baseline=baseline,
        metric=metric,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        about=str(windows) if windows else "whole trace, from an idle cluster",
        notes=(*leaks(policies, [_exam(ordered, chosen)]), *notes, *_warm_notes(learners, chosen)),
    )


def _exam(jobs: Jobs, windows: tuple[Window, ...]) -> Exam:
    """Return the jobs that count in some window."""
    counts = np.zeros(len(jobs), dtype=bool)
    for window in windows:
        rows = slice(window.first, window.first + window.count)
        begin, end = window.interval_s or (-np.inf, np.inf)
        counts[rows] |= (jobs.submit_s[rows] >= begin) & (jobs.submit_s[rows] < end)
    return Exam(jobs.take(np.flatnonzero(counts)))


def line_up(policies: Sequence[Any], backfills: Sequence[str], placements: Sequence[str]) -> tuple[Contender, ...]:
    """Make all contenders, named by what tells them apart."""
    made = []
    for policy, backfill, placement in itertools.product(policies, backfills, placements):
        bare = Contender(policy, backfill, placement)
        tail = f" + {backfill}" if backfill != "none" else ""
        where = f", {placement}" if len(placements) > 1 else ""
        made.append(Contender(policy, backfill, placement, f"{bare.policy_name}{tail}{where}"))
    labels = [c.label for c in made]
    if not made:
        raise InputError("nothing to compare: give at least one policy, one backfilling and one placement")
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise InputError(f"listed twice: {', '.join(twice)}")
    return tuple(made)


def warmable(
    contenders: tuple[Contender, ...], estimator: Any, windows: Spec
) -> tuple[tuple[Contender, ...], Any, tuple[str, ...]]:
    """Put objects for the names of what learns, and name it; refuse a warm start where there can be none."""
    if not isinstance(windows, WindowSpec):
        raise InputError("a warm start needs jobs before those that are run: give windows such as 20x1024")
    from rltune.estimate import get_estimator
    from rltune.policy import get_policy

    def of_name(policy: Any) -> Any:
        return found if isinstance(policy, str) and learns(found := get_policy(policy)) else policy

    made = [replace(c, policy=of_name(c.policy)) for c in contenders]
    guess = get_estimator(estimator)
    names = [f"estimator {guess.name}"] if learns(guess) else []
    names += dict.fromkeys(f"policy {c.policy_name}" for c in made if learns(c.policy))
    if not names:
        raise InputError(f"nothing here can start warm: neither estimator {guess.name} nor a policy learns from jobs")
    return tuple(made), guess if learns(guess) else estimator, tuple(names)


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
        with closing(perform(bench, tasks, workers)) as made:
            for run in made:
                runs.append(run)
                if progress:
                    progress(len(runs), len(tasks), bench.contenders[run.contender].label)
    except KeyboardInterrupt:
        if not runs:
            raise
    return tuple(sorted(runs, key=lambda run: (run.window, run.contender)))


def _fcfs_wait(bench: Bench) -> Callable[[Window], float]:
    def mean_wait_s(window: Window) -> float:
        schedule = bench.simulate(window, policy="fcfs")
        return float(schedule.wait_s[schedule.ran].mean()) if schedule.ran.any() else 0.0

    return mean_wait_s

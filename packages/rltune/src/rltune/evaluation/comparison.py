"""The result of a comparison: who stands where, against whom, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.errors import InputError
from rltune.metrics import Distribution, summarise
from rltune.text import html_of
from rltune.trials.intervals import Interval, difference, over_jobs, over_windows, ratio
from rltune.trials.measures import Metric, metric_of
from rltune.trials.pipelines import Contender, contenders_of, find_pipeline
from rltune.trials.windows import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rich.table import Table

    from rltune.jobs import Floats
    from rltune.metrics import Summary
    from rltune.schedule import Schedule


@dataclass(frozen=True)
class Run:
    """What one pipeline made of one window."""

    contender: int
    window: int
    schedule: Schedule
    summary: Summary


@dataclass(frozen=True)
class Standing:
    """One contender: means over the windows it shares with the baseline, distributions over all their jobs."""

    label: str
    windows: int
    value: float  # of the metric compared by
    difference: Interval  # value - baseline's
    ratio: Interval  # value / baseline's
    better_in: int  # windows in which it beats the baseline
    wait_s: Distribution
    jct_s: Distribution
    bounded_slowdown: Distribution
    large_wait_s: Distribution
    delay_s: Distribution
    preemptions: Distribution  # of a job
    lost_share: float  # of GPU time, to restarts and work that was done again
    goodput: float
    utilisation: float
    makespan_s: float
    fragmentation: float  # while jobs wait
    idle_while_waiting: float
    jain_users: float
    jain_vcs: float
    worst_vc: str  # of the window in which a VC waits longest on average
    worst_vc_mean_wait_s: float
    bound_jct_s: float
    gap: float  # mean JCT / lower bound - 1
    rejected: int
    requeued: int


@dataclass(frozen=True)
class Comparison:
    """Contenders on the same windows. `runs` holds every schedule, window by window."""

    runs: tuple[Run, ...]
    windows: tuple[Window, ...]
    contenders: tuple[Contender, ...]
    baseline: int
    metric: str
    confidence: float
    seed: int
    about: str
    notes: tuple[str, ...]
    standings: tuple[Standing, ...]

    @classmethod
    def build(
        cls,
        runs: tuple[Run, ...],
        windows: tuple[Window, ...],
        contenders: tuple[Contender, ...],
        baseline: str | None,
        metric: str = "wait",
        confidence: float = 0.95,
        seed: int = 0,
        about: str = "",
        notes: tuple[str, ...] = (),
    ) -> Comparison:
        """Work out the standings of finished runs."""
        chosen = find_pipeline(contenders, baseline)
        bare = cls(runs, windows, contenders, chosen, metric, confidence, seed, about, notes, ())
        standings = tuple(s for i in range(len(contenders)) if (s := bare.standing(i)) is not None)
        return replace(bare, standings=standings)

    @classmethod
    def of_schedules(
        cls, schedules: Sequence[Schedule], baseline: str | None = None, metric: str = "wait"
    ) -> Comparison:
        """Compare schedules of one workload that were made elsewhere; one schedule is a report without a rival."""
        if not schedules:
            raise InputError("nothing to compare: give at least one schedule")
        runs = tuple(Run(i, 0, s, summarise(s)) for i, s in enumerate(schedules))
        windows = (Window(0, len(schedules[0].jobs)),)
        contenders = contenders_of([s.settings for s in schedules])
        return cls.build(runs, windows, contenders, baseline, metric, about="whole trace, from an idle cluster")

    @property
    def takes_turns(self) -> bool:
        """Return whether some job was displaced under some pipeline."""
        return any(run.summary.turns.taken for run in self.runs)

    @property
    def planned(self) -> int:
        """Count the runs that were to be made."""
        return len(self.windows) * len(self.contenders)

    @property
    def complete(self) -> bool:
        """Return whether all runs were made; False after an interrupt."""
        return len(self.runs) == self.planned

    def against(self, baseline: str, metric: str | None = None) -> Comparison:
        """Compare the same runs with another baseline, or by another metric."""
        metric_of(metric or self.metric)
        return Comparison.build(
            self.runs,
            self.windows,
            self.contenders,
            baseline,
            metric or self.metric,
            self.confidence,
            self.seed,
            self.about,
            self.notes,
        )

    def of(self, contender: int) -> dict[int, Run]:
        """Return a contender's runs by window."""
        return {run.window: run for run in self.runs if run.contender == contender}

    def standing(self, contender: int) -> Standing | None:
        """Work out how one contender stands; None if it shares no finished window with the baseline."""
        mine, base = self.of(contender), self.of(self.baseline)
        shared = sorted(mine.keys() & base.keys())
        if not shared:
            return None
        ours, theirs = [mine[w] for w in shared], [base[w] for w in shared]
        metric = metric_of(self.metric)
        values, against = _values(ours, metric), _values(theirs, metric)
        better = values > against if metric.higher_is_better else values < against
        return Standing(
            label=self.contenders[contender].label,
            windows=len(shared),
            value=_mean(values),
            difference=self._interval(ours, theirs, values, against, metric, difference),
            ratio=self._interval(ours, theirs, values, against, metric, ratio),
            better_in=int(better.sum()),
            **_facts(ours),
        )

    def between(self, ours: str, theirs: str) -> Interval:
        """Return the difference of two contenders' values, on the windows that both have run."""
        return self._of_two(ours, theirs, difference)

    def ratio_between(self, ours: str, theirs: str) -> Interval:
        """Return the ratio of two contenders' values, on the windows that both have run."""
        return self._of_two(ours, theirs, ratio)

    def _of_two(self, ours: str, theirs: str, statistic: Callable[[Floats, Floats], Floats]) -> Interval:
        labels = [c.label for c in self.contenders]
        mine, base = self.of(labels.index(ours)), self.of(labels.index(theirs))
        shared = sorted(mine.keys() & base.keys())
        one, other = [mine[w] for w in shared], [base[w] for w in shared]
        metric = metric_of(self.metric)
        return self._interval(one, other, _values(one, metric), _values(other, metric), metric, statistic)

    def _interval(
        self,
        ours: list[Run],
        theirs: list[Run],
        values: Floats,
        against: Floats,
        metric: Metric,
        statistic: Callable[[Floats, Floats], Floats],
    ) -> Interval:
        if len(self.windows) == 1 and metric.per_job:
            a, b = metric.job_values(ours[0].schedule), metric.job_values(theirs[0].schedule)
            both = measured(ours[0]) & measured(theirs[0]) & np.isfinite(a) & np.isfinite(b)
            submit = ours[0].schedule.jobs.submit_s
            return over_jobs(a[both], b[both], submit[both], statistic, confidence=self.confidence)
        known = np.isfinite(values) & np.isfinite(against)
        return over_windows(values[known], against[known], statistic, confidence=self.confidence)

    def __repr__(self) -> str:
        from rltune.evaluation.comparison_tables import comparison_lines

        return "\n".join(comparison_lines(self))

    def _repr_html_(self) -> str:
        return html_of(self.table())

    def table(self) -> Table:
        """Show who stands where, with intervals and the gap to the bound."""
        from rltune.evaluation.comparison_tables import standings_table

        return standings_table(self)

    def details(self) -> Table:
        """Show wait, JCT and slowdown of every contender with mean, percentiles and worst case."""
        from rltune.evaluation.comparison_tables import details

        return details(self)

    def to_json(self, path: str | Path | None = None) -> str:
        """Return all results but the jobs as JSON, and write them if a path is given."""
        from rltune.evaluation.export import to_json

        return to_json(self, path)

    def write_jobs(self, path: str | Path, waited_for: Callable[[Run], Sequence[str | None]] | None = None) -> None:
        """Write every job of every run, one row each; the name's ending says how: .csv, .csv.gz or .parquet.

        `waited_for` tells of a run why its jobs waited, for a column of that name.
        """
        from rltune.evaluation.export import jobs_table
        from rltune.trace.table import write_frame

        write_frame(jobs_table(self, waited_for), path)


def measured(run: Run) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return which jobs of a run count: those that ran, and were submitted in the measured interval if there is one."""
    if run.summary.interval_s is None:
        return run.schedule.ran
    begin, end = run.summary.interval_s
    submit = run.schedule.jobs.submit_s
    inside: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = run.schedule.ran & (submit >= begin) & (submit < end)
    return inside


def _values(runs: list[Run], metric: Metric) -> Floats:
    """Return a metric by window."""
    return np.array([metric.value(r.summary, r.schedule, measured(r)) for r in runs])


def pooled(runs: Sequence[Run], of: Callable[[Schedule], Floats]) -> Floats:
    """Join a quantity of all measured jobs of several runs."""
    return np.concatenate([of(run.schedule)[measured(run)] for run in runs])


def _mean(values: Floats | list[float]) -> float:
    """Average what can be told."""
    known = np.asarray(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    return float(known.mean()) if len(known) else np.nan


def _facts(runs: list[Run]) -> dict[str, Any]:
    all_of = [run.summary for run in runs]
    jct, bound = _mean([s.jct_s.mean for s in all_of]), _mean([s.bound.mean_jct_s for s in all_of])
    worst = max(all_of, key=lambda s: np.nan_to_num(s.fairness.vcs.worst_mean_wait_s)).fairness.vcs
    return {
        "wait_s": Distribution.of(pooled(runs, lambda s: s.wait_s)),
        "jct_s": Distribution.of(pooled(runs, lambda s: s.jct_s)),
        "bounded_slowdown": Distribution.of(pooled(runs, lambda s: s.bounded_slowdown)),
        "large_wait_s": _pooled_large(runs),
        "delay_s": Distribution.of(pooled(runs, lambda s: s.delay_s)),
        "preemptions": Distribution.of(pooled(runs, lambda s: s.preemptions.astype(np.float64))),
        "lost_share": _mean([s.turns.lost_share for s in all_of]),
        "goodput": _mean([s.goodput for s in all_of]),
        "utilisation": _mean([s.utilisation.share for s in all_of]),
        "makespan_s": _mean([s.makespan_s for s in all_of]),
        "fragmentation": _mean([s.fragmentation.while_waiting.mean for s in all_of]),
        "idle_while_waiting": _mean([s.fragmentation.idle_while_waiting for s in all_of]),
        "jain_users": _mean([s.fairness.users.jain for s in all_of]),
        "jain_vcs": _mean([s.fairness.vcs.jain for s in all_of]),
        "worst_vc": worst.worst,
        "worst_vc_mean_wait_s": worst.worst_mean_wait_s,
        "bound_jct_s": bound,
        "gap": jct / bound - 1 if bound > 0 and not any(s.turns.taken for s in all_of) else np.nan,
        "rejected": sum(s.rejected for s in all_of),
        "requeued": sum(s.requeued for s in all_of),
    }


def _pooled_large(runs: list[Run]) -> Distribution:
    from rltune.metrics.summary import large_jobs

    return Distribution.of(np.concatenate([r.schedule.wait_s[measured(r) & large_jobs(r.schedule)] for r in runs]))

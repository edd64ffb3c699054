"""Stretches of a history, run in steady state: what one candidate makes of the jobs that are submitted in one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.estimate import estimated
from rltune.metrics.recorded import RecordedWait, recorded_wait
from rltune.trials.intervals import Blocks, job_blocks
from rltune.trials.measures import metric_of
from rltune.trials.resumption import gpus_running, has_starts
from rltune.trials.shares import Share, shares_between
from rltune.trials.trial import Trial
from rltune.trials.warm_start import Knowledge
from rltune.trials.windows import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rltune.cluster import Cluster
    from rltune.jobs import Floats, Jobs
    from rltune.schedule import Schedule
    from rltune.tune.tried_pipelines import Candidate

WARM_UP = 0.25  # of a stretch's jobs are simulated before it, where no starts are recorded


@dataclass(frozen=True)
class HistoryStretch:
    """The jobs from row `first` up to `end` of a history in order of submit: those that count."""

    first: int
    end: int

    def __len__(self) -> int:
        return self.end - self.first

    def cut(self, pieces: int, share: float) -> tuple[HistoryStretch, ...]:
        """Return so many pieces of this stretch, evenly spread, that together are about a share of it."""
        size = max(1, int(len(self) * share / pieces))
        starts = np.linspace(self.first, self.end - size, pieces).round().astype(int)
        return tuple(HistoryStretch(int(start), int(start) + size) for start in starts)

    def last(self, most: int) -> HistoryStretch:
        """Return its last jobs, at most so many."""
        return HistoryStretch(max(self.first, self.end - most), self.end)


@dataclass(frozen=True)
class BlockSums:
    """What a candidate made of a stretch: sums and counts of a metric by blocks of time."""

    sums: tuple[float, ...]
    counts: tuple[float, ...]
    rejected: int

    @property
    def mean(self) -> float:
        """Return the mean over the jobs that ran; NaN if none did."""
        return sum(self.sums) / sum(self.counts) if sum(self.counts) else np.nan


@dataclass(frozen=True)
class StretchRunner:
    """Called with a candidate and a stretch: its outcome. Sent once to every process.

    Of jobs that take turns the wait is all that their completion takes beyond their run time.
    """

    jobs: Jobs  # in order of submit
    cluster: Cluster
    metric: str
    seed: int
    _trials: dict[tuple[int, str], Trial] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, task: tuple[Candidate, HistoryStretch]) -> BlockSums:
        """Run the stretch, and sum it up."""
        candidate, stretch = task
        return self.outcome(self.schedule(candidate, stretch), stretch)

    def schedule(self, candidate: Candidate, stretch: HistoryStretch) -> Schedule:
        """Run the stretch."""
        return self._trial(candidate.estimator, stretch.end).run_window(candidate.pipeline, self.window(stretch))

    def require_estimates(self, estimator: str, stretch: HistoryStretch) -> None:
        """Refuse an estimator that knows too little when a stretch begins."""
        window = self.window(stretch)
        begin = window.interval_s[0] if window.resumes and window.interval_s else self.jobs.submit_s[window.first]
        probe = self.jobs.window(window.first, 1).with_columns(submit_s=np.array([begin]))
        estimated(Knowledge(self.jobs, self.seed).estimator(estimator, window.first, 1), probe, self.seed)

    def window(self, stretch: HistoryStretch) -> Window:
        """Return how a stretch is run: from what was running and waiting, or after a simulated warm-up."""
        submit = self.jobs.submit_s
        span = (float(submit[stretch.first]), float(np.nextafter(submit[stretch.end - 1], np.inf)))
        if has_starts(self.jobs) and gpus_running(self.jobs, span[0]) <= self.cluster.gpu_count:
            return Window(0, stretch.end, span, resumes=True)
        before = min(stretch.first, int(WARM_UP * len(stretch)) + 1)
        return Window(stretch.first - before, len(stretch) + before, span)

    def outcome(self, schedule: Schedule, stretch: HistoryStretch) -> BlockSums:
        """Sum a schedule up by blocks of time."""
        values, block = self.values(schedule, stretch)
        blocks = job_blocks(len(stretch))
        counts = np.bincount(block, minlength=blocks)
        sums = np.bincount(block, weights=values, minlength=blocks)
        inside = self._inside(schedule, stretch)
        return BlockSums(tuple(sums.tolist()), tuple(counts.tolist()), int((inside & schedule.rejected).sum()))

    def values(self, schedule: Schedule, stretch: HistoryStretch) -> tuple[Floats, Any]:
        """Return the metric of the jobs that count and ran, and each one's block."""
        kept = self._inside(schedule, stretch) & schedule.ran
        submit = schedule.jobs.submit_s[kept]
        edges = np.linspace(*(self.window(stretch).interval_s or (0.0, 0.0)), job_blocks(len(stretch)) + 1)[1:-1]
        of_job = _waits(schedule) if self.metric == "wait" else metric_of(self.metric).job_values(schedule)
        return of_job[kept], np.searchsorted(edges, submit, side="right")

    def shares(self, now: Schedule, then: Schedule, stretch: HistoryStretch) -> tuple[Share, ...]:
        """Return who waits how long under two schedules of a stretch."""
        kept = np.flatnonzero(self._inside(now, stretch) & now.ran & then.ran)
        return shares_between(now.jobs, _waits(now), _waits(then), kept)

    def recorded(self, schedule: Schedule, stretch: HistoryStretch) -> RecordedWait:
        """Return what the history records of a stretch beside what a schedule made of it."""
        inside = self._inside(schedule, stretch) & schedule.ran
        return recorded_wait(schedule.jobs, schedule.wait_s, inside, calibrated=self.cluster.calibrated)

    def _inside(self, schedule: Schedule, stretch: HistoryStretch) -> Any:
        begin, end = self.window(stretch).interval_s or (0.0, 0.0)
        submit = schedule.jobs.submit_s
        return (submit >= begin) & (submit < end)

    def _trial(self, estimator: str, end: int) -> Trial:
        if (end, estimator) not in self._trials:
            jobs = self.jobs if end == len(self.jobs) else self.jobs.window(0, end)
            self._trials.clear()  # what is learnt along a history is as large as the history
            self._trials[end, estimator] = Trial(jobs, self.cluster, estimator, seed=self.seed)
        return self._trials[end, estimator]

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what each process learns by itself."""
        return {**self.__dict__, "_trials": {}}


def _waits(schedule: Schedule) -> Floats:
    """Return how long jobs wait; those that take turns, also after their first start."""
    return schedule.wait_s if schedule.turns is None else schedule.delay_s


def blocks_of(ours: Sequence[BlockSums], theirs: Sequence[BlockSums]) -> Blocks:
    """Put what two candidates made of the same stretches side by side."""
    columns = [
        np.concatenate([getattr(o, name) for o in side]) for side in (ours, theirs) for name in ("sums", "counts")
    ]
    return Blocks(*(np.asarray(column, dtype=np.float64) for column in columns))

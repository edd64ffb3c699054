"""Stretches of a history, run in steady state: what one candidate makes of the jobs that are submitted in one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.estimate import estimated
from rltune.metrics.recorded import RecordedWait, recorded_wait
from rltune.trials.intervals import Blocks, job_blocks
from rltune.trials.measures import metric_of
from rltune.trials.resumption import gpus_running, has_starts, there_at
from rltune.trials.shares import Share, SmallGroup, shares_between, small_groups
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
ASKED = 1_000  # jobs of a stretch, to see whether an estimator knows anything there
LOOK_BACK = 100_000  # jobs before a run that estimators and policies learn from; older ones would only cost time


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
    queue: float = 0.0  # how many of its jobs waited on average

    @property
    def mean(self) -> float:
        """Return the mean over the jobs that ran; NaN if none did."""
        return sum(self.sums) / sum(self.counts) if sum(self.counts) else np.nan


@dataclass(frozen=True)
class StretchGround:
    """What a run of a stretch stands on: its jobs with those before it, and what can be learnt along them."""

    jobs: Jobs
    window: Window  # by rows of these jobs
    knowledge: Knowledge = field(repr=False)


@dataclass(frozen=True)
class StretchRunner:
    """Called with a candidate and a stretch: its outcome. Sent once to every process.

    Of jobs that take turns the wait is all that their completion takes beyond their run time.
    """

    jobs: Jobs  # in order of submit
    cluster: Cluster
    metric: str
    seed: int
    _grounds: dict[HistoryStretch, StretchGround] = field(default_factory=dict, repr=False, compare=False)
    _trials: dict[str, Trial] = field(default_factory=dict, repr=False, compare=False)  # of that ground, by estimator

    def __call__(self, task: tuple[Candidate, HistoryStretch]) -> BlockSums:
        """Run the stretch, and sum it up."""
        candidate, stretch = task
        return self.outcome(self.schedule(candidate, stretch), stretch)

    def schedule(self, candidate: Candidate, stretch: HistoryStretch) -> Schedule:
        """Run the stretch."""
        return self._trial(candidate.estimator, stretch).run_window(candidate.pipeline, self.ground(stretch).window)

    def require_estimates(self, estimator: str, stretch: HistoryStretch) -> None:
        """Refuse an estimator that knows too little when a stretch begins."""
        ground = self.ground(stretch)
        window, submit = ground.window, ground.jobs.submit_s
        begin = window.interval_s[0] if window.resumes and window.interval_s else submit[window.first]
        asked = min(ASKED, window.count)  # not one job: that one may be the one without a limit
        probe = ground.jobs.window(window.first, asked).with_columns(submit_s=np.full(asked, begin))
        estimated(ground.knowledge.estimator(estimator, window.first, asked), probe, self.seed)

    def resumes(self, stretch: HistoryStretch) -> bool:
        """Return whether a stretch begins with what was recorded to run and wait then."""
        return has_starts(self.jobs) and gpus_running(self.jobs, self._span(stretch)[0]) <= self.cluster.gpu_count

    def ground(self, stretch: HistoryStretch) -> StretchGround:
        """Return what a stretch is run on: from what was running and waiting, or after a simulated warm-up.

        Of what lies further back than is learnt from, only jobs that ran or waited then are kept: so the work and the
        memory of a run follow its own length, however long the history is.
        """
        if stretch not in self._grounds:
            self._grounds.clear()  # what is learnt along a history is as large as what is kept of it
            self._trials.clear()
            self._grounds[stretch] = self._new_ground(stretch)
        return self._grounds[stretch]

    def _new_ground(self, stretch: HistoryStretch) -> StretchGround:
        span, resumes = self._span(stretch), self.resumes(stretch)
        before = 0 if resumes else min(stretch.first, int(WARM_UP * len(stretch)) + 1)
        oldest = max(0, stretch.first - before - LOOK_BACK)
        older = there_at(self.jobs, span[0], oldest) if resumes else np.zeros(0, dtype=np.intp)
        jobs = self.jobs.take(np.concatenate([older, np.arange(oldest, stretch.end)]))
        first = 0 if resumes else stretch.first - before - oldest
        return StretchGround(jobs, Window(first, len(jobs) - first, span, resumes=resumes), Knowledge(jobs, self.seed))

    def _span(self, stretch: HistoryStretch) -> tuple[float, float]:
        submit = self.jobs.submit_s
        return float(submit[stretch.first]), float(np.nextafter(submit[stretch.end - 1], np.inf))

    def outcome(self, schedule: Schedule, stretch: HistoryStretch) -> BlockSums:
        """Sum a schedule up by blocks of time."""
        values, block = self.values(schedule, stretch)
        blocks = job_blocks(len(stretch))
        counts = np.bincount(block, minlength=blocks)
        sums = np.bincount(block, weights=values, minlength=blocks)
        inside = self._inside(schedule, stretch)
        rejected = int((inside & schedule.rejected).sum())
        return BlockSums(tuple(sums.tolist()), tuple(counts.tolist()), rejected, self._queue(schedule, stretch))

    def _queue(self, schedule: Schedule, stretch: HistoryStretch) -> float:
        begin, end = self._span(stretch)
        waits = _waits(schedule)[self._inside(schedule, stretch) & schedule.ran]
        return float(waits.sum()) / max(end - begin, 1.0)

    def values(self, schedule: Schedule, stretch: HistoryStretch) -> tuple[Floats, Any]:
        """Return the metric of the jobs that count and ran, and each one's block."""
        kept = self._inside(schedule, stretch) & schedule.ran
        submit = schedule.jobs.submit_s[kept]
        edges = np.linspace(*self._span(stretch), job_blocks(len(stretch)) + 1)[1:-1]
        of_job = _waits(schedule) if self.metric == "wait" else metric_of(self.metric).job_values(schedule)
        return of_job[kept], np.searchsorted(edges, submit, side="right")

    def shares(self, now: Schedule, then: Schedule, stretch: HistoryStretch) -> tuple[Share, ...]:
        """Return who waits how long under two schedules of a stretch."""
        kept = np.flatnonzero(self._inside(now, stretch) & now.ran & then.ran)
        return shares_between(now.jobs, _waits(now), _waits(then), kept)

    def small_groups(self, now: Schedule, then: Schedule, stretch: HistoryStretch) -> tuple[SmallGroup, ...]:
        """Return the groups that have too few jobs of a stretch for a share."""
        return small_groups(now.jobs, np.flatnonzero(self._inside(now, stretch) & now.ran & then.ran))

    def recorded(self, schedule: Schedule, stretch: HistoryStretch) -> RecordedWait:
        """Return what the history records of a stretch beside what a schedule made of it."""
        inside = self._inside(schedule, stretch) & schedule.ran
        return recorded_wait(schedule.jobs, schedule.wait_s, inside, calibrated=self.cluster.calibrated)

    def _inside(self, schedule: Schedule, stretch: HistoryStretch) -> Any:
        begin, end = self._span(stretch)
        submit = schedule.jobs.submit_s
        return (submit >= begin) & (submit < end)

    def _trial(self, estimator: str, stretch: HistoryStretch) -> Trial:
        ground = self.ground(stretch)
        if estimator not in self._trials:
            self._trials.clear()  # estimates of one estimator at a time: those of a long stretch are large
            known = [ground.knowledge]
            self._trials[estimator] = Trial(ground.jobs, self.cluster, estimator, seed=self.seed, _knowledge=known)
        return self._trials[estimator]

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what each process learns by itself."""
        return {**self.__dict__, "_grounds": {}, "_trials": {}}


def _waits(schedule: Schedule) -> Floats:
    """Return how long jobs wait; those that take turns, also after their first start."""
    return schedule.wait_s if schedule.turns is None else schedule.delay_s


def blocks_of(ours: Sequence[BlockSums], theirs: Sequence[BlockSums]) -> Blocks:
    """Put what two candidates made of the same stretches side by side."""
    columns = [
        np.concatenate([getattr(o, name) for o in side]) for side in (ours, theirs) for name in ("sums", "counts")
    ]
    return Blocks(*(np.asarray(column, dtype=np.float64) for column in columns))

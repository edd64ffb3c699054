"""Pipelines on the contended windows of one part of a trace: values by window, ratios with their intervals."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.errors import InputError
from rltune.trials.intervals import Course, Interval, difference, of_sums, over_time, ratio
from rltune.trials.measures import MEASURED, OF_TURNS, metric_of
from rltune.trials.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rltune.engine.pipeline import Pipeline
    from rltune.jobs import Floats
    from rltune.trials.parts import Part


@dataclass(frozen=True)
class Results:
    """What pipelines made of the contended windows of a part."""

    part: Part
    pipelines: tuple[Pipeline, ...]
    starts: tuple[int, ...]  # rows at which the contended windows start
    looked_at: int  # windows, contended or not
    size: int
    every: int
    values: Floats  # [pipeline, window, measure]
    by_group: tuple[Floats, ...]  # per grouping [pipeline, window, group, (jobs, sum of waits)]
    rejected: int  # jobs that never ran, over the windows of the first pipeline
    drift: tuple[Counter[str], ...]  # per pipeline, what its model was asked, and how much lay outside its training
    policies: tuple[tuple[str, ...], ...]  # per pipeline, the policy of each window by name: a portfolio takes one
    uneven: int  # windows in which not all pipelines ran the same number of jobs
    confidence: float = 0.95

    @classmethod
    def of(
        cls,
        part: Part,
        pipelines: tuple[Pipeline, ...],
        starts: Sequence[int],
        outcomes: Sequence[list[Outcome] | None],
        size: int,
        every: int,
    ) -> Results:
        """Gather the outcomes of the windows that start at `starts`; None stands for one that is not contended."""
        kept = [(start, made) for start, made in zip(starts, outcomes, strict=True) if made is not None]
        if not kept:
            raise InputError(
                f"no window of {size:,} jobs of the {part.name} part is contended: from an idle cluster jobs do not "
                "wait long enough under FCFS, or cannot run (ask `rltune trace check TRACE -c C`); `rltune compare` "
                "runs the whole history, from the jobs that were running and waiting"
            )
        by_pipeline = list(zip(*(made for _, made in kept), strict=True))
        groupings = range(len(by_pipeline[0][0].by_group))
        return cls(
            part=part,
            pipelines=pipelines,
            starts=tuple(start for start, _ in kept),
            looked_at=len(starts),
            size=size,
            every=every,
            values=np.array([[o.measures for o in made] for made in by_pipeline]),
            by_group=tuple(np.array([[o.by_group[g] for o in made] for made in by_pipeline]) for g in groupings),
            rejected=sum(made[0].rejected for _, made in kept),
            drift=tuple(sum((o.drift for o in made), Counter()) for made in by_pipeline),
            policies=tuple(tuple(o.policy for o in made) for made in by_pipeline),
            uneven=sum(len({o.rejected for o in made}) > 1 for _, made in kept),
        )

    @property
    def disjoint(self) -> int:
        """Count the effective windows: the most of which no two share a job."""
        return self.part.disjoint(list(self.starts), self.size)

    @property
    def course(self) -> Course:
        """Return where the windows lie, for intervals."""
        step = (np.array(self.starts) - self.part.first) // self.every
        steps = len(self.part.starts(self.size, self.every))
        return Course(step, steps, max(self.size // self.every, 1), self.disjoint)

    def shown(self, metrics: Sequence[str]) -> list[str]:
        """Return those of some metrics that tell something here: without turns a delay is a wait."""
        turns = any(pipeline.turns for pipeline in self.pipelines)
        return [name for name in metrics if turns or name not in OF_TURNS]

    def index(self, label: str) -> int:
        """Find a pipeline by its label."""
        return [p.label for p in self.pipelines].index(label)

    def mean(self, pipeline: int, metric: str) -> float:
        """Average a metric over the windows."""
        return float(np.nanmean(self.values[pipeline, :, MEASURED.index(metric)]))

    def means(self, metric: str) -> Floats:
        """Average a metric over the windows, for each pipeline."""
        means: Floats = np.nanmean(self.values[:, :, MEASURED.index(metric)], axis=1)
        return means

    def ratio(self, ours: int, theirs: int, metric: str = "wait") -> Interval:
        """Divide the mean of a metric by another pipeline's on the same windows."""
        a, b = self._columns(ours, theirs, metric)
        return over_time(a, b, self.course, ratio, **self.how)

    def difference(self, ours: int, theirs: int, metric: str = "wait") -> Interval:
        """Subtract another pipeline's mean of a metric on the same windows."""
        a, b = self._columns(ours, theirs, metric)
        return over_time(a, b, self.course, difference, **self.how)

    def better_in(self, ours: int, theirs: int, metric: str = "wait") -> int:
        """Count the windows in which a pipeline beats another."""
        a, b = self._columns(ours, theirs, metric)
        return int((a > b).sum() if metric_of(metric).higher_is_better else (a < b).sum())

    def group_mean(self, pipeline: int, grouping: int, group: int) -> float:
        """Average the wait of a group's jobs over all windows."""
        jobs, total = self.by_group[grouping][pipeline, :, group].sum(axis=0)
        return float(total / jobs) if jobs else np.nan

    def group_ratio(self, ours: int, theirs: int, grouping: int, group: int) -> Interval:
        """Divide the mean wait of a group's jobs by that under another pipeline."""
        a, b = (self.by_group[grouping][p, :, group] for p in (ours, theirs))
        return of_sums((a[:, 1], a[:, 0]), (b[:, 1], b[:, 0]), self.course, ratio, **self.how)

    def group_jobs(self, grouping: int) -> Floats:
        """Count each group's jobs over all windows; one in several windows counts in each."""
        jobs: Floats = self.by_group[grouping][0, :, :, 0].sum(axis=0)
        return jobs

    def _columns(self, ours: int, theirs: int, metric: str) -> tuple[Floats, Floats]:
        measure = MEASURED.index(metric)
        return self.values[ours, :, measure], self.values[theirs, :, measure]

    @property
    def how(self) -> dict[str, Any]:
        """Return how intervals are made."""
        return {"confidence": self.confidence}

"""A history as it happened: who ran when, who waited, what was in use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rltune.jobs import Floats, Jobs

_PEAK_S = 3600.0


@dataclass(frozen=True)
class Happened:
    """The jobs whose start is recorded; one that could not start before it was eligible begins to wait then."""

    jobs: Jobs  # all of them have a recorded start

    @classmethod
    def of(cls, jobs: Jobs) -> Happened:
        """Keep the jobs that have a recorded start, not before their submit."""
        return cls(jobs.take(np.flatnonzero(jobs.recorded_start_s >= jobs.submit_s)))

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def start_s(self) -> Floats:
        """Return when each job started."""
        return self.jobs.recorded_start_s

    @cached_property
    def end_s(self) -> Floats:
        """Return when each job ended."""
        return self.jobs.recorded_start_s + self.jobs.duration_s

    @cached_property
    def ready_s(self) -> Floats:
        """Return from when each job could have started."""
        return self.jobs.ready_s

    @cached_property
    def size(self) -> NDArray[np.int64]:
        """Return the GPUs of each job."""
        return self.jobs.gpus.astype(np.int64)

    @cached_property
    def use(self) -> Steps:
        """Return the GPUs in use over time."""
        return Steps.of(self.start_s, self.end_s, self.size)

    @cached_property
    def peak(self) -> int:
        """Return the most GPUs that were in use at once for an hour in all: clocks that disagree make short peaks."""
        held = np.diff(self.use.time_s, append=self.use.time_s[-1:])
        order = np.argsort(-self.use.value, kind="stable")
        enough = np.searchsorted(np.cumsum(held[order]), min(_PEAK_S, 0.01 * float(held.sum())))
        return int(self.use.value[order][min(int(enough), len(order) - 1)])

    @cached_property
    def span_s(self) -> tuple[float, float]:
        """Return from the first submit to the last end."""
        return float(self.jobs.submit_s.min()), float(self.end_s.max())


@dataclass(frozen=True)
class Steps:
    """A number that changes at some moments: value[i] from time_s[i] on, 0 before."""

    time_s: Floats
    value: NDArray[np.int64]

    @classmethod
    def of(cls, start_s: Floats, end_s: Floats, amount: NDArray[np.int64]) -> Steps:
        """Add up amounts that are there from a start to an end; what ends at a moment is gone at that moment."""
        time = np.concatenate([start_s, end_s])
        moments, at = np.unique(time, return_inverse=True)
        change = np.bincount(at, np.concatenate([amount, -amount]), minlength=len(moments))
        return cls(moments, np.cumsum(np.rint(change)).astype(np.int64))

    def at(self, time_s: Floats) -> NDArray[np.int64]:
        """Return the value at moments."""
        place = np.searchsorted(self.time_s, time_s, "right") - 1
        return np.where(place >= 0, self.value[np.maximum(place, 0)], 0)

    def before(self, time_s: Floats) -> NDArray[np.int64]:
        """Return the value just before moments."""
        place = np.searchsorted(self.time_s, time_s, "left") - 1
        return np.where(place >= 0, self.value[np.maximum(place, 0)], 0)

    def averaged(self, edges: Floats) -> Floats:
        """Return the mean over each interval between edges."""
        if not len(self.time_s):
            return np.zeros(len(edges) - 1)
        total = np.concatenate([[0.0], np.cumsum(self.value[:-1] * np.diff(self.time_s))])
        means: Floats = np.diff(np.interp(edges, self.time_s, total)) / np.diff(edges)
        return means

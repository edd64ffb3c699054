"""Windows of earlier jobs in which jobs queued, as they were known at a moment: what choices are made on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rltune.trials.contention import CONTENDED_S, fcfs_wait_s, is_contended

if TYPE_CHECKING:
    from rltune.cluster import Cluster
    from rltune.jobs import Floats, Jobs


@dataclass(frozen=True)
class PastWindow:
    """`count` jobs from row `first` on, as they were known at a time."""

    first: int
    count: int
    known_s: float = np.inf  # run times of jobs that had not ended by then are cut there

    def known(self, jobs: Jobs) -> Jobs:
        """Return the jobs of a history, in order of submit, as they were known."""
        window = jobs.window(self.first, self.count)
        if np.isinf(self.known_s):
            return window
        return window.with_columns(duration_s=np.minimum(window.duration_s, _run_by(window, self.known_s)))


def _run_by(jobs: Jobs, time_s: float) -> Floats:
    """Return how long jobs had run by a time, at least a second."""
    start = np.where(np.isnan(jobs.recorded_start_s), jobs.submit_s, jobs.recorded_start_s)
    return np.maximum(time_s - start, 1.0)


@dataclass
class PastWindows:
    """Finds the windows of a history, and runs each once to see whether jobs queue in it."""

    jobs: Jobs  # in order of submit
    cluster: Cluster
    _waits_s: dict[PastWindow, float] = field(default_factory=dict, repr=False)

    def contended(self, row: int, size: int, fewest: int) -> list[PastWindow]:
        """Return the windows before a row in which jobs queue, in order of time; for long, if enough of them do."""
        known_s = float(self.jobs.submit_s[row]) if row < len(self.jobs) else np.inf
        past = [self._past(first, size, known_s) for first in range(0, row - size + 1, size)]
        for window in past:
            if window not in self._waits_s:
                self._waits_s[window] = fcfs_wait_s(window.known(self.jobs), self.cluster)
        for threshold_s in (CONTENDED_S, 0.0):
            found = [window for window in past if is_contended(self._waits_s[window], threshold_s)]
            if len(found) >= fewest:
                break
        return found

    def _past(self, first: int, size: int, known_s: float) -> PastWindow:
        """Return a window; one that had ended by then is the same whenever it is looked at."""
        window = self.jobs.window(first, size)
        return PastWindow(first, size, known_s if (window.duration_s > _run_by(window, known_s)).any() else np.inf)

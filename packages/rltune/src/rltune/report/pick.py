"""What of a large comparison is drawn job by job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rltune.evaluate import Comparison, Run


@dataclass(frozen=True)
class Stretch:
    """A time in which every job is drawn, and the rows of the jobs that run in it under some pipeline."""

    begin_s: float
    end_s: float
    rows: NDArray[np.intp]
    complete: bool  # False if even a moment has more running jobs than can be drawn


def busiest_window(comparison: Comparison) -> int:
    """Find the window in which the baseline waits longest on average."""
    waits = {w: run.summary.wait_s.mean for w, run in comparison.of(comparison.baseline).items()}
    return max(waits, key=lambda w: np.nan_to_num(waits[w]))


def stretch(runs: list[Run], most: int) -> Stretch:
    """Take the whole window if it has few jobs, else the time of the longest waits in which few enough take part."""
    jobs = runs[0].schedule.jobs
    last = max(float(np.nanmax(run.schedule.end_s, initial=-np.inf)) for run in runs)
    order = np.argsort(jobs.submit_s, kind="stable")
    size = len(jobs)
    while True:
        first = 0 if size >= len(jobs) else _longest_waits(runs[0], order, size)
        begin = float(jobs.submit_s[order[first]])
        end = last if size >= len(jobs) else float(jobs.submit_s[order[first + size - 1]])
        rows = np.arange(len(jobs)) if size >= len(jobs) else np.flatnonzero(_running(runs, begin, end))
        if len(rows) <= most or size <= 1:
            return Stretch(begin, end, rows[:most], len(rows) <= most)
        size = max(1, int(size * min(0.8, most / len(rows))))


def _running(runs: list[Run], begin_s: float, end_s: float) -> NDArray[np.bool_]:
    """Tell which jobs run between the two times in any of the runs."""
    each = [(run.schedule.start_s <= end_s) & (run.schedule.end_s >= begin_s) for run in runs]
    some: NDArray[np.bool_] = np.logical_or.reduce(each)
    return some


def _longest_waits(run: Run, order: NDArray[np.intp], size: int) -> int:
    """Find where `size` jobs in a row wait longest in sum."""
    total = np.concatenate([[0.0], np.cumsum(np.nan_to_num(run.schedule.wait_s[order]))])
    return int(np.argmax(total[size:] - total[:-size]))

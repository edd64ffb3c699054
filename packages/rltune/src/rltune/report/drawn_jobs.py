"""What of a large comparison is drawn job by job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rltune.evaluation import Comparison, Run


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
    """Take the whole window if it has few bars, else the time of the longest waits that has few enough."""
    jobs = runs[0].schedule.jobs
    last = max(float(np.nanmax(run.schedule.end_s, initial=-np.inf)) for run in runs)
    order = np.argsort(jobs.submit_s, kind="stable")
    weight = np.max([_bars(run) for run in runs], axis=0)
    size = len(jobs)
    while True:
        first = 0 if size >= len(jobs) else _longest_waits(runs[0], order, size)
        begin = float(jobs.submit_s[order[first]])
        end = last if size >= len(jobs) else float(jobs.submit_s[order[first + size - 1]])
        rows = np.arange(len(jobs)) if size >= len(jobs) else np.flatnonzero(_running(runs, begin, end))
        needed = np.cumsum(weight[rows])
        if not len(rows) or needed[-1] <= most or size <= 1:
            fit = int(np.searchsorted(needed, most, side="right"))
            return Stretch(begin, end, rows[:fit], fit == len(rows))
        size = max(1, int(size * min(0.8, most / needed[-1])))


def _bars(run: Run) -> NDArray[np.int64]:
    """Foretell the bars of each job: one, and one more for each break in the numbers of its nodes, in every spell."""
    placed = run.schedule.placements
    breaks = np.concatenate([[0], np.cumsum(np.diff(placed.node, prepend=-1) != 1)])
    # The first chunk of a job is no break, whatever stands before it in the list.
    first, last = placed.ptr[:-1], placed.ptr[1:]
    counted: NDArray[np.int64] = breaks[last] - breaks[np.minimum(first + 1, last)]
    spells = np.bincount(run.schedule.spells.job, minlength=len(counted)) if run.schedule.turns is not None else 1
    weight: NDArray[np.int64] = (counted + 1) * np.maximum(spells, 1)
    return weight


def _running(runs: list[Run], begin_s: float, end_s: float) -> NDArray[np.bool_]:
    """Return which jobs run between the two times in any of the runs."""
    each = [(run.schedule.start_s <= end_s) & (run.schedule.end_s >= begin_s) for run in runs]
    some: NDArray[np.bool_] = np.logical_or.reduce(each)
    return some


def _longest_waits(run: Run, order: NDArray[np.intp], size: int) -> int:
    """Find where `size` jobs in a row wait longest in sum."""
    total = np.concatenate([[0.0], np.cumsum(np.nan_to_num(run.schedule.wait_s[order]))])
    return int(np.argmax(total[size:] - total[:-size]))

"""Jobs to come, drawn from history: whole days of it, from the hour of now on, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rltune.jobs import Floats, Jobs
from rltune.present.moment import Later
from rltune.present.present import Present

DAY_S = 86_400.0
FEWEST_BLOCKS = 4  # in a history shorter than so many days, blocks are shorter than a day


@dataclass(frozen=True)
class Arrivals:
    """What came before, to be drawn from."""

    jobs: Jobs  # in order of submission
    estimate_s: Floats
    now_s: float
    block_s: float
    blocks: int  # how many begin in the history

    @classmethod
    def of(cls, present: Present) -> Arrivals | None:
        """Gather what came up to now: what has ended, runs or waits; None if that is too little."""
        history = present.history
        if history is None or len(history) < FEWEST_BLOCKS:
            return None
        jobs = replace(history, id=np.arange(len(history)))
        order = np.argsort(jobs.submit_s, kind="stable")
        jobs = jobs.take(order)
        estimate = _estimates(present, jobs, order)
        span = present.now_s - float(jobs.submit_s[0])
        block = min(DAY_S, span / FEWEST_BLOCKS)
        return cls(jobs, estimate, present.now_s, block, int(span / block)) if block > 0 else None

    def draw(self, rng: np.random.Generator, horizon_s: float) -> Later:
        """Draw what comes from now to the horizon."""
        count = max(1, int(np.ceil(horizon_s / self.block_s)))
        rows, shifts = [], []
        for block, ago in enumerate(rng.integers(1, self.blocks + 1, count).tolist()):
            begin = self.now_s - ago * self.block_s
            first, last = np.searchsorted(self.jobs.submit_s, [begin, begin + self.block_s], side="left")
            rows.append(np.arange(first, last))
            shifts.append(np.full(last - first, (ago + block) * self.block_s))
        index = np.concatenate(rows)
        jobs = self.jobs.take(index)
        submit = np.maximum(jobs.submit_s + np.concatenate(shifts), np.nextafter(self.now_s, np.inf))
        jobs = replace(jobs, submit_s=submit, id=np.arange(len(jobs)))
        return Later(jobs, self.estimate_s[index])


def _estimates(present: Present, jobs: Jobs, order: np.ndarray) -> Floats:
    """Return what whoever orders the queue took these jobs' run times to be; else their limits, else the truth."""
    if present.history_estimate_s is not None:
        known: Floats = present.history_estimate_s[order]
        return known
    limits: Floats = np.where(np.isnan(jobs.limit_s), jobs.duration_s, jobs.limit_s)
    return limits

"""Jobs to come, drawn from history: whole days of it, from the hour of now on, one after the other.

Days drawn one by one come out on average as history did, so a week of them would be known well. True weeks are not:
sites get busier and calmer. So each future has a level, by which more or fewer of a day's jobs come; how far it may be
from 1 is what history's own days tell, each beside the mean of those before it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rltune.jobs import Floats, Jobs
from rltune.kernel.state.arrays import I8
from rltune.labels import Labels
from rltune.present.moment import Later
from rltune.present.present import Present

DAY_S = 86_400.0
FEWEST_BLOCKS = 4  # in a history shorter than so many days, blocks are shorter than a day
LEVEL_SD, TRUST = 0.2, 2.0  # of the logarithm of the level, before history tells; and how many days that is worth
FARTHEST = 2.0  # standard deviations of a level: beyond, queues without end take long to roll and tell nothing more
SPARSE = 0.02  # of the jobs: what a journal holds of its first days are the few that ran longest


@dataclass(frozen=True)
class Arrivals:
    """What came before, to be drawn from."""

    jobs: Jobs  # in order of submission
    estimate_s: Floats
    row: I8  # of the present, where a job still runs or waits: it lasts as long as is drawn for it there; else -1
    now_s: float
    block_s: float
    blocks: int  # how many begin in the history
    level_sd: float = 0.0  # of the logarithm of how many come in a future, beside history

    @classmethod
    def of(cls, present: Present) -> Arrivals | None:
        """Gather what came up to now: what has ended, runs or waits; None if that is too little."""
        history = present.history
        if history is None or len(history) < FEWEST_BLOCKS:
            return None
        begin = float(np.quantile(history.submit_s, SPARSE))
        rows = _ongoing(present, begin)
        jobs = history.followed_by(present.recorded.take(rows.astype(np.intp)))
        estimate = np.concatenate([_estimates(present, history), present.estimate_s[rows]])
        row = np.concatenate([np.full(len(history), -1, dtype=np.int64), rows])
        order = np.argsort(jobs.submit_s, kind="stable")
        order = order[jobs.submit_s[order] >= begin]
        jobs = replace(jobs.take(order), vc=_in_clusters_words(jobs.vc.take(order), present))
        span = present.now_s - begin
        block = min(DAY_S, span / FEWEST_BLOCKS)
        if block <= 0:
            return None
        blocks = int(span / block)
        ago = ((present.now_s - jobs.submit_s) / block).astype(np.intp)  # whole blocks before now
        lasted = np.where(row[order] >= 0, float(history.duration_s.mean()), jobs.duration_s)  # what goes on: as others
        work_s = np.bincount(ago[ago < blocks], (lasted * jobs.gpus)[ago < blocks], blocks)
        spread = level_spread(work_s[::-1].astype(np.float64))
        return cls(jobs, estimate[order], row[order], present.now_s, block, blocks, spread)

    def draw(self, rng: np.random.Generator, horizon_s: float, duration_s: Floats) -> Later:
        """Draw what comes from now to the horizon; `duration_s`: how long each row of the present runs in all."""
        count = max(1, int(np.ceil(horizon_s / self.block_s)))
        rows, shifts = [], []
        for block, ago in enumerate(rng.integers(1, self.blocks + 1, count).tolist()):
            begin = self.now_s - ago * self.block_s
            first, last = np.searchsorted(self.jobs.submit_s, [begin, begin + self.block_s], side="left")
            rows.append(np.arange(first, last))
            shifts.append(np.full(last - first, (ago + block) * self.block_s))
        index, shift = np.concatenate(rows), np.concatenate(shifts)
        times = _times(rng, len(index), np.exp(self.level_sd * np.clip(rng.normal(), -FARTHEST, FARTHEST)))
        index, shift = np.repeat(index, times), np.repeat(shift, times)
        jobs, row = self.jobs.take(index), self.row[index]
        submit = np.maximum(jobs.submit_s + shift, np.nextafter(self.now_s, np.inf))
        lasts = np.where(row >= 0, duration_s[row], jobs.duration_s)
        jobs = replace(jobs, submit_s=submit, duration_s=lasts, id=np.arange(len(jobs)))
        return Later(jobs, self.estimate_s[index])


def level_spread(work_s: Floats) -> float:
    """Return how far, in the logarithm, a future's level may be from history's; `work_s`: of each block, oldest first.

    Each block is told by the mean of those before it. Half of what that is off, squared, is a block's own, which is
    drawn with the blocks; the other half is the level, which stays. See ADR 0199.
    """
    seen = np.maximum(work_s, 1e-3 * work_s.mean()) + 1.0
    told = np.cumsum(seen)[:-1] / np.arange(1, len(seen))
    off = np.log(seen[1:] / told)
    return float(np.sqrt(((off**2).sum() + TRUST * LEVEL_SD**2) / (len(off) + TRUST) / 2))


def _times(rng: np.random.Generator, n: int, level: float) -> I8:
    """Return how often each of n jobs comes, so that on average `level` times as many do."""
    whole = int(level)
    often: I8 = whole + (rng.random(n) < level - whole)
    return often


def _ongoing(present: Present, begin_s: float) -> I8:
    """Return a row for each job that came since then and runs or waits: without them, days of late look calm."""
    seats = np.sort(present.seats.rows)
    running = {present.names[row]: row for row in seats[::-1].tolist()}
    rows = np.sort(np.concatenate([np.array(list(running.values()), dtype=np.int64), present.waiting]))
    recent: I8 = rows[present.recorded.submit_s[rows] >= begin_s]
    return recent


def _estimates(present: Present, history: Jobs) -> Floats:
    """Return what whoever orders the queue took these jobs' run times to be; else their limits, else the truth."""
    if present.history_estimate_s is not None:
        return present.history_estimate_s
    limits: Floats = np.where(np.isnan(history.limit_s), history.duration_s, history.limit_s)
    return limits


def _in_clusters_words(vc: Labels, present: Present) -> Labels:
    """Return partitions as the cluster's groups name them; there several may be one."""
    if not present.admission:
        return vc
    names = [present.admission.get(name, name) for name in vc.names]
    code = {name: i for i, name in enumerate(dict.fromkeys(names))}
    table = np.array([*(code[name] for name in names), -1], dtype=np.int32)
    return Labels(table[vc.codes], tuple(code))

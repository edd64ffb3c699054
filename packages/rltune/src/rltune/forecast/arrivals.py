"""Jobs to come, drawn from history: whole days of it, from the hour of now on, one after the other."""

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
        return cls(jobs, estimate[order], row[order], present.now_s, block, int(span / block))

    def draw(self, rng: np.random.Generator, horizon_s: float, duration_s: Floats) -> Later:
        """Draw what comes from now to the horizon; `duration_s`: how long each row of the present runs in all."""
        count = max(1, int(np.ceil(horizon_s / self.block_s)))
        rows, shifts = [], []
        for block, ago in enumerate(rng.integers(1, self.blocks + 1, count).tolist()):
            begin = self.now_s - ago * self.block_s
            first, last = np.searchsorted(self.jobs.submit_s, [begin, begin + self.block_s], side="left")
            rows.append(np.arange(first, last))
            shifts.append(np.full(last - first, (ago + block) * self.block_s))
        index = np.concatenate(rows)
        jobs, row = self.jobs.take(index), self.row[index]
        submit = np.maximum(jobs.submit_s + np.concatenate(shifts), np.nextafter(self.now_s, np.inf))
        lasts = np.where(row >= 0, duration_s[row], jobs.duration_s)
        jobs = replace(jobs, submit_s=submit, duration_s=lasts, id=np.arange(len(jobs)))
        return Later(jobs, self.estimate_s[index])


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

"""Run times drawn from what is known: how long jobs alike lasted, given how long each has run already.

Jobs that still run are known to last longer than they have: left out, as if only those counted that have ended, history
would be of short jobs alone (Kaplan and Meier 1958). So for each likeness and each step of time (the edges of
kernel/state/online_survival.py) there is a hazard: of the jobs that came so far, how many ended in the step. The finest
likeness has its own hazard as far as it has jobs, against `trust` jobs' worth of the next coarser one; before the
coarsest, a job is taken to run for as long again as it has run. Where next to nothing has ended, the job's limit
stands for it. Jobs of one user are drawn alike: somebody whose jobs run long today runs long in all of them. Where a
history names no users, so are jobs of one size and partition that come in one burst. And each future has a level: all
hazards are higher in one, and lower in another, since a history tells them only so well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rltune.engine.known_history import long_ago
from rltune.estimate.estimators import History
from rltune.estimate.remainders import HISTORY_NAME, survival_of
from rltune.jobs import Floats, Jobs
from rltune.kernel.build.prepare import Survival
from rltune.kernel.state.online_survival import EDGES, LONGER, OVERRUN, edge
from rltune.present.present import Present

TRUST = 4.0  # jobs' worth: less than for estimates, since what a user's jobs do today counts
ALIKE = 0.4  # correlation of the draws of one user's jobs
BURST_S = 3600.0  # where no user is known, so long may lie between two jobs of a burst
LEVEL_SD = 0.2  # of the logarithm of the level of all hazards in one future
LEAST_S = 1.0
NO_LIMIT_S = 3600.0  # what nothing is known of is taken to last an hour, as the core's prior
_EDGE_S = np.array([edge(k) for k in range(EDGES)])
TAIL = 2.0  # power of Pareto's distribution, in which a job runs on average for as long again as it has run
_PRIOR_HAZARD = np.append(0.0, 1.0 - (_EDGE_S[1:-1] / _EDGE_S[2:]) ** TAIL)  # in each step


@dataclass(frozen=True)
class RunTimes:
    """What is known of how long each row of a present will have run in all."""

    lasting: Floats  # [row, edge] share of jobs like it that last longer
    unknown: Floats  # by row: how much weight its limit has, as next to nothing has ended
    attained_s: Floats  # by row
    limit_s: Floats
    whose: NDArray[np.int64]  # by row: who is drawn alike; its user, else the burst that it came in
    same_as: NDArray[np.int64]  # the first row of each row's job, if it runs: pieces of one job end together

    @classmethod
    def of(cls, present: Present) -> RunTimes:
        """Gather it from a present's history, and from how long what runs has run."""
        jobs, history = present.recorded, present.history
        attained = np.zeros(len(jobs))
        attained[present.seats.rows] = np.maximum(present.now_s - present.seats.start_s, 0.0)
        known = History(before=long_ago(history)) if history is not None and len(history) else History()
        survival = survival_of(known, jobs, HISTORY_NAME)
        first = _first_rows(present)
        running = np.unique(first[present.seats.rows])
        lasting = _lasting(survival, running, attained[running])
        ended = float(len(history)) if history is not None else 0.0
        unknown = np.full(len(jobs), TRUST / (ended + TRUST))
        limit = np.where(np.isnan(jobs.limit_s), np.inf, jobs.limit_s)
        limit = np.where(limit > attained, limit, np.inf)  # who has passed it shows that it does not end jobs here
        return cls(lasting, unknown, attained, limit, _whose(jobs), first)

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw how long each row runs in all."""
        n = len(self.attained_s)
        share = _alike(rng, self.whose, n)
        share = 1.0 - (1.0 - share) ** np.exp(LEVEL_SD * rng.normal())  # all hazards so many times as high
        by_limit = self._by_prior(rng.random(n))
        by_history = _lasts(self.lasting, self.attained_s, share)
        total = np.where(rng.random(n) < self.unknown, by_limit, by_history)
        drawn = np.maximum(np.minimum(total, self.limit_s), self.attained_s + LEAST_S)
        return drawn[self.same_as]

    def _by_prior(self, share: Floats) -> Floats:
        """Draw evenly from nothing to twice what the limit leaves; past it, twice half as long again."""
        whole = np.where(np.isfinite(self.limit_s), self.limit_s, NO_LIMIT_S)
        left = np.where(whole > self.attained_s, whole - self.attained_s, OVERRUN * self.attained_s)
        return self.attained_s + 2.0 * share * left


def _first_rows(present: Present) -> NDArray[np.int64]:
    first = np.arange(len(present.jobs))
    place: dict[str, int] = {}
    for row in np.sort(present.seats.rows).tolist():
        first[row] = place.setdefault(present.names[row], row)
    return first


def _lasting(survival: Survival, running: NDArray[np.int64], attained: Floats) -> Floats:
    """Return for each row the share of jobs like it that last longer than each edge, the running ones counted in."""
    keys, ended = survival.keys, survival.known[:, :, LONGER]
    still = np.zeros_like(ended)  # [key, edge] how many run that have run for longer
    for row, time_s in zip(running.tolist(), attained.tolist(), strict=True):
        passed = int(np.searchsorted(_EDGE_S, time_s, side="left"))  # edges below
        still[keys[row][keys[row] >= 0], :passed] += 1.0
    ends = ended[:, :-1] - ended[:, 1:]
    leaves = still[:, :-1] - still[:, 1:]  # out of sight in the step: half of it they were there
    there = ended[:, :-1] + still[:, :-1] - leaves / 2
    hazard = np.tile(_PRIOR_HAZARD, (len(keys), 1))
    for level in range(keys.shape[1]):
        known = (keys[:, level] >= 0)[:, None]
        key = np.maximum(keys[:, level], 0)
        hazard = np.where(known, (ends[key] + TRUST * hazard) / (there[key] + TRUST), hazard)
    return np.concatenate([np.ones((len(keys), 1)), np.cumprod(1.0 - hazard, axis=1)], axis=1)


def _longer_than(table: Floats, time_s: Floats) -> Floats:
    """Return the share of each row's table that lasts longer than a time, on a straight line between edges."""
    k = np.clip(np.searchsorted(_EDGE_S, time_s, side="right") - 1, 0, EDGES - 2)
    row = np.arange(len(time_s))
    share = np.clip((time_s - _EDGE_S[k]) / (_EDGE_S[k + 1] - _EDGE_S[k]), 0.0, 1.0)
    found: Floats = table[row, k] + share * (table[row, k + 1] - table[row, k])
    return found


def _lasts(table: Floats, attained: Floats, share: Floats) -> Floats:
    """Return the time that a share of those of each table that last longer than `attained` does not exceed."""
    target = (1.0 - share) * _longer_than(table, attained)
    k = np.clip((table > target[:, None]).sum(axis=1) - 1, 0, EDGES - 2)  # tables fall from edge to edge
    row = np.arange(len(attained))
    above, below = table[row, k], table[row, k + 1]
    step = np.where(above > below, (above - target) / np.where(above > below, above - below, 1.0), 1.0)
    found: Floats = _EDGE_S[k] + np.clip(step, 0.0, 1.0) * (_EDGE_S[k + 1] - _EDGE_S[k])
    return np.maximum(found, attained)


def _whose(jobs: Jobs) -> NDArray[np.int64]:
    """Return a number for each user, and one for each burst of jobs whose user is not known."""
    user = jobs.user.codes.astype(np.int64)
    kinds = (jobs.vc.codes, np.asarray(jobs.gpus))
    order = np.lexsort((jobs.submit_s, *kinds))
    apart = np.diff(jobs.submit_s[order], prepend=-np.inf) > BURST_S
    for kind in kinds:
        apart |= np.diff(kind[order], prepend=kind[order[:1]]) != 0
    burst = np.empty(len(jobs), dtype=np.int64)
    burst[order] = np.cumsum(apart)
    return np.where(user >= 0, user, user.max(initial=-1) + burst)


def _alike(rng: np.random.Generator, whose: NDArray[np.int64], n: int) -> Floats:
    """Draw shares from 0 to 1, those of one user's jobs, or of one burst's, alike."""
    common = rng.normal(size=int(whose.max(initial=-1)) + 1)
    return _normal_share(np.sqrt(ALIKE) * common[whose] + np.sqrt(1 - ALIKE) * rng.normal(size=n))


def _normal_share(z: Floats) -> Floats:
    """Return the normal distribution's share below z, by its logistic approximation (error below 0.0002)."""
    return 1.0 / (1.0 + np.exp(-1.5976 * z - 0.07056 * z**3))

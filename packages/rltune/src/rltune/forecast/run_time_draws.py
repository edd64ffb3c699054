"""Run times drawn from what is known: how long jobs alike lasted, given how long each has run already.

The tables are those of kernel/state/online_survival.py, which tell what a job has left on average (ADR 0021). Here one
draw is made of the same blend: from the finest likeness to the coarsest, each is taken with as much weight as it has
jobs that ran longer, against `trust` jobs' worth of the coarser ones; before all of them stands the job's limit, or an
hour. Jobs of one user are drawn alike: somebody whose jobs run long today runs long in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rltune.engine.known_history import long_ago
from rltune.estimate.estimators import History
from rltune.estimate.remainders import HISTORY_NAME, survival_of
from rltune.jobs import Floats
from rltune.kernel.state.online_survival import EDGES, LONGER, OVERRUN, edge
from rltune.present.present import Present

ALIKE = 0.4  # correlation of the draws of one user's jobs
LEAST_S = 1.0
NO_LIMIT_S = 3600.0  # what nothing is known of is taken to last an hour, as the core's prior
_EDGE_S = np.array([edge(k) for k in range(EDGES)])


@dataclass(frozen=True)
class RunTimes:
    """What is known of how long each row of a present will have run in all."""

    keys: NDArray[np.int32]  # [row, level], coarse to fine
    longer: Floats  # [key, edge] how many jobs alike ran longer
    weight: Floats  # [row, level + 1] of the prior and each level, adding up to 1
    attained_s: Floats  # by row
    limit_s: Floats
    user: NDArray[np.int32]
    same_as: NDArray[np.int64]  # the first row of each row's job, if it runs: pieces of one job end together

    @classmethod
    def of(cls, present: Present) -> RunTimes:
        """Gather it from a present's history."""
        jobs, history = present.recorded, present.history
        attained = np.zeros(len(jobs))
        attained[present.seats.rows] = np.maximum(present.now_s - present.seats.start_s, 0.0)
        known = History(before=long_ago(history)) if history is not None and len(history) else History()
        survival = survival_of(known, jobs, HISTORY_NAME)
        longer = survival.known[:, :, LONGER]
        weight = _weights(survival.keys, longer, attained, survival.trust)
        limit = np.where(np.isnan(jobs.limit_s), np.inf, jobs.limit_s)
        return cls(survival.keys, longer, weight, attained, limit, jobs.user.codes, _first_rows(present))

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw how long each row runs in all."""
        n = len(self.attained_s)
        share = _alike(rng, self.user, n)
        level = (np.cumsum(self.weight, axis=1) < rng.random(n)[:, None]).sum(axis=1)
        level = np.minimum(level, self.weight.shape[1] - 1)
        total = self._by_prior(rng.random(n))
        rows = np.flatnonzero(level > 0)
        table = self.longer[self.keys[rows, level[rows] - 1]]
        total[rows] = _lasts(table, self.attained_s[rows], share[rows])
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


def _weights(keys: NDArray[np.int32], longer: Floats, attained: Floats, trust: float) -> Floats:
    """Return the weight of the prior and of each level: the finest first takes its part, the coarser ones the rest."""
    n, levels = keys.shape
    weight = np.zeros((n, levels + 1))
    rest = np.ones(n)
    for level in reversed(range(levels)):
        known = keys[:, level] >= 0
        count = np.where(known, _longer_than(longer[np.maximum(keys[:, level], 0)], attained), 0.0)
        weight[:, level + 1] = rest * count / (count + trust)
        rest = rest - weight[:, level + 1]
    weight[:, 0] = rest
    return weight


def _longer_than(table: Floats, time_s: Floats) -> Floats:
    """Return how many jobs of each row's table ran longer than a time, on a straight line between edges."""
    k = np.clip(np.searchsorted(_EDGE_S, time_s, side="right") - 1, 0, EDGES - 2)
    row = np.arange(len(time_s))
    share = np.clip((time_s - _EDGE_S[k]) / (_EDGE_S[k + 1] - _EDGE_S[k]), 0.0, 1.0)
    found: Floats = table[row, k] + share * (table[row, k + 1] - table[row, k])
    return found


def _lasts(table: Floats, attained: Floats, share: Floats) -> Floats:
    """Return the time that a share of those jobs of each table that ran longer than `attained` did not exceed."""
    target = (1.0 - share) * _longer_than(table, attained)
    k = np.clip((table > target[:, None]).sum(axis=1) - 1, 0, EDGES - 2)  # tables fall from edge to edge
    row = np.arange(len(attained))
    above, below = table[row, k], table[row, k + 1]
    step = np.where(above > below, (above - target) / np.where(above > below, above - below, 1.0), 1.0)
    found: Floats = _EDGE_S[k] + np.clip(step, 0.0, 1.0) * (_EDGE_S[k + 1] - _EDGE_S[k])
    return np.maximum(found, attained)


def _alike(rng: np.random.Generator, user: NDArray[Any], n: int) -> Floats:
    """Draw shares from 0 to 1, those of one user's jobs alike."""
    common = rng.normal(size=int(user.max(initial=-1)) + 2)
    own = rng.normal(size=n)
    return _normal_share(
        np.sqrt(ALIKE) * np.where(user >= 0, common[user], own) + np.sqrt(1 - ALIKE) * rng.normal(size=n)
    )


def _normal_share(z: Floats) -> Floats:
    """Return the normal distribution's share below z, by its logistic approximation (error below 0.0002)."""
    return 1.0 / (1.0 + np.exp(-1.5976 * z - 0.07056 * z**3))

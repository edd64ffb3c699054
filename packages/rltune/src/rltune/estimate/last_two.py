"""The mean of the last two runs of the same user (Tsafrir, Etsion and Feitelson 2007): what EASY++ predicts by."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from rltune.estimate.estimators import Believed, Estimates, RunSeen, ended_by, together
from rltune.jobs import Floats, Jobs

UNTOLD_S = 3_600.0  # of a user who has run nothing and asks no limit


@dataclass(frozen=True)
class LastTwo:
    """The mean of the user's last two ended jobs, at most the limit; the limit of who has ended none."""

    before: Jobs | None = field(default=None, repr=False, compare=False)
    name: str = "last2"

    def after(self, before: Jobs) -> LastTwo:
        """Start warm: from the jobs of an earlier part of the trace that had ended when the run begins."""
        return replace(self, before=before)

    def estimate(self, jobs: Jobs, seed: int) -> Estimates:  # noqa: ARG002
        """Estimate as of the start, and then at every submission from what has ended in the run."""
        earlier = None if self.before is None or not len(jobs) else ended_by(self.before, float(jobs.submit_s[0]))
        known = 0 if earlier is None else len(earlier)
        user = together(earlier, jobs, "user")
        last = np.full((int(user.max(initial=-1)) + 2, 2), np.nan)  # the place of -1 is for those without a user
        if earlier is not None:
            rows = _newest_two(user[:known])
            _learn(last, user[rows], earlier.duration_s[rows])
        limit_s = np.where(np.isnan(jobs.limit_s), np.inf, jobs.limit_s)
        looks = UserRuns(user[known:], limit_s, last)
        return Estimates(looks.values_s(last, np.arange(len(jobs))), looks=looks)


def _newest_two(user: NDArray[np.integer]) -> NDArray[np.intp]:
    """Return the last two rows of every user, in order: a long history tells no more than these."""
    order = np.argsort(user, kind="stable")
    by_user = user[order]
    kept = np.ones(len(order), dtype=bool)
    kept[:-2] = by_user[2:] != by_user[:-2]
    return np.sort(order[kept])


def _learn(last: Floats, user: NDArray[np.integer], run_s: Floats) -> None:
    """Take runs in, in order of their ends."""
    for who, seconds in zip(user, run_s, strict=True):
        last[who] = last[who, 1], seconds


@dataclass(frozen=True)
class UserRuns:
    """Who submitted what, and the last two runs of every user."""

    user: NDArray[np.integer] = field(repr=False)
    limit_s: Floats = field(repr=False)
    last: Floats = field(repr=False)
    every: int = 1

    def values_s(self, last: Floats, jobs: NDArray[np.integer]) -> Floats:
        """Return the estimates of some jobs from the last two runs of each user."""
        two = last[self.user[jobs]]
        told = ~np.isnan(two)
        mean = np.where(told, two, 0.0).sum(axis=1) / np.maximum(told.sum(axis=1), 1)
        limit = self.limit_s[jobs]
        untold = np.where(np.isfinite(limit), limit, UNTOLD_S)
        values: Floats = np.maximum(np.minimum(np.where(told.any(axis=1), mean, untold), limit), 1.0)
        return values

    def begin(self) -> RunningUsers:
        """Return one who has seen nothing of the run yet."""
        return RunningUsers(self)

    def in_order(self, order: NDArray[np.intp]) -> UserRuns:
        """Return the same for jobs in another order; a number past the last is nobody's."""
        place = np.minimum(order, len(self.user))
        return replace(self, user=np.append(self.user, -1)[place], limit_s=np.append(self.limit_s, np.inf)[place])


class RunningUsers:
    """Looks at a run at every submission."""

    def __init__(self, runs: UserRuns) -> None:
        self.every = runs.every
        self._runs, self._last = runs, runs.last.copy()

    def look(self, look: RunSeen) -> Believed:
        """Take ended jobs in; estimates that were made are kept."""
        order = np.argsort(look.ended_s, kind="stable")
        _learn(self._last, self._runs.user[look.ended[order]], look.ended_run_s[order])
        nobody, nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
        return Believed(look.coming, self._runs.values_s(self._last, look.coming), nobody, nothing, nobody, nothing)

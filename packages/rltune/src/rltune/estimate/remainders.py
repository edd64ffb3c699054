"""What running jobs are believed to have left: which of the core's rules an estimator goes with, and what it knows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rltune.estimate.estimators import LEVELS, Estimator, History, ended_by, likeness_keys
from rltune.jobs import Jobs
from rltune.kernel.build.prepare import Survival
from rltune.kernel.state.online_survival import (
    BY_ESTIMATE,
    BY_HISTORY,
    EDGES,
    ENDS_NOW,
    EXTRA_ROWS,
    learn_survival_of_all,
)

ENDS_NOW_NAME, HISTORY_NAME = "ends-now", "history"
REMAINING = (ENDS_NOW_NAME, HISTORY_NAME)


def survival_of(
    estimator: Estimator, jobs: Jobs, remaining: str, *, orders: bool = False, indexed: bool = False
) -> Survival:
    """Return what the core needs to know what jobs have left; jobs are in order of submit time.

    `orders`: the queue is ordered by how long jobs lasted, whatever the estimator; `indexed`: by Gittins' index.
    History estimates go with history's remainders. Any other estimate is believed as long as a job has not outlived it.
    """
    left_by = ENDS_NOW
    if remaining == HISTORY_NAME:
        left_by = BY_HISTORY if isinstance(estimator, History) else BY_ESTIMATE
    if left_by != BY_HISTORY and not orders:
        return Survival.none(len(jobs), left_by)
    trust = estimator.trust if isinstance(estimator, History) else History().trust
    before: Jobs | None = getattr(estimator, "before", None)
    earlier = None if before is None or not len(jobs) else ended_by(before, float(jobs.submit_s[0]))
    keys, _ = likeness_keys(earlier, jobs, LEVELS)
    keys, n_keys = _shared_keys(keys, len(jobs))
    known = np.zeros((n_keys + EXTRA_ROWS, EDGES, 2))
    if earlier is not None:
        work = np.ascontiguousarray(earlier.duration_s)
        learn_survival_of_all(keys[: len(earlier)], work, np.maximum(earlier.gpus, 1) * work, known)
        keys = np.ascontiguousarray(keys[len(earlier) :])
    return Survival(keys, known, float(trust), left_by, indexed)


def _shared_keys(keys: NDArray[np.int32], jobs: int) -> tuple[NDArray[np.int32], int]:
    """Keep the keys that some job of the run, the last so many, shares with another: no other is ever asked."""
    size = int(keys.max(initial=-1)) + 2  # one place for -1
    count = np.bincount(keys.ravel() + 1, minlength=size)
    of_run = np.bincount(keys[len(keys) - jobs :].ravel() + 1, minlength=size)
    kept = (count > 1) & (of_run > 0)
    kept[0] = False
    number = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
    return number[keys + 1], int(kept.sum())

"""Whether users and VCs fared alike."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.metrics.distribution import Distribution

if TYPE_CHECKING:
    from rltune.jobs import Floats
    from rltune.labels import Labels


@dataclass(frozen=True)
class GroupFairness:
    """Groups (users or VCs) compared by their jobs' means; jobs without a name are left out."""

    groups: int
    jain: float  # Jain's index of the groups' mean bounded slowdown: 1 = alike, 1/groups = one has it all; NaN if none
    mean_wait_s: Distribution  # over the groups
    worst: str  # the group with the greatest mean wait
    worst_mean_wait_s: float
    worst_jobs: int


@dataclass(frozen=True)
class Fairness:
    """Fairness over users and over VCs."""

    users: GroupFairness
    vcs: GroupFairness

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def jain(values: Floats) -> float:
    """Jain's index (sum x)^2 / (n sum x^2) (Jain, Chiu, Hawe 1984)."""
    squares = float(values @ values)
    return float(values.sum()) ** 2 / (len(values) * squares) if squares > 0 else np.nan


def group_fairness(labels: Labels, wait_s: Floats, slowdown: Floats) -> GroupFairness:
    """Compare the groups that the labels name; all three columns are of the same jobs."""
    named = labels.codes >= 0
    codes = labels.codes[named]
    count = np.bincount(codes, minlength=len(labels.names))
    present = np.flatnonzero(count)
    if not len(present):
        return GroupFairness(0, np.nan, Distribution.of(np.zeros(0)), "", np.nan, 0)
    jobs = count[present]
    wait = np.bincount(codes, weights=wait_s[named], minlength=len(count))[present] / jobs
    slow = np.bincount(codes, weights=slowdown[named], minlength=len(count))[present] / jobs
    worst = int(np.argmax(wait))
    return GroupFairness(
        groups=len(present),
        jain=jain(slow),
        mean_wait_s=Distribution.of(wait),
        worst=labels.names[present[worst]],
        worst_mean_wait_s=float(wait[worst]),
        worst_jobs=int(jobs[worst]),
    )

"""Jobs by the GPUs (or CPUs) they ask for, by VC and by user: a mean over all hides who pays for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rltune.jobs import Jobs

SIZES = ((0, 0), (1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, 32), (33, 2**31))


def size_name(low: int, high: int, unit: str = "GPU") -> str:
    """Name a class of sizes."""
    if low == high:
        return f"{low} {unit}" if low == 1 else f"{low} {unit}s"
    return f"{low} {unit}s and more" if high > 2**20 else f"{low} to {high} {unit}s"


def sizes_of(jobs: Jobs) -> tuple[NDArray[np.int32], str]:
    """Return what jobs ask for, and of what: GPUs, or CPUs where no job asks for a GPU."""
    cpus = np.ceil(np.nan_to_num(jobs.cpus)).astype(np.int32)
    return (cpus, "CPU") if cpus.any() and not jobs.gpus.any() else (jobs.gpus, "GPU")


@dataclass(frozen=True)
class Groups:
    """The group of each job of a trace, by number; -1 = none."""

    names: tuple[str, ...]
    of_job: NDArray[np.int64]

    @classmethod
    def by_size(cls, jobs: Jobs) -> Groups:
        """Group by GPUs, or by CPUs where no job asks for a GPU."""
        sizes, unit = sizes_of(jobs)
        lows = np.array([low for low, _ in SIZES])
        names = tuple(size_name(low, high, unit) for low, high in SIZES)
        return cls(names, np.searchsorted(lows, sizes, side="right") - 1)

    @classmethod
    def by_vc(cls, jobs: Jobs) -> Groups:
        """Group by VC."""
        return cls(jobs.vc.names, jobs.vc.codes.astype(np.int64))

    @classmethod
    def by_user(cls, jobs: Jobs) -> Groups:
        """Group by user."""
        return cls(jobs.user.names, jobs.user.codes.astype(np.int64))

    @classmethod
    def by_account(cls, jobs: Jobs) -> Groups:
        """Group by account."""
        return cls(jobs.account.names, jobs.account.codes.astype(np.int64))

    @classmethod
    def by_qos(cls, jobs: Jobs) -> Groups:
        """Group by QOS."""
        return cls(jobs.qos.names, jobs.qos.codes.astype(np.int64))

    def sums(self, rows: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return per group the number of these jobs and the sum of their values."""
        of, wide = self.of_job[rows], len(self.names)
        known = of >= 0
        counted = np.bincount(of[known], minlength=wide)
        summed = np.bincount(of[known], weights=values[known], minlength=wide)
        return np.stack([counted, summed], axis=1).astype(np.float64)

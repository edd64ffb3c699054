"""What acting would have won: the jobs seen, replayed in Slurm's order and in ours, all else equal.

The simulator is not the cluster. How near the replay in Slurm's order comes to what was really seen stands beside the
result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from rltune.live.decide.replayed_queue import ReplayedQueue
from rltune.text import counted, seconds, told_change

FEWEST = 20
_TOLD = re.compile(r"s in ours: ([-+][\d.]+) %$|, ([\d.]+) % (less|more)$")


@dataclass(frozen=True)
class Gain:
    """Mean waits of the same jobs, as replayed and as observed."""

    jobs: int
    slurm_wait_s: float
    our_wait_s: float
    observed_wait_s: float

    @classmethod
    def share_told(cls, text: str) -> float | None:
        """Return the share out of what `str` wrote, also in earlier versions; None if it did not."""
        told = _TOLD.search(text)
        if told is None:
            return None
        if told[1]:
            return -float(told[1]) / 100
        return float(told[2]) / 100 * (1 if told[3] == "less" else -1)

    @property
    def share(self) -> float:
        """Return how much of the mean wait is saved; below 0 it is longer."""
        return 1.0 - self.our_wait_s / self.slurm_wait_s if self.slurm_wait_s > 0 else 0.0

    def __str__(self) -> str:
        slurm, observed, ours = (
            seconds(wait_s, like=self.slurm_wait_s)
            for wait_s in (self.slurm_wait_s, self.observed_wait_s, self.our_wait_s)
        )
        return (
            f"{counted(self.jobs, 'job')} replayed: mean wait {slurm} in Slurm's order ({observed} observed), "
            f"{ours} in ours, {told_change(self.share)}"
        )


def estimate_gain(queue: ReplayedQueue) -> Gain | None:
    """Replay the jobs both ways, ours asked once a cycle; None if too few of them have ended."""
    ended = np.array([one.job.ended for one in queue.seen], dtype=np.bool_)
    if (ended & queue.counts).sum() < FEWEST:
        return None
    slurm, ours = queue.waits_s(queue.slurms), queue.waits_s(queue.ours)
    kept = queue.counts & np.isfinite(slurm) & np.isfinite(ours)
    if kept.sum() < FEWEST:
        return None
    waits = (slurm, ours, queue.observed_s)
    return Gain(int(kept.sum()), *(float(wait[kept].mean()) for wait in waits))

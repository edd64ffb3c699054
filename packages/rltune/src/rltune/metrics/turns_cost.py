"""What taking turns does to jobs and costs the cluster: delay, displacements, and GPU time that was not useful."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rltune.metrics.distribution import Distribution

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rltune.metrics.timetable import Timetable

_S_AN_HOUR = 3600.0


@dataclass(frozen=True)
class TurnsCost:
    """Of the jobs that are measured. Without turns all but the delay is 0."""

    delay_s: Distribution  # completion time beyond the run time: wait, and all that being stopped cost
    preemptions: Distribution  # of a job
    preempted: int  # jobs that were displaced at least once
    lost_gpu_h: float  # in restarts, and in work that was done again
    lost_share: float  # of the GPU time that these jobs held

    @property
    def taken(self) -> bool:
        """Return whether anybody was displaced."""
        return self.preempted > 0


def turns_cost(schedule: Timetable, kept: NDArray[np.bool_]) -> TurnsCost:
    """Return what taking turns came to for some jobs that ran."""
    return TurnsCost(
        delay_s=Distribution.of(schedule.delay_s[kept]),
        preemptions=Distribution.of(schedule.preemptions[kept]),
        preempted=int((schedule.preemptions[kept] > 0).sum()),
        lost_gpu_h=float(schedule.jobs.gpus[kept] @ schedule.lost_s[kept]) / _S_AN_HOUR,
        lost_share=lost_share(schedule, kept),
    )


def lost_share(schedule: Timetable, kept: NDArray[np.bool_]) -> float:
    """Return which share of the GPU time that jobs held was restarts and work that was done again; 0 if they had none.

    GPU time is at speed 1, so that a slow node counts for what it does.
    """
    gpus = schedule.jobs.gpus[kept]
    lost = float(gpus @ schedule.lost_s[kept])
    held = float(gpus @ schedule.jobs.duration_s[kept]) + lost
    return lost / held if held > 0 else 0.0

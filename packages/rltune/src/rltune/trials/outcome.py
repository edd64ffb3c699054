"""What one pipeline made of one window, in a few numbers: hundreds of windows are kept, so schedules are not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rltune.trials.measures import measures_of

if TYPE_CHECKING:
    from rltune.jobs import Floats
    from rltune.schedule import Schedule
    from rltune.trials.groups import Groups


@dataclass(frozen=True)
class Outcome:
    """The measures of one run, the wait by groups of jobs, and what warns of it."""

    measures: Floats  # in the order of MEASURED
    by_group: tuple[Floats, ...]  # per grouping [group, (jobs, sum of waits)]
    rejected: int  # jobs that never ran
    drifted: int = 0  # times that a model scored a job unlike those of its training

    @classmethod
    def of(cls, schedule: Schedule, first: int, groupings: tuple[Groups, ...]) -> Outcome:
        """Measure a schedule of the jobs from row `first` of the trace on."""
        ran = np.flatnonzero(schedule.ran)
        wait = schedule.wait_s[ran]
        by_group = tuple(groups.sums(first + ran, wait) for groups in groupings)
        drifted = int(schedule.work.get("scores_outside_training", 0))
        return cls(measures_of(schedule), by_group, len(schedule.jobs) - len(ran), drifted)

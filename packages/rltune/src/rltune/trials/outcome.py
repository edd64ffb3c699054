"""What one pipeline made of one window, in a few numbers: hundreds of windows are kept, so schedules are not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rltune.metrics.formats import DRIFT
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
    policy: str = ""  # by its name in this window
    drift: Counter[str] = field(default_factory=Counter)  # what the model was asked, and how much lay outside

    @classmethod
    def of(cls, schedule: Schedule, first: int, groupings: tuple[Groups, ...]) -> Outcome:
        """Measure a schedule of the jobs from row `first` of the trace on."""
        ran = np.flatnonzero(schedule.ran)
        wait = schedule.wait_s[ran]
        by_group = tuple(groups.sums(first + ran, wait) for groups in groupings)
        drift = Counter({name: schedule.work.get(name, 0) for name in DRIFT})
        return cls(measures_of(schedule), by_group, len(schedule.jobs) - len(ran), schedule.settings.policy, drift)

"""Who wins and who loses by a change: jobs by size, user and partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rltune.trials.groups import Groups

if TYPE_CHECKING:
    from rltune.schedule import Schedule
    from rltune.tune.stretches import HistoryStretch, StretchRunner

FEWEST = 20  # jobs of a group, or else chance speaks
KINDS = ("size", "user", "partition")


@dataclass(frozen=True)
class Share:
    """A group of jobs: how long they wait now, and would."""

    kind: str  # of KINDS
    name: str
    jobs: int
    now_s: float
    then_s: float


def shares_of(now: Schedule, then: Schedule, runner: StretchRunner, stretch: HistoryStretch) -> tuple[Share, ...]:
    """Return the mean waits of all groups with enough jobs under both, largest groups first within a kind."""
    jobs = now.jobs
    window = runner.window(stretch).interval_s or (0.0, 0.0)
    kept = np.flatnonzero(now.ran & then.ran & (jobs.submit_s >= window[0]) & (jobs.submit_s < window[1]))
    groupings = (Groups.by_size(jobs), Groups(jobs.user.names, jobs.user.codes.astype(np.int64)), Groups.by_vc(jobs))
    made = []
    for kind, groups in zip(KINDS, groupings, strict=True):
        one, other = (groups.sums(kept, schedule.wait_s[kept]) for schedule in (now, then))
        rows = [i for i in range(len(groups.names)) if one[i, 0] >= FEWEST]
        rows = rows if kind == "size" else sorted(rows, key=lambda i: -one[i, 0])
        made += [
            Share(kind, groups.names[i], int(one[i, 0]), one[i, 1] / one[i, 0], other[i, 1] / other[i, 0]) for i in rows
        ]
    return tuple(made)

"""Who wins and who loses by a change: jobs by size, user and partition, under both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rltune.trials.groups import Groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rltune.jobs import Floats, Jobs

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


def shares_between(
    jobs: Jobs, now_s: Floats, then_s: Floats, kept: NDArray[np.intp], fewest: int = FEWEST
) -> tuple[Share, ...]:
    """Return the mean waits of all groups with enough of the kept jobs under both, largest groups first in a kind."""
    groupings = (Groups.by_size(jobs), Groups(jobs.user.names, jobs.user.codes.astype(np.int64)), Groups.by_vc(jobs))
    made = []
    for kind, groups in zip(KINDS, groupings, strict=True):
        one, other = (groups.sums(kept, wait_s[kept]) for wait_s in (now_s, then_s))
        rows = [i for i in range(len(groups.names)) if one[i, 0] >= fewest]
        rows = rows if kind == "size" else sorted(rows, key=lambda i: -one[i, 0])
        made += [
            Share(kind, groups.names[i], int(one[i, 0]), one[i, 1] / one[i, 0], other[i, 1] / other[i, 0]) for i in rows
        ]
    return tuple(made)

"""Who wins and who loses by a change: jobs by size, user, account, QOS and partition, under both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rltune.metrics.distribution import Distribution
from rltune.text import counted
from rltune.trials.groups import Groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from rltune.jobs import Floats, Jobs

FEWEST = 20  # jobs of a group, or else chance speaks
BY_KIND = {
    "size": Groups.by_size,
    "user": Groups.by_user,
    "account": Groups.by_account,
    "QOS": Groups.by_qos,
    "partition": Groups.by_vc,
}
KINDS = tuple(BY_KIND)


@dataclass(frozen=True)
class Share:
    """A group of jobs: how long they wait now, and would, on average and in the tail."""

    kind: str  # of KINDS
    name: str
    jobs: int
    now_s: float
    then_s: float
    p90_s: tuple[float, float]  # now, then
    worst_s: tuple[float, float]


@dataclass(frozen=True)
class SmallGroup:
    """A group of too few jobs to be told of."""

    kind: str  # of KINDS
    name: str
    jobs: int


@dataclass(frozen=True)
class GroupTotals:
    """A group of jobs, and what some columns add up to in it."""

    kind: str  # of KINDS
    name: str
    jobs: int
    totals: Floats  # one a column

    def __str__(self) -> str:
        return self.name if self.kind == "size" else f"{self.kind} {self.name}"


def totals_by_group(jobs: Jobs, kept: NDArray[np.intp], columns: Floats) -> Iterator[GroupTotals]:
    """Return the groups that have any of the kept jobs; `columns` has a row for each of these."""
    for kind, name, inside in _members(jobs, kept):
        yield GroupTotals(kind, name, len(inside), columns[inside].sum(axis=0))


def _members(jobs: Jobs, kept: NDArray[np.intp]) -> Iterator[tuple[str, str, NDArray[np.intp]]]:
    """Return the groups that have any of the kept jobs: kind, name, and which of these."""
    for kind, groups_of in BY_KIND.items():
        groups = groups_of(jobs)
        of = groups.of_job[kept]
        order = np.argsort(of, kind="stable")
        found, first = np.unique(of[order], return_index=True)
        for group, inside in zip(found.tolist(), np.split(order, first[1:]), strict=True):
            if group >= 0:
                yield kind, groups.names[group], inside


def small_groups(jobs: Jobs, kept: NDArray[np.intp], fewest: int = FEWEST) -> tuple[SmallGroup, ...]:
    """Return the groups that have some of the kept jobs, but too few for a share."""
    made = (SmallGroup(kind, name, len(inside)) for kind, name, inside in _members(jobs, kept))
    return tuple(group for group in made if group.jobs < fewest)


def told_small_groups(groups: Sequence[SmallGroup]) -> str:
    """Name each size, and count the others: 17 to 32 GPUs (3 jobs), 12 users."""
    sizes = [f"{g.name} ({counted(g.jobs, 'job')})" for g in groups if g.kind == "size"]
    kinds = [g.kind for g in groups if g.kind != "size"]
    return ", ".join([*sizes, *(told_kind(kinds.count(kind), kind) for kind in dict.fromkeys(kinds))])


def told_kind(number: int, kind: str) -> str:
    """Write how many groups of a kind there are."""
    return f"{number:,} QOS" if kind == "QOS" else counted(number, kind)


def shares_between(
    jobs: Jobs, now_s: Floats, then_s: Floats, kept: NDArray[np.intp], fewest: int = FEWEST
) -> tuple[Share, ...]:
    """Return the waits of all groups with enough of the kept jobs under both, largest groups first in a kind."""
    waits = now_s[kept], then_s[kept]
    made = []
    for kind, name, inside in _members(jobs, kept):
        if len(inside) >= fewest:
            now, then = (Distribution.of(wait[inside]) for wait in waits)
            tail = (now.p90, then.p90), (now.max, then.max)
            made.append(Share(kind, name, len(inside), now.mean, then.mean, *tail))
    return tuple(sorted(made, key=lambda s: (KINDS.index(s.kind), 0 if s.kind == "size" else -s.jobs)))

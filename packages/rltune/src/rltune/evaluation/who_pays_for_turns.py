"""Who pays for taking turns: what displaced jobs have against what they had without, by size, user and partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rltune.text import counted, seconds
from rltune.trials.shares import FEWEST, totals_by_group

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rltune.evaluation.comparison import Comparison
    from rltune.jobs import Floats
    from rltune.schedule import Schedule

JOBS, WITHOUT, WITH, DISPLACED, DISPLACED_WITHOUT, DISPLACED_WITH = range(6)  # columns of a ledger


def ledger(without: Schedule, turns: Schedule, counts: NDArray[np.bool_]) -> dict[str, Floats]:
    """Return what taking turns did, by group: sizes, users, partitions, and "" for all.

    Both schedules are of the same jobs.
    A row counts jobs, and adds up their delays without turns and with; then the same of those that were displaced.
    """
    rows = np.flatnonzero(counts & without.ran & turns.ran)
    displaced = turns.preemptions[rows] > 0
    delays = without.delay_s[rows], turns.delay_s[rows]
    columns = np.stack(
        [np.ones(len(rows)), *delays, displaced, *(np.where(displaced, delay, 0.0) for delay in delays)], axis=1
    )
    return {"": columns.sum(axis=0)} | {str(g): g.totals for g in totals_by_group(turns.jobs, rows, columns)}


@dataclass(frozen=True)
class Payers:
    """What taking turns did to those who were displaced, over all windows of a comparison."""

    label: str
    by_group: dict[str, Floats]  # ledgers, added up

    @property
    def displaced(self) -> int:
        """Count the jobs that were displaced; one in several windows counts in each."""
        return int(self.by_group[""][DISPLACED])

    @property
    def worst(self) -> tuple[str, float, float] | None:
        """Name the group whose displaced jobs lost most, with their mean delays without turns and with."""
        means = [(name, *_means(row)) for name, row in self.by_group.items() if name and row[DISPLACED] >= FEWEST]
        losers = [group for group in means if group[2] > group[1]]
        return max(losers, key=lambda group: group[2] - group[1], default=None)

    def __str__(self) -> str:
        without, with_turns = _means(self.by_group[""])
        who = f"{self.label}: {counted(self.displaced, 'displaced job')} had a mean delay of {seconds(with_turns)}"
        said = f"{who}, without turns of {seconds(without)}"
        if self.worst is None:
            return f"{said}."
        name, before, after = self.worst
        return f"{said}; those of {name} pay most ({seconds(before)} -> {seconds(after)})."


def payers_of(comparison: Comparison) -> Iterator[Payers]:
    """Return for each contender that displaced jobs who paid, against the baseline."""
    from rltune.evaluation.comparison import measured

    base = comparison.of(comparison.baseline)
    for which, contender in enumerate(comparison.contenders):
        mine = comparison.of(which)
        total: dict[str, Floats] = {}
        for w in sorted(base.keys() & mine.keys()):
            counts = measured(base[w]) & measured(mine[w])
            for name, row in ledger(base[w].schedule, mine[w].schedule, counts).items():
                total[name] = total.get(name, 0.0) + row
        if which != comparison.baseline and total and total[""][DISPLACED]:
            yield Payers(contender.label, total)


def _means(row: Floats) -> tuple[float, float]:
    """Return the mean delay of a group's displaced jobs without turns and with."""
    return float(row[DISPLACED_WITHOUT] / row[DISPLACED]), float(row[DISPLACED_WITH] / row[DISPLACED])

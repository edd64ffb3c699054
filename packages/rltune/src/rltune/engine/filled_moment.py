"""A machine put into the middle of things: what runs where it runs, what waits, and which nodes are down."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rltune.kernel.rollout.fill_moment import let_run, let_wait, take_down
from rltune.kernel.state import arrays as core
from rltune.kernel.state.online_survival import renew_edition

if TYPE_CHECKING:
    from rltune.engine.run import Machine

_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Seats:
    """Where jobs run: job `rows[i]` of a table, since `start_s[i]`, on `nodes[first[i]:first[i + 1]]`."""

    rows: core.I8 = field(default_factory=_NONE.copy)
    start_s: core.F8 = field(default_factory=lambda: np.zeros(0))
    served_s: core.F8 = field(default_factory=lambda: np.zeros(0))  # in spells before this one
    first: core.I8 = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    nodes: core.I8 = field(default_factory=_NONE.copy)

    @classmethod
    def of(cls, taken: Iterable[tuple[int, float, float, tuple[int, ...]]]) -> Seats:
        """Make them of (row, start, time served before, nodes in order of chunks); put in order of start, then row."""
        ordered = sorted(taken, key=lambda one: (one[1], one[0]))
        counts = [len(nodes) for *_, nodes in ordered]
        return cls(
            rows=np.array([one[0] for one in ordered], dtype=np.int64),
            start_s=np.array([one[1] for one in ordered], dtype=np.float64),
            served_s=np.array([one[2] for one in ordered], dtype=np.float64),
            first=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            nodes=np.array([node for *_, nodes in ordered for node in nodes], dtype=np.int64),
        )

    def nodes_of(self, i: int) -> core.I8:
        """Return the nodes of one of them."""
        return self.nodes[self.first[i] : self.first[i + 1]]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class FilledMoment:
    """What to fill a machine with."""

    now_s: float
    seats: Seats
    waiting: core.I8  # rows, ascending: oldest first
    waited_served_s: core.F8  # by waiting row: time served in earlier spells
    down: core.I8  # nodes

    @classmethod
    def of(cls, now_s: float, seats: Seats, waiting: Iterable[tuple[int, float]], down: Iterable[int]) -> FilledMoment:
        """Make one of plain values; a waiting row comes with the time that it was served before."""
        ordered = sorted(waiting)
        return cls(
            now_s,
            seats,
            np.array([row for row, _ in ordered], dtype=np.int64),
            np.array([served for _, served in ordered], dtype=np.float64),
            np.array(list(down), dtype=np.int64),
        )


def fill(machine: Machine, options: core.Options, moment: FilledMoment) -> None:
    """Fill a machine that has not begun; rows of its table that are in no part are still to arrive."""
    w, s, seats = machine.w, machine.s, moment.seats
    let_run(w, s, options, seats.rows, seats.start_s, seats.served_s, seats.first, seats.nodes)
    take_down(w, s, moment.down)
    let_wait(w, s, options, moment.now_s, moment.waiting, moment.waited_served_s)
    machine.state.n[core.ARRIVED] = len(seats) + len(moment.waiting)
    renew_edition(s, options)
    # what nodes did before now is in the moment already
    machine.state.n[core.NODE_EVENT] = np.searchsorted(machine.world.event["time"], moment.now_s, side="right")

"""Bars of a Gantt chart: which of a node's GPU lanes each job held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rltune.errors import InputError
from rltune.metrics.timeline import node_gpus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rltune.schedule import Schedule

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Bars:
    """Rectangles by start: job (its place in `rows`), first lane over the whole cluster, and how many lanes."""

    job: Counts
    lane: Counts
    lanes: Counts


def bars(schedule: Schedule, rows: NDArray[np.intp]) -> Bars:
    """Assign to every chunk of the jobs in `rows` the lowest free lanes of its node; a chunk may need several bars."""
    sizes = node_gpus(schedule.cluster)
    first_lane = np.concatenate([[0], np.cumsum(sizes)])
    free = [(1 << int(size)) - 1 for size in sizes]
    held: dict[int, list[tuple[int, int]]] = {}  # node and mask by row
    made: list[tuple[int, int, int]] = []
    for row, place in _changes(schedule, rows):
        if row in held:
            for node, mask in held.pop(row):
                free[node] |= mask
            continue
        held[row] = []
        taken: list[tuple[int, int]] = []
        for node, gpus in schedule.placements[row]:
            mask = _lowest(free[node], gpus)
            free[node] &= ~mask
            held[row].append((node, mask))
            taken += [(int(first_lane[node]) + lane, count) for lane, count in _runs(mask)]
        made += [(place, lane, count) for lane, count in _joined(taken)]
    flat = np.array(made, dtype=np.int64).reshape(-1, 3)
    return Bars(flat[:, 0], flat[:, 1], flat[:, 2])


def _changes(schedule: Schedule, rows: NDArray[np.intp]) -> Iterator[tuple[int, int]]:
    """Return (row, place) once when a job starts and once when it ends; at one time ends come first."""
    if schedule.turns is not None:
        raise InputError("a page does not draw jobs that take turns yet: leave out --report, or preemption")
    place = np.flatnonzero(schedule.ran[rows] & (schedule.end_s[rows] > schedule.start_s[rows]))
    ran = rows[place]
    times = np.concatenate([schedule.end_s[ran], schedule.start_s[ran]])
    for i in np.argsort(times, kind="stable") % max(len(ran), 1):
        yield int(ran[i]), int(place[i])


def _joined(taken: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Join lanes that touch, over nodes too: a job of a hundred whole nodes in a row is one bar."""
    taken.sort()
    at = 0
    while at < len(taken):
        lane, count = taken[at]
        at += 1
        while at < len(taken) and taken[at][0] == lane + count:
            count += taken[at][1]
            at += 1
        yield lane, count


def _lowest(free: int, count: int) -> int:
    """Pick the `count` lowest bits that are set."""
    mask = 0
    for _ in range(count):
        bit = free & -free
        mask |= bit
        free ^= bit
    return mask


def _runs(mask: int) -> Iterator[tuple[int, int]]:
    """Split a mask into (first bit, length) of neighbours."""
    at = 0
    while mask:
        skip = (mask & -mask).bit_length() - 1
        mask >>= skip
        at += skip
        length = (~mask & (mask + 1)).bit_length() - 1
        yield at, length
        mask >>= length
        at += length

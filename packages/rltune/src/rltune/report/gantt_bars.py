"""Bars of a Gantt chart: which of a node's GPU lanes each job held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rltune.metrics.timeline import node_gpus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rltune.jobs import Floats
    from rltune.schedule import Schedule, Spells

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Bars:
    """Rectangles by start: job (its place in `rows`), spell, first lane over the whole cluster, and how many lanes."""

    job: Counts
    spell: Counts  # its place among the spells drawn
    lane: Counts
    lanes: Counts
    start_s: Floats  # of each spell
    end_s: Floats


def bars(schedule: Schedule, rows: NDArray[np.intp]) -> Bars:
    """Assign to every chunk of the jobs in `rows` the lowest free lanes of its node; a chunk may need several bars.

    A job that took turns has bars for each of its spells.
    """
    sizes = node_gpus(schedule.cluster)
    first_lane = np.concatenate([[0], np.cumsum(sizes)])
    free = [(1 << int(size)) - 1 for size in sizes]
    spells, places = _drawn(schedule, rows)
    held: dict[int, list[tuple[int, int]]] = {}  # node and mask by spell
    made: list[tuple[int, int, int, int]] = []
    for spell in _changes(spells):
        if spell in held:
            for node, mask in held.pop(spell):
                free[node] |= mask
            continue
        held[spell] = []
        taken: list[tuple[int, int]] = []
        for node, gpus in spells.placements[spell]:
            mask = _lowest(free[node], gpus)
            free[node] &= ~mask
            held[spell].append((node, mask))
            taken += [(int(first_lane[node]) + lane, count) for lane, count in _runs(mask)]
        made += [(int(places[spell]), spell, lane, count) for lane, count in _joined(taken)]
    flat = np.array(made, dtype=np.int64).reshape(-1, 4)
    return Bars(flat[:, 0], flat[:, 1], flat[:, 2], flat[:, 3], spells.start_s, spells.end_s)


def _drawn(schedule: Schedule, rows: NDArray[np.intp]) -> tuple[Spells, Counts]:
    """Return the spells of the jobs in `rows` that lasted, and the place of each one's job in `rows`."""
    place = np.full(len(schedule.jobs), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    spells = schedule.spells
    shown = np.flatnonzero((place[spells.job] >= 0) & (spells.end_s > spells.start_s))
    kept = spells.take(shown)
    return kept, place[kept.job]


def _changes(spells: Spells) -> Iterator[int]:
    """Return each spell once when it begins and once when it ends; at one time ends come first."""
    times = np.concatenate([spells.end_s, spells.start_s])
    yield from (np.argsort(times, kind="stable") % max(len(spells), 1)).tolist()


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

"""Who is before whom: the waiting rows of each pool in their order, so that a whole queue is asked about quickly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rltune.kernel.state import arrays as core
from rltune.kernel.state.arrays import I8, World


@dataclass(frozen=True)
class PoolQueue:
    """The waiting rows of one pool in order, each with what is told of those before it."""

    rows: I8
    gpus: I8
    starts: NDArray[np.bool_]  # in this pass
    claims: NDArray[np.bool_]  # the guard puts them first

    @cached_property
    def _gpus_before(self) -> I8:
        return np.concatenate([[0], np.cumsum(self.gpus)])

    @cached_property
    def _gpus_starting_before(self) -> I8:
        return np.concatenate([[0], np.cumsum(np.where(self.starts, self.gpus, 0))])

    @cached_property
    def _starting(self) -> I8:
        return np.flatnonzero(self.starts)

    @cached_property
    def _waiting(self) -> I8:
        return np.flatnonzero(~self.starts)

    @cached_property
    def _claiming(self) -> I8:
        return np.flatnonzero(self.claims)

    def before(self, place: int, most: int | None = None) -> list[int]:
        """Return the rows before a place, in order."""
        return [int(row) for row in self.rows[: place if most is None else min(place, most)].tolist()]

    def gpus_before(self, place: int) -> int:
        """Return how many GPUs those ask for."""
        return int(self._gpus_before[place])

    def gpus_starting_before(self, place: int) -> int:
        """Return how many GPUs those of them take that start in this pass."""
        return int(self._gpus_starting_before[place])

    def starting_before(self, place: int, most: int) -> tuple[int, list[int]]:
        """Return how many of those start in this pass, and the first of them."""
        return self._some(self._starting, place, most)

    def waiting_before(self, place: int, most: int) -> tuple[int, list[int]]:
        """Return how many of those go on waiting, and the first of them."""
        return self._some(self._waiting, place, most)

    def claiming_before(self, place: int, most: int) -> tuple[int, list[int]]:
        """Return how many of those the guard puts first, and the first of them."""
        return self._some(self._claiming, place, most)

    def _some(self, places: I8, place: int, most: int) -> tuple[int, list[int]]:
        count = int(np.searchsorted(places, place))
        return count, [int(row) for row in self.rows[places[: min(count, most)]].tolist()]


class QueueAhead:
    """All pools of a queue. A pool is a set of nodes that share waiting jobs, also through others."""

    def __init__(self, world: World, order: I8, gpus: I8, status: I8, claims: Iterable[int]) -> None:
        mask = world.shape["mask"][world.job["asks"][order]]
        pools = pool_of_mask(world, mask)[mask]
        claiming = np.isin(order, list(claims))
        self._queues: dict[int, PoolQueue] = {}
        self._at: dict[int, tuple[int, int]] = {}  # pool and place of each row
        for pool in np.unique(pools).tolist():
            kept = pools == pool
            rows = order[kept]
            self._queues[pool] = PoolQueue(rows, gpus[rows], status[rows] == core.RUNNING, claiming[kept])
            self._at |= {row: (pool, place) for place, row in enumerate(rows.tolist())}

    def __contains__(self, row: int) -> bool:
        return row in self._at

    def of(self, row: int) -> tuple[PoolQueue, int]:
        """Return the queue that a row is in, and how many are before it."""
        pool, place = self._at[row]
        return self._queues[pool], place


def pool_of_mask(world: World, masks: I8) -> I8:
    """Return the pool of each set of groups that waiting rows may use: sets that share a group are one pool."""
    parent = np.arange(len(world.group))
    used = np.unique(masks).tolist()
    for mask in used:
        groups = np.flatnonzero(world.mask_has[mask])
        if len(groups):
            parent[np.isin(parent, parent[groups])] = parent[groups].min()
    pools = np.full(len(world.mask_has), -1)
    for mask in used:
        groups = np.flatnonzero(world.mask_has[mask])
        pools[mask] = parent[groups[0]] if len(groups) else -1
    return pools

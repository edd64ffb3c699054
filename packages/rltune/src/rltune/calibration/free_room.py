"""How many GPUs were free for a job, of those that it may use: room in another partition is none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rltune.calibration.history import Happened
from rltune.cluster import Cluster
from rltune.jobs import TYPE_SEPARATOR, Floats, Jobs

Groups = frozenset[int]  # of the cluster, by number


@dataclass(frozen=True)
class FreeRoom:
    """The jobs by the node groups that they may use; of each kind, its GPUs and who else was on them."""

    kind: NDArray[np.int64]  # of each job
    pools: tuple[Groups, ...]  # of each kind: the groups that its jobs may use
    gpus: tuple[int, ...]  # of each kind: as many as there are, or were ever in use at once
    users: tuple[Happened, ...]  # of each kind: all jobs that may have been on its nodes

    @classmethod
    def of(cls, history: Happened, cluster: Cluster) -> FreeRoom:
        """Sort the jobs of a history by what they may use; one that fits nowhere may use all."""
        pools, kind = _pools(history.jobs, cluster)
        users = tuple(_among(history, kind, [i for i, other in enumerate(pools) if other & pool]) for pool in pools)
        sizes = [sum(cluster.groups[g].count * cluster.groups[g].gpus for g in pool) for pool in pools]
        return cls(kind, tuple(pools), tuple(min(n, max(u.peak, 1)) for n, u in zip(sizes, users, strict=True)), users)

    def before(self, time_s: Floats) -> NDArray[np.int64]:
        """Return how many GPUs were free for each job just before a moment of its own."""
        return self._free(time_s, np.arange(len(self.kind)), just_before=True)

    def at(self, time_s: Floats, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return how many GPUs were free for some jobs, each at a moment of its own."""
        return self._free(time_s, rows, just_before=False)

    def _free(self, time_s: Floats, rows: NDArray[np.intp], *, just_before: bool) -> NDArray[np.int64]:
        free = np.zeros(len(rows), dtype=np.int64)
        for kind, (gpus, users) in enumerate(zip(self.gpus, self.users, strict=True)):
            mine = self.kind[rows] == kind
            used = users.use.before(time_s[mine]) if just_before else users.use.at(time_s[mine])
            free[mine] = gpus - used
        return free


def _pools(jobs: Jobs, cluster: Cluster) -> tuple[list[Groups], NDArray[np.int64]]:
    """Return the sets of groups that jobs may use, and which of them each job may."""
    asked = np.stack([jobs.vc.codes, jobs.gpu_types.codes, jobs.gpus > 0], axis=1)
    _, first, of = np.unique(asked, axis=0, return_index=True, return_inverse=True)
    pools: dict[Groups, int] = {}
    number = [pools.setdefault(_pool(jobs, row, cluster), len(pools)) for row in first.tolist()]
    return list(pools), np.array(number, dtype=np.int64)[of.ravel()]


def _pool(jobs: Jobs, row: int, cluster: Cluster) -> Groups:
    types = [name for name in jobs.gpu_types.name_of(row).split(TYPE_SEPARATOR) if name]
    vc, with_gpus = jobs.vc.name_of(row), bool(jobs.gpus[row] > 0)
    own = [i for i, g in enumerate(cluster.groups) if g.accepted(vc, types, with_gpus=with_gpus)]
    return frozenset(own or range(len(cluster.groups)))


def _among(history: Happened, kind: NDArray[np.int64], kinds: list[int]) -> Happened:
    return Happened(history.jobs.take(np.flatnonzero(np.isin(kind, kinds))))

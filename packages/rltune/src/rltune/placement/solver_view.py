"""What the solver is shown of a pool: its first jobs, a few moments ahead, and the nodes in classes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from rltune.kernel.backfill import node_classes as kernels
from rltune.kernel.state.arrays import I8, UNLIMITED, State, World


@dataclass(frozen=True, slots=True)
class ChunkKind:
    """Alike chunks of a job; CPUs (thousandths) and memory (MiB) -1 = the GPU share of the node."""

    n: int
    gpus: int
    cpu: int
    mem: int


@dataclass(frozen=True, slots=True)
class Form:
    """One way to cut a job into chunks, largest first. `pieces_below`: smaller chunks may only go to nodes in use."""

    shape: int
    kinds: tuple[ChunkKind, ...]
    pieces_below: int = 0


@dataclass(frozen=True, slots=True)
class Ask:
    """A job of the first few, best first: the narrow form comes first, then those that take one node more."""

    job: int
    length_s: float
    forms: tuple[Form, ...]
    open: tuple[tuple[bool, ...], ...]  # [group][slot]


@dataclass(frozen=True, slots=True)
class PoolGroup:
    """What a node of a group has, and how fast it is."""

    gpus: int
    cpu: int
    mem: int
    speed: float

    def takes(self, kind: ChunkKind) -> tuple[int, int, int]:
        """Return what a chunk takes of a node of this group."""
        return kind.gpus, self._of(kind.cpu, self.cpu, kind.gpus), self._of(kind.mem, self.mem, kind.gpus)

    def _of(self, asked: int, capacity: int, gpus: int) -> int:
        if asked >= 0:
            return asked
        return 0 if capacity >= UNLIMITED else capacity * gpus // self.gpus


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes of a group that have the same free at every slot: [slot] of (GPUs, CPUs, memory).

    Where a rack more costs something they are all in one rack; else `rack` is -1.
    """

    group: int
    nodes: tuple[int, ...]
    free: tuple[tuple[int, int, int], ...]
    rack: int = -1
    count: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", len(self.nodes))


@dataclass(frozen=True, slots=True)
class SolverView:
    """A pool at one moment. `slots_s[0]` is now. The first `sure` jobs are known to fit together now, uncut."""

    slots_s: tuple[float, ...]
    asks: tuple[Ask, ...]
    classes: tuple[NodeClass, ...]
    groups: tuple[PoolGroup, ...]
    sure: int = 0

    def first(self, n: int) -> SolverView:
        """Return the same with the first n jobs alone."""
        return replace(self, asks=self.asks[: max(n, self.sure)])

    @property
    def counts_racks(self) -> bool:
        """Return whether there are racks to choose from."""
        return len({c.rack for c in self.classes}) > 1


class Camera:
    """Takes snapshots of a run; what never changes is read once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._forms: dict[int, tuple[Form, ...]] = {}
        self._racks_cost = bool(world.slowdown.extra_rack[0] > 1.0)
        g = world.group
        rows = zip(g.gpus.tolist(), g.cpu.tolist(), g.mem.tolist(), g.speed.tolist(), strict=True)
        self.groups = tuple(PoolGroup(*row) for row in rows)

    def forms(self, shape: int) -> tuple[Form, ...]:
        """Return the ways to cut a request."""
        if shape not in self._forms:
            row = self._world.shape[shape]
            narrow = self._kinds(shape)
            wider = (self._kinds(i) for i in range(int(row.wider_lo), int(row.wider_hi)))
            numbers = range(int(row.wider_lo), int(row.wider_hi))
            more = (Form(i, kinds, int(row.smallest)) for i, kinds in zip(numbers, wider, strict=True))
            self._forms[shape] = (Form(shape, narrow), *more)
        return self._forms[shape]

    def narrow(self, job: int) -> int:
        """Return the shape that a job asks for."""
        return int(self._world.job.asks[job])

    def _kinds(self, shape: int) -> tuple[ChunkKind, ...]:
        rows = self._world.chunk[shape][: int(self._world.shape[shape].kinds)]
        return tuple(ChunkKind(int(r.n), int(r.gpus), int(r.cpu), int(r.mem)) for r in rows)

    def take(
        self, w: World, s: State, state: State, jobs: I8, pool: int, slots: int, fitting: int, *, aggregate: bool = True
    ) -> SolverView:
        """Look at the nodes that the pool's first jobs may use; `fitting` of them would start without a solver."""
        asks = self._world.job.asks[jobs]
        masks = self._world.shape.mask[asks]
        groups = self._world.mask_has[masks].any(axis=0)
        times = kernels.slots(w, s, jobs, pool, groups, slots, fitting)
        smallest = int(self._world.shape.smallest[asks].min())
        pieces = any(self._world.shape.wider_hi[a] > self._world.shape.wider_lo[a] for a in asks.tolist())
        classes = kernels.classes(w, s, times, groups, 1 if pieces else smallest, aggregate)
        if self._racks_cost:
            classes = by_rack(*classes[1:], state.node.rack)
        opened = kernels.open_groups(w, s, jobs, times).tolist()
        length = state.life.estimate[jobs].tolist()
        return SolverView(
            slots_s=tuple(times.tolist()),
            asks=tuple(
                Ask(job, length[i], self.forms(shape), tuple(map(tuple, opened[i])))
                for i, (job, shape) in enumerate(zip(jobs.tolist(), asks.tolist(), strict=True))
            ),
            classes=_classes(state, *classes, racks=self._racks_cost),
            groups=self.groups,
            sure=fitting,
        )


def by_rack(free: I8, class_of: I8, rack: I8) -> tuple[I8, I8, I8]:
    """Divide classes by rack, and number them by their first nodes again."""
    used = np.flatnonzero(class_of >= 0)
    key = class_of[used] * (int(rack.max()) + 1) + rack[used]
    _, at, inverse = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(at)
    divided = np.full_like(class_of, -1)
    divided[used] = np.argsort(order)[inverse]
    begin = used[at[order]]
    return begin, free[class_of[begin]], divided


def _classes(state: State, first: I8, free: I8, class_of: I8, *, racks: bool) -> tuple[NodeClass, ...]:
    members = np.argsort(class_of, kind="stable")
    members = members[np.count_nonzero(class_of < 0) :]
    ends = np.cumsum(np.bincount(class_of[members], minlength=len(first))).tolist()
    group = state.node.group[first].tolist()
    rack = state.node.rack[first].tolist() if racks else [-1] * len(first)
    amounts = free.tolist()
    nodes = members.tolist()
    begin = [0, *ends[:-1]]
    return tuple(
        NodeClass(group[c], tuple(nodes[begin[c] : ends[c]]), tuple(map(tuple, amounts[c])), rack[c])
        for c in range(len(first))
    )

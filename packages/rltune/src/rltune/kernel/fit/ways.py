"""The distinct undominated ways to place a job now: as few nodes as it needs or one more; packed, spread, within racks.

Ways are told apart by what they leave, not by which of several alike nodes they take: two ways that take nodes of the
same groups with the same free GPUs, CPUs and memory are one.
"""

from __future__ import annotations

import numpy as np

from rltune.kernel.fit.allocate import find
from rltune.kernel.jit import allocating_kernel, kernel
from rltune.kernel.state.arrays import BEST_FIT, HIERARCHICAL, I8, SPREAD, State, World

# What is known of a way: columns of the table that ways_now gives.
RULE, SHAPE, NODES, RACKS, WHOLE, LARGEST, LEFT, ALIKE, COLUMNS = range(9)


@kernel
def breaks_no_idle_node(w: World, s: State, shape: int, narrow: int) -> bool:
    """Return whether the pieces of the cut are on nodes in use, so that cutting a job does not raise fragmentation."""
    i = 0
    for kind in range(w.shape[shape].kinds):
        for _ in range(w.chunk[shape, kind].n):
            node = s.pick[i]
            i += 1
            piece = w.chunk[shape, kind].gpus < w.shape[narrow].smallest
            if piece and s.node[node].gpu == w.group[s.node[node].group].gpus:
                return False
    return True


@kernel
def wider_fits(w: World, s: State, shape: int, estimate: float) -> bool:
    """Return whether the request fits now if it is cut for one node more."""
    for wider in range(w.shape[shape].wider_lo, w.shape[shape].wider_hi):
        if find(w, s, wider, estimate, BEST_FIT) and breaks_no_idle_node(w, s, wider, shape):
            return True
    return False


@kernel
def _taken_gpus(w: World, s: State, shape: int, node: int) -> int:
    """Return the GPUs that the choice in s.pick takes of a node."""
    i = 0
    for kind in range(w.shape[shape].kinds):
        for _ in range(w.chunk[shape, kind].n):
            if s.pick[i] == node:
                return w.chunk[shape, kind].gpus
            i += 1
    return 0


@kernel
def _describe(w: World, s: State, shape: int, way: I8) -> None:
    """Note what the choice in s.pick takes and leaves, over the nodes that the job may use."""
    mask = w.shape[shape].mask
    way[SHAPE] = shape
    way[NODES] = w.shape[shape].chunks
    for m in range(w.mask[mask].lo, w.mask[mask].hi):
        group = w.mask_group[m]
        for node in range(w.group[group].lo, w.group[group].hi):
            if s.node[node].up:
                left = s.node[node].gpu - _taken_gpus(w, s, shape, node)
                way[WHOLE] += left == w.group[group].gpus
                way[LARGEST] = max(way[LARGEST], left)
                way[LEFT] += left * left
    for i in range(way[NODES]):
        node = s.pick[i]
        new = True
        for k in range(i):
            new = new and s.node[s.pick[k]].rack != s.node[node].rack
        way[RACKS] += new
        mixed = s.node[node].group * 1000003 + s.node[node].gpu
        mixed = (mixed * 1000003 + s.node[node].cpu) % 2147483647
        way[ALIKE] += (mixed * 1000003 + s.node[node].mem) % 2147483647


@kernel
def _dominates(a: I8, b: I8) -> bool:
    """Return whether way a is as good as b in all that matters, and was found first or is better in something."""
    return (
        a[NODES] <= b[NODES]
        and a[RACKS] <= b[RACKS]
        and a[WHOLE] >= b[WHOLE]
        and a[LARGEST] >= b[LARGEST]
        and a[LEFT] >= b[LEFT]
    )


@kernel
def _same(a: I8, b: I8) -> bool:
    return a[NODES] == b[NODES] and a[RACKS] == b[RACKS] and a[ALIKE] == b[ALIKE] and a[LEFT] == b[LEFT]


@kernel
def fill_ways(w: World, s: State, shape: int, estimate: float, way: I8, nodes: I8) -> int:
    """Enter the undominated ways of a request into tables with room for `way_room` of them; give how many there are.

    Spreading is kept beside packing though it leaves less, unless it takes nodes alike: it trades what is left for
    a node with fewer neighbours, which is what a user who spreads wants.
    """
    n = 0
    for form in range(way_room(w, shape) // 3):
        used = shape if form == 0 else w.shape[shape].wider_lo + form - 1
        for rule in (BEST_FIT, HIERARCHICAL, SPREAD):
            if not find(w, s, used, estimate, rule):
                continue
            if form > 0 and not breaks_no_idle_node(w, s, used, shape):
                continue
            way[n] = 0
            way[n, RULE] = rule
            _describe(w, s, used, way[n])
            kept = True
            for other in range(n):
                worse = rule != SPREAD and _dominates(way[other], way[n])
                kept = kept and not worse and not _same(way[other], way[n])
            if kept:
                for i in range(way[n, NODES]):
                    nodes[n, i] = s.pick[i]
                n += 1
    return n


@kernel
def way_room(w: World, shape: int) -> int:
    """Return how many ways a request can have at most: three rules for every form it can be cut into."""
    return 3 * (1 + w.shape[shape].wider_hi - w.shape[shape].wider_lo)


@allocating_kernel
def ways_now(w: World, s: State, shape: int, estimate: float) -> tuple[I8, I8]:
    """Return the undominated ways of a request, and per way its nodes in order of chunks."""
    room = way_room(w, shape)
    way = np.zeros((room, COLUMNS), dtype=np.int64)
    nodes = np.full((room, w.shape[shape].chunks + 1), -1, dtype=np.int64)
    n = fill_ways(w, s, shape, estimate, way, nodes)
    return way[:n], nodes[:n]

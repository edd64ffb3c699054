"""Pools: sets of node groups that share waiting jobs. One pool's blocked head must not block another's jobs."""

from __future__ import annotations

from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import ACTIVE_N, DISTURBED, LIMITED, WAITING, Options, State, World


@kernel
def _root(s: State, group: int) -> int:
    while s.pool[group].pool != group:
        group = s.pool[group].pool
    return group


@kernel
def make_pools(w: World, s: State, global_head: bool) -> None:
    """Join the groups that some waiting job accepts together, and clear heads and reservations."""
    for g in range(len(w.group)):
        s.pool[g].head = -1
        s.pool[g].reserved = float("nan")
    join_pools(w, s, global_head)


@kernel
def join_pools(w: World, s: State, global_head: bool) -> None:
    """Join the groups that some waiting job accepts together."""
    groups = len(w.group)
    for g in range(groups):
        s.pool[g].before = s.pool[g].pool
        s.pool[g].pool = 0 if global_head else g
    if groups > 1 and not global_head:
        _join_groups(w, s)
    for g in range(groups):
        if s.pool[g].pool != s.pool[g].before:
            s.n[DISTURBED] += 1  # reservations were made for other pools
    for i in range(s.n[ACTIVE_N]):
        shape = s.active[i]
        s.demand[shape].pool = s.pool[w.mask_group[w.mask[w.shape[shape].mask].lo]].pool


@kernel
def _join_groups(w: World, s: State) -> None:
    for mask in range(len(s.mask_waiting)):
        if s.mask_waiting[mask] > 0:
            first = _root(s, w.mask_group[w.mask[mask].lo])
            for m in range(w.mask[mask].lo + 1, w.mask[mask].hi):
                other = _root(s, w.mask_group[m])
                low, high = min(first, other), max(first, other)
                s.pool[high].pool = low
                first = low
    for g in range(len(w.group)):
        s.pool[g].pool = _root(s, g)


@kernel
def may_split(w: World, s: State, o: Options, shape: int) -> bool:
    """Return whether pools may be others now that a job of this shape has started: nobody joins its groups any more."""
    mask = w.shape[shape].mask
    several = w.mask[mask].hi - w.mask[mask].lo > 1
    return several and not o.global_head and s.mask_waiting[mask] == 0 and s.n[ACTIVE_N] > 0


@kernel
def is_barring(w: World, s: State, row: int) -> bool:
    """Return whether a job that has had its turn in this pass bars others: it waits, and no limit passed it over."""
    job = s.queue[row].job
    return s.life[job].status == WAITING and not (w.has_limits and s.life[job].reason == LIMITED)


@kernel
def bar_pool(s: State, row: int) -> None:
    """Let a job that waits be the head of its pool, if that has none yet."""
    pool = s.demand[s.queue[row].asks].pool
    if s.pool[pool].head < 0:
        s.pool[pool].head = s.queue[row].job

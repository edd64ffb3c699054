"""Pools: sets of node groups that share waiting jobs. One pool's blocked head must not block another's jobs."""

from __future__ import annotations

from rltune.core.jit import kernel
from rltune.core.state import State, World


@kernel
def _root(s: State, group: int) -> int:
    while s.pool[group] != group:
        group = s.pool[group]
    return group


@kernel
def make_pools(w: World, s: State, global_head: bool) -> None:
    """Join the groups that some waiting job accepts together, and clear heads and reservations."""
    groups = len(w.group_lo)
    for g in range(groups):
        s.pool[g] = 0 if global_head else g
        s.head[g] = -1
        s.reserved[g] = float("nan")
    if global_head or groups == 1:
        return
    for mask in range(len(s.mask_waiting)):
        if s.mask_waiting[mask] > 0:
            first = _root(s, w.mask_group[w.mask_ptr[mask]])
            for m in range(w.mask_ptr[mask] + 1, w.mask_ptr[mask + 1]):
                other = _root(s, w.mask_group[m])
                low, high = min(first, other), max(first, other)
                s.pool[high] = low
                first = low
    for g in range(groups):
        s.pool[g] = _root(s, g)


@kernel
def pool_of(w: World, s: State, shape: int) -> int:
    """Give the pool in which jobs of a shape wait."""
    return s.pool[w.mask_group[w.mask_ptr[w.shape_mask[shape]]]]  # type: ignore[no-any-return]

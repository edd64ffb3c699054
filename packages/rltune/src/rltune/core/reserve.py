"""EASY's reservation: the earliest time at which a blocked head would fit by estimates, and what may not delay it.

A head fits at a time if, for each kind of its chunks, enough nodes could take it or a larger one: a node that can take
a large chunk can take a small one, so counting nodes is exact.
"""

from __future__ import annotations

from rltune.core.fit import chunk_cpu, chunk_mem, clear_of_pauses
from rltune.core.jit import kernel
from rltune.core.state import RUNNING_N, State, World


@kernel
def _can_take(w: World, s: State, shape: int, kind: int, node: int) -> bool:
    """Tell whether a node could take a chunk of the head at the time of its reservation."""
    group = w.node_group[node]
    return (  # type: ignore[no-any-return]
        s.then_gpu[node] >= w.chunk_gpus[shape, kind]
        and s.then_cpu[node] >= chunk_cpu(w, shape, kind, group)
        and s.then_mem[node] >= chunk_mem(w, shape, kind, group)
    )


@kernel
def _enough(w: World, s: State, shape: int, pool: int) -> bool:
    wanted = 0
    for kind in range(w.kinds[shape]):
        wanted += w.chunk_n[shape, kind]
        if s.feasible[pool, kind] < wanted:
            return False
    return True


@kernel
def _copy_nodes(w: World, s: State, shape: int) -> None:
    """Begin with what the head's nodes have free now; nodes that are down count as having less than nothing."""
    mask = w.shape_mask[shape]
    for m in range(w.mask_ptr[mask], w.mask_ptr[mask + 1]):
        group = w.mask_group[m]
        for node in range(w.group_lo[group], w.group_hi[group]):
            s.then_gpu[node] = s.free_gpu[node] if s.up[node] else -1
            s.then_cpu[node] = s.free_cpu[node]
            s.then_mem[node] = s.free_mem[node]


@kernel
def _count_nodes(w: World, s: State, shape: int, pool: int, time: float, estimate: float) -> None:
    """Count the nodes that could take each kind of chunk at a time."""
    mask = w.shape_mask[shape]
    for kind in range(w.kinds[shape]):
        s.feasible[pool, kind] = 0
    for m in range(w.mask_ptr[mask], w.mask_ptr[mask + 1]):
        group = w.mask_group[m]
        if w.has_pauses and not clear_of_pauses(w, group, time, estimate):
            continue
        for node in range(w.group_lo[group], w.group_hi[group]):
            for kind in range(w.kinds[shape]):
                s.feasible[pool, kind] += _can_take(w, s, shape, kind, node)


@kernel
def _release(w: World, s: State, job: int, shape: int, pool: int) -> None:
    """Give back what a running job will have ended using, and count the nodes that become able to take a chunk."""
    own = w.shape[job]
    i = w.chunk_ptr[job]
    for own_kind in range(w.kinds[own]):
        for _ in range(w.chunk_n[own, own_kind]):
            node = s.at_node[i]
            i += 1
            if not w.mask_has[w.shape_mask[shape], w.node_group[node]]:
                continue
            for kind in range(w.kinds[shape]):
                s.feasible[pool, kind] -= _can_take(w, s, shape, kind, node)
            s.then_gpu[node] += w.chunk_gpus[own, own_kind]
            s.then_cpu[node] += chunk_cpu(w, own, own_kind, w.node_group[node])
            s.then_mem[node] += chunk_mem(w, own, own_kind, w.node_group[node])
            for kind in range(w.kinds[shape]):
                s.feasible[pool, kind] += _can_take(w, s, shape, kind, node)


@kernel
def _next_pause_end(w: World, after: float) -> float:
    """Give the first end of a maintenance window after a time."""
    first = float("inf")
    for i in range(len(w.pause_end)):
        if after < w.pause_end[i] < first:
            first = w.pause_end[i]
    return first  # type: ignore[no-any-return]


@kernel
def reserve(w: World, s: State, head: int, pool: int) -> float:
    """Find the earliest time at which the head fits by estimates; inf if no end of a running job brings it about."""
    shape = w.shape[head]
    now = s.now[0]
    _copy_nodes(w, s, shape)
    _count_nodes(w, s, shape, pool, now, s.estimate[head])
    i = 0
    time = now
    while not _enough(w, s, shape, pool):
        expected = max(now, s.run_expected[i]) if i < s.n[RUNNING_N] else float("inf")
        pause = _next_pause_end(w, time) if w.has_pauses else float("inf")
        time = min(expected, pause)
        if time == float("inf"):
            break
        while i < s.n[RUNNING_N] and s.run_expected[i] <= time:
            _release(w, s, s.run_job[i], shape, pool)
            i += 1
        if w.has_pauses:
            _count_nodes(w, s, shape, pool, time, s.estimate[head])
    s.reserved[pool] = time
    return time


@kernel
def leaves_head_its_place(w: World, s: State, job: int, pool: int) -> bool:
    """Tell whether the head still fits at its reservation beside this job on the nodes in s.pick; if so, note the job there."""
    head_shape = w.shape[s.head[pool]]
    own = w.shape[job]
    i = 0
    for own_kind in range(w.kinds[own]):
        for _ in range(w.chunk_n[own, own_kind]):
            _occupy(w, s, own, own_kind, head_shape, s.pick[i], pool, 1)
            i += 1
    if _enough(w, s, head_shape, pool):
        return True
    i = 0
    for own_kind in range(w.kinds[own]):
        for _ in range(w.chunk_n[own, own_kind]):
            _occupy(w, s, own, own_kind, head_shape, s.pick[i], pool, -1)
            i += 1
    return False


@kernel
def _occupy(w: World, s: State, own: int, own_kind: int, head_shape: int, node: int, pool: int, sign: int) -> None:
    """Put a chunk on a node at the time of the reservation (+1), or take it away again (-1)."""
    group = w.node_group[node]
    if not w.mask_has[w.shape_mask[head_shape], group]:
        return
    usable = not w.has_pauses or clear_of_pauses(w, group, s.reserved[pool], s.estimate[s.head[pool]])
    for kind in range(w.kinds[head_shape]):
        s.feasible[pool, kind] -= usable and _can_take(w, s, head_shape, kind, node)
    s.then_gpu[node] -= sign * w.chunk_gpus[own, own_kind]
    s.then_cpu[node] -= sign * chunk_cpu(w, own, own_kind, group)
    s.then_mem[node] -= sign * chunk_mem(w, own, own_kind, group)
    for kind in range(w.kinds[head_shape]):
        s.feasible[pool, kind] += usable and _can_take(w, s, head_shape, kind, node)


@kernel
def shadow_time(w: World, s: State, head: int, pool: int) -> float:
    """Find RLScheduler's shadow time: GPUs alone, summed over the pool, running jobs in order of expected end."""
    free = 0
    for node in range(len(s.free_gpu)):
        if s.up[node] and s.pool[w.node_group[node]] == pool:
            free += s.free_gpu[node]
    time = s.now[0]
    for i in range(s.n[RUNNING_N]):
        if free >= w.gpus[head]:
            break
        job = s.run_job[i]
        for at in range(w.chunk_ptr[job], w.chunk_ptr[job + 1]):
            if s.pool[w.node_group[s.at_node[at]]] == pool:
                free += s.at_gpus[at]
                time = max(s.now[0], s.run_expected[i])
    return time if free >= w.gpus[head] else float("inf")

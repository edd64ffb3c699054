"""Hierarchical placement: within one rack if any rack can take the job, else over few racks; and what distance costs.

It works on s.probe, so that the same code chooses among nodes as they are now and as a reservation will find them.
"""

from __future__ import annotations

from rltune.kernel.fit.chunk_need import chunk_cpu, chunk_mem, clear_of_pauses
from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import STAMP, UNLIMITED, State, World


@kernel
def probe_now(w: World, s: State, shape: int, estimate: float) -> None:
    """Note what each eligible node would give now."""
    mask = w.shape[shape].mask
    for m in range(w.mask[mask].lo, w.mask[mask].hi):
        group = w.mask_group[m]
        closed = w.has_pauses and not clear_of_pauses(w, group, s.now[0], estimate)
        for node in range(w.group[group].lo, w.group[group].hi):
            s.probe[node].gpu = -1 if closed or not s.node[node].up else s.node[node].gpu
            s.probe[node].cpu = s.node[node].cpu
            s.probe[node].mem = s.node[node].mem


@kernel
def _takes(w: World, s: State, shape: int, kind: int, node: int) -> bool:
    group = s.node[node].group
    return (
        s.probe[node].gpu >= w.chunk[shape, kind].gpus
        and s.probe[node].cpu >= chunk_cpu(w, shape, kind, group)
        and s.probe[node].mem >= chunk_mem(w, shape, kind, group)
    )


@kernel
def _count_racks(w: World, s: State, shape: int) -> None:
    """Count per rack the nodes that could take each kind of chunk, and the GPUs free there."""
    mask = w.shape[shape].mask
    for rack in range(len(s.rack)):
        s.rack[rack].free = 0
        for kind in range(w.shape[shape].kinds):
            s.rack_fit[rack, kind] = 0
    for m in range(w.mask[mask].lo, w.mask[mask].hi):
        for node in range(w.group[w.mask_group[m]].lo, w.group[w.mask_group[m]].hi):
            rack = s.node[node].rack
            s.rack[rack].free += max(0, s.probe[node].gpu)
            for kind in range(w.shape[shape].kinds):
                s.rack_fit[rack, kind] += _takes(w, s, shape, kind, node)


@kernel
def _rack_for_all(w: World, s: State, shape: int) -> int:
    """Return the rack with the least GPUs free that can take the whole job, the first of equals; -1 if none can."""
    best = -1
    for rack in range(len(s.rack)):
        wanted = 0
        fits = True
        for kind in range(w.shape[shape].kinds):
            wanted += w.chunk[shape, kind].n
            fits = fits and s.rack_fit[rack, kind] >= wanted
        if fits and (best < 0 or s.rack[rack].free < s.rack[best].free):
            best = rack
    return best


@kernel
def _fits_somehow(w: World, s: State, shape: int) -> bool:
    """Return whether all racks together have nodes enough: one that can take a large chunk can take a small one."""
    wanted = 0
    for kind in range(w.shape[shape].kinds):
        wanted += w.chunk[shape, kind].n
        nodes = 0
        for rack in range(len(s.rack)):
            nodes += s.rack_fit[rack, kind]
        if nodes < wanted:
            return False
    return True


@kernel
def _freest_rack(s: State) -> int:
    """Return the rack with the most GPUs free of those not seen in this choice, the first of equals; -1 if all were."""
    best = -1
    for rack in range(len(s.rack)):
        if s.rack[rack].seen != s.n[STAMP] and (best < 0 or s.rack[rack].free > s.rack[best].free):
            best = rack
    return best


@kernel
def _best_node(w: World, s: State, shape: int, kind: int, rack: int) -> int:
    """Return the node of a rack that a chunk fits best: least free GPUs, then the lowest number; -1 if none does."""
    mask = w.shape[shape].mask
    best = -1
    for m in range(w.mask[mask].lo, w.mask[mask].hi):
        for node in range(w.group[w.mask_group[m]].lo, w.group[w.mask_group[m]].hi):
            if s.node[node].rack != rack or s.node[node].picked == s.n[STAMP] or not _takes(w, s, shape, kind, node):
                continue
            if best < 0 or s.probe[node].gpu < s.probe[best].gpu:
                best = node
    return best


@kernel
def _fill_rack(w: World, s: State, shape: int, rack: int) -> int:
    """Place as many of the chunks left, largest first, as a rack takes; give how many are still left."""
    left = len(s.rack)  # the row of s.rack_fit that counts what is left
    first = 0
    open_chunks = 0
    for kind in range(w.shape[shape].kinds):
        n = w.chunk[shape, kind].n
        while s.rack_fit[left, kind] > 0:
            node = _best_node(w, s, shape, kind, rack)
            if node < 0:
                break
            s.node[node].picked = s.n[STAMP]
            s.pick[first + n - s.rack_fit[left, kind]] = node
            s.rack_fit[left, kind] -= 1
        first += n
        open_chunks += s.rack_fit[left, kind]
    return open_chunks


@kernel
def pick_in_racks(w: World, s: State, shape: int) -> bool:
    """Choose nodes among those of s.probe, into s.pick in order of chunks; False if the job does not fit."""
    _count_racks(w, s, shape)
    if not _fits_somehow(w, s, shape):
        return False
    for kind in range(w.shape[shape].kinds):
        s.rack_fit[len(s.rack), kind] = w.chunk[shape, kind].n
    rack = _rack_for_all(w, s, shape)
    if rack >= 0:
        return _fill_rack(w, s, shape, rack) == 0
    rack = _freest_rack(s)
    while rack >= 0:
        s.rack[rack].seen = s.n[STAMP]
        if _fill_rack(w, s, shape, rack) == 0:
            return True
        rack = _freest_rack(s)
    return False


@kernel
def _racks_picked(w: World, s: State, shape: int) -> int:
    """Count the racks of the nodes in s.pick."""
    count = 0
    for i in range(w.shape[shape].chunks):
        new = True
        for k in range(i):
            new = new and s.node[s.pick[k]].rack != s.node[s.pick[i]].rack
        count += new
    return count


@kernel
def _others_share(free: int, capacity: int) -> float:
    """Return the share of a node's CPUs or memory that is in use."""
    return (capacity - free) / capacity if 0 < capacity < UNLIMITED else 0.0


@kernel
def slowdown(w: World, s: State, shape: int) -> float:
    """Return by which factor a job on the nodes in s.pick is slower than alone on as few nodes and racks as needed."""
    factor = 1.0
    for _ in range(w.shape[shape].chunks - w.shape[shape].needs):
        factor *= w.slowdown[0].extra_node
    for _ in range(_racks_picked(w, s, shape) - w.shape[shape].racks):
        factor *= w.slowdown[0].extra_rack
    cpu = 0.0
    mem = 0.0
    for i in range(w.shape[shape].chunks):
        group = s.node[s.pick[i]].group
        cpu = max(cpu, _others_share(s.node[s.pick[i]].cpu, w.group[group].cpu))
        mem = max(mem, _others_share(s.node[s.pick[i]].mem, w.group[group].mem))
    return factor * (1.0 + (w.slowdown[0].cpu - 1.0) * cpu) * (1.0 + (w.slowdown[0].mem - 1.0) * mem)

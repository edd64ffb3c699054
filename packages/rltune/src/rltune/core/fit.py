"""Which nodes a job would get now, and taking or giving back what it uses there."""

from __future__ import annotations

from rltune.core.index import index_add, index_remove, lowest_bit
from rltune.core.jit import kernel
from rltune.core.state import BEST_FIT, FIRST_FIT, TRIES, State, World


@kernel
def chunk_cpu(w: World, shape: int, kind: int, group: int) -> int:
    """Give the thousandths of a CPU that a chunk takes on a node of a group."""
    asked = w.chunk_cpu[shape, kind]
    if asked >= 0:
        return asked  # type: ignore[no-any-return]
    return w.group_cpu[group] * w.chunk_gpus[shape, kind] // w.group_gpus[group]  # type: ignore[no-any-return]


@kernel
def chunk_mem(w: World, shape: int, kind: int, group: int) -> int:
    """Give the MiB that a chunk takes on a node of a group."""
    asked = w.chunk_mem[shape, kind]
    if asked >= 0:
        return asked  # type: ignore[no-any-return]
    return w.group_mem[group] * w.chunk_gpus[shape, kind] // w.group_gpus[group]  # type: ignore[no-any-return]


@kernel
def clear_of_pauses(w: World, group: int, start: float, estimate: float) -> bool:
    """Tell whether a job started then would end, by its estimate, before each maintenance window or starts after it."""
    end = start + estimate / w.group_speed[group]
    for i in range(w.pause_ptr[group], w.pause_ptr[group + 1]):
        if end > w.pause_start[i] and start < w.pause_end[i]:
            return False
    return True


@kernel
def _take_from_word(
    w: World, s: State, word: int, first: int, shape: int, kind: int, group: int, found: int, wanted: int
) -> int:
    """Pick nodes of one word of the bitset, lowest first, until enough are found."""
    cpu = chunk_cpu(w, shape, kind, group)
    mem = chunk_mem(w, shape, kind, group)
    while word != 0 and found < wanted:
        node = first + lowest_bit(word)
        word &= word - 1
        if s.picked[node] != s.stamp[0] and s.free_cpu[node] >= cpu and s.free_mem[node] >= mem:
            s.picked[node] = s.stamp[0]
            s.pick[found] = node
            found += 1
    return found


@kernel
def _pick_by_level(w: World, s: State, shape: int, kind: int, estimate: float, spread: bool, found: int) -> int:
    """Pick nodes for the chunks of one kind by free GPUs: fewest first, or most first."""
    wanted = found + w.chunk_n[shape, kind]
    mask = w.shape_mask[shape]
    need = w.chunk_gpus[shape, kind]
    top = w.mask_gpus[mask]
    for step in range(top - need + 1):
        level = top - step if spread else need + step
        for m in range(w.mask_ptr[mask], w.mask_ptr[mask + 1]):
            group = w.mask_group[m]
            if level > w.group_gpus[group] or s.level[w.level_at[group] + level] == 0:
                continue
            if w.has_pauses and not clear_of_pauses(w, group, s.now[0], estimate):
                continue
            row = w.bits_at[group] + level * w.words[group]
            for i in range(w.words[group]):
                word = s.bits[row + i]
                if word != 0:
                    found = _take_from_word(w, s, word, w.group_lo[group] + 32 * i, shape, kind, group, found, wanted)
                    if found == wanted:
                        return found
    return -1


@kernel
def _pick_by_number(w: World, s: State, shape: int, kind: int, estimate: float, found: int) -> int:
    """Pick nodes for the chunks of one kind by their number, lowest first."""
    wanted = found + w.chunk_n[shape, kind]
    mask = w.shape_mask[shape]
    need = w.chunk_gpus[shape, kind]
    for m in range(w.mask_ptr[mask], w.mask_ptr[mask + 1]):
        group = w.mask_group[m]
        if w.has_pauses and not clear_of_pauses(w, group, s.now[0], estimate):
            continue
        for i in range(w.words[group]):
            word = 0
            for level in range(need, w.group_gpus[group] + 1):
                word |= s.bits[w.bits_at[group] + level * w.words[group] + i]
            if word != 0:
                found = _take_from_word(w, s, word, w.group_lo[group] + 32 * i, shape, kind, group, found, wanted)
                if found == wanted:
                    return found
    return -1


@kernel
def _too_few_nodes(w: World, s: State, shape: int) -> bool:
    """Refuse a gang at once if too few nodes have the GPUs, whatever their CPUs and memory."""
    mask = w.shape_mask[shape]
    need = w.chunk_gpus[shape, 0]
    nodes = 0
    for m in range(w.mask_ptr[mask], w.mask_ptr[mask + 1]):
        group = w.mask_group[m]
        for level in range(need, w.group_gpus[group] + 1):
            nodes += s.level[w.level_at[group] + level]
    return nodes < w.chunk_n[shape, 0]


@kernel
def find(w: World, s: State, shape: int, estimate: float, placement: int) -> bool:
    """Choose the nodes for a job of this shape now, into s.pick in order of chunks; False if it does not fit."""
    s.n[TRIES] += 1
    if w.chunk_n[shape, 0] > 1 and _too_few_nodes(w, s, shape):
        return False
    s.stamp[0] += 1
    found = 0
    for kind in range(w.kinds[shape]):
        if placement == FIRST_FIT:
            found = _pick_by_number(w, s, shape, kind, estimate, found)
        else:
            found = _pick_by_level(w, s, shape, kind, estimate, placement != BEST_FIT, found)
        if found < 0:
            return False
    return True


@kernel
def picked_speed(w: World, s: State, shape: int) -> float:
    """Give the speed of the slowest of the nodes in s.pick."""
    speed = w.group_speed[w.node_group[s.pick[0]]]
    chunks = 0
    for kind in range(w.kinds[shape]):
        chunks += w.chunk_n[shape, kind]
    for i in range(1, chunks):
        speed = min(speed, w.group_speed[w.node_group[s.pick[i]]])
    return speed  # type: ignore[no-any-return]


@kernel
def take_nodes(w: World, s: State, job: int) -> None:
    """Give a job the nodes in s.pick."""
    shape = w.shape[job]
    at = w.chunk_ptr[job]
    i = 0
    for kind in range(w.kinds[shape]):
        for _ in range(w.chunk_n[shape, kind]):
            node = s.pick[i]
            group = w.node_group[node]
            index_remove(w, s, node)
            s.free_gpu[node] -= w.chunk_gpus[shape, kind]
            s.free_cpu[node] -= chunk_cpu(w, shape, kind, group)
            s.free_mem[node] -= chunk_mem(w, shape, kind, group)
            index_add(w, s, node)
            s.at_node[at + i] = node
            s.at_gpus[at + i] = w.chunk_gpus[shape, kind]
            i += 1


@kernel
def give_nodes_back(w: World, s: State, job: int) -> None:
    """Free what a job uses; a node that is down stays out of the index."""
    shape = w.shape[job]
    at = w.chunk_ptr[job]
    i = 0
    for kind in range(w.kinds[shape]):
        for _ in range(w.chunk_n[shape, kind]):
            node = s.at_node[at + i]
            group = w.node_group[node]
            if s.up[node]:
                index_remove(w, s, node)
            s.free_gpu[node] += w.chunk_gpus[shape, kind]
            s.free_cpu[node] += chunk_cpu(w, shape, kind, group)
            s.free_mem[node] += chunk_mem(w, shape, kind, group)
            if s.up[node]:
                index_add(w, s, node)
                forget_failures(w, s, node)
            i += 1


@kernel
def forget_failures(w: World, s: State, node: int) -> None:
    """Let those shapes be tried again that could use what this node has free now; for the rest it changes nothing."""
    group = w.node_group[node]
    for i in range(s.active_n[0]):
        shape = s.active[i]
        if s.free_gpu[node] >= w.smallest_chunk[shape] and w.mask_has[w.shape_mask[shape], group]:
            s.fails_from[shape] = float("inf")

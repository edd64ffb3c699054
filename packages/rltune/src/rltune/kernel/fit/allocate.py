"""Which nodes a job would get now, and taking or giving back what it uses there."""

from __future__ import annotations

from rltune.kernel.fit.chunk_need import chunk_cpu, chunk_mem, clear_of_pauses, free_cpu
from rltune.kernel.fit.node_index import index_add, index_remove, lowest_bit
from rltune.kernel.fit.racks import pick_in_racks, probe_now, slowdown
from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import (
    ACTIVE_N,
    BUSIEST_CPUS,
    FIRST_FIT,
    FREED,
    HIERARCHICAL,
    SPREAD,
    STAMP,
    TRIES,
    UNLIMITED,
    State,
    World,
)


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
        if s.node[node].picked != s.n[STAMP] and s.node[node].cpu >= cpu and s.node[node].mem >= mem:
            s.node[node].picked = s.n[STAMP]
            s.pick[found] = node
            found += 1
    return found


@kernel
def _pick_by_level(w: World, s: State, shape: int, kind: int, estimate: float, spread: bool, found: int) -> int:
    """Pick nodes for the chunks of one kind by free GPUs: fewest first, or most first."""
    wanted = found + w.chunk[shape, kind].n
    mask = w.shape[shape].mask
    need = w.chunk[shape, kind].gpus
    top = w.mask[mask].gpus
    for step in range(top - need + 1):
        level = top - step if spread else need + step
        for m in range(w.mask[mask].lo, w.mask[mask].hi):
            group = w.mask_group[m]
            if level > w.group[group].gpus or s.level[w.group[group].level_at + level] == 0:
                continue
            if w.has_pauses and not clear_of_pauses(w, group, s.now[0], estimate):
                continue
            row = w.group[group].bits_at + level * w.group[group].words
            for i in range(w.group[group].words):
                word = s.bits[row + i]
                if word != 0:
                    found = _take_from_word(w, s, word, w.group[group].lo + 32 * i, shape, kind, group, found, wanted)
                    if found == wanted:
                        return found
    return -1


@kernel
def _pick_by_number(w: World, s: State, shape: int, kind: int, estimate: float, found: int) -> int:
    """Pick nodes for the chunks of one kind by their number, lowest first."""
    wanted = found + w.chunk[shape, kind].n
    mask = w.shape[shape].mask
    need = w.chunk[shape, kind].gpus
    for m in range(w.mask[mask].lo, w.mask[mask].hi):
        group = w.mask_group[m]
        if w.has_pauses and not clear_of_pauses(w, group, s.now[0], estimate):
            continue
        for i in range(w.group[group].words):
            word = 0
            for level in range(need, w.group[group].gpus + 1):
                word |= s.bits[w.group[group].bits_at + level * w.group[group].words + i]
            if word != 0:
                found = _take_from_word(w, s, word, w.group[group].lo + 32 * i, shape, kind, group, found, wanted)
                if found == wanted:
                    return found
    return -1


@kernel
def _busiest(w: World, s: State, shape: int, kind: int, estimate: float) -> int:
    """Return the node with the least free CPUs that has room for a chunk, the lowest of equals; -1 if there is none."""
    mask = w.shape[shape].mask
    need = w.chunk[shape, kind].gpus
    best, best_free = -1, UNLIMITED
    for m in range(w.mask[mask].lo, w.mask[mask].hi):
        group = w.mask_group[m]
        if w.has_pauses and not clear_of_pauses(w, group, s.now[0], estimate):
            continue
        cpu = chunk_cpu(w, shape, kind, group)
        mem = chunk_mem(w, shape, kind, group)
        for node in range(w.group[group].lo, w.group[group].hi):
            if not s.node[node].up or s.node[node].picked == s.n[STAMP] or s.node[node].gpu < need:
                continue
            if s.node[node].cpu < cpu or s.node[node].mem < mem:
                continue
            free = free_cpu(w, group, s.node[node].cpu)
            if best < 0 or free < best_free:
                best, best_free = node, free
    return best


@kernel
def _pick_by_cpus(w: World, s: State, shape: int, kind: int, estimate: float, found: int) -> int:
    """Pick nodes for the chunks of one kind by free CPUs, fewest first."""
    for _ in range(w.chunk[shape, kind].n):
        node = _busiest(w, s, shape, kind, estimate)
        if node < 0:
            return -1
        s.node[node].picked = s.n[STAMP]
        s.pick[found] = node
        found += 1
    return found


@kernel
def _too_few_nodes(w: World, s: State, shape: int) -> bool:
    """Refuse a gang at once if too few nodes have the GPUs, whatever their CPUs and memory."""
    mask = w.shape[shape].mask
    need = w.chunk[shape, 0].gpus
    nodes = 0
    for m in range(w.mask[mask].lo, w.mask[mask].hi):
        group = w.mask_group[m]
        for level in range(need, w.group[group].gpus + 1):
            nodes += s.level[w.group[group].level_at + level]
    return nodes < w.chunk[shape, 0].n


@kernel
def find(w: World, s: State, shape: int, estimate: float, placement: int) -> bool:
    """Choose the nodes for a job of this shape now, into s.pick in order of chunks; False if it does not fit."""
    s.n[TRIES] += 1
    if w.chunk[shape, 0].n > 1 and _too_few_nodes(w, s, shape):
        return False
    s.n[STAMP] += 1
    if placement == HIERARCHICAL and w.shape[shape].chunks > 1:
        probe_now(w, s, shape, estimate)
        return pick_in_racks(w, s, shape)
    found = 0
    for kind in range(w.shape[shape].kinds):
        if placement == FIRST_FIT:
            found = _pick_by_number(w, s, shape, kind, estimate, found)
        elif placement == BUSIEST_CPUS:
            found = _pick_by_cpus(w, s, shape, kind, estimate, found)
        else:
            found = _pick_by_level(w, s, shape, kind, estimate, placement == SPREAD, found)
        if found < 0:
            return False
    return True


@kernel
def picked_speed(w: World, s: State, shape: int) -> float:
    """Return the speed of the slowest of the nodes in s.pick, less what a job loses to distance and to sharing."""
    speed = w.group[s.node[s.pick[0]].group].speed
    for i in range(1, w.shape[shape].chunks):
        speed = min(speed, w.group[s.node[s.pick[i]].group].speed)
    return speed / slowdown(w, s, shape) if w.has_slowdown else speed


@kernel
def take_nodes(w: World, s: State, job: int) -> None:
    """Return a job the nodes in s.pick."""
    shape = s.life[job].form
    at = w.job[job].chunk_at
    i = 0
    for kind in range(w.shape[shape].kinds):
        for _ in range(w.chunk[shape, kind].n):
            node = s.pick[i]
            group = s.node[node].group
            index_remove(w, s, node)
            s.node[node].gpu -= w.chunk[shape, kind].gpus
            s.node[node].cpu -= chunk_cpu(w, shape, kind, group)
            s.node[node].mem -= chunk_mem(w, shape, kind, group)
            index_add(w, s, node)
            s.at[at + i].node = node
            s.at[at + i].gpus = w.chunk[shape, kind].gpus
            i += 1


@kernel
def give_nodes_back(w: World, s: State, job: int) -> None:
    """Free what a job uses, and let those be tried again who could use it."""
    s.n[FREED] += 1
    lend_nodes(w, s, job, 1)
    first = w.job[job].chunk_at
    for at in range(first, first + w.shape[s.life[job].form].chunks):
        if s.node[s.at[at].node].up:
            forget_failures(w, s, s.at[at].node)


@kernel
def lend_nodes(w: World, s: State, job: int, sign: int) -> None:
    """Free what a running job uses (+1), or take it again (-1); a node that is down stays out of the index."""
    shape = s.life[job].form
    at = w.job[job].chunk_at
    for kind in range(w.shape[shape].kinds):
        for _ in range(w.chunk[shape, kind].n):
            node = s.at[at].node
            at += 1
            group = s.node[node].group
            if s.node[node].up:
                index_remove(w, s, node)
            s.node[node].gpu += sign * w.chunk[shape, kind].gpus
            s.node[node].cpu += sign * chunk_cpu(w, shape, kind, group)
            s.node[node].mem += sign * chunk_mem(w, shape, kind, group)
            if s.node[node].up:
                index_add(w, s, node)


@kernel
def forget_failures(w: World, s: State, node: int) -> None:
    """Let those shapes be tried again that could use what this node has free now; for the rest it changes nothing."""
    group = s.node[node].group
    for i in range(s.n[ACTIVE_N]):
        shape = s.active[i]
        if s.node[node].gpu >= w.shape[shape].smallest and w.mask_has[w.shape[shape].mask, group]:
            s.demand[shape].fails_from = float("inf")

"""EASY's reservation: the earliest time at which a blocked head would fit by estimates, and what may not delay it.

A head fits at a time if, for each kind of its chunks, enough nodes could take it or a larger one: a node that can take
a large chunk can take a small one, so counting nodes is exact.
"""

from __future__ import annotations

from rltune.kernel.fit.chunk_need import chunk_cpu, chunk_mem, clear_of_pauses
from rltune.kernel.fit.node_index import lowest_bit
from rltune.kernel.fit.running import lay_out_ends, next_to_end, past_gaps, settle_expected
from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import DISTURBED, GONE, RUNNING_N, THEN_N, State, World


@kernel
def _can_take(w: World, s: State, shape: int, kind: int, node: int) -> bool:
    """Return whether a node could take a chunk of the head at the time of its reservation."""
    group = s.node[node].group
    return (
        s.node[node].then_gpu >= w.chunk[shape, kind].gpus
        and s.node[node].then_cpu >= chunk_cpu(w, shape, kind, group)
        and s.node[node].then_mem >= chunk_mem(w, shape, kind, group)
    )


@kernel
def _enough(w: World, s: State, shape: int, pool: int) -> bool:
    wanted = 0
    for kind in range(w.shape[shape].kinds):
        wanted += w.chunk[shape, kind].n
        if s.feasible[pool, kind] < wanted:
            return False
    return True


@kernel
def _lay_down(s: State, node: int, pool: int) -> None:
    """Begin with what a node has free now, unless that is done; of one that is down nothing is ever free."""
    if s.node[node].then_of != s.pool[pool].then_of:
        s.node[node].then_of = s.pool[pool].then_of
        s.node[node].then_gpu = s.node[node].gpu if s.node[node].up else GONE
        s.node[node].then_cpu = s.node[node].cpu
        s.node[node].then_mem = s.node[node].mem


@kernel
def lay_down_picked(s: State, pool: int, chunks: int) -> None:
    """Keep what the nodes in s.pick have free now: a job that starts there will have ended by the reservation.

    To be called before such a job starts, or nodes that the reservation has not touched would lose what it takes.
    """
    for i in range(chunks):
        _lay_down(s, s.pick[i], pool)


@kernel
def _lay_down_all(w: World, s: State, shape: int, pool: int) -> None:
    mask = w.shape[shape].mask
    for m in range(w.mask[mask].lo, w.mask[mask].hi):
        group = w.mask_group[m]
        for node in range(w.group[group].lo, w.group[group].hi):
            _lay_down(s, node, pool)


@kernel
def _count_free_nodes(w: World, s: State, shape: int, pool: int) -> None:
    """Count the nodes that could take each kind of chunk now, by the index: of a full cluster that is a short list."""
    mask = w.shape[shape].mask
    for kind in range(w.shape[shape].kinds):
        s.feasible[pool, kind] = 0
        for m in range(w.mask[mask].lo, w.mask[mask].hi):
            group = w.mask_group[m]
            for level in range(w.chunk[shape, kind].gpus, w.group[group].gpus + 1):
                if s.level[w.group[group].level_at + level] > 0:
                    s.feasible[pool, kind] += _count_level(w, s, shape, kind, group, level)


@kernel
def _count_level(w: World, s: State, shape: int, kind: int, group: int, level: int) -> int:
    """Count the nodes of a group with so many GPUs free that could take a chunk."""
    cpu = chunk_cpu(w, shape, kind, group)
    mem = chunk_mem(w, shape, kind, group)
    first = w.group[group].bits_at + level * w.group[group].words
    count = 0
    for i in range(w.group[group].words):
        word = s.bits[first + i]
        while word != 0:
            node = w.group[group].lo + 32 * i + lowest_bit(word)
            word &= word - 1
            count += s.node[node].cpu >= cpu and s.node[node].mem >= mem
    return count


@kernel
def _count_nodes(w: World, s: State, shape: int, pool: int, time: float, estimate: float) -> None:
    """Count the nodes that could take each kind of chunk at a time."""
    mask = w.shape[shape].mask
    for kind in range(w.shape[shape].kinds):
        s.feasible[pool, kind] = 0
    for m in range(w.mask[mask].lo, w.mask[mask].hi):
        group = w.mask_group[m]
        if w.has_pauses and not clear_of_pauses(w, group, time, estimate):
            continue
        for node in range(w.group[group].lo, w.group[group].hi):
            for kind in range(w.shape[shape].kinds):
                s.feasible[pool, kind] += _can_take(w, s, shape, kind, node)


@kernel
def _release(w: World, s: State, job: int, shape: int, pool: int) -> None:
    """Give back what a running job will have ended using, and count the nodes that become able to take a chunk."""
    own = s.life[job].form
    i = w.job[job].chunk_at
    for own_kind in range(w.shape[own].kinds):
        for _ in range(w.chunk[own, own_kind].n):
            node = s.at[i].node
            i += 1
            if not w.mask_has[w.shape[shape].mask, s.node[node].group]:
                continue
            _lay_down(s, node, pool)
            for kind in range(w.shape[shape].kinds):
                s.feasible[pool, kind] -= _can_take(w, s, shape, kind, node)
            s.node[node].then_gpu += w.chunk[own, own_kind].gpus
            s.node[node].then_cpu += chunk_cpu(w, own, own_kind, s.node[node].group)
            s.node[node].then_mem += chunk_mem(w, own, own_kind, s.node[node].group)
            for kind in range(w.shape[shape].kinds):
                s.feasible[pool, kind] += _can_take(w, s, shape, kind, node)


@kernel
def _next_pause_end(w: World, after: float) -> float:
    """Return the first end of a maintenance window after a time."""
    first = float("inf")
    for i in range(len(w.pause)):
        if after < w.pause[i].end < first:
            first = w.pause[i].end
    return first


@kernel
def reservation(w: World, s: State, pool: int) -> float:
    """Return the time of the head's reservation: the last one again, if nothing has happened that could change it.

    Jobs that end when expected change nothing, nor do backfilled ones, which are noted where the reservation was made.
    """
    kept = s.pool[pool]
    same = kept.kept_head == kept.head and kept.kept_mark == s.n[DISTURBED] and kept.kept_time >= s.now[0]
    if w.has_pauses or not same:
        kept.kept_time = reserve(w, s, kept.head, pool)
        kept.kept_head = kept.head
        kept.kept_mark = s.n[DISTURBED]
    kept.reserved = kept.kept_time
    return kept.reserved


@kernel
def reserve(w: World, s: State, head: int, pool: int) -> float:
    """Find the earliest time at which the head fits by estimates; inf if no end of a running job brings it about."""
    shape = w.job[head].asks
    now = s.now[0]
    s.n[THEN_N] += 1
    s.pool[pool].then_of = s.n[THEN_N]
    if w.has_pauses or w.takes_turns:  # later, all nodes are asked about, or running jobs stop
        _lay_down_all(w, s, shape, pool)
        _count_nodes(w, s, shape, pool, now, s.life[head].estimate)
    else:
        _count_free_nodes(w, s, shape, pool)
    k = len(s.run) // 2
    last = k + lay_out_ends(w, s)
    i = past_gaps(s, 0)
    place = next_to_end(s, i, k, last)
    time = now
    while not _enough(w, s, shape, pool):
        expected = max(now, s.run[place].expected) if place >= 0 else float("inf")
        pause = _next_pause_end(w, time) if w.has_pauses else float("inf")
        time = min(expected, pause)
        if time == float("inf"):
            break
        while place >= 0 and s.run[place].expected <= time:
            _release(w, s, s.run[place].job, shape, pool)
            if place == i:
                i = past_gaps(s, i + 1)
            else:
                k += 1
            place = next_to_end(s, i, k, last)
        if w.has_pauses:
            _count_nodes(w, s, shape, pool, time, s.life[head].estimate)
    return time


@kernel
def leaves_head_its_place(w: World, s: State, job: int, pool: int) -> bool:
    """Return whether the head still fits at its reservation beside this job in s.pick; if so, note the job there."""
    head_shape = w.job[s.pool[pool].head].asks
    own = w.job[job].asks
    i = 0
    for own_kind in range(w.shape[own].kinds):
        for _ in range(w.chunk[own, own_kind].n):
            _occupy(w, s, own, own_kind, head_shape, s.pick[i], pool, 1)
            i += 1
    if _enough(w, s, head_shape, pool):
        return True
    i = 0
    for own_kind in range(w.shape[own].kinds):
        for _ in range(w.chunk[own, own_kind].n):
            _occupy(w, s, own, own_kind, head_shape, s.pick[i], pool, -1)
            i += 1
    return False


@kernel
def leave_then(w: World, s: State, job: int, pool: int, sign: int) -> None:
    """Take a running job away from where the head's reservation expects it (+1), or put it back (-1)."""
    if s.run[s.life[job].run_at].expected <= s.pool[pool].reserved:
        return
    head_shape = w.job[s.pool[pool].head].asks
    own = s.life[job].form
    at = w.job[job].chunk_at
    for own_kind in range(w.shape[own].kinds):
        for _ in range(w.chunk[own, own_kind].n):
            _occupy(w, s, own, own_kind, head_shape, s.at[at].node, pool, -sign)
            at += 1


@kernel
def _occupy(w: World, s: State, own: int, own_kind: int, head_shape: int, node: int, pool: int, sign: int) -> None:
    """Put a chunk on a node at the time of the reservation (+1), or take it away again (-1)."""
    group = s.node[node].group
    if not w.mask_has[w.shape[head_shape].mask, group]:
        return
    _lay_down(s, node, pool)
    usable = not w.has_pauses or clear_of_pauses(w, group, s.pool[pool].reserved, s.life[s.pool[pool].head].estimate)
    for kind in range(w.shape[head_shape].kinds):
        s.feasible[pool, kind] -= usable and _can_take(w, s, head_shape, kind, node)
    s.node[node].then_gpu -= sign * w.chunk[own, own_kind].gpus
    s.node[node].then_cpu -= sign * chunk_cpu(w, own, own_kind, group)
    s.node[node].then_mem -= sign * chunk_mem(w, own, own_kind, group)
    for kind in range(w.shape[head_shape].kinds):
        s.feasible[pool, kind] += usable and _can_take(w, s, head_shape, kind, node)


@kernel
def shadow_time(w: World, s: State, head: int, pool: int) -> float:
    """Find RLScheduler's shadow time: GPUs alone, summed over the pool, running jobs in order of expected end."""
    free = 0
    for node in range(len(s.node)):
        if s.node[node].up and s.pool[s.node[node].group].pool == pool:
            free += s.node[node].gpu
    settle_expected(w, s)
    time = s.now[0]
    for i in range(s.n[RUNNING_N]):
        if free >= w.job[head].gpus:
            break
        job = s.run[i].job
        first = w.job[job].chunk_at
        for at in range(first, first + w.shape[s.life[job].form].chunks):
            if s.pool[s.node[s.at[at].node].group].pool == pool:
                free += s.at[at].gpus
                time = max(s.now[0], s.run[i].expected)
    return time if free >= w.job[head].gpus else float("inf")

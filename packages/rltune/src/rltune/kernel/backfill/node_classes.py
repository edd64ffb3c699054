"""What a solver is shown: a few moments ahead, and the nodes in classes of those that are alike at all of them."""

from __future__ import annotations

import numpy as np

from rltune.kernel.backfill.easy import reserve
from rltune.kernel.fit.chunk_need import chunk_cpu, chunk_mem, clear_of_pauses
from rltune.kernel.fit.running import settle_expected
from rltune.kernel.jit import allocating_kernel, kernel
from rltune.kernel.state.arrays import B1, DISTURBED, F8, GONE, I8, RUNNING_N, State, World

INF = float("inf")


@kernel
def _uses(w: World, s: State, job: int, group_in: B1) -> bool:
    first = w.job[job].chunk_at
    for at in range(first, first + w.shape[s.life[job].form].chunks):
        if group_in[s.node[s.at[at].node].group]:
            return True
    return False


@kernel
def _add_time(times: F8, n: int, time: float) -> int:
    """Enter a moment into the first n, which are in order, unless it is there; give how many there are."""
    at = n
    while at > 1 and times[at - 1] > time:
        at -= 1
    if time == INF or (at > 1 and times[at - 1] == time) or n == len(times):
        return n
    for i in range(n, at, -1):
        times[i] = times[i - 1]
    times[at] = time
    return n + 1


@allocating_kernel
def slots(w: World, s: State, jobs: I8, pool: int, group_in: B1, most: int, fitting: int) -> F8:
    """Choose the moments: now, then when each job that does not start now would fit alone, then the next releases."""
    settle_expected(w, s)
    s.n[DISTURBED] += 1  # what follows overwrites the notes of the head's own reservation
    times = np.full(most, INF)
    times[0] = s.now[0]
    n = 1
    for i in range(fitting, len(jobs)):
        n = _add_time(times, n, reserve(w, s, jobs[i], pool))
    seen = 0
    for i in range(s.n[RUNNING_N]):
        if n == most:
            break
        if _uses(w, s, s.run[i].job, group_in):
            seen += 1
            if seen & (seen - 1) == 0:  # the first release, the second, the fourth, ...
                n = _add_time(times, n, max(s.now[0], s.run[i].expected))
    return times[:n]


@kernel
def _fill_free(w: World, s: State, times: F8, free: I8) -> None:
    """Lay out what every node has free at each moment: [node, moment, GPUs CPUs memory]; of one down, GONE."""
    last = len(times)
    for node in range(len(s.node)):
        for t in range(last):
            free[node, t, 0] = s.node[node].gpu if s.node[node].up else GONE
            free[node, t, 1] = s.node[node].cpu
            free[node, t, 2] = s.node[node].mem
    for i in range(s.n[RUNNING_N]):
        expected = max(s.now[0], s.run[i].expected)
        if expected > times[last - 1]:
            break
        job = s.run[i].job
        at = w.job[job].chunk_at
        shape = s.life[job].form
        for kind in range(w.shape[shape].kinds):
            for _ in range(w.chunk[shape, kind].n):
                node = s.at[at].node
                at += 1
                for t in range(1, last):
                    if expected <= times[t]:
                        free[node, t, 0] += w.chunk[shape, kind].gpus
                        free[node, t, 1] += chunk_cpu(w, shape, kind, s.node[node].group)
                        free[node, t, 2] += chunk_mem(w, shape, kind, s.node[node].group)


@kernel
def _hash(s: State, node: int, free: I8) -> int:
    mixed = s.node[node].group + 1
    for t in range(free.shape[1]):
        for r in range(3):
            mixed = (mixed * 31 + free[node, t, r]) % 2147483647
    return mixed


@kernel
def _alike(s: State, a: int, b: int, free: I8) -> bool:
    if s.node[a].group != s.node[b].group:
        return False
    for t in range(free.shape[1]):
        for r in range(3):
            if free[a, t, r] != free[b, t, r]:
                return False
    return True


@allocating_kernel
def classes(w: World, s: State, times: F8, group_in: B1, smallest: int, aggregate: bool) -> tuple[I8, I8, I8]:
    """Return per class its first node; what it has free at each moment; and per node its class, -1 = of no use."""
    nodes = len(s.node)
    free = np.empty((nodes, len(times), 3), dtype=np.int64)
    _fill_free(w, s, times, free)
    size = 64
    while size < 2 * nodes:
        size *= 2
    table = np.full(size, -1, dtype=np.int64)
    class_of = np.full(nodes, -1, dtype=np.int64)
    first = np.empty(nodes, dtype=np.int64)
    n = 0
    for node in range(nodes):
        if not group_in[s.node[node].group] or free[node, len(times) - 1, 0] < smallest or not s.node[node].up:
            continue
        place = _hash(s, node, free) & (size - 1)
        while aggregate and table[place] >= 0 and not _alike(s, first[table[place]], node, free):
            place = (place + 1) & (size - 1)
        if not aggregate or table[place] < 0:
            table[place] = n
            first[n] = node
            n += 1
            class_of[node] = n - 1
        else:
            class_of[node] = table[place]
    kept = np.empty((n, len(times), 3), dtype=np.int64)
    for c in range(n):
        for t in range(len(times)):
            for r in range(3):
                kept[c, t, r] = free[first[c], t, r]
    return first[:n].copy(), kept, class_of


@allocating_kernel
def open_groups(w: World, s: State, jobs: I8, times: F8) -> B1:
    """Return which groups each job may use at each moment: [job, group, moment]."""
    table = np.zeros((len(jobs), len(w.group), len(times)), dtype=np.bool_)
    for i in range(len(jobs)):
        mask = w.shape[w.job[jobs[i]].asks].mask
        for g in range(len(w.group)):
            for t in range(len(times)):
                table[i, g, t] = w.mask_has[mask, g] and (
                    not w.has_pauses or clear_of_pauses(w, g, times[t], s.life[jobs[i]].estimate)
                )
    return table

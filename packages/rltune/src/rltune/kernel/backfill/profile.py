"""What each node will have free when: a profile a node, on which reservations are made.

A node's profile is a few sorted moments and what is free from each to the next. A job's earliest time is found node by
node, each read once from a time on. That is exact: free resources grow only when something ends, so if a job fits at
some time, it also fits at the last end before it, and the earliest time of all is that of some node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rltune.kernel.fit.chunk_need import chunk_cpu, chunk_mem, clear_of_pauses
from rltune.kernel.jit import allocating_kernel, kernel
from rltune.kernel.state.arrays import F8, GONE, I8, RUNNING_N, State, World

INF = float("inf")
GPU, CPU, MEM, RESOURCES_N = range(4)


class FreeProfile(NamedTuple):
    """Per node its moments, what is free from each on, and how many there are."""

    time: F8  # [node, moment]
    free: I8  # [node, moment, resource]
    rows: I8  # [node]
    when: F8  # [node] scratch: when each could take a chunk


@allocating_kernel
def empty_profile(s: State, room: int) -> FreeProfile:
    """Lay out that every node stays as it is now; with room for so many moments a node."""
    nodes = len(s.node)
    p = FreeProfile(
        np.empty((nodes, room)),
        np.empty((nodes, room, RESOURCES_N), dtype=np.int64),
        np.ones(nodes, dtype=np.int64),
        np.empty(nodes),
    )
    for node in range(nodes):
        p.time[node, 0] = s.now[0]
        p.free[node, 0, GPU] = s.node[node].gpu if s.node[node].up else GONE
        p.free[node, 0, CPU] = s.node[node].cpu
        p.free[node, 0, MEM] = s.node[node].mem
    return p


@allocating_kernel
def with_more_room(p: FreeProfile) -> FreeProfile:
    """Copy a profile into one with twice the room."""
    nodes, room = p.time.shape
    time = np.empty((nodes, 2 * room))
    free = np.empty((nodes, 2 * room, RESOURCES_N), dtype=np.int64)
    for node in range(nodes):
        for row in range(p.rows[node]):
            time[node, row] = p.time[node, row]
            for r in range(RESOURCES_N):
                free[node, row, r] = p.free[node, row, r]
    return FreeProfile(time, free, p.rows, p.when)


@kernel
def row_at(p: FreeProfile, node: int, time: float) -> int:
    """Find the last moment of a node that is not after a time."""
    low = 0
    high = p.rows[node]
    while high - low > 1:
        middle = (low + high) // 2
        if p.time[node, middle] <= time:
            low = middle
        else:
            high = middle
    return low


@kernel
def _moment(p: FreeProfile, node: int, time: float) -> int:
    """Return the row that begins at a time, and make it if there is none."""
    at = row_at(p, node, time)
    if p.time[node, at] == time:
        return at
    for row in range(p.rows[node], at + 1, -1):
        p.time[node, row] = p.time[node, row - 1]
        for r in range(RESOURCES_N):
            p.free[node, row, r] = p.free[node, row - 1, r]
    p.time[node, at + 1] = time
    for r in range(RESOURCES_N):
        p.free[node, at + 1, r] = p.free[node, at, r]
    p.rows[node] += 1
    return at + 1


@kernel
def _change(
    w: World, s: State, p: FreeProfile, shape: int, kind: int, node: int, first: int, last: int, sign: int
) -> None:
    """Give a chunk back to a node (+1) or take it (-1), from a row up to another."""
    group = s.node[node].group
    gpus = sign * w.chunk[shape, kind].gpus
    cpu = sign * chunk_cpu(w, shape, kind, group)
    mem = sign * chunk_mem(w, shape, kind, group)
    for row in range(first, last):
        p.free[node, row, GPU] += gpus
        p.free[node, row, CPU] += cpu
        p.free[node, row, MEM] += mem


@kernel
def fullest(p: FreeProfile) -> int:
    """Return the most moments that a node has."""
    most = 0
    for node in range(len(p.rows)):
        most = max(most, p.rows[node])
    return most


@kernel
def release_then(w: World, s: State, p: FreeProfile, job: int, time: float) -> None:
    """Let a running job's nodes be free again from a time on."""
    shape = s.life[job].form
    i = w.job[job].chunk_at
    for kind in range(w.shape[shape].kinds):
        for _ in range(w.chunk[shape, kind].n):
            node = s.at[i].node
            i += 1
            _change(w, s, p, shape, kind, node, _moment(p, node, time), p.rows[node], 1)


@kernel
def occupy(w: World, s: State, p: FreeProfile, shape: int, start: float, end: float) -> None:
    """Keep the nodes in s.pick from a time to another."""
    i = 0
    for kind in range(w.shape[shape].kinds):
        for _ in range(w.chunk[shape, kind].n):
            node = s.pick[i]
            i += 1
            first = _moment(p, node, start)
            _change(w, s, p, shape, kind, node, first, _moment(p, node, end), -1)


@kernel
def close_nodes(w: World, s: State, p: FreeProfile, shape: int, start: float, end: float) -> None:
    """Keep the nodes in s.pick from a time to another, all that they have."""
    for i in range(w.shape[shape].chunks):
        node = s.pick[i]
        first = _moment(p, node, start)
        for row in range(first, _moment(p, node, end)):
            p.free[node, row, GPU] = -1


@kernel
def _holds(p: FreeProfile, node: int, row: int, gpus: int, cpu: int, mem: int) -> bool:
    return p.free[node, row, GPU] >= gpus and p.free[node, row, CPU] >= cpu and p.free[node, row, MEM] >= mem


@kernel
def _after_pause(w: World, group: int, time: float) -> float:
    """Return the first end of a group's maintenance after a time."""
    first = INF
    for i in range(w.group[group].pause_lo, w.group[group].pause_hi):
        if time < w.pause[i].end < first:
            first = w.pause[i].end
    return first


@kernel
def earliest_on(
    w: World, s: State, p: FreeProfile, shape: int, kind: int, node: int, estimate: float, start: float, limit: float
) -> float:
    """Find the first time, not before `start`, from which a node can take a chunk; inf if that is after `limit`."""
    group = s.node[node].group
    gpus, cpu, mem = w.chunk[shape, kind].gpus, chunk_cpu(w, shape, kind, group), chunk_mem(w, shape, kind, group)
    length = max(estimate, 1.0) / w.group[group].speed
    rows = p.rows[node]
    first = row_at(p, node, start)
    row = first
    while start <= limit:
        while row < rows and (row == first or p.time[node, row] < start + length):
            if not _holds(p, node, row, gpus, cpu, mem):
                break
            row += 1
        if row == rows or (row > first and p.time[node, row] >= start + length):
            if not w.has_pauses or clear_of_pauses(w, group, start, estimate):
                return start
            start = _after_pause(w, group, start)
            first = row = row_at(p, node, start) if start < INF else 0
            continue
        while row < rows and not _holds(p, node, row, gpus, cpu, mem):
            row += 1
        if row == rows:
            return INF
        first = row
        start = p.time[node, row]
    return INF


@kernel
def probe_at(w: World, s: State, p: FreeProfile, shape: int, estimate: float, start: float, really: bool) -> None:
    """Note the least that each eligible node has free while the job would run; `really`: beside what runs now, too."""
    mask = w.shape[shape].mask
    for m in range(w.mask[mask].lo, w.mask[mask].hi):
        group = w.mask_group[m]
        closed = w.has_pauses and not clear_of_pauses(w, group, start, estimate)
        until = start + max(estimate, 1.0) / w.group[group].speed
        for node in range(w.group[group].lo, w.group[group].hi):
            row = row_at(p, node, start)
            gpu, cpu, mem = p.free[node, row, GPU], p.free[node, row, CPU], p.free[node, row, MEM]
            if really and s.node[node].up:
                gpu, cpu, mem = min(gpu, s.node[node].gpu), min(cpu, s.node[node].cpu), min(mem, s.node[node].mem)
            row += 1
            while row < p.rows[node] and p.time[node, row] < until:
                gpu = min(gpu, p.free[node, row, GPU])
                cpu = min(cpu, p.free[node, row, CPU])
                mem = min(mem, p.free[node, row, MEM])
                row += 1
            s.probe[node].gpu = -1 if closed else gpu
            s.probe[node].cpu = cpu
            s.probe[node].mem = mem


@kernel
def probed_fits(w: World, s: State, shape: int, kind: int, node: int) -> bool:
    """Return whether a node, as noted in s.probe, could take a chunk."""
    group = s.node[node].group
    return (
        s.probe[node].gpu >= w.chunk[shape, kind].gpus
        and s.probe[node].cpu >= chunk_cpu(w, shape, kind, group)
        and s.probe[node].mem >= chunk_mem(w, shape, kind, group)
    )


@kernel
def earliest(w: World, s: State, p: FreeProfile, shape: int, estimate: float, start: float) -> float:
    """Find the first time, not before `start`, at which enough nodes could take all chunks; inf if there is none."""
    if w.shape[shape].chunks == 1:
        return _earliest_of_one(w, s, p, shape, estimate, start)
    time = start
    while time < INF:
        later = time
        wanted = 0
        for kind in range(w.shape[shape].kinds):
            wanted += w.chunk[shape, kind].n
            later = max(later, _when_enough(w, s, p, shape, kind, estimate, time, wanted))
        if later == time:
            return time
        time = later
    return INF


@kernel
def _earliest_of_one(w: World, s: State, p: FreeProfile, shape: int, estimate: float, start: float) -> float:
    mask = w.shape[shape].mask
    best = INF
    for m in range(w.mask[mask].lo, w.mask[mask].hi):
        group = w.mask_group[m]
        for node in range(w.group[group].lo, w.group[group].hi):
            best = min(best, earliest_on(w, s, p, shape, 0, node, estimate, start, best))
            if best == start:
                return best
    return best


@kernel
def _when_enough(
    w: World, s: State, p: FreeProfile, shape: int, kind: int, estimate: float, start: float, wanted: int
) -> float:
    """Return the first time by which each of so many nodes could have taken a chunk: not later than all at once."""
    mask = w.shape[shape].mask
    n = 0
    worst = INF  # of those kept, once they are enough
    for m in range(w.mask[mask].lo, w.mask[mask].hi):
        group = w.mask_group[m]
        for node in range(w.group[group].lo, w.group[group].hi):
            time = earliest_on(w, s, p, shape, kind, node, estimate, start, worst)
            if time == INF or (n == wanted and time >= worst):
                continue
            n = _keep_least(p.when, n, wanted, time)
            if n == wanted:
                worst = p.when[n - 1]
                if worst == start:
                    return start
    return worst


@kernel
def _keep_least(when: F8, n: int, wanted: int, time: float) -> int:
    """Enter a time among the least so many, which are in order; give how many there are."""
    at = n if n < wanted else wanted - 1
    while at > 0 and when[at - 1] > time:
        when[at] = when[at - 1]
        at -= 1
    when[at] = time
    return min(n + 1, wanted)


@kernel
def ends_of_running(w: World, s: State, p: FreeProfile) -> None:
    """Let running jobs, in order of expected end, give back what they have; those past their estimate do it now."""
    for i in range(s.n[RUNNING_N]):
        release_then(w, s, p, s.run[i].job, max(s.now[0], s.run[i].expected))

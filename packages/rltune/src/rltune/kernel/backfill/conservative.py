"""Conservative backfilling: every waiting job gets a reservation, on a profile of what each node has free when."""

from __future__ import annotations

import numpy as np

from rltune.kernel.fit.allocate import picked_speed
from rltune.kernel.fit.chunk_need import chunk_cpu, chunk_mem, clear_of_pauses
from rltune.kernel.fit.racks import pick_in_racks
from rltune.kernel.fit.running import settle_running, start_job
from rltune.kernel.jit import allocating_kernel, kernel
from rltune.kernel.state.arrays import (
    F8,
    FIRST_FIT,
    HIERARCHICAL,
    I8,
    LIMITED,
    NO_REASON,
    Q_TAIL,
    RESERVED_LATER,
    RESOURCES,
    RUNNING_N,
    SPREAD,
    STAMP,
    Options,
    State,
    World,
)
from rltune.kernel.state.limits import start_is_allowed
from rltune.kernel.state.score_heap import pop_best


@kernel
def _first_profile(w: World, s: State, time: F8, gpu: I8, cpu: I8, mem: I8) -> int:
    """Lay out what is free from now on as running jobs end. Jobs past their estimate end right after now, not now."""
    settle_running(s)
    nodes = len(s.node)
    time[0] = s.now[0]
    for node in range(nodes):
        gpu[0, node] = s.node[node].gpu if s.node[node].up else -1
        cpu[0, node] = s.node[node].cpu
        mem[0, node] = s.node[node].mem
    rows = 1
    for i in range(s.n[RUNNING_N]):
        expected = max(s.now[0], s.run[i].expected)
        if rows == 1 or time[rows - 1] != expected:
            _copy_row(rows - 1, rows, gpu, cpu, mem)
            time[rows] = expected
            rows += 1
        _add_job(w, s, s.run[i].job, rows - 1, 1, gpu, cpu, mem)
    return rows


@kernel
def _copy_row(source: int, to: int, gpu: I8, cpu: I8, mem: I8) -> None:
    for node in range(gpu.shape[1]):
        gpu[to, node] = gpu[source, node]
        cpu[to, node] = cpu[source, node]
        mem[to, node] = mem[source, node]


@kernel
def _add_job(w: World, s: State, job: int, row: int, sign: int, gpu: I8, cpu: I8, mem: I8) -> None:
    shape = s.life[job].form
    i = w.job[job].chunk_at
    for kind in range(w.shape[shape].kinds):
        for _ in range(w.chunk[shape, kind].n):
            node = s.at[i].node
            i += 1
            gpu[row, node] += sign * w.chunk[shape, kind].gpus
            cpu[row, node] += sign * chunk_cpu(w, shape, kind, s.node[node].group)
            mem[row, node] += sign * chunk_mem(w, shape, kind, s.node[node].group)


@kernel
def _length(s: State, job: int, speed: float) -> float:
    """Return how long a reservation is; at least a second, so that a job of no length is not overlooked."""
    return max(s.life[job].estimate, 1.0) / speed


@kernel
def _least_free(
    node: int, begin: int, rows: int, until: float, time: F8, gpu: I8, cpu: I8, mem: I8
) -> tuple[int, int, int]:
    """Return the least that a node has free over an interval."""
    g, c, m = gpu[begin, node], cpu[begin, node], mem[begin, node]
    for row in range(begin + 1, rows):
        if time[row] >= until:
            break
        g = min(g, gpu[row, node])
        c = min(c, cpu[row, node])
        m = min(m, mem[row, node])
    return g, c, m


@kernel
def _better(placement: int, free: int, best_free: int) -> bool:
    """Return whether a node with this much free is preferred; nodes are tried lowest first, so ties keep the first."""
    if placement == FIRST_FIT:
        return False
    return free > best_free if placement == SPREAD else free < best_free


@kernel
def _probe(w: World, s: State, job: int, begin: int, rows: int, time: F8, gpu: I8, cpu: I8, mem: I8) -> None:
    """Note what each eligible node would give to a job that would start at a row of the profile."""
    mask = w.shape[w.job[job].asks].mask
    for at in range(w.mask[mask].lo, w.mask[mask].hi):
        group = w.mask_group[at]
        closed = w.has_pauses and not clear_of_pauses(w, group, time[begin], s.life[job].estimate)
        until = time[begin] + _length(s, job, w.group[group].speed)
        for node in range(w.group[group].lo, w.group[group].hi):
            g, c, m = _least_free(node, begin, rows, until, time, gpu, cpu, mem)
            s.probe[node].gpu = -1 if closed else g
            s.probe[node].cpu = c
            s.probe[node].mem = m


@kernel
def _choose(
    w: World, s: State, o: Options, job: int, begin: int, rows: int, time: F8, gpu: I8, cpu: I8, mem: I8
) -> bool:
    """Choose nodes for a job that would start at a row of the profile, into s.pick."""
    shape = w.job[job].asks
    mask = w.shape[shape].mask
    s.n[STAMP] += 1
    if o.placement == HIERARCHICAL and w.shape[shape].chunks > 1:
        _probe(w, s, job, begin, rows, time, gpu, cpu, mem)
        return pick_in_racks(w, s, shape)
    found = 0
    for kind in range(w.shape[shape].kinds):
        for _ in range(w.chunk[shape, kind].n):
            best = -1
            best_free = 0
            for at in range(w.mask[mask].lo, w.mask[mask].hi):
                group = w.mask_group[at]
                if w.has_pauses and not clear_of_pauses(w, group, time[begin], s.life[job].estimate):
                    continue
                until = time[begin] + _length(s, job, w.group[group].speed)
                need_cpu = chunk_cpu(w, shape, kind, group)
                need_mem = chunk_mem(w, shape, kind, group)
                for node in range(w.group[group].lo, w.group[group].hi):
                    if s.node[node].picked == s.n[STAMP] or gpu[begin, node] < w.chunk[shape, kind].gpus:
                        continue
                    g, c, m = _least_free(node, begin, rows, until, time, gpu, cpu, mem)
                    fits = g >= w.chunk[shape, kind].gpus and c >= need_cpu and m >= need_mem
                    if fits and (best < 0 or _better(o.placement, g, best_free)):
                        best = node
                        best_free = g
            if best < 0:
                return False
            s.node[best].picked = s.n[STAMP]
            s.pick[found] = best
            found += 1
    return True


@kernel
def _keep_nodes(w: World, s: State, job: int, begin: int, rows: int, time: F8, gpu: I8, cpu: I8, mem: I8) -> None:
    """Put the nodes of the job's last reservation into s.pick again, if it was for the same time and they are free.

    Between two passes other jobs may have started on nodes that make another choice look better. Had a job with a
    reservation changed nodes for that, the jobs behind it could find theirs taken.
    """
    if s.life[job].planned != time[begin]:
        return
    shape = w.job[job].asks
    at = w.job[job].chunk_at
    for kind in range(w.shape[shape].kinds):
        for _ in range(w.chunk[shape, kind].n):
            node = s.at[at].node
            group = s.node[node].group
            at += 1
            if w.has_pauses and not clear_of_pauses(w, group, time[begin], s.life[job].estimate):
                return
            until = time[begin] + _length(s, job, w.group[group].speed)
            g, c, m = _least_free(node, begin, rows, until, time, gpu, cpu, mem)
            if (
                g < w.chunk[shape, kind].gpus
                or c < chunk_cpu(w, shape, kind, group)
                or m < chunk_mem(w, shape, kind, group)
            ):
                return
    first = w.job[job].chunk_at
    for i in range(at - first):
        s.pick[i] = s.at[first + i].node


@kernel
def _remember(w: World, s: State, job: int, time: float) -> None:
    """Note a job's reservation: its time, and its nodes where they will be kept once it runs."""
    s.life[job].planned = time
    first = w.job[job].chunk_at
    for i in range(w.job[job].chunk_end - first):
        s.at[first + i].node = s.pick[i]


@kernel
def _hold(w: World, s: State, job: int, begin: int, rows: int, time: F8, gpu: I8, cpu: I8, mem: I8) -> int:
    """Keep the nodes in s.pick for a job from a row of the profile on; give the rows that there are then."""
    shape = w.job[job].asks
    until = time[begin] + _length(s, job, picked_speed(w, s, shape))
    end = begin + 1
    while end < rows and time[end] < until:
        end += 1
    if end == rows or time[end] != until:
        for row in range(rows, end, -1):
            _copy_row(row - 1, row, gpu, cpu, mem)
            time[row] = time[row - 1]
        _copy_row(end - 1, end, gpu, cpu, mem)
        time[end] = until
        rows += 1
    i = 0
    for kind in range(w.shape[shape].kinds):
        for _ in range(w.chunk[shape, kind].n):
            node = s.pick[i]
            i += 1
            for row in range(begin, end):
                gpu[row, node] -= w.chunk[shape, kind].gpus
                cpu[row, node] -= chunk_cpu(w, shape, kind, s.node[node].group)
                mem[row, node] -= chunk_mem(w, shape, kind, s.node[node].group)
    return rows


@allocating_kernel
def conservative_pass(w: World, s: State, o: Options, n: int) -> tuple[int, int]:
    """Reserve a time for each of n queued jobs, best first; start those whose time is now."""
    room = s.n[RUNNING_N] + n + len(w.pause) + 3
    nodes = len(s.node)
    time = np.empty(room, dtype=np.float64)
    gpu = np.empty((room, nodes), dtype=np.int64)
    cpu = np.empty((room, nodes), dtype=np.int64)
    mem = np.empty((room, nodes), dtype=np.int64)
    rows = _first_profile(w, s, time, gpu, cpu, mem)
    rows = _add_pause_ends(w, rows, time, gpu, cpu, mem)
    first = s.n[Q_TAIL]
    last = -1
    for left in range(n, 0, -1):
        place = pop_best(s, left)
        job = s.queue[place].job
        if w.has_limits and not start_is_allowed(w, s, job):
            s.life[job].reason = LIMITED
            s.life[job].planned = float("nan")
            continue
        s.life[job].reason = RESOURCES
        for begin in range(rows):
            if _choose(w, s, o, job, begin, rows, time, gpu, cpu, mem):
                _keep_nodes(w, s, job, begin, rows, time, gpu, cpu, mem)
                _remember(w, s, job, time[begin])
                rows = _hold(w, s, job, begin, rows, time, gpu, cpu, mem)
                s.life[job].reason = RESERVED_LATER
                if begin == 0:
                    start_job(w, s, job)
                    s.life[job].reason = NO_REASON
                    first = min(first, place)
                    last = max(last, place)
                break
    return first, last


@kernel
def _add_pause_ends(w: World, rows: int, time: F8, gpu: I8, cpu: I8, mem: I8) -> int:
    """Let reservations begin when maintenance ends."""
    for i in range(len(w.pause)):
        at = 1
        while at < rows and time[at] < w.pause[i].end:
            at += 1
        if w.pause[i].end <= time[0] or (at < rows and time[at] == w.pause[i].end):
            continue
        for row in range(rows, at, -1):
            _copy_row(row - 1, row, gpu, cpu, mem)
            time[row] = time[row - 1]
        _copy_row(at - 1, at, gpu, cpu, mem)
        time[at] = w.pause[i].end
        rows += 1
    return rows

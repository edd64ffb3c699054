"""The first few waiting jobs of each pool, in the order of the pass, and whether a solver could do better for them."""

from __future__ import annotations

import numpy as np

from rltune.kernel.fit.allocate import find, give_nodes_back, take_nodes
from rltune.kernel.fit.chunk_need import chunk_cpu, chunk_mem
from rltune.kernel.fit.pools import make_pools
from rltune.kernel.fit.running import start_job
from rltune.kernel.fit.ways import wider_fits
from rltune.kernel.jit import allocating_kernel, kernel
from rltune.kernel.score.overtaking import is_protected
from rltune.kernel.score.rules import queue_end_in_view, score_queue
from rltune.kernel.state.arrays import CONSERVATIVE, I8, Q_HEAD, Q_TAIL, STAMP, WHOLE_NODES, Options, State, World
from rltune.kernel.state.limits import start_is_allowed
from rltune.kernel.state.queue import close_gaps
from rltune.kernel.state.score_heap import row_before

# Why a pool needs no solver, or that it does.
NOTHING_WAITS, NOTHING_FITS, ALL_START, CONTESTED, OWED_FIRST = range(5)


@kernel
def _insert(s: State, rows: I8, n: int, k: int, row: int, ordered: bool) -> int:
    """Enter a place of the queue among the best k of its pool; give how many there are."""
    if n == k and (ordered or not row_before(s, row, rows[k - 1])):
        return n
    at = n if n < k else k - 1
    while not ordered and at > 0 and row_before(s, row, rows[at - 1]):
        rows[at] = rows[at - 1]
        at -= 1
    rows[at] = row
    return min(n + 1, k)


@allocating_kernel
def top_jobs(w: World, s: State, o: Options, k: int) -> tuple[I8, I8]:
    """Return the first k jobs of each pool that no limit keeps from starting: [pool, place] and how many."""
    make_pools(w, s, o.global_head)
    end = queue_end_in_view(s, o.in_view)
    if o.dynamic:
        score_queue(w, s, o, end, False)
    rows = np.full((len(s.pool), k), -1, dtype=np.int64)
    n = np.zeros(len(s.pool), dtype=np.int64)
    for row in range(s.n[Q_HEAD], end):
        if not w.has_limits or start_is_allowed(w, s, s.queue[row].job):
            pool = s.demand[s.queue[row].asks].pool
            n[pool] = _insert(s, rows[pool], n[pool], k, row, not o.dynamic)
    for pool in range(len(s.pool)):
        for i in range(n[pool]):
            rows[pool, i] = s.queue[rows[pool, i]].job
    return rows, n


@kernel
def _greedy_starts(w: World, s: State, o: Options, jobs: I8, n: int) -> int:
    """Count the jobs that start one after the other until one does not fit; everything is given back."""
    started = 0
    while started < n and find(w, s, w.job[jobs[started]].asks, s.life[jobs[started]].estimate, o.placement):
        take_nodes(w, s, jobs[started])
        started += 1
    for i in range(started - 1, -1, -1):
        give_nodes_back(w, s, jobs[i])
    return started


@allocating_kernel
def judge(w: World, s: State, o: Options, jobs: I8, n: int) -> tuple[int, int]:
    """Return whether a pool's first n jobs leave a solver anything to choose, and how many start without one."""
    if n == 0:
        return NOTHING_WAITS, 0
    if is_protected(w, s, o, jobs[0]):
        return OWED_FIRST, 0
    first = w.job[jobs[0]].asks
    if not find(w, s, first, s.life[jobs[0]].estimate, o.placement):
        return (CONTESTED if wider_fits(w, s, first, s.life[jobs[0]].estimate) else NOTHING_FITS), 0
    if o.backfill == CONSERVATIVE or o.backfill == WHOLE_NODES:  # noqa: PLR1714  a trial would overwrite the nodes of reservations
        return (ALL_START if n == 1 else CONTESTED), 1
    started = _greedy_starts(w, s, o, jobs, n)
    return (ALL_START if started == n else CONTESTED), started


@kernel
def _room_for(w: World, s: State, shape: int, nodes: I8) -> bool:
    """Return whether the chunks fit these nodes, all of them distinct and up."""
    s.n[STAMP] += 1
    i = 0
    for kind in range(w.shape[shape].kinds):
        for _ in range(w.chunk[shape, kind].n):
            node = nodes[i]
            i += 1
            group = s.node[node].group
            if (
                s.node[node].picked == s.n[STAMP]
                or not s.node[node].up
                or s.node[node].gpu < w.chunk[shape, kind].gpus
                or s.node[node].cpu < chunk_cpu(w, shape, kind, group)
                or s.node[node].mem < chunk_mem(w, shape, kind, group)
            ):
                return False
            s.node[node].picked = s.n[STAMP]
    return True


@allocating_kernel
def start_on(w: World, s: State, job: int, shape: int, nodes: I8) -> bool:
    """Start a waiting job in a shape on chosen nodes, in order of chunks; False if a limit or they do not allow it."""
    if (w.has_limits and not start_is_allowed(w, s, job)) or not _room_for(w, s, shape, nodes):
        return False
    for i in range(len(nodes)):
        s.pick[i] = nodes[i]
    s.life[job].form = shape
    start_job(w, s, job)
    for row in range(s.n[Q_HEAD], s.n[Q_TAIL]):
        if s.queue[row].job == job:
            close_gaps(s, row, row)
            break
    return True

"""Which places of the queue a pass takes, best first: a heap of those that matter."""

from __future__ import annotations

from rltune.kernel.backfill.could_claim import stands_lower
from rltune.kernel.backfill.job_turn import known_to_delay
from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import ACTIVE_N, PASSES, Q_HEAD, Options, State
from rltune.kernel.state.score_heap import heapify, row_before

INF = float("inf")
ALL_ROWS, OPEN, BEST_OPEN = range(3)  # what comes into the heap of a pass


@kernel
def may_claim(s: State, o: Options, row: int, worst: float) -> bool:
    """Return whether the job in this place of the queue might claim nodes of a running job with the score `worst`."""
    return s.demand[s.queue[row].asks].unclaimed_in != s.n[PASSES] and stands_lower(o, worst, s.queue[row].score)


@kernel
def fill_heap(s: State, o: Options, rows: int, worst: float, end: int, after: int) -> int:
    """Collect the places that matter: jobs that may fit, and of those that cannot only the best of each pool.

    And of those that might claim nodes of a running job with the score `worst` the best of each shape. If this is not
    the first time in the pass, only those come in whose turn is after that of a place. `rows`: ALL_ROWS of the queue,
    all that are OPEN, or only the best of each shape that is, BEST_OPEN.
    """
    n = 0
    bests = worst > -INF or rows == BEST_OPEN
    if bests:
        for i in range(s.n[ACTIVE_N]):
            s.demand[s.active[i]].best_row = -1
    for row in range(s.n[Q_HEAD], end):
        if after >= 0 and not row_before(s, after, row):
            continue
        shape = s.queue[row].asks
        is_open = s.demand[shape].fails_from > -INF
        if rows == ALL_ROWS or (is_open and rows == OPEN):
            s.heap[n] = row
            n += 1
        elif is_open or (worst > -INF and may_claim(s, o, row, worst)):
            best = s.demand[shape].best_row
            if best < 0 or row_before(s, row, best):
                s.demand[shape].best_row = row
        else:
            pool = s.demand[shape].pool
            best = s.pool[pool].best_closed
            if best < 0 or row_before(s, row, best):
                s.pool[pool].best_closed = row
    if rows != ALL_ROWS:
        for g in range(len(s.pool)):
            if s.pool[g].best_closed >= 0:
                s.heap[n] = s.pool[g].best_closed
                n += 1
    if bests:
        for i in range(s.n[ACTIVE_N]):
            if s.demand[s.active[i]].best_row >= 0:
                s.heap[n] = s.demand[s.active[i]].best_row
                n += 1
    heapify(s, n)
    return n


@kernel
def push_next(s: State, n: int, end: int, row: int) -> int:
    """Let the next of a shape come in behind one that has started; return how many places there are."""
    shape = s.queue[row].asks
    if s.demand[shape].waiting == 0 or s.demand[shape].fails_from == -INF:
        return n
    best = -1
    for i in range(s.n[Q_HEAD], end):
        if s.queue[i].asks == shape and row_before(s, row, i) and (best < 0 or row_before(s, i, best)):
            best = i
    if best >= 0:
        s.heap[n] = best
        n += 1
        heapify(s, n)
    return n


@kernel
def park(s: State, n: int, parked: int) -> tuple[int, int]:
    """Set aside, before the places parked already, those of n whose jobs are known to delay a head.

    Give how many are left, and where the parked ones begin.
    """
    i = 0
    while i < n:
        row = s.heap[i]
        shape = s.queue[row].asks
        pool = s.demand[shape].pool
        if s.pool[pool].head >= 0 and known_to_delay(s, shape, s.queue[row].estimate, pool):
            n -= 1
            parked -= 1
            s.heap[i] = s.heap[n]
            s.heap[parked] = row
        else:
            i += 1
    heapify(s, n)
    return n, parked


@kernel
def unpark(s: State, n: int, parked: int, end: int, after: int) -> int:
    """Take back those whose turn is after that of a job that has started: they may find other nodes now."""
    for i in range(parked, end):
        if row_before(s, after, s.heap[i]):
            s.heap[n] = s.heap[i]
            n += 1
    heapify(s, n)
    return n

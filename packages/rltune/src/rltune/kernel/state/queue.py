"""The queue of waiting jobs: contiguous columns, in order of (key, job).

For a policy whose scores never change the key is the score, so the queue is always in order. For any other it is the
job's number, so the queue is in order of age, and every pass orders what it needs. Who comes goes to the end, and the
newcomers of a moment are put in order together: a million jobs submitted at once are sorted, not inserted one by one.
"""

from __future__ import annotations

import numpy as np

from rltune.kernel.jit import allocating_kernel, kernel
from rltune.kernel.state.arrays import ACTIVE_N, ENTERED, F8, I8, NEWCOMERS, Q_HEAD, Q_TAIL, WAITING, State, World

NOT_SCORED = float("nan")
_MANY = 16  # newcomers from which on sorting them is less work than finding a place for each


@kernel
def _move(s: State, to: int, source: int) -> None:
    s.queue[to].job = s.queue[source].job
    s.queue[to].asks = s.queue[source].asks
    s.queue[to].key = s.queue[source].key
    s.queue[to].estimate = s.queue[source].estimate
    s.queue[to].score = s.queue[source].score
    s.queue[to].tie = s.queue[source].tie


@kernel
def _place_before(s: State, key: float, job: int, high: int) -> int:
    """Find where (key, job) belongs in the rows before one."""
    low = s.n[Q_HEAD]
    while low < high:
        middle = (low + high) // 2
        if s.queue[middle].key < key or (s.queue[middle].key == key and s.queue[middle].job < job):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def place_in_queue(s: State, key: float, job: int) -> int:
    """Find the row of a job that waits in a queue in order."""
    return _place_before(s, key, job, s.n[Q_TAIL])


@kernel
def _make_room_at_end(s: State) -> None:
    """Move the queue to the front of its columns once it has drifted to their end."""
    head = s.n[Q_HEAD]
    for i in range(head, s.n[Q_TAIL]):
        _move(s, i - head, i)
    s.n[Q_TAIL] -= head
    s.n[Q_HEAD] = 0


@kernel
def _is_behind(s: State, key: float, job: int, row: int) -> bool:
    return s.queue[row].key < key or (s.queue[row].key == key and s.queue[row].job < job)


@kernel
def _put_in_place(s: State, row: int) -> None:
    """Put the job of a row, of which all before are in order, in its place, moving the shorter side of the queue."""
    job, asks = s.queue[row].job, s.queue[row].asks
    key, estimate = s.queue[row].key, s.queue[row].estimate
    score, tie = s.queue[row].score, s.queue[row].tie
    place = _place_before(s, key, job, row)
    if s.n[Q_HEAD] > 0 and row == s.n[Q_TAIL] - 1 and place - s.n[Q_HEAD] < row - place:
        for i in range(s.n[Q_HEAD], place):
            _move(s, i - 1, i)
        s.n[Q_HEAD] -= 1
        s.n[Q_TAIL] -= 1
        place -= 1
    else:
        for i in range(row, place, -1):
            _move(s, i, i - 1)
    s.queue[place].job, s.queue[place].asks = job, asks
    s.queue[place].key, s.queue[place].estimate = key, estimate
    s.queue[place].score, s.queue[place].tie = score, tie


@kernel
def settle_queue(s: State) -> None:
    """Put those in order who have come since the queue was last in order."""
    newcomers = s.n[NEWCOMERS]
    s.n[NEWCOMERS] = 0
    if newcomers > _MANY:
        merge_newcomers(s, newcomers)
    elif newcomers > 0:
        for row in range(s.n[Q_TAIL] - newcomers, s.n[Q_TAIL]):
            _put_in_place(s, row)


@kernel
def _order_alike(order: I8, key: F8, job: I8) -> None:
    """Put those of equal keys in order of age; most are already."""
    for i in range(1, len(order)):
        row = order[i]
        k = i
        while k > 0 and key[order[k - 1]] == key[row] and job[order[k - 1]] > job[row]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = row


@allocating_kernel
def merge_newcomers(s: State, newcomers: int) -> None:
    """Sort the last rows of the queue, and merge them with those before, from the back."""
    first = s.n[Q_TAIL] - newcomers
    key, estimate = np.empty(newcomers), np.empty(newcomers)
    job, asks = np.empty(newcomers, dtype=np.int64), np.empty(newcomers, dtype=np.int64)
    for i in range(newcomers):
        key[i], estimate[i] = s.queue[first + i].key, s.queue[first + i].estimate
        job[i], asks[i] = s.queue[first + i].job, s.queue[first + i].asks
    order = np.argsort(key, kind="mergesort")
    _order_alike(order, key, job)
    old = first - 1
    new = newcomers - 1
    to = s.n[Q_TAIL] - 1
    while new >= 0:
        i = order[new]
        if old >= s.n[Q_HEAD] and not _is_behind(s, key[i], job[i], old):
            _move(s, to, old)
            old -= 1
        else:
            s.queue[to].key, s.queue[to].estimate = key[i], estimate[i]
            s.queue[to].job, s.queue[to].asks = job[i], asks[i]
            s.queue[to].score, s.queue[to].tie = NOT_SCORED, 0.0
            new -= 1
        to -= 1


@kernel
def enqueue(w: World, s: State, job: int, by_age: bool) -> None:
    """Let a job wait: behind all others, where `settle_queue` finds it if that is not its place."""
    if s.n[Q_TAIL] == len(s.queue):
        _make_room_at_end(s)
    key = float(job) if by_age else s.life[job].key
    place = s.n[Q_TAIL]
    if s.n[NEWCOMERS] > 0 or (place > s.n[Q_HEAD] and not _is_behind(s, key, job, place - 1)):
        s.n[NEWCOMERS] += 1
    s.queue[place].job = job
    s.queue[place].asks = w.job[job].asks
    s.life[job].form = w.job[job].asks
    s.queue[place].key = key
    s.queue[place].estimate = s.life[job].estimate
    s.queue[place].score = NOT_SCORED
    s.queue[place].tie = 0.0
    s.n[Q_TAIL] += 1
    s.n[ENTERED] += 1
    s.life[job].status = WAITING
    s.life[job].told = float("inf")  # nobody has been asked about it yet: it comes last
    _activate(w, s, w.job[job].asks, s.life[job].estimate)


@kernel
def _activate(w: World, s: State, shape: int, estimate: float) -> None:
    s.demand[shape].waiting += 1
    s.mask_waiting[w.shape[shape].mask] += 1
    s.demand[shape].shortest = min(s.demand[shape].shortest, estimate)
    if s.demand[shape].waiting == 1:
        s.demand[shape].shortest = estimate
        s.active[s.n[ACTIVE_N]] = shape
        s.demand[shape].active_at = s.n[ACTIVE_N]
        s.n[ACTIVE_N] += 1
        s.demand[shape].fails_from = float("inf")


@kernel
def leave_queue(w: World, s: State, job: int) -> None:
    """Count a job that starts out of the queue; its row goes when the pass is over, by `close_gaps`."""
    shape = w.job[job].asks
    s.demand[shape].waiting -= 1
    s.mask_waiting[w.shape[shape].mask] -= 1
    if s.demand[shape].waiting == 0:
        s.n[ACTIVE_N] -= 1
        last = s.active[s.n[ACTIVE_N]]
        s.active[s.demand[shape].active_at] = last
        s.demand[last].active_at = s.demand[shape].active_at


@kernel
def close_gaps(s: State, first: int, last: int) -> None:
    """Remove the rows of started jobs, all between first and last, moving the shorter side of the queue."""
    head = s.n[Q_HEAD]
    tail = s.n[Q_TAIL]
    if first - head < tail - 1 - last:
        to = last
        for i in range(last, head - 1, -1):
            if s.life[s.queue[i].job].status == WAITING:
                _move(s, to, i)
                to -= 1
        s.n[Q_HEAD] = to + 1
    else:
        to = first
        for i in range(first, tail):
            if s.life[s.queue[i].job].status == WAITING:
                _move(s, to, i)
                to += 1
        s.n[Q_TAIL] = to

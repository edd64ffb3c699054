"""The queue of waiting jobs: contiguous columns, in order of (key, job).

For a policy whose scores never change the key is the score, so the queue is always in order. For any other it is the
job's number, so the queue is in order of age, and every pass orders what it needs.
"""

from __future__ import annotations

from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import ACTIVE_N, Q_HEAD, Q_TAIL, WAITING, State, World


@kernel
def _move(s: State, to: int, source: int) -> None:
    s.queue[to].job = s.queue[source].job
    s.queue[to].asks = s.queue[source].asks
    s.queue[to].key = s.queue[source].key
    s.queue[to].estimate = s.queue[source].estimate


@kernel
def _place_of(s: State, key: float, job: int) -> int:
    """Find where (key, job) belongs."""
    low = s.n[Q_HEAD]
    high = s.n[Q_TAIL]
    if low < high and (s.queue[high - 1].key < key or (s.queue[high - 1].key == key and s.queue[high - 1].job < job)):
        return high  # the usual case of a policy by age
    while low < high:
        middle = (low + high) // 2
        if s.queue[middle].key < key or (s.queue[middle].key == key and s.queue[middle].job < job):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _make_room_at_end(s: State) -> None:
    """Move the queue to the front of its columns once it has drifted to their end."""
    head = s.n[Q_HEAD]
    for i in range(head, s.n[Q_TAIL]):
        _move(s, i - head, i)
    s.n[Q_TAIL] -= head
    s.n[Q_HEAD] = 0


@kernel
def enqueue(w: World, s: State, job: int, by_age: bool) -> None:
    """Let a job wait."""
    if s.n[Q_TAIL] == len(s.queue):
        _make_room_at_end(s)
    key = float(job) if by_age else s.life[job].key
    place = _place_of(s, key, job)
    for i in range(s.n[Q_TAIL], place, -1):
        _move(s, i, i - 1)
    s.queue[place].job = job
    s.queue[place].asks = w.job[job].asks
    s.life[job].form = w.job[job].asks
    s.queue[place].key = key
    s.queue[place].estimate = s.life[job].estimate
    s.n[Q_TAIL] += 1
    s.life[job].status = WAITING
    s.life[job].told = float("inf")  # nobody has been asked about it yet: it comes last
    _activate(w, s, w.job[job].asks)


@kernel
def _activate(w: World, s: State, shape: int) -> None:
    s.demand[shape].waiting += 1
    s.mask_waiting[w.shape[shape].mask] += 1
    if s.demand[shape].waiting == 1:
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

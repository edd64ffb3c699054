"""The queue of waiting jobs: contiguous columns, in order of (key, job).

For a policy whose scores never change the key is the score, so the queue is always in order. For any other it is the
job's number, so the queue is in order of age, and every pass orders what it needs.
"""

from __future__ import annotations

from rltune.core.jit import kernel
from rltune.core.state import Q_HEAD, Q_TAIL, WAITING, State, World


@kernel
def _move(s: State, to: int, source: int) -> None:
    s.q_job[to] = s.q_job[source]
    s.q_shape[to] = s.q_shape[source]
    s.q_key[to] = s.q_key[source]
    s.q_estimate[to] = s.q_estimate[source]


@kernel
def _place_of(s: State, key: float, job: int) -> int:
    """Find where (key, job) belongs."""
    low = s.n[Q_HEAD]
    high = s.n[Q_TAIL]
    if low < high and (s.q_key[high - 1] < key or (s.q_key[high - 1] == key and s.q_job[high - 1] < job)):
        return high  # type: ignore[no-any-return]  # the usual case of a policy by age
    while low < high:
        middle = (low + high) // 2
        if s.q_key[middle] < key or (s.q_key[middle] == key and s.q_job[middle] < job):
            low = middle + 1
        else:
            high = middle
    return low  # type: ignore[no-any-return]


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
    if s.n[Q_TAIL] == len(s.q_job):
        _make_room_at_end(s)
    key = float(job) if by_age else s.key[job]
    place = _place_of(s, key, job)
    for i in range(s.n[Q_TAIL], place, -1):
        _move(s, i, i - 1)
    s.q_job[place] = job
    s.q_shape[place] = w.shape[job]
    s.q_key[place] = key
    s.q_estimate[place] = s.estimate[job]
    s.n[Q_TAIL] += 1
    s.status[job] = WAITING
    _activate(w, s, w.shape[job])


@kernel
def _activate(w: World, s: State, shape: int) -> None:
    s.waiting[shape] += 1
    s.mask_waiting[w.shape_mask[shape]] += 1
    if s.waiting[shape] == 1:
        s.active[s.active_n[0]] = shape
        s.active_at[shape] = s.active_n[0]
        s.active_n[0] += 1
        s.fails_from[shape] = float("inf")


@kernel
def leave_queue(w: World, s: State, job: int) -> None:
    """Count a job that starts out of the queue; its row goes when the pass is over, by `close_gaps`."""
    shape = w.shape[job]
    s.waiting[shape] -= 1
    s.mask_waiting[w.shape_mask[shape]] -= 1
    if s.waiting[shape] == 0:
        s.active_n[0] -= 1
        last = s.active[s.active_n[0]]
        s.active[s.active_at[shape]] = last
        s.active_at[last] = s.active_at[shape]


@kernel
def close_gaps(s: State, first: int, last: int) -> None:
    """Remove the rows of started jobs, all between first and last, moving the shorter side of the queue."""
    head = s.n[Q_HEAD]
    tail = s.n[Q_TAIL]
    if first - head < tail - 1 - last:
        to = last
        for i in range(last, head - 1, -1):
            if s.status[s.q_job[i]] == WAITING:
                _move(s, to, i)
                to -= 1
        s.n[Q_HEAD] = to + 1
    else:
        to = first
        for i in range(first, tail):
            if s.status[s.q_job[i]] == WAITING:
                _move(s, to, i)
                to += 1
        s.n[Q_TAIL] = to

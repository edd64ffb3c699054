"""Running jobs: sorted by expected end for reservations, and in a heap by true end for the clock."""

from __future__ import annotations

from rltune.core.fit import give_nodes_back, picked_speed, take_nodes
from rltune.core.jit import kernel
from rltune.core.limits import count_running
from rltune.core.queue import leave_queue
from rltune.core.share import usage_changes
from rltune.core.state import EPOCH, HEAP_N, RUNNING, RUNNING_N, State, World


@kernel
def _earlier(s: State, a: int, b: int) -> bool:
    return s.end[a].time < s.end[b].time or (s.end[a].time == s.end[b].time and s.end[a].job < s.end[b].job)


@kernel
def _swap(s: State, a: int, b: int) -> None:
    s.end[a].time, s.end[b].time = s.end[b].time, s.end[a].time
    s.end[a].job, s.end[b].job = s.end[b].job, s.end[a].job


@kernel
def _push_end(s: State, job: int) -> None:
    i = s.n[HEAP_N]
    s.n[HEAP_N] += 1
    s.end[i].time = s.life[job].end
    s.end[i].job = job
    while i > 0 and _earlier(s, i, (i - 1) // 2):
        _swap(s, i, (i - 1) // 2)
        i = (i - 1) // 2


@kernel
def _sift_down(s: State, i: int) -> None:
    n = s.n[HEAP_N]
    while True:
        child = 2 * i + 1
        if child >= n:
            return
        if child + 1 < n and _earlier(s, child + 1, child):
            child += 1
        if not _earlier(s, child, i):
            return
        _swap(s, i, child)
        i = child


@kernel
def pop_end(s: State) -> int:
    """Take the job that ends first off the heap."""
    job = s.end[0].job
    s.n[HEAP_N] -= 1
    _swap(s, 0, s.n[HEAP_N])
    _sift_down(s, 0)
    return job


@kernel
def drop_end(s: State, job: int) -> None:
    """Take a job that is stopped before its end out of the heap."""
    i = 0
    while s.end[i].job != job:
        i += 1
    s.n[HEAP_N] -= 1
    _swap(s, i, s.n[HEAP_N])
    while 0 < i < s.n[HEAP_N] and _earlier(s, i, (i - 1) // 2):
        _swap(s, i, (i - 1) // 2)
        i = (i - 1) // 2
    _sift_down(s, i)


@kernel
def _place_in_running(s: State, expected: float) -> int:
    low = 0
    high = s.n[RUNNING_N]
    while low < high:
        middle = (low + high) // 2
        if s.run[middle].expected <= expected:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def start_job(w: World, s: State, job: int) -> None:
    """Start a waiting job now on the nodes in s.pick."""
    speed = picked_speed(w, s, s.life[job].form)
    take_nodes(w, s, job)
    leave_queue(w, s, job)
    now = s.now[0]
    s.n[EPOCH] += 1
    s.life[job].status = RUNNING
    s.life[job].speed = speed
    s.life[job].start = now
    s.life[job].end = now + w.job[job].duration / speed
    _push_end(s, job)
    expected = now + s.life[job].estimate / speed
    place = _place_in_running(s, expected)
    for i in range(s.n[RUNNING_N], place, -1):
        s.run[i].job = s.run[i - 1].job
        s.run[i].expected = s.run[i - 1].expected
    s.run[place].job = job
    s.run[place].expected = expected
    s.n[RUNNING_N] += 1
    if w.has_limits:
        count_running(w, s, job, 1)
    usage_changes(w, s, job, 1.0)


@kernel
def stop_job(w: World, s: State, job: int) -> None:
    """Free what a running job has, at its end or because its node went down."""
    expected = s.life[job].start + s.life[job].estimate / s.life[job].speed
    i = _place_in_running(s, expected) - 1
    while s.run[i].job != job:
        i -= 1
    s.n[RUNNING_N] -= 1
    for k in range(i, s.n[RUNNING_N]):
        s.run[k].job = s.run[k + 1].job
        s.run[k].expected = s.run[k + 1].expected
    give_nodes_back(w, s, job)
    if w.has_limits:
        count_running(w, s, job, -1)
    usage_changes(w, s, job, -1.0)

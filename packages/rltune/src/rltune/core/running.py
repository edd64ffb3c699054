"""Running jobs: sorted by expected end for reservations, and in a heap by true end for the clock."""

from __future__ import annotations

from rltune.core.fit import give_nodes_back, picked_speed, take_nodes
from rltune.core.jit import kernel
from rltune.core.limits import count_running
from rltune.core.queue import leave_queue
from rltune.core.share import usage_changes
from rltune.core.state import HEAP_N, RUNNING, RUNNING_N, State, World


@kernel
def _earlier(s: State, a: int, b: int) -> bool:
    return s.end_time[a] < s.end_time[b] or (s.end_time[a] == s.end_time[b] and s.end_job[a] < s.end_job[b])


@kernel
def _swap(s: State, a: int, b: int) -> None:
    s.end_time[a], s.end_time[b] = s.end_time[b], s.end_time[a]
    s.end_job[a], s.end_job[b] = s.end_job[b], s.end_job[a]


@kernel
def _push_end(s: State, job: int) -> None:
    i = s.n[HEAP_N]
    s.n[HEAP_N] += 1
    s.end_time[i] = s.end[job]
    s.end_job[i] = job
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
    job = s.end_job[0]
    s.n[HEAP_N] -= 1
    _swap(s, 0, s.n[HEAP_N])
    _sift_down(s, 0)
    return job  # type: ignore[no-any-return]


@kernel
def drop_end(s: State, job: int) -> None:
    """Take a job that is stopped before its end out of the heap."""
    n = s.n[HEAP_N]
    for i in range(n):
        if s.end_job[i] == job:
            s.n[HEAP_N] -= 1
            _swap(s, i, s.n[HEAP_N])
            while i > 0 and i < s.n[HEAP_N] and _earlier(s, i, (i - 1) // 2):
                _swap(s, i, (i - 1) // 2)
                i = (i - 1) // 2
            _sift_down(s, i)
            return


@kernel
def _place_in_running(s: State, expected: float) -> int:
    low = 0
    high = s.n[RUNNING_N]
    while low < high:
        middle = (low + high) // 2
        if s.run_expected[middle] <= expected:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def start_job(w: World, s: State, job: int) -> None:
    """Start a waiting job now on the nodes in s.pick."""
    speed = picked_speed(w, s, w.shape[job])
    take_nodes(w, s, job)
    leave_queue(w, s, job)
    now = s.now[0]
    s.status[job] = RUNNING
    s.speed[job] = speed
    s.start[job] = now
    s.end[job] = now + w.duration[job] / speed
    _push_end(s, job)
    expected = now + s.estimate[job] / speed
    place = _place_in_running(s, expected)
    for i in range(s.n[RUNNING_N], place, -1):
        s.run_job[i] = s.run_job[i - 1]
        s.run_expected[i] = s.run_expected[i - 1]
    s.run_job[place] = job
    s.run_expected[place] = expected
    s.n[RUNNING_N] += 1
    if w.has_limits:
        count_running(w, s, job, 1)
    usage_changes(w, s, job, 1.0)


@kernel
def stop_job(w: World, s: State, job: int) -> None:
    """Free what a running job has, at its end or because its node went down."""
    expected = s.start[job] + s.estimate[job] / s.speed[job]
    i = _place_in_running(s, expected) - 1
    while s.run_job[i] != job:
        i -= 1
    s.n[RUNNING_N] -= 1
    for k in range(i, s.n[RUNNING_N]):
        s.run_job[k] = s.run_job[k + 1]
        s.run_expected[k] = s.run_expected[k + 1]
    give_nodes_back(w, s, job)
    if w.has_limits:
        count_running(w, s, job, -1)
    usage_changes(w, s, job, -1.0)

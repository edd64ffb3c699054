"""A heap of places in the queue by (score, job): the best few are found without sorting all."""

from __future__ import annotations

from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import I8, Q_HEAD, State


@kernel
def _before(s: State, a: int, b: int) -> bool:
    if s.queue[a].score != s.queue[b].score:
        return s.queue[a].score < s.queue[b].score
    if s.queue[a].tie != s.queue[b].tie:
        return s.queue[a].tie < s.queue[b].tie
    return s.queue[a].job < s.queue[b].job


@kernel
def _sift(s: State, i: int, n: int) -> None:
    row = s.heap[i]
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and _before(s, s.heap[child + 1], s.heap[child]):
            child += 1
        if not _before(s, s.heap[child], row):
            break
        s.heap[i] = s.heap[child]
        i = child
    s.heap[i] = row


@kernel
def heapify(s: State, n: int) -> None:
    """Put the first n places of s.heap into heap order."""
    for i in range(n // 2 - 1, -1, -1):
        _sift(s, i, n)


@kernel
def pop_best(s: State, n: int) -> int:
    """Take the best of n places; n - 1 are left."""
    best = s.heap[0]
    s.heap[0] = s.heap[n - 1]
    _sift(s, 0, n - 1)
    return best


@kernel
def row_before(s: State, a: int, b: int) -> bool:
    """Return whether the job in place a of the queue comes before the one in place b."""
    return _before(s, a, b)


@kernel
def fill_order(s: State, last: int, rows: I8) -> None:
    """List the places of the queue up to the last, best first: the order in which a pass takes them."""
    n = last - s.n[Q_HEAD]
    for i in range(n):
        s.heap[i] = s.n[Q_HEAD] + i
    heapify(s, n)
    for i in range(n):
        rows[i] = pop_best(s, n - i)

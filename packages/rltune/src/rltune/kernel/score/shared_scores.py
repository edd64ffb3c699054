"""Taking turns: those that may not be displaced keep the policy's order, and share their scores out in it."""

from __future__ import annotations

from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import Q_HEAD, State, World
from rltune.kernel.state.score_heap import heapify, pop_best


@kernel
def share_scores(w: World, s: State, last: int) -> None:
    """Give the lowest score of those that may not be displaced to the policy's first of them, and so on.

    So that order is kept among them, and where one of them stands beside the others, the scores say. The score of the
    order of turns stands in a row's score, that of the policy in its tie.
    """
    n = 0
    for row in range(s.n[Q_HEAD], last):
        s.own_score[row] = s.queue[row].score
        if w.yields[s.queue[row].job].willing == 0:
            s.heap[n] = row
            n += 1
            s.queue[row].score = 0.0
    _sort(s, n)
    for i in range(n):
        s.victim[i] = s.heap[i]  # nobody claims now
        s.queue[s.heap[i]].score = s.own_score[s.heap[i]]
    _sort(s, n)
    for i in range(n):
        s.queue[s.victim[i]].score = s.own_score[s.heap[i]]


@kernel
def _sort(s: State, n: int) -> None:
    """Put the first n places of s.heap in order, the best last."""
    heapify(s, n)
    for i in range(n):
        s.heap[n - 1 - i] = pop_best(s, n - i)

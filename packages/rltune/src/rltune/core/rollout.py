"""Whole windows in compiled code with the network's choices drawn at random, and what was seen and chosen written down.

A choice is which waiting job to take next. Without backfilling a chosen job that does not fit blocks its pool; under
fit-first only jobs that fit can be chosen. With the noise at 0 this is what `decide` does.
"""

from __future__ import annotations

import math

from rltune.core.decide import consider
from rltune.core.features import A_CAN, feature, look_around
from rltune.core.jit import kernel
from rltune.core.loop import advance
from rltune.core.network import fill_inputs, logit
from rltune.core.pools import make_pools
from rltune.core.queue import close_gaps
from rltune.core.scores import queue_end_in_view
from rltune.core.state import (
    CHOICES,
    CHOSEN,
    EPOCH,
    FIT_FIRST,
    FULL,
    LIMITED,
    N_CRITIC,
    NO_REASON,
    PASSES,
    Q_HEAD,
    ROWS,
    SEED_1,
    SEED_2,
    Options,
    Record,
    State,
    World,
)

INF = float("inf")


@kernel
def _uniform(r: Record) -> float:
    """Draw from (0, 1) by L'Ecuyer's combined generator (CACM 1988): the same on every machine."""
    a = (40014 * r.n[SEED_1]) % 2147483563
    b = (40692 * r.n[SEED_2]) % 2147483399
    r.n[SEED_1], r.n[SEED_2] = a, b
    return ((a - b) % 2147483562 + 1) / 2147483564.0


@kernel
def _gumbel(r: Record) -> float:
    return -math.log(-math.log(_uniform(r)))


@kernel
def _score(w: World, s: State, o: Options, r: Record, end: int) -> None:
    """Score the queue with noise: taking the best of these is drawing from the softmax of the logits."""
    look_around(w, s, o, end)
    for row in range(s.n[Q_HEAD], end):
        fill_inputs(w, s, row, s.hidden[2])
        s.queue[row].score = -(logit(w, s, s.hidden[2]) + _gumbel(r))


@kernel
def _is_candidate(s: State, o: Options, row: int) -> bool:
    shape = s.queue[row].asks
    if s.queue[row].score == INF or s.pool[s.demand[shape].pool].head >= 0:
        return False
    return o.backfill != FIT_FIRST or s.asked[shape][A_CAN] > 0.0


@kernel
def _best(s: State, o: Options, end: int) -> tuple[int, int]:
    """Give the place of the best candidate, -1 if there is none, and how many there are."""
    best = -1
    n = 0
    for row in range(s.n[Q_HEAD], end):
        if _is_candidate(s, o, row):
            n += 1
            if best < 0 or s.queue[row].score < s.queue[best].score:
                best = row
    return best, n


@kernel
def _write(w: World, s: State, o: Options, r: Record, end: int, best: int, n: int) -> None:
    """Write a choice and its candidates down."""
    if r.n[ROWS] + n > len(r.row) or r.n[CHOICES] + 1 >= len(r.first):
        r.n[FULL] = 1
        return
    at = r.n[ROWS]
    for row in range(s.n[Q_HEAD], end):
        if _is_candidate(s, o, row):
            fill_inputs(w, s, row, r.row[at])
            for i in range(N_CRITIC):
                r.critic[at, i] = feature(w, s, row, r.critic_of[i])
            if row == best:
                r.taken[r.n[CHOICES]] = at - r.n[ROWS]
            at += 1
    r.when[r.n[CHOICES]] = s.now[0]
    r.n[ROWS] = at
    r.n[CHOICES] += 1
    r.first[r.n[CHOICES]] = at


@kernel
def _look(w: World, s: State, o: Options, r: Record) -> bool:
    """Choose until a job starts or none is left to choose; True if one started."""
    s.n[EPOCH] += 1
    end = queue_end_in_view(s, o.in_view)
    if end == s.n[Q_HEAD]:
        return False
    make_pools(w, s, o.global_head)
    _score(w, s, o, r, end)
    while True:
        best, n = _best(s, o, end)
        if best < 0:
            return False
        r.n[CHOSEN] += 1
        if n > 1 and r.n[FULL] == 0:
            _write(w, s, o, r, end, best, n)
        reason = consider(w, s, o, best)
        s.life[s.queue[best].job].reason = reason
        if reason == NO_REASON:
            close_gaps(s, best, best)
            return True
        if reason == LIMITED or o.backfill == FIT_FIRST:
            s.queue[best].score = INF


@kernel
def rollout(w: World, s: State, o: Options, r: Record) -> None:
    """Run a window to its end, drawing every choice from the network."""
    while advance(w, s, o):
        s.n[PASSES] += 1
        while _look(w, s, o, r):
            pass

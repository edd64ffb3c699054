"""A look at the queue by something that chooses one job at a time: which may be next, and what taking one does.

Without backfilling a job that is taken and does not fit blocks its pool. Under fit-first only jobs that fit can be
taken; under EASY any until one blocks the pool, then those that fit. After a start comes a new look: the choice depends
on what is free.
"""

from __future__ import annotations

from rltune.kernel.backfill.job_turn import consider
from rltune.kernel.fit.pools import make_pools
from rltune.kernel.jit import kernel
from rltune.kernel.score.features import A_CAN, look_around
from rltune.kernel.score.overtaking import is_first_class
from rltune.kernel.score.rules import queue_end_in_view
from rltune.kernel.state.arrays import ACTIVE_N, EPOCH, FIT_FIRST, NO_BACKFILL, NO_REASON, Q_HEAD, Options, State, World
from rltune.kernel.state.queue import close_gaps

INF = float("inf")


@kernel
def begin_look(w: World, s: State, o: Options) -> int:
    """Work out what the jobs in view share; give the end of the view, its beginning if nothing could start now.

    Scores are for the caller to set. Pools in which nothing could start are shut: a choice there would change nothing.
    """
    s.n[EPOCH] += 1
    end = queue_end_in_view(s, o.in_view)
    if end == s.n[Q_HEAD]:
        return end
    make_pools(w, s, o.global_head)
    look_around(w, s, o, end)
    for g in range(len(s.pool)):
        s.pool[g].shut = 1
    open_pools = 0
    for i in range(s.n[ACTIVE_N]):
        shape = s.active[i]
        if s.asked[shape][A_CAN] > 0.0:
            s.pool[s.demand[shape].pool].shut = 0
            open_pools += 1
    return end if open_pools > 0 else s.n[Q_HEAD]


@kernel
def is_candidate(s: State, o: Options, row: int) -> bool:
    """Return whether the job in this place may be taken next."""
    shape = s.queue[row].asks
    pool = s.demand[shape].pool
    if s.queue[row].score == INF or s.pool[pool].shut:
        return False
    blocked = s.pool[pool].head >= 0
    if o.backfill == NO_BACKFILL:
        return not blocked
    may_block = o.backfill != FIT_FIRST or (o.guarded and is_first_class(s, row))
    return (may_block and not blocked) or s.asked[shape][A_CAN] > 0.0


@kernel
def best_candidate(s: State, o: Options, end: int) -> tuple[int, int]:
    """Return the place of the candidate with the lowest score (the oldest of several; -1 = none) and their number."""
    best = -1
    n = 0
    for row in range(s.n[Q_HEAD], end):
        if is_candidate(s, o, row):
            n += 1
            if best < 0 or s.queue[row].score < s.queue[best].score:
                best = row
    return best, n


@kernel
def take(w: World, s: State, o: Options, row: int) -> bool:
    """Let the job in this place have its turn; True if it started, else it is no candidate for the rest of the look."""
    reason = consider(w, s, o, row)
    s.life[s.queue[row].job].reason = reason
    if reason == NO_REASON:
        close_gaps(s, row, row)
        return True
    s.queue[row].score = INF
    return False

"""One scheduling pass: who starts now, and why the others do not.

Short cuts change the work, never the answer: jobs of a shape that is known not to fit are not tried, and a pass
ends when nothing that waits could still start.
"""

from __future__ import annotations

import numpy as np

from rltune.kernel.backfill.conservative import conservative_pass, nobody_came, plan_stands, start_due
from rltune.kernel.backfill.could_claim import (
    forget_unclaimed,
    note_best_scores,
    rank_movable,
    somebody_could_claim,
    somebody_could_claim_at_cost,
    stands_lower,
    vain_claims_last,
)
from rltune.kernel.backfill.easy import shadow_time
from rltune.kernel.backfill.inspector import inspected_look
from rltune.kernel.backfill.job_turn import consider, fits_now, known_to_delay, try_start
from rltune.kernel.backfill.pass_heap import (
    ALL_ROWS,
    BEST_OPEN,
    OPEN,
    fill_heap,
    may_claim,
    park,
    push_next,
    unpark,
)
from rltune.kernel.backfill.preempt import claim, let_displaced_wait, sort_movable, weigh_movable
from rltune.kernel.fit.allocate import find, picked_speed
from rltune.kernel.fit.pools import bar_pool, is_barring, make_pools, may_split
from rltune.kernel.fit.running import start_job
from rltune.kernel.jit import allocating_kernel, kernel
from rltune.kernel.score.overtaking import DUE
from rltune.kernel.score.rules import INSPECTED, LEARNED, queue_end_in_view, score_queue, static_score
from rltune.kernel.state.arrays import (
    ACTIVE_N,
    CONSERVATIVE,
    DISPLACED_N,
    EASY_BY,
    ENTERED,
    EPOCH,
    FIT_FIRST,
    LIMITED,
    NO_BACKFILL,
    NO_REASON,
    OUT_OF_VIEW,
    PASSES,
    Q_HEAD,
    Q_TAIL,
    RESOURCES,
    SHADOW,
    VAIN_ENTERED,
    WAITING,
    WHOLE_NODES,
    WOULD_DELAY_HEAD,
    Options,
    State,
    World,
)
from rltune.kernel.state.limits import start_is_allowed
from rltune.kernel.state.queue import close_gaps, settle_queue
from rltune.kernel.state.score_heap import heapify, pop_best, row_before
from rltune.kernel.state.vain_claims import forget_vain, note_vain, note_vain_shapes, stays_vain

INF = float("inf")
_MOST_PARTINGS = 8  # in a pass: about as much work as taking all from the heap


@kernel
def _cannot_backfill(s: State, o: Options, shape: int, estimate: float, pool: int) -> bool:
    """Return whether a job behind a head is known not to start, without trying."""
    if o.backfill == NO_BACKFILL or s.demand[shape].fails_from == -INF:
        return True
    return known_to_delay(s, shape, estimate, pool)


@kernel
def _count_open(w: World, s: State, o: Options) -> int:
    """Count the waiting shapes that may fit now, trying each that is not known to fail."""
    count = 0
    for i in range(s.n[ACTIVE_N]):
        shape = s.active[i]
        if s.demand[shape].fails_from > -INF:
            if not w.has_pauses and not find(w, s, shape, 0.0, o.placement):
                s.demand[shape].fails_from = -INF
            else:
                count += 1
    return count


@kernel
def _count_pools(w: World, s: State) -> int:
    """Count the pools in which jobs wait and none is barred yet."""
    for g in range(len(s.pool)):
        s.pool[g].best_closed = -1
    count = 0
    for mask in range(len(s.mask_waiting)):
        if s.mask_waiting[mask] > 0:
            pool = s.pool[w.mask_group[w.mask[mask].lo]].pool
            if s.pool[pool].best_closed == -1:
                s.pool[pool].best_closed = -2
                count += s.pool[pool].head < 0
    return count


@kernel
def _nothing_left(s: State, o: Options, shape: int, was_open: bool, left: int) -> int:
    """Return how many shapes (or, without backfilling, pools) can still start something after this turn."""
    if o.backfill == NO_BACKFILL:
        return left
    closed = s.demand[shape].waiting == 0 or s.demand[shape].fails_from == -INF
    return left - 1 if was_open and closed else left


@kernel
def _ordered_heads(w: World, s: State, o: Options, row: int) -> None:
    """Make the pools of those that still wait; the head of each is the first that has had its turn before this row."""
    make_pools(w, s, o.global_head)
    for i in range(s.n[Q_HEAD], row):
        if is_barring(w, s, i):
            bar_pool(s, i)


@kernel
def _scored_heads(w: World, s: State, o: Options, row: int, end: int) -> None:
    """Do the same where the queue is in order of age: those before this row are told by their scores."""
    make_pools(w, s, o.global_head)
    for g in range(len(s.pool)):
        s.pool[g].best_closed = -1
    for i in range(s.n[Q_HEAD], end):
        if row_before(s, i, row) and is_barring(w, s, i):
            pool = s.demand[s.queue[i].asks].pool
            best = s.pool[pool].best_closed
            if best < 0 or row_before(s, i, best):
                s.pool[pool].best_closed = i
                s.pool[pool].head = s.queue[i].job


@kernel
def _all_delay(s: State, shape: int, pool: int) -> bool:
    """Return whether every waiting job of a shape is known to delay the head, the shortest included."""
    return known_to_delay(s, shape, s.demand[shape].shortest, pool)


@kernel
def _begin_shortest(s: State) -> None:
    for i in range(s.n[ACTIVE_N]):
        s.demand[s.active[i]].seen_shortest = INF


@kernel
def _end_shortest(s: State) -> None:
    """Note which job of each shape is the shortest, when a pass has come past all of them."""
    for i in range(s.n[ACTIVE_N]):
        s.demand[s.active[i]].shortest = s.demand[s.active[i]].seen_shortest


@kernel
def _sorted_pass(w: World, s: State, o: Options, left: int) -> None:
    """Go through a queue that is always in order."""
    first = -1
    last = -1
    delaying = 0  # shapes of which nobody starts unless somebody else does: then they may find other nodes
    _begin_shortest(s)
    for row in range(s.n[Q_HEAD], s.n[Q_TAIL]):
        shape = s.queue[row].asks
        s.demand[shape].seen_shortest = min(s.demand[shape].seen_shortest, s.queue[row].estimate)
        pool = s.demand[shape].pool
        behind = s.pool[pool].head >= 0
        was_open = s.demand[shape].fails_from > -INF
        if behind and not o.explain and _cannot_backfill(s, o, shape, s.queue[row].estimate, pool):
            if w.has_limits and len(s.pool) > 1:  # should the pool be split, it matters who was passed over
                s.life[s.queue[row].job].reason = RESOURCES if start_is_allowed(w, s, s.queue[row].job) else LIMITED
            continue
        job = s.queue[row].job
        reason = consider(w, s, o, row)
        s.life[job].reason = reason
        if reason == NO_REASON:
            first = row if first < 0 else first
            last = row
            left += delaying
            delaying = 0
        if o.backfill == NO_BACKFILL and not behind and s.pool[pool].head >= 0:
            left -= 1
        left = _nothing_left(s, o, shape, was_open, left)
        if reason == WOULD_DELAY_HEAD and _all_delay(s, shape, pool):
            delaying += 1
            left -= 1
        if reason == NO_REASON and may_split(w, s, o, shape):
            _ordered_heads(w, s, o, row)
            pools = _count_pools(w, s)
            left = pools if o.backfill == NO_BACKFILL else left
        if left == 0 and not o.explain:
            break
    else:
        _end_shortest(s)
    if first >= 0:
        close_gaps(s, first, last)


@kernel
def _scored_pass(w: World, s: State, o: Options, open_shapes: int, pools: int, worst: float) -> bool:
    """Score the queue as of now and take the best, one by one; True if it should be scored anew for the rest.

    `worst`: the highest score of a running job that may be displaced; -inf if there is none.
    """
    end = queue_end_in_view(s, o.in_view)
    asked = end - s.n[Q_HEAD] > 1 or o.explain or o.policy == LEARNED or worst > -INF
    if asked:  # nobody asks for the score of one who waits alone
        score_queue(w, s, o, end, not o.explain)
    all_rows = o.explain or w.has_limits or w.has_pauses
    singly = asked and w.takes_turns and o.backfill == FIT_FIRST and not o.guarded and not all_rows
    best = note_best_scores(s, end) if worst > -INF or singly else INF
    rows = ALL_ROWS if all_rows else BEST_OPEN if singly and best > DUE else OPEN
    claims = worst > -INF and stands_lower(o, worst, best)
    lasting = worst > -INF and vain_claims_last(w, o)
    if not claims and lasting:
        note_vain(s, best)
    elif claims and not all_rows:
        claims = somebody_could_claim(w, s, o, worst)
        if not claims and lasting:
            note_vain_shapes(s)
    if claims:
        worst = weigh_movable(w, s, o)
        claims = stands_lower(o, worst, best) and (all_rows or somebody_could_claim_at_cost(w, s, o, worst))
    if claims:
        sort_movable(s)
    elif open_shapes == 0 and not o.explain:
        return False
    n = fill_heap(s, o, rows, worst if claims else -INF, end, -1)
    parked = parked_end = n
    partings = _MOST_PARTINGS if all_rows or claims else 0
    left = pools if o.backfill == NO_BACKFILL else open_shapes
    first = s.n[Q_TAIL]
    last = -1
    while n > 0:
        row = pop_best(s, n)
        n -= 1
        shape = s.queue[row].asks
        pool = s.demand[shape].pool
        behind = s.pool[pool].head >= 0
        was_open = s.demand[shape].fails_from > -INF
        reason = consider(w, s, o, row)
        claims = claims and stands_lower(o, worst, s.queue[row].score)
        if claims and reason != NO_REASON and _claims(w, s, o, row, behind, reason):
            reason = NO_REASON
            left = _count_open(w, s, o) if o.backfill != NO_BACKFILL else left
            was_open = False
            _count_pools(w, s)
            parked = parked_end = n = fill_heap(s, o, rows, worst, end, row)  # more may fit now
        elif claims and reason == RESOURCES and not all_rows and may_claim(s, o, row, worst):
            _count_pools(w, s)
            n = fill_heap(s, o, rows, worst, end, row)  # the next of its shape may be allowed what this one is not
        elif rows == BEST_OPEN and reason == NO_REASON:
            n = push_next(s, n, end, row)
        s.life[s.queue[row].job].reason = reason
        if reason == NO_REASON:
            first = min(first, row)
            last = max(last, row)
        if o.backfill == NO_BACKFILL and not behind and s.pool[pool].head >= 0:
            left -= 1
        left = _nothing_left(s, o, shape, was_open, left)
        if reason == NO_REASON and not o.relook and may_split(w, s, o, shape):
            _scored_heads(w, s, o, row, end)
            pools = _count_pools(w, s)
            left = pools if o.backfill == NO_BACKFILL else left
            parked = parked_end = n = fill_heap(s, o, rows, worst if claims else -INF, end, row)
        elif reason == NO_REASON and parked < parked_end:
            n = unpark(s, n, parked, parked_end, row)
            parked = parked_end
        elif reason == WOULD_DELAY_HEAD and partings < _MOST_PARTINGS:
            n, parked = park(s, n, parked)
            partings += 1
        over = left == 0 and not o.explain and (not claims or o.backfill == NO_BACKFILL)
        if over or (o.relook and last >= 0):
            break
    if o.backfill == SHADOW:
        first, last = _shadow_backfill(w, s, o, end, first, last)
    elif o.backfill == EASY_BY:
        first, last = _backfill_in_order(w, s, o, end, first, last)
    if last >= 0:
        close_gaps(s, first, last)
    return o.relook and last >= 0


@kernel
def _claims(w: World, s: State, o: Options, row: int, behind: bool, reason: int) -> bool:
    """Let a job that has had its turn in vain displace running ones: one that does not fit, and that no head bars.

    A job that only a limit holds displaces nobody.
    """
    shape = s.queue[row].asks
    in_vain = reason == RESOURCES or (reason == LIMITED and not fits_now(w, s, o, shape, s.queue[row].estimate))
    if not in_vain or not claim(w, s, o, row, behind):
        return False
    if not behind:
        s.pool[s.demand[shape].pool].head = -1
    return True


@kernel
def _shadow_backfill(w: World, s: State, o: Options, end: int, first: int, last: int) -> tuple[int, int]:
    """Start, oldest first, what fits and would end before the shadow time of its pool's head."""
    for row in range(s.n[Q_HEAD], end):
        job = s.queue[row].job
        pool = s.demand[s.queue[row].asks].pool
        head = s.pool[pool].head
        if s.life[job].status != WAITING or head < 0 or job == head:
            continue
        if s.pool[pool].reserved != s.pool[pool].reserved:  # NaN: not computed yet
            s.pool[pool].reserved = shadow_time(w, s, head, pool)
        if w.has_limits and not start_is_allowed(w, s, job):
            s.life[job].reason = LIMITED
        elif not fits_now(w, s, o, s.queue[row].asks, s.life[job].estimate):
            s.life[job].reason = RESOURCES
        elif s.now[0] + s.life[job].estimate / picked_speed(w, s, w.job[job].asks) < s.pool[pool].reserved:
            start_job(w, s, job)
            s.life[job].reason = NO_REASON
            first = min(first, row)
            last = max(last, row)
        else:
            s.life[job].reason = WOULD_DELAY_HEAD
    return first, last


@kernel
def _backfill_in_order(w: World, s: State, o: Options, end: int, first: int, last: int) -> tuple[int, int]:
    """Start, in the order for those behind heads, what fits and delays no head by EASY's rule."""
    n = 0
    for row in range(s.n[Q_HEAD], end):
        job = s.queue[row].job
        head = s.pool[s.demand[s.queue[row].asks].pool].head
        if s.life[job].status == WAITING and head >= 0 and job != head:
            s.queue[row].score = static_score(w, job, o.behind, s.life[job].rank)
            s.queue[row].tie = 0.0
            s.heap[n] = row
            n += 1
    heapify(s, n)
    while n > 0:
        row = pop_best(s, n)
        n -= 1
        reason = try_start(w, s, o, row)
        s.life[s.queue[row].job].reason = reason
        if reason == NO_REASON:
            first = min(first, row)
            last = max(last, row)
    return first, last


@allocating_kernel
def _conservative(w: World, s: State, o: Options) -> None:
    """Order all that is in view, then let every job have its reservation in turn, if the last plan does not stand."""
    # a job that starts gives back what its reservation kept of its nodes beyond its need: then all is planned anew
    stands = o.backfill == CONSERVATIVE and plan_stands(w, s) and not o.explain
    if stands and not o.dynamic and nobody_came(s):
        start_due(w, s)
        return
    end = queue_end_in_view(s, o.in_view)
    rows = np.arange(s.n[Q_HEAD], end)
    if o.dynamic:
        score_queue(w, s, o, end, False)
        for i in range(len(rows)):
            s.heap[i] = rows[i]
        heapify(s, len(rows))
        for i in range(len(rows)):
            rows[i] = pop_best(s, len(rows) - i)
    first, last = conservative_pass(w, s, o, rows, stands)
    if last >= 0:
        close_gaps(s, first, last)


@kernel
def make_pass(w: World, s: State, o: Options) -> None:
    """Make one pass over the waiting jobs as of now."""
    s.n[PASSES] += 1
    s.n[EPOCH] += 1
    s.n[DISPLACED_N] = 0
    settle_queue(s)
    if s.n[Q_HEAD] == s.n[Q_TAIL]:
        return
    if o.explain:
        for row in range(s.n[Q_HEAD], s.n[Q_TAIL]):
            s.life[s.queue[row].job].reason = OUT_OF_VIEW
    if o.backfill == CONSERVATIVE or o.backfill == WHOLE_NODES:  # noqa: PLR1714  numba has no tuple `in`
        _conservative(w, s, o)
        return
    if o.policy == INSPECTED:
        while inspected_look(w, s, o):
            pass
        return
    while _pass(w, s, o):
        s.n[EPOCH] += 1
        forget_unclaimed(s)  # scores are new: who of a shape comes first may be another
    if w.takes_turns:
        let_displaced_wait(w, s, o)


@kernel
def _worst_movable(w: World, s: State, o: Options) -> float:
    """Return the highest score of a running job that may be displaced; -inf if it is known that nobody could claim."""
    lasting = vain_claims_last(w, o)
    if lasting and stays_vain(s, o):
        if s.n[ENTERED] != s.n[VAIN_ENTERED]:
            score_queue(w, s, o, s.n[Q_TAIL], True)
            s.n[VAIN_ENTERED] = s.n[ENTERED]
        if stays_vain(s, o):
            return -INF
    forget_vain(s)
    worst = rank_movable(w, s, o)
    if worst == -INF and lasting:
        note_vain(s, -INF)
    return worst


@kernel
def _pass(w: World, s: State, o: Options) -> bool:
    """Go through the queue once; True if it should be looked at again."""
    ordered_none = o.backfill == NO_BACKFILL and not o.dynamic
    open_shapes = 1 if ordered_none else _count_open(w, s, o)
    worst = _worst_movable(w, s, o) if w.takes_turns else -INF
    if open_shapes == 0 and worst == -INF and not o.explain:
        return False
    make_pools(w, s, o.global_head)
    pools = _count_pools(w, s)
    if o.dynamic:
        return _scored_pass(w, s, o, open_shapes, pools, worst)
    _sorted_pass(w, s, o, pools if ordered_none else open_shapes)
    return False

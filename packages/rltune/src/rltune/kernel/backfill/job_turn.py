"""One job's turn in a pass: it starts, or there is a reason why it does not."""

from __future__ import annotations

from rltune.kernel.backfill.easy import lay_down_picked, leaves_head_its_place, reservation
from rltune.kernel.fit.allocate import find, picked_speed
from rltune.kernel.fit.running import start_job
from rltune.kernel.jit import kernel
from rltune.kernel.score.overtaking import is_protected
from rltune.kernel.state.arrays import (
    BEHIND_HEAD,
    DISTURBED,
    EASY,
    EASY_BY,
    EPOCH,
    FIT_FIRST,
    LIMITED,
    NO_BACKFILL,
    NO_REASON,
    RESOURCES,
    SHADOW,
    WOULD_DELAY_HEAD,
    Options,
    State,
    World,
)
from rltune.kernel.state.limits import start_is_allowed

INF = float("inf")


@kernel
def fits_now(w: World, s: State, o: Options, shape: int, estimate: float) -> bool:
    """Choose nodes for a job now, remembering a failure until something is released that could mend it."""
    if estimate >= s.demand[shape].fails_from:
        return False
    if find(w, s, shape, estimate, o.placement):
        return True
    s.demand[shape].fails_from = estimate if w.has_pauses else -INF
    return False


@kernel
def _delays_head(w: World, s: State, job: int, pool: int) -> bool:
    """Return whether a job on the nodes in s.pick would delay its pool's head, by EASY's rule."""
    time = s.pool[pool].reserved
    if time != time:  # NaN: not computed yet  # noqa: PLR0124
        time = reservation(w, s, pool)
    shape = w.job[job].asks
    speed = picked_speed(w, s, shape)
    if s.now[0] + s.life[job].estimate / speed <= time or leaves_head_its_place(w, s, job, pool):
        return False
    if not w.has_pauses:  # else one that lasts longer may find other nodes
        s.demand[shape].late_at = s.n[EPOCH]
        s.demand[shape].late_speed = speed
    return True


@kernel
def known_to_delay(s: State, shape: int, estimate: float, pool: int) -> bool:
    """Return whether a job of this shape was found to delay the head since anything changed, and this one would too."""
    demand = s.demand[shape]
    return demand.late_at == s.n[EPOCH] and s.now[0] + estimate / demand.late_speed > s.pool[pool].reserved


@kernel
def keeps_place(w: World, s: State, o: Options, pool: int) -> bool:
    """Return whether jobs behind the pool's head must not delay it: by EASY's rule, or because it is protected."""
    by_rule = o.backfill == EASY or o.backfill == EASY_BY  # noqa: PLR1714  numba has no tuple `in`
    return by_rule or (o.backfill == FIT_FIRST and is_protected(w, s, o, s.pool[pool].head))


@kernel
def consider(w: World, s: State, o: Options, row: int) -> int:
    """Start the job in this place of the queue if its turn allows; else give the reason."""
    behind = s.pool[s.demand[s.queue[row].asks].pool].head >= 0
    later = o.backfill == SHADOW or o.backfill == EASY_BY  # noqa: PLR1714  numba has no tuple `in`
    if behind and (later or o.backfill == NO_BACKFILL):
        return BEHIND_HEAD
    return try_start(w, s, o, row)


@kernel
def try_start(w: World, s: State, o: Options, row: int) -> int:
    """Start the job in this place of the queue if limits, nodes and the pool's head allow; else give the reason."""
    job = s.queue[row].job
    shape = s.queue[row].asks
    pool = s.demand[shape].pool
    behind = s.pool[pool].head >= 0
    if w.has_limits and not start_is_allowed(w, s, job):
        return LIMITED
    if behind and known_to_delay(s, shape, s.queue[row].estimate, pool):
        return WOULD_DELAY_HEAD
    if not fits_now(w, s, o, shape, s.queue[row].estimate):
        if not behind:
            s.pool[pool].head = job
        return RESOURCES
    keeps = behind and keeps_place(w, s, o, pool)
    if keeps and _delays_head(w, s, job, pool):
        return WOULD_DELAY_HEAD
    if keeps:
        lay_down_picked(s, pool, w.shape[shape].chunks)
    start_job(w, s, job)
    if keeps:
        s.pool[pool].kept_mark = s.n[DISTURBED]  # the reservation knows of this one here
    return NO_REASON

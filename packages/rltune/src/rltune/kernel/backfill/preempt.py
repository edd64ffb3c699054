"""Taking turns: who may be displaced for whom, and who is. The rules stand in docs/reference/preemption.md."""

from __future__ import annotations

import math

from rltune.kernel.backfill.could_claim import orders_by_work, score_of, stands_lower
from rltune.kernel.backfill.easy import leave_then, leaves_head_its_place, reservation, reserve
from rltune.kernel.backfill.job_turn import keeps_place
from rltune.kernel.fit.allocate import find, lend_nodes, picked_speed
from rltune.kernel.fit.running import drop_end, start_job, stop_job
from rltune.kernel.jit import kernel
from rltune.kernel.score.overtaking import is_first_class
from rltune.kernel.score.rules import static_score
from rltune.kernel.state.arrays import (
    DISPLACED_N,
    HELD,
    MOVABLE_N,
    PASSES,
    Q_HEAD,
    Q_TAIL,
    RUNNING,
    VICTIMS_N,
    WILLING_N,
    Options,
    State,
    World,
)
from rltune.kernel.state.attained import work_done
from rltune.kernel.state.limits import count_running, start_is_allowed
from rltune.kernel.state.online_survival import mean_left
from rltune.kernel.state.queue import enqueue
from rltune.kernel.state.spells import count_turn, end_spell, stop_loss, work_to_repeat
from rltune.kernel.state.tolls import (
    can_be_called_in,
    go_away,
    gpus_to_spare,
    is_away,
    is_due,
    next_due,
    note_patience,
)

INF = float("inf")
EXACT = 8  # candidates up to which every set of them is tried


@kernel
def next_turn(s: State, o: Options) -> float:
    """Return when a pass comes though nothing happens: now, if the last displaced anybody, else at the next tick."""
    now = s.now[0]
    if s.n[DISPLACED_N] > 0:
        return now
    due = next_due(s)
    if s.n[Q_HEAD] == s.n[Q_TAIL] or s.n[WILLING_N] == 0:
        return due
    tick = (math.floor(now / o.turn_s) + 1.0) * o.turn_s
    return min(tick if tick > now else tick + o.turn_s, due)


@kernel
def _pays(w: World, s: State, o: Options, job: int, cost: float) -> bool:
    """Return whether a running job is worth displacing at all; where scores are work, the cost is taken off its own."""
    if orders_by_work(o):
        s.turn[job].score -= cost
        return True
    return w.job[job].rank_n * mean_left(w, s, job, work_done(w, s, job)) > cost


@kernel
def _cheaper(s: State, a: int, b: int) -> bool:
    return s.turn[a].loss < s.turn[b].loss or (s.turn[a].loss == s.turn[b].loss and a < b)


@kernel
def weigh_movable(w: World, s: State, o: Options) -> float:
    """Keep those whom it pays to displace; return the highest score left with the cost taken off, -inf if none is.

    It is asked only if somebody comes first.
    """
    weight = o.cost_once + o.cost_each * (s.n[Q_TAIL] - s.n[Q_HEAD])
    worst = -INF
    n = 0
    for i in range(s.n[MOVABLE_N]):
        job = s.movable[i]
        s.turn[job].score = score_of(s, job)
        s.turn[job].loss = stop_loss(w, s, job)
        if _pays(w, s, o, job, weight * s.turn[job].loss):
            s.movable[n] = job
            n += 1
            worst = max(worst, s.turn[job].score)
    s.n[MOVABLE_N] = n
    return worst


@kernel
def sort_movable(s: State) -> None:
    """Put those who are left in order of (GPU-seconds lost, job), by Shell's method: quick enough for a few hundred."""
    n = s.n[MOVABLE_N]
    gap = n // 2
    while gap > 0:
        for i in range(gap, n):
            job = s.movable[i]
            k = i
            while k >= gap and _cheaper(s, job, s.movable[k - gap]):
                s.movable[k] = s.movable[k - gap]
                k -= gap
            s.movable[k] = job
        gap //= 2


@kernel
def _is_in_reach(w: World, s: State, job: int, mask: int) -> bool:
    """Return whether a running job has a chunk on a node of these groups."""
    first = w.job[job].chunk_at
    for at in range(first, first + w.shape[s.life[job].form].chunks):
        if w.mask_has[mask, s.node[s.at[at].node].group]:
            return True
    return False


@kernel
def _list_candidates(w: World, s: State, o: Options, row: int) -> int:
    """List in s.victim whom the job in this place may displace, the cheapest first; return how many."""
    mask = w.shape[s.queue[row].asks].mask
    n = 0
    for i in range(s.n[MOVABLE_N]):
        job = s.movable[i]
        if (
            s.life[job].status == RUNNING
            and stands_lower(o, s.turn[job].score, s.queue[row].score)
            and _is_in_reach(w, s, job, mask)
        ):
            s.victim[n] = job
            n += 1
    return n


@kernel
def _lend_set(w: World, s: State, n: int, chosen: int, sign: int) -> None:
    """Free the nodes of the candidates that are bits of a number, or take them again."""
    for i in range(n):
        if chosen >> i & 1:
            lend_nodes(w, s, s.victim[i], sign)


@kernel
def _gpus_freed(w: World, s: State, i: int, node: int) -> int:
    """Count the GPUs that a candidate holds on a node."""
    gpus = 0
    first = w.job[s.victim[i]].chunk_at
    for at in range(first, first + w.shape[s.life[s.victim[i]].form].chunks):
        if s.at[at].node == node:
            gpus += s.at[at].gpus
    return gpus


@kernel
def _frees_gpus(w: World, s: State, shape: int, n: int, chosen: int) -> bool:
    """Return whether one node of these candidates would have the GPUs for a job of one node, which fits nowhere now."""
    for i in range(n):
        if not chosen >> i & 1:
            continue
        first = w.job[s.victim[i]].chunk_at
        for at in range(first, first + w.shape[s.life[s.victim[i]].form].chunks):
            gpus = s.node[s.at[at].node].gpu
            for k in range(n):
                if chosen >> k & 1:
                    gpus += _gpus_freed(w, s, k, s.at[at].node)
            if gpus >= w.chunk[shape, 0].gpus:
                return True
    return False


@kernel
def _choose_exactly(w: World, s: State, o: Options, shape: int, estimate: float, n: int) -> bool:
    """Find the set that loses least, of equals the lowest as a number; leave it in s.victim, its nodes lent."""
    best = 0
    least = INF
    on_one_node = w.shape[shape].chunks == 1 and w.shape[shape].wider_hi == w.shape[shape].wider_lo
    for chosen in range(1, 1 << n):
        loss = 0.0
        for i in range(n):
            if chosen >> i & 1:
                loss += s.turn[s.victim[i]].loss
        if loss < least and (not on_one_node or _frees_gpus(w, s, shape, n, chosen)):
            _lend_set(w, s, n, chosen, 1)
            if find(w, s, shape, estimate, o.placement):
                best = chosen
                least = loss
            _lend_set(w, s, n, chosen, -1)
    kept = 0
    for i in range(n):
        if best >> i & 1:
            s.victim[kept] = s.victim[i]
            lend_nodes(w, s, s.victim[kept], 1)
            kept += 1
    s.n[VICTIMS_N] = kept
    return kept > 0


@kernel
def _choose_greedily(w: World, s: State, o: Options, shape: int, estimate: float, n: int) -> bool:
    """Add candidates until the job fits, then leave out, the last first, whoever is not needed."""
    added = 0
    fits = False
    while added < n and not fits:
        lend_nodes(w, s, s.victim[added], 1)
        added += 1
        fits = find(w, s, shape, estimate, o.placement)
    if not fits:
        _lend_first(w, s, added, -1)
        return False
    for i in range(added - 2, -1, -1):
        lend_nodes(w, s, s.victim[i], -1)
        if find(w, s, shape, estimate, o.placement):
            s.victim[i] = -1
        else:
            lend_nodes(w, s, s.victim[i], 1)
    kept = 0
    for i in range(added):
        if s.victim[i] >= 0:
            s.victim[kept] = s.victim[i]
            kept += 1
    s.n[VICTIMS_N] = kept
    return True


@kernel
def _lend_first(w: World, s: State, n: int, sign: int) -> None:
    for i in range(n):
        lend_nodes(w, s, s.victim[i], sign)


@kernel
def _could_fit(w: World, s: State, o: Options, shape: int, estimate: float, n: int) -> bool:
    """Return whether a job would fit if all candidates stopped; if not, nobody of its shape will in this pass.

    Later in a pass less is free, and who comes later may displace nobody whom this one may not.
    """
    _lend_first(w, s, n, 1)
    fits = find(w, s, shape, estimate, o.placement)
    _lend_first(w, s, n, -1)
    if not fits and not w.has_pauses:
        s.demand[shape].unclaimed_in = s.n[PASSES]
    return fits


@kernel
def _limits_allow(w: World, s: State, job: int) -> bool:
    """Return whether limits allow the job to start once its victims have stopped."""
    for i in range(s.n[VICTIMS_N]):
        count_running(w, s, s.victim[i], -1)
    allowed = start_is_allowed(w, s, job)
    for i in range(s.n[VICTIMS_N]):
        count_running(w, s, s.victim[i], 1)
    return allowed


@kernel
def _head_keeps_place(w: World, s: State, job: int, pool: int) -> bool:
    """Return whether the job in s.pick, its victims gone, leaves the head its reservation as it was before."""
    gone = s.now[0] + s.life[job].estimate / picked_speed(w, s, w.job[job].asks) <= s.pool[pool].reserved
    if s.pool[pool].reserved == INF or gone:
        return True
    for i in range(s.n[VICTIMS_N]):
        leave_then(w, s, s.victim[i], pool, 1)
    if leaves_head_its_place(w, s, job, pool):
        return True
    for i in range(s.n[VICTIMS_N]):
        leave_then(w, s, s.victim[i], pool, -1)
    return False


@kernel
def _debts_are_covered(w: World, s: State, o: Options, job: int) -> bool:
    """Return whether there would be GPUs to bring the victims back, beside all who are away already."""
    if is_due(w, s, job):
        return True
    taken = 0 if can_be_called_in(w, s, o, job) else w.job[job].gpus
    if is_away(s, job):
        taken -= w.job[job].gpus
    for i in range(s.n[VICTIMS_N]):
        taken += w.job[s.victim[i]].gpus
    for i in range(s.n[VICTIMS_N]):
        if gpus_to_spare(w, s, o, w.shape[w.job[s.victim[i]].asks].mask) < taken:
            return False
    return True


@kernel
def _gains_enough(w: World, s: State, o: Options, row: int, pool: int) -> bool:
    """Return whether a job gains enough time by a claim, for itself and whom it lets through, beside what is lost."""
    job = s.queue[row].job
    gain = o.gain * (reserve(w, s, job, pool) - s.now[0])
    hold = s.queue[row].score / w.job[job].rank_n
    for i in range(s.n[VICTIMS_N]):
        victim = s.victim[i]
        gain -= hold + work_to_repeat(w, s, victim) / s.life[victim].speed
    return gain >= 0.0


@kernel
def _pays_and_can_be_paid_back(w: World, s: State, o: Options, row: int, pool: int) -> bool:
    if o.covered and w.has_tolls and not _debts_are_covered(w, s, o, s.queue[row].job):
        return False
    weighed = orders_by_work(o) and o.gain < INF and not is_first_class(s, row)
    return not weighed or _gains_enough(w, s, o, row, pool)


@kernel
def claim(w: World, s: State, o: Options, row: int, behind: bool) -> bool:
    """Start the job in this place of the queue, which does not fit, in place of running ones, if the rules allow."""
    job = s.queue[row].job
    shape = s.queue[row].asks
    pool = s.demand[shape].pool
    estimate = s.queue[row].estimate
    if s.demand[shape].unclaimed_in == s.n[PASSES]:
        return False
    n = _list_candidates(w, s, o, row)
    if n == 0:
        s.demand[shape].unclaimed_in = s.n[PASSES]
        return False
    if not _could_fit(w, s, o, shape, estimate, n):
        return False
    keeps = behind and keeps_place(w, s, o, pool)
    if keeps and s.pool[pool].reserved != s.pool[pool].reserved:  # NaN: not computed yet
        reservation(w, s, pool)
    if n <= EXACT:
        _choose_exactly(w, s, o, shape, estimate, n)
    else:
        _choose_greedily(w, s, o, shape, estimate, n)
    find(w, s, shape, estimate, o.placement)
    allowed = not w.has_limits or _limits_allow(w, s, job)
    allowed = allowed and (not keeps or _head_keeps_place(w, s, job, pool))
    _lend_first(w, s, s.n[VICTIMS_N], -1)
    if allowed and not _pays_and_can_be_paid_back(w, s, o, row, pool):
        s.pool[pool].reserved = float("nan")  # what was noted for the pool's head is not so
        s.pool[pool].kept_mark = -1
        return False
    if allowed:
        _displace_for(w, s, o, job, shape, estimate)
    return allowed


@kernel
def _displace_for(w: World, s: State, o: Options, job: int, shape: int, estimate: float) -> None:
    for i in range(s.n[VICTIMS_N]):
        victim = s.victim[i]
        if w.has_tolls:
            note_patience(w, s, o, victim)
        interrupt(w, s, o, victim)
        count_turn(s, victim)
        if w.has_tolls:
            go_away(s, o, victim)
        s.life[victim].status = HELD  # it waits from the end of the pass on
        s.displaced[s.n[DISPLACED_N]] = victim
        s.n[DISPLACED_N] += 1
    find(w, s, shape, estimate, o.placement)
    start_job(w, s, job)
    for g in range(len(s.pool)):
        s.pool[g].reserved = float("nan")  # who has stopped may have been in the way of any head


@kernel
def interrupt(w: World, s: State, o: Options, job: int) -> None:
    """Stop a running job before its end."""
    drop_end(s, job)
    stop_job(w, s, job)
    s.life[job].planned = float("nan")
    if w.takes_turns:
        end_spell(w, s, o, job)
        s.life[job].key = static_score(w, job, o.policy, s.life[job].rank)


@kernel
def let_displaced_wait(w: World, s: State, o: Options) -> None:
    """Put those into the queue who were displaced in the pass that ends; another pass follows."""
    for i in range(s.n[DISPLACED_N]):
        enqueue(w, s, s.displaced[i], o.dynamic)

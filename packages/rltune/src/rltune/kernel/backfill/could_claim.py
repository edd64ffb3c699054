"""Taking turns: whether anybody could claim nodes at all, asked before anybody's cost is worked out."""

from __future__ import annotations

from rltune.kernel.fit.allocate import find, lend_nodes
from rltune.kernel.jit import kernel
from rltune.kernel.score.rules import orders_by_network, score_mover, scores_last
from rltune.kernel.score.taking_turns import las_cuts
from rltune.kernel.state.arrays import (
    ACTIVE_N,
    BY_GITTINS,
    BY_LAS,
    BY_SRSF,
    EDITION,
    MOVABLE_N,
    MOVERS_N,
    PASSES,
    Q_HEAD,
    STAMP,
    VAIN_UNTIL,
    Options,
    State,
    World,
)
from rltune.kernel.state.spells import turns_today
from rltune.kernel.state.tolls import has_patience, is_surely_patient
from rltune.kernel.state.vain_claims import ROUNDING_S

INF = float("inf")


@kernel
def vain_claims_last(w: World, o: Options) -> bool:
    """Return whether what a pass finds on claims holds for later ones, until something changes that is seen."""
    return scores_last(w, o) and o.max_a_day == 0 and o.in_view == 0 and not w.has_limits and not w.has_pauses


@kernel
def _look_at_spell(w: World, s: State, o: Options, i: int) -> None:
    """Note of one of the willing what holds in all of its spell."""
    mover = s.mover[i]
    job = mover.job
    settled = w.has_tolls and s.turn[job].settled != 0 and o.late_times == INF
    mover.barred = s.turn[job].preemptions >= o.max_preemptions or settled
    mover.patient = not w.has_tolls or is_surely_patient(w, s, o, job)


@kernel
def _may_be_displaced(w: World, s: State, o: Options, i: int) -> bool:
    """Return whether one of the willing may be displaced, which has run for about long enough or is not surely patient.

    Then that may change at any time.
    """
    mover = s.mover[i]
    s.mark[VAIN_UNTIL] = s.now[0]
    return (
        s.now[0] - mover.start >= mover.hold + o.min_run_s
        and (o.max_a_day == 0 or turns_today(s, mover.job) < o.max_a_day)
        and (mover.patient or has_patience(w, s, o, mover.job))
    )


@kernel
def rank_movable(w: World, s: State, o: Options) -> float:
    """List the running jobs that may be displaced in this pass, and score them; return the highest score, -inf if none.

    Who starts in this pass is not listed, so nobody starts and stops in one. Until when nothing of this changes is
    noted as well.
    """
    now = s.now[0]
    worst = -INF
    until = INF
    s.mark[VAIN_UNTIL] = INF
    s.n[MOVABLE_N] = 0
    if o.max_preemptions == 0:  # nothing is noted of a spell then: a later look may allow more
        return -INF
    cuts = las_cuts(s) if o.turns == BY_LAS else (0.0, 0.0)
    n = 0
    for i in range(s.n[MOVERS_N]):
        mover = s.mover[i]
        if mover.barred < 0:
            _look_at_spell(w, s, o, i)
        if mover.barred > 0 or mover.started_in == s.n[PASSES]:
            continue
        ready = mover.start + mover.hold + o.min_run_s
        if now < ready - ROUNDING_S:
            until = min(until, ready - ROUNDING_S)
            continue
        sure = mover.patient and o.max_a_day == 0 and now > ready + ROUNDING_S
        if not sure and not _may_be_displaced(w, s, o, i):
            continue
        if now >= mover.until or mover.edition != s.n[EDITION]:
            score_mover(w, s, o, i, cuts)
        until = min(until, mover.until)
        worst = max(worst, mover.score)
        s.movable[n] = mover.job
        n += 1
    s.n[MOVABLE_N] = n
    s.mark[VAIN_UNTIL] = min(s.mark[VAIN_UNTIL], until)
    if o.turns == BY_LAS and worst <= 0.0 and not o.guarded and not w.has_tolls:
        return -INF  # nobody who waits stands higher than the first level
    return worst


@kernel
def orders_by_work(o: Options) -> bool:
    """Return whether scores are GPU-seconds of work."""
    return o.turns == BY_SRSF or o.turns == BY_GITTINS or orders_by_network(o)  # noqa: PLR1714  numba has no tuple `in`


@kernel
def stands_lower(o: Options, score: float, claimant: float) -> bool:
    """Return whether a running job's score is higher than a claimant's by the margin of the order."""
    return score > (o.margin * claimant if orders_by_work(o) and claimant > 0.0 else claimant)


@kernel
def score_of(s: State, job: int) -> float:
    """Return the score of a running job that is willing, as of this pass, before any cost is taken off."""
    return s.mover[s.turn[job].mover_at].score


@kernel
def somebody_could_claim(w: World, s: State, o: Options, worst: float) -> bool:
    """Note which shapes cannot claim nodes in this pass, whatever it costs; return whether any could.

    GPUs alone are counted, of all who stand lower than the best of those that could claim: nobody else will be
    displaced. That tells it of most shapes, and takes a fraction of the work.
    """
    return _some_are_left(w, s, o, worst, True, False)


@kernel
def somebody_could_claim_at_cost(w: World, s: State, o: Options, worst: float) -> bool:
    """Do the same for those whom it pays to displace: by GPUs first, then with CPUs, memory and all."""
    return _some_are_left(w, s, o, worst, True, True) and _some_are_left(w, s, o, worst, False, True)


@kernel
def _some_are_left(w: World, s: State, o: Options, worst: float, by_count: bool, weighed: bool) -> bool:
    before = -INF
    best = _best_claimant(s)
    while best > before and stands_lower(o, worst, best):
        if by_count:
            _count_if_lower_stopped(w, s, o, best, weighed)
        else:
            _lend_lower(w, s, o, best, 1)
        for i in range(s.n[ACTIVE_N]):
            shape = s.active[i]
            if s.demand[shape].unclaimed_in == s.n[PASSES]:
                continue
            if not (_has_gpus(w, s, shape) if by_count else find(w, s, shape, 0.0, o.placement)):
                s.demand[shape].unclaimed_in = s.n[PASSES]
        if not by_count:
            _lend_lower(w, s, o, best, -1)
        before = best
        best = _best_claimant(s)
    return stands_lower(o, worst, best)


@kernel
def forget_unclaimed(s: State) -> None:
    """Forget which shapes cannot claim nodes in this pass: the queue is scored anew."""
    for i in range(s.n[ACTIVE_N]):
        s.demand[s.active[i]].unclaimed_in = -1


@kernel
def note_best_scores(s: State, last: int) -> float:
    """Note the best score of each shape in the queue; return the best of all."""
    for i in range(s.n[ACTIVE_N]):
        s.demand[s.active[i]].best = INF
    for row in range(s.n[Q_HEAD], last):
        demand = s.demand[s.queue[row].asks]
        demand.best = min(demand.best, s.queue[row].score)
    best = INF
    for i in range(s.n[ACTIVE_N]):
        best = min(best, s.demand[s.active[i]].best)
    return best


@kernel
def _best_claimant(s: State) -> float:
    """Return the best score of those of whom it is not known that they cannot claim."""
    best = INF
    for i in range(s.n[ACTIVE_N]):
        if s.demand[s.active[i]].unclaimed_in != s.n[PASSES]:
            best = min(best, s.demand[s.active[i]].best)
    return best


@kernel
def _lend_lower(w: World, s: State, o: Options, best: float, sign: int) -> None:
    for i in range(s.n[MOVABLE_N]):
        if stands_lower(o, s.turn[s.movable[i]].score, best):
            lend_nodes(w, s, s.movable[i], sign)


@kernel
def _count_if_lower_stopped(w: World, s: State, o: Options, best: float, weighed: bool) -> None:
    """Count the nodes by how many GPUs would be free, if all stopped who stand lower than a claimant."""
    s.n[STAMP] += 1
    stamp = s.n[STAMP]
    for i in range(len(s.level)):
        s.could_level[i] = s.level[i]
        s.touched_level[i] = 0
    for i in range(s.n[MOVABLE_N]):
        job = s.movable[i]
        if not stands_lower(o, s.turn[job].score if weighed else score_of(s, job), best):
            continue
        first = w.job[job].chunk_at
        for at in range(first, first + w.shape[s.life[job].form].chunks):
            node = s.node[s.at[at].node]
            if node.up:
                gpus = s.at[at].gpus
                if node.could_in != stamp:
                    node.could_in = stamp
                    node.could = node.gpu
                    s.touched_level[w.group[node.group].level_at + node.could] += 1
                level = w.group[node.group].level_at + node.could
                s.could_level[level] -= 1
                s.could_level[level + gpus] += 1
                s.touched_level[level] -= 1
                s.touched_level[level + gpus] += 1
                node.could += gpus


@kernel
def _has_gpus(w: World, s: State, shape: int) -> bool:
    """Return whether GPUs would do for a shape: enough nodes for its largest chunks, one of a victim for its smallest.

    A claimant starts on a node of each of its victims. Who may be cut otherwise is let by.
    """
    if w.shape[shape].wider_hi > w.shape[shape].wider_lo:
        return True
    mask = w.shape[shape].mask
    wanted = w.chunk[shape, 0].n
    touched = 0
    for m in range(w.mask[mask].lo, w.mask[mask].hi):
        group = w.group[w.mask_group[m]]
        for level in range(w.chunk[shape, 0].gpus, group.gpus + 1):
            wanted -= s.could_level[group.level_at + level]
        for level in range(w.shape[shape].smallest, group.gpus + 1):
            touched += s.touched_level[group.level_at + level]
    return wanted <= 0 and touched > 0

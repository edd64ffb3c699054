"""The rules' scores; lower runs first. Formulas and their sources stand in docs/reference/policies.md."""

from __future__ import annotations

import math

from rltune.kernel.jit import kernel
from rltune.kernel.score.features import A_CAN, BASE, DRIFT, DRIFT_WHOLE, look_around
from rltune.kernel.score.network import fill_inputs, logit, score_in_turns
from rltune.kernel.score.overtaking import DUE, guard_queue, guarded_score, put_due_first
from rltune.kernel.score.shared_scores import share_scores
from rltune.kernel.score.taking_turns import LAST_LEVEL, attained_for, las_cuts, turn_score
from rltune.kernel.state.arrays import (
    BY_GITTINS,
    BY_LAS,
    BY_POLICY,
    BY_SRSF,
    DRIFTED,
    EASY_BY,
    EDITION,
    FELL_BACK,
    FIT_FIRST,
    LOOKED,
    NO_TURNS,
    Q_HEAD,
    Q_TAIL,
    RESCORE_AT,
    SCORED,
    SCORED_EDITION,
    SLA_BY_BASE,
    Options,
    State,
    World,
)
from rltune.kernel.state.attained import work_done
from rltune.kernel.state.fair_share import MAX_AGE, TIME_SCALE, W_AGE, W_FAIR, W_TIME, fair_share, share_among_waiting
from rltune.kernel.state.online_survival import BY_ESTIMATE, EDGES, edge, edge_before
from rltune.kernel.state.score_heap import heapify, pop_best
from rltune.kernel.state.spells import rank_left
from rltune.kernel.state.tolls import is_due, next_due
from rltune.kernel.state.vain_claims import look_at_newcomer

FCFS, SJF, SRF, SAF, F1, WFP3, UNICEP, MULTIFACTOR, GIVEN, LEARNED, INSPECTED, FIXED = range(12)
TINY = 1e-15
_ROUNDING_S = 0.001  # no sum of times here is wrong by as much
INF = float("inf")


@kernel
def f1_score(rank: float, n: float, submit: float) -> float:
    """Return log10(r) n + 870 log10(s), with 0.1 in place of an argument that is not positive (Carastan-Santos)."""
    if rank <= 0.0:
        rank = 0.1
    if submit <= 0.0:
        submit = 0.1
    return math.log10(rank) * n + 870.0 * math.log10(submit)


@kernel
def static_score(w: World, job: int, policy: int, rank: float) -> float:
    """Score a job that is believed to last so long by a rule that does not look at the clock."""
    if policy == FCFS:
        return w.job[job].submit
    if policy == SJF:
        return rank
    if policy == SRF:
        return w.job[job].rank_n
    if policy == SAF:
        return w.job[job].rank_n * rank
    if policy == FIXED:
        return -w.job[job].fixed_priority
    return f1_score(rank, w.job[job].rank_n, w.job[job].submit)


@kernel
def wfp3_score(wait: float, rank: float, n: float) -> float:
    """Return -(w / r)^3 n (Tang 2009)."""
    ratio = wait / max(rank, TINY)
    return -(ratio * ratio * ratio) * n


@kernel
def unicep_score(wait: float, rank: float, n: float) -> float:
    """Return -w / (log2(n) r), the logarithm floored so that it divides (Tang 2009)."""
    return -wait / (max(math.log2(n), TINY) * max(rank, TINY))


@kernel
def multifactor_weights(w: World) -> tuple[float, float, float, float]:
    """Return what is the same for all jobs of a pass: weights of age, fair share and time, and age by the second."""
    p = w.factor_par
    return p[W_AGE], p[W_FAIR], p[W_TIME], 1.0 / p[MAX_AGE]


@kernel
def multifactor_score(w: World, s: State, job: int, weights: tuple[float, float, float, float], rank: float) -> float:
    """Return minus the priority of Slurm's multifactor plugin: each factor in [0, 1] times its weight."""
    by_age, by_fair, by_time, age_a_second = weights
    own = w.job[job]
    age = (s.now[0] - own.submit) * age_a_second
    priority = own.fixed_priority + (by_age * age if age < 1.0 else by_age)
    if by_fair != 0.0:
        priority += by_fair * fair_share(w, s, own)
    if by_time != 0.0:
        priority += by_time * (1.0 - min(1.0, rank / w.factor_par[TIME_SCALE]))
    return -priority


@kernel
def base_score(w: World, s: State, job: int, policy: int, rank: float) -> float:
    """Score one job that is believed to last so long by any rule."""
    if policy == WFP3:
        return wfp3_score(s.now[0] - w.job[job].submit, rank, w.job[job].rank_n)
    if policy == UNICEP:
        return unicep_score(s.now[0] - w.job[job].submit, rank, w.job[job].rank_n)
    if policy == MULTIFACTOR:
        return multifactor_score(w, s, job, multifactor_weights(w), rank)
    return static_score(w, job, policy, rank)


@kernel
def score_by_base(w: World, s: State, last: int) -> None:
    """Score the queue by the rule that a network stands beside."""
    base = w.net_plan[BASE]
    for i in range(s.n[Q_HEAD], last):
        s.queue[i].score = base_score(w, s, s.queue[i].job, base, s.life[s.queue[i].job].rank)


@kernel
def score_by_network(w: World, s: State, o: Options, last: int, only_fitting: bool) -> None:
    """Score the queue by the learned network; jobs unlike those of training by its base policy."""
    look_around(w, s, o, last)
    outside = 0
    s.n[LOOKED] += 1
    for i in range(s.n[Q_HEAD], last):
        if only_fitting and s.asked[s.queue[i].asks][A_CAN] == 0.0:
            s.queue[i].score = float("inf")
            continue
        if o.sla_by_base and w.job[s.queue[i].job].sla == SLA_BY_BASE:
            s.queue[i].score = float("inf")  # nobody's neighbour; its place is found below
            continue
        inside = fill_inputs(w, s, i, s.hidden[2])
        s.queue[i].score = -logit(w, s, s.hidden[2]) if inside else float("nan")
        outside += not inside
        s.n[SCORED] += 1
    if outside > 0:
        s.n[DRIFTED] += outside
        _fall_back(w, s, last, outside)
    if o.sla_by_base:
        _keep_sla_in_base_order(w, s, last)


@kernel
def _fall_back(w: World, s: State, last: int, outside: int) -> None:
    """Let the base policy score all, or place each strange job beside its neighbour in the base policy's order."""
    head = s.n[Q_HEAD]
    if w.net_plan[DRIFT] == DRIFT_WHOLE or 2 * outside > last - head:
        s.n[FELL_BACK] += 1
        score_by_base(w, s, last)
        return
    _note_base_scores(w, s, last)
    for i in range(head, last):
        if s.queue[i].score != s.queue[i].score:  # NaN: strange
            s.queue[i].score = _score_of_neighbour(s, last, i)


@kernel
def _note_base_scores(w: World, s: State, last: int) -> None:
    base = w.net_plan[BASE]
    for i in range(s.n[Q_HEAD], last):
        s.life[s.queue[i].job].key = base_score(w, s, s.queue[i].job, base, s.life[s.queue[i].job].rank)


@kernel
def _keep_sla_in_base_order(w: World, s: State, last: int) -> None:
    """Let the base policy say who is before and who is behind an SLA job; those between two of them stay in order.

    Scores become places. s.heap is scratch: the others from its beginning, SLA jobs from the end of as many places.
    """
    head, n = s.n[Q_HEAD], last - s.n[Q_HEAD]
    _note_base_scores(w, s, last)
    others = 0
    sla = n
    for i in range(head, last):
        if w.job[s.queue[i].job].sla == SLA_BY_BASE:
            sla -= 1
            s.heap[sla] = i
        else:
            s.heap[others] = i
            others += 1
    heapify(s, others)
    for place in range(others):
        row = pop_best(s, others - place)
        s.queue[row].score = (n + 1.0) * _sla_before(s, row, sla, n) + place
    for i in range(sla, n):
        s.queue[s.heap[i]].score = (n + 1.0) * _sla_before(s, s.heap[i], sla, n) + n


@kernel
def _sla_before(s: State, row: int, first: int, last: int) -> int:
    """Count the SLA jobs, in these places of s.heap, that the base policy ranks before the job in a row."""
    job = s.queue[row].job
    count = 0
    for i in range(first, last):
        other = s.queue[s.heap[i]].job
        key, own = s.life[other].key, s.life[job].key
        count += key < own or (key == own and other < job)
    return count


@kernel
def _score_of_neighbour(s: State, last: int, row: int) -> float:
    """Return the score of the known job that the base policy ranks next before this one; before all if none."""
    own = s.life[s.queue[row].job].key
    nearest = -float("inf")
    score = -1e300
    for i in range(s.n[Q_HEAD], last):
        key = s.life[s.queue[i].job].key
        known = -INF < s.queue[i].score < INF  # neither strange nor left out
        if known and nearest < key <= own:
            nearest = key
            score = s.queue[i].score
    return score


@kernel
def score_queue(w: World, s: State, o: Options, last: int, hasty: bool) -> None:
    """Score the queue, into the queue: as of now, or as the policy did when it was last asked.

    GIVEN leaves the scores that Python has put there. `hasty`: what cannot start now and bars nobody is not scored.
    """
    if o.cycle_s > 0.0:
        for i in range(s.n[Q_HEAD], last):
            s.queue[i].score = s.life[s.queue[i].job].told
    else:
        _score_as_of_now(w, s, o, last, hasty)


@kernel
def ask_once_a_cycle(w: World, s: State, o: Options, until: float) -> None:
    """Let the policy score the queue as of the last full cycle before a moment, if it was not asked then already."""
    asked = math.floor(until / o.cycle_s) * o.cycle_s
    if asked <= s.now[0]:
        return
    s.now[0] = asked
    last = queue_end_in_view(s, o.in_view)
    _score_as_of_now(w, s, o, last, False)
    for i in range(s.n[Q_HEAD], last):
        s.life[s.queue[i].job].told = s.queue[i].score


@kernel
def _score_as_of_now(w: World, s: State, o: Options, last: int, hasty: bool) -> None:
    head = s.n[Q_HEAD]
    policy = o.policy
    now = s.now[0]
    if scores_last(w, o):
        _score_newcomers(w, s, o, last)
        return
    if policy == WFP3:
        for i in range(head, last):
            job = s.queue[i].job
            s.queue[i].score = wfp3_score(now - w.job[job].submit, s.life[job].rank, w.job[job].rank_n)
    elif policy == UNICEP:
        for i in range(head, last):
            job = s.queue[i].job
            s.queue[i].score = unicep_score(now - w.job[job].submit, s.life[job].rank, w.job[job].rank_n)
    elif policy == MULTIFACTOR:
        weights = multifactor_weights(w)
        share_among_waiting(w, s, last)
        for i in range(head, last):
            s.queue[i].score = multifactor_score(w, s, s.queue[i].job, weights, s.life[s.queue[i].job].rank)
    elif orders_by_network(o):
        for i in range(head, last):
            job = s.queue[i].job
            s.queue[i].score = score_in_turns(w, s, job, s.life[job].rank, s.hidden[2])
        s.n[LOOKED] += 1
        s.n[SCORED] += last - head
    elif policy == LEARNED:
        score_by_network(w, s, o, last, hasty and o.backfill == FIT_FIRST and not o.sla_by_base and not w.takes_turns)
    elif policy != GIVEN:
        for i in range(head, last):
            s.queue[i].score = s.life[s.queue[i].job].key
    if NO_TURNS < o.turns < BY_POLICY:
        cuts = las_cuts(s)
        for i in range(head, last):
            s.queue[i].tie = s.queue[i].score
            job = s.queue[i].job
            s.queue[i].score = turn_score(w, s, o.turns, job, attained_for(w, s, o.turns, job), cuts)
        if o.shared:
            share_scores(w, s, last)
    if o.guarded and o.guard_orders:
        guard_queue(w, s, o, last)
    if w.has_tolls:
        put_due_first(w, s, last)


@kernel
def orders_by_network(o: Options) -> bool:
    """Return whether a network scores waiting and running jobs alike."""
    return o.turns == BY_POLICY and o.policy == LEARNED


@kernel
def scores_last(w: World, o: Options) -> bool:
    """Return whether a waiting job's score stays as it is until an edition or a due date.

    Where Python gives scores, or explains them, they do not.
    """
    by_edition = o.turns == BY_LAS or o.turns == BY_GITTINS  # noqa: PLR1714  numba has no tuple `in`
    by_estimate = o.turns == BY_SRSF and w.left_by == BY_ESTIMATE
    is_static = o.policy <= F1 or o.policy == FIXED
    as_usual = not o.shared and not o.guarded and not o.explain and o.cycle_s == 0.0 and o.backfill != EASY_BY
    return (by_edition or by_estimate) and is_static and as_usual


@kernel
def _score_newcomers(w: World, s: State, o: Options, last: int) -> None:
    """Score those that have come since; all, if there is a new edition or somebody has become due."""
    anew = s.n[SCORED_EDITION] != s.n[EDITION] or s.now[0] >= s.mark[RESCORE_AT]
    cuts = las_cuts(s)
    for i in range(s.n[Q_HEAD], s.n[Q_TAIL] if anew else last):
        if anew or s.queue[i].score != s.queue[i].score:  # NaN: not scored yet
            job = s.queue[i].job
            s.queue[i].score = turn_score(w, s, o.turns, job, attained_for(w, s, o.turns, job), cuts)
            s.queue[i].tie = s.life[job].key
            if is_due(w, s, job):
                s.queue[i].score = DUE
                s.queue[i].tie = s.turn[job].due
            look_at_newcomer(s, i)
    s.n[SCORED_EDITION] = s.n[EDITION]
    s.mark[RESCORE_AT] = next_due(s)


@kernel
def score_mover(w: World, s: State, o: Options, i: int, cuts: tuple[float, float]) -> None:
    """Score a running job that is willing, and note until when that holds."""
    mover = s.mover[i]
    job = mover.job
    mover.score = running_score(w, s, o, job, cuts)
    mover.edition = s.n[EDITION]
    more = INF  # work of this spell at which its score changes
    if o.guarded or o.turns > BY_GITTINS:
        more = -INF
    elif o.turns == BY_GITTINS:
        k = edge_before(work_done(w, s, job))
        if k < EDGES - 1:
            more = edge(k + 1) - s.turn[job].saved
    elif mover.score < LAST_LEVEL:
        more = (cuts[0] if mover.score == 0.0 else cuts[1]) / w.job[job].rank_n - s.turn[job].service
    mover.until = mover.start + (s.turn[job].restart + more) / s.life[job].speed - _ROUNDING_S


@kernel
def running_score(w: World, s: State, o: Options, job: int, cuts: tuple[float, float]) -> float:
    """Score a running job as if it waited with the work that it has left."""
    if orders_by_network(o):
        score = score_in_turns(w, s, job, rank_left(w, s, o, job, work_done(w, s, job)), s.hidden[2])
    elif o.turns == BY_POLICY:
        score = base_score(w, s, job, o.policy, rank_left(w, s, o, job, work_done(w, s, job)))
    else:
        score = turn_score(w, s, o.turns, job, attained_for(w, s, o.turns, job), cuts)
    return guarded_score(w, s, o, job, score) if o.guarded else score


@kernel
def queue_end_in_view(s: State, view: int) -> int:
    """Return the end of the part of the queue that takes part in a pass."""
    tail = s.n[Q_TAIL]
    if view > 0:
        return min(tail, s.n[Q_HEAD] + view)
    return tail

"""Search at decision time: which order of the queue serves those who wait best, by rolling the core itself forward.

Every candidate is an order for the pass that is due. It is made on a sketch of the moment, and then the policy's own
rule (or smallest area first, for what is too slow to be asked in every pass to come) goes on until all who wait have
started. The first candidate is what the policy would do: nothing that is chosen looks worse than that.
"""

from __future__ import annotations

import math

from rltune.kernel.backfill.scheduling_pass import make_pass
from rltune.kernel.fit.allocate import find
from rltune.kernel.jit import kernel
from rltune.kernel.rollout.believed_world import draw_sketch, restore
from rltune.kernel.rollout.event_loop import advance
from rltune.kernel.score.rules import (
    FCFS,
    INSPECTED,
    SAF,
    SJF,
    WFP3,
    base_score,
    queue_end_in_view,
    score_by_base,
    score_queue,
)
from rltune.kernel.score.slowdown import bounded_slowdown
from rltune.kernel.state.arrays import (
    ACTIVE_N,
    ENTERED,
    I8,
    Q_HEAD,
    Q_TAIL,
    WAITING,
    Options,
    Passes,
    Plans,
    State,
    World,
)
from rltune.kernel.state.random_draw import gumbel, uniform

INF = float("inf")
NEVER_S = 1e12  # counts as the wait of a job that no rollout starts

# What is searched for.
WAIT, SLOWDOWN = range(2)

# Kinds of candidates, in the order in which they are tried.
OWN, PROMOTED, BY_RULE, SHUFFLED = range(4)

# Places in Plans.n.
SEED_1, SEED_2, PLACE, RULE, SHUFFLES, ACTIONS, ROLLED, BEST_KIND, JOBS, N_PLANS = range(10)

# Places in Plans.value.
OWN_VALUE, BEST_VALUE = range(2)


@kernel
def worth_searching(w: World, s: State, o: Options) -> bool:
    """Return whether there is anything to choose: two jobs or more wait, and something could start now."""
    if queue_end_in_view(s, o.in_view) - s.n[Q_HEAD] < 2:
        return False
    for i in range(s.n[ACTIVE_N]):
        shape = s.active[i]
        if s.demand[shape].fails_from > -INF and find(w, s, shape, 0.0, o.placement):
            return True
    return False


@kernel
def _sort_by_score(p: Plans, order: I8, n: int) -> None:
    """Put the first n jobs in order of (score, age), by Shell's method."""
    for i in range(n):
        order[i] = i
    gap = n // 2
    while gap > 0:
        for i in range(gap, n):
            job = order[i]
            k = i
            while k >= gap and (
                p.score[order[k - gap]] > p.score[job]
                or (p.score[order[k - gap]] == p.score[job] and order[k - gap] > job)
            ):
                order[k] = order[k - gap]
                k -= gap
            order[k] = job
        gap //= 2


@kernel
def begin_search(w: World, s: State, o: Passes, small: World, drawn: State, rolled: State, p: Plans, goal: int) -> None:
    """Draw the moment, and see what the policy's own order comes to. Scores that Python gives are in the queue."""
    draw_sketch(w, s, small, drawn)
    n = drawn.n[Q_TAIL]
    p.n[JOBS] = queue_end_in_view(drawn, o.own.in_view)
    if o.own.policy == INSPECTED:
        score_by_base(small, drawn, p.n[JOBS])
    else:
        score_queue(small, drawn, o.own, p.n[JOBS], False)
    for i in range(n):
        drawn.life[i].key = base_score(small, drawn, i, o.later.policy, drawn.life[i].rank)
        p.score[i] = drawn.life[i].key
    _sort_by_score(p, p.later, n)
    for i in range(p.n[JOBS]):
        p.score[i] = drawn.queue[i].score
    _sort_by_score(p, p.own, p.n[JOBS])
    for i in range(p.n[JOBS]):
        p.best[i] = p.own[i]
    p.n[PLACE] = p.n[RULE] = p.n[SHUFFLES] = p.n[ACTIONS] = 0
    p.n[BEST_KIND] = OWN
    p.n[ROLLED] = 1
    restore(small, drawn, rolled)
    make_pass(small, rolled, o.own)
    _note_action(rolled, p)
    for i in range(p.n[JOBS]):
        p.waits[i] = rolled.life[i].status == WAITING
    value = _roll_on(small, rolled, o.later, p, goal, n)
    p.value[OWN_VALUE] = p.value[BEST_VALUE] = value


@kernel
def _note_action(rolled: State, p: Plans) -> bool:
    """Remember what the pass in hand started; False if an earlier candidate started the same."""
    mixed = 7
    for i in range(p.n[JOBS]):
        if rolled.life[i].status != WAITING:
            mixed = (mixed * 1000003 + i + 1) % 2147483647
    for i in range(p.n[ACTIONS]):
        if p.action[i] == mixed:
            return False
    p.action[p.n[ACTIONS]] = mixed
    p.n[ACTIONS] += 1
    return True


@kernel
def _queue_later(small: World, rolled: State, p: Plans, n: int) -> None:
    """Put those that still wait in the order of the passes to come."""
    row = 0
    for i in range(n):
        job = p.later[i]
        if rolled.life[job].status == WAITING:
            rolled.queue[row].job = job
            rolled.queue[row].asks = small.job[job].asks
            rolled.queue[row].key = rolled.life[job].key
            rolled.queue[row].estimate = rolled.life[job].estimate
            row += 1
    rolled.n[Q_HEAD] = 0
    rolled.n[Q_TAIL] = row
    rolled.n[ENTERED] += 1  # a plan made in another order is to be looked at again


@kernel
def _roll_on(small: World, rolled: State, later: Options, p: Plans, goal: int, n: int) -> float:
    """Go on from the pass in hand until all have started; give the sum of what they waited, or of their slowdowns."""
    if not later.dynamic:
        _queue_later(small, rolled, p, n)
    while rolled.n[Q_HEAD] < rolled.n[Q_TAIL] and advance(small, rolled, later):
        make_pass(small, rolled, later)
    total = 0.0
    for i in range(n):
        life = rolled.life[i]
        wait = life.start - small.job[i].submit if life.status != WAITING else NEVER_S
        total += wait if goal == WAIT else bounded_slowdown(wait + life.estimate, life.estimate)
    return total


@kernel
def _promote_next(small: World, drawn: State, o: Options, p: Plans) -> bool:
    """Put the next job to the front that fits now and that the policy leaves waiting; False if there is none."""
    while p.n[PLACE] < p.n[JOBS]:
        place = p.n[PLACE]
        job = p.own[place]
        p.n[PLACE] += 1
        if p.waits[job] and find(small, drawn, small.job[job].asks, drawn.life[job].estimate, o.placement):
            p.tried[0] = job
            for i in range(place):
                p.tried[i + 1] = p.own[i]
            for i in range(place + 1, p.n[JOBS]):
                p.tried[i] = p.own[i]
            return True
    return False


@kernel
def _next_rule(small: World, drawn: State, p: Plans) -> bool:
    """Order by the next of a few static rules; False if there is none."""
    rule = -1
    if p.n[RULE] == 0:
        rule = SAF
    elif p.n[RULE] == 1:
        rule = SJF
    elif p.n[RULE] == 2:
        rule = WFP3
    elif p.n[RULE] == 3:
        rule = FCFS
    if rule < 0:
        return False
    p.n[RULE] += 1
    for i in range(p.n[JOBS]):
        p.score[i] = base_score(small, drawn, i, rule, drawn.life[i].rank)
    _sort_by_score(p, p.tried, p.n[JOBS])
    return True


@kernel
def _shuffle(p: Plans) -> None:
    """Draw an order near the policy's: Gumbel noise on the logarithm of each place, more or less of it each time."""
    strength = 0.1 + 0.9 * uniform(p.n, SEED_1)
    for i in range(p.n[JOBS]):
        p.score[p.own[i]] = math.log(i + 1.0) + strength * gumbel(p.n, SEED_1)
    _sort_by_score(p, p.tried, p.n[JOBS])
    p.n[SHUFFLES] += 1


@kernel
def _next_candidate(small: World, drawn: State, o: Options, p: Plans) -> int:
    """Make the next order to try; give its kind, OWN if there is nothing to choose."""
    if _promote_next(small, drawn, o, p):
        return PROMOTED
    if p.n[ACTIONS] == 1:
        return OWN
    if _next_rule(small, drawn, p):
        return BY_RULE
    if p.n[SHUFFLES] >= len(p.action):
        return OWN
    _shuffle(p)
    return SHUFFLED


@kernel
def try_next(o: Passes, small: World, drawn: State, rolled: State, p: Plans, goal: int) -> bool:
    """Try one order more that starts something else than those before; False if there is none or no room for it."""
    while p.n[ACTIONS] < len(p.action):
        kind = _next_candidate(small, drawn, o.own, p)
        if kind == OWN:
            return False
        restore(small, drawn, rolled)
        for i in range(p.n[JOBS]):
            rolled.queue[p.tried[i]].score = float(i)
        make_pass(small, rolled, o.given)
        if not _note_action(rolled, p):
            continue
        p.n[ROLLED] += 1
        value = _roll_on(small, rolled, o.later, p, goal, drawn.n[Q_TAIL])
        if value < p.value[BEST_VALUE]:
            p.value[BEST_VALUE] = value
            p.n[BEST_KIND] = kind
            for i in range(p.n[JOBS]):
                p.best[i] = p.tried[i]
        return True
    return False


@kernel
def search(w: World, s: State, o: Passes, small: World, drawn: State, rolled: State, p: Plans, goal: int) -> None:
    """Try as many orders as there is room for."""
    begin_search(w, s, o, small, drawn, rolled, p, goal)
    while try_next(o, small, drawn, rolled, p, goal):
        pass


@kernel
def take_best(s: State, p: Plans) -> None:
    """Return the queue the best order found."""
    for i in range(p.n[JOBS]):
        s.queue[s.n[Q_HEAD] + p.best[i]].score = float(i)

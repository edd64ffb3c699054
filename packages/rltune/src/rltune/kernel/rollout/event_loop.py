"""Simulated time: events in order, and a pass after each moment in which something happened."""

from __future__ import annotations

from rltune.kernel.backfill.preempt import interrupt, next_turn
from rltune.kernel.backfill.scheduling_pass import make_pass
from rltune.kernel.fit.allocate import forget_failures
from rltune.kernel.fit.node_index import index_add, index_remove
from rltune.kernel.fit.running import expect_anew, pop_end, settle_running, stop_job
from rltune.kernel.jit import kernel
from rltune.kernel.score.rules import ask_once_a_cycle, static_score
from rltune.kernel.state.arrays import (
    ACTIVE_N,
    ARRIVED,
    DISTURBED,
    DONE,
    ENDED,
    FREED,
    FUTURE,
    HEAP_N,
    HELD,
    HELD_N,
    NO_TURNS,
    NODE_DOWN,
    NODE_EVENT,
    NODE_UP,
    Q_HEAD,
    Q_TAIL,
    REJECTED,
    RUN_END,
    WAITING,
    WATCHED,
    Options,
    State,
    World,
)
from rltune.kernel.state.attained import work_at_end
from rltune.kernel.state.limits import count_submitted, submit_is_allowed
from rltune.kernel.state.online_means import FOR_ESTIMATE, FOR_RANK, learn, predicted_run_time
from rltune.kernel.state.online_survival import ENDS_NOW, keeps_survival, learn_survival, renew_edition
from rltune.kernel.state.queue import enqueue, settle_queue
from rltune.kernel.state.spells import remember_estimates, spells_are_many

INF = float("inf")


@kernel
def _wait_or_hold(w: World, s: State, o: Options, job: int) -> None:
    """Let a job whose dependencies have ended wait; with limits it is held until all of the moment are known."""
    if w.has_limits:
        i = s.n[HELD_N]
        while i > 0 and s.held[i - 1] > job:
            s.held[i] = s.held[i - 1]
            i -= 1
        s.held[i] = job
        s.n[HELD_N] += 1
        return
    enqueue(w, s, job, o.dynamic)


@kernel
def arrive(w: World, s: State, o: Options, job: int) -> None:
    """Take a submitted job in: estimate it, score it, let it wait."""
    if s.life[job].status != FUTURE:
        return
    if o.estimate_by_history:
        s.life[job].estimate = predicted_run_time(w, s, FOR_ESTIMATE, job)
    s.life[job].rank = predicted_run_time(w, s, FOR_RANK, job) if o.rank_by_history else s.life[job].estimate
    s.life[job].key = static_score(w, job, o.policy, s.life[job].rank)
    if w.takes_turns:
        remember_estimates(s, job)
    s.life[job].status = HELD
    if s.life[job].after_left == 0:
        _wait_or_hold(w, s, o, job)


@kernel
def release_held(w: World, s: State, o: Options) -> None:
    """Let those wait, oldest first, whom a limit on submitted jobs no longer holds."""
    kept = 0
    for i in range(s.n[HELD_N]):
        job = s.held[i]
        if submit_is_allowed(w, s, job):
            count_submitted(w, s, job, 1)
            enqueue(w, s, job, o.dynamic)
        else:
            s.held[kept] = job
            kept += 1
    s.n[HELD_N] = kept


@kernel
def complete(w: World, s: State, o: Options, job: int) -> None:
    """End a running job: free its nodes, learn from it, let those wait that depended on it."""
    stop_job(w, s, job)
    if s.now[0] != s.life[job].start + s.life[job].estimate / s.life[job].speed:
        s.n[DISTURBED] += 1  # it was expected to end at another time
    s.life[job].status = DONE
    s.n[ENDED] += 1
    if o.estimate_by_history:
        learn(w, s, FOR_ESTIMATE, job)
    if o.rank_by_history:
        learn(w, s, FOR_RANK, job)
    if keeps_survival(s):
        learn_survival(w, s, job, work_at_end(w, s, job))
    if w.has_limits:
        count_submitted(w, s, job, -1)
    for i in range(w.job[job].child_at, w.job[job].child_end):
        child = w.child[i]
        s.life[child].after_left -= 1
        if s.life[child].after_left == 0 and s.life[child].status == HELD:
            _wait_or_hold(w, s, o, child)


@kernel
def _uses_node(w: World, s: State, job: int, node: int) -> bool:
    first = w.job[job].chunk_at
    for at in range(first, first + w.shape[s.life[job].form].chunks):
        if s.at[at].node == node:
            return True
    return False


@kernel
def _node_goes_down(w: World, s: State, o: Options, node: int) -> None:
    index_remove(w, s, node)
    s.node[node].up = False
    settle_running(s)
    for i in range(s.n[RUN_END]):
        job = s.run[i].job
        if _uses_node(w, s, job, node):
            interrupt(w, s, o, job)
            s.life[job].requeues += 1
            enqueue(w, s, job, o.dynamic)


@kernel
def _node_event(w: World, s: State, o: Options, event: int) -> None:
    node = w.event[event].node
    kind = w.event[event].kind
    s.n[DISTURBED] += 1
    s.n[FREED] += 1
    if kind == NODE_DOWN:
        _node_goes_down(w, s, o, node)
    elif kind == NODE_UP:
        s.node[node].up = True
        index_add(w, s, node)
        forget_failures(w, s, node)
    else:  # maintenance is over somewhere: everything may be tried again
        for i in range(s.n[ACTIVE_N]):
            s.demand[s.active[i]].fails_from = INF


@kernel
def skip_rejected(w: World, s: State) -> None:
    """Pass over jobs that can never run: when they are submitted, nothing happens."""
    while s.n[ARRIVED] < len(w.job) and s.life[s.n[ARRIVED]].status == REJECTED:
        s.n[ARRIVED] += 1


@kernel
def next_moment(w: World, s: State, o: Options) -> float:
    """Return when something happens next; infinite if nothing is left."""
    skip_rejected(w, s)
    arrival = w.job[s.n[ARRIVED]].submit if s.n[ARRIVED] < len(w.job) else INF
    end = s.end[0].time if s.n[HEAP_N] > 0 else INF
    node = w.event[s.n[NODE_EVENT]].time if s.n[NODE_EVENT] < len(w.event) else INF
    now = min(arrival, end, node)
    return min(now, next_turn(s, o)) if o.turns != NO_TURNS else now


@kernel
def advance(w: World, s: State, o: Options) -> bool:
    """Go to the next moment in which something happens, and let it happen; False if nothing is left."""
    now = next_moment(w, s, o)
    if now == INF:
        return False
    if o.cycle_s > 0.0:
        ask_once_a_cycle(w, s, o, now)
    s.now[0] = now
    while s.n[HEAP_N] > 0 and s.end[0].time == now:
        complete(w, s, o, pop_end(s))
    while s.n[NODE_EVENT] < len(w.event) and w.event[s.n[NODE_EVENT]].time == now:
        _node_event(w, s, o, s.n[NODE_EVENT])
        s.n[NODE_EVENT] += 1
    while s.n[ARRIVED] < len(w.job) and w.job[s.n[ARRIVED]].submit == now:
        arrive(w, s, o, s.n[ARRIVED])
        s.n[ARRIVED] += 1
    if o.turns != NO_TURNS:
        renew_edition(s, o)
    if w.has_limits:
        release_held(w, s, o)
    settle_queue(s)
    if w.left_by != ENDS_NOW and s.n[Q_HEAD] < s.n[Q_TAIL]:
        expect_anew(w, s)
    return True


@kernel
def run(w: World, s: State, o: Options, moments: int) -> bool:
    """Simulate up to so many moments, fewer if Python should take the spells first; True if there are more."""
    for _ in range(moments):
        if w.takes_turns and spells_are_many(s):
            return True
        if not advance(w, s, o):
            return False
        make_pass(w, s, o)
    return True


@kernel
def run_while(w: World, s: State, o: Options, until: float, last: int, moments: int) -> bool:
    """Simulate up to so many moments while any happens by a time and any of the first `last` jobs waits.

    True if that is not over: there are more such moments, or Python should take the spells first.
    """
    for _ in range(moments):
        if next_moment(w, s, o) > until or not _any_waits(s, last):
            return False
        if w.takes_turns and spells_are_many(s):
            return True
        if not advance(w, s, o):
            return False
        make_pass(w, s, o)
    return True


@kernel
def _any_waits(s: State, last: int) -> bool:
    """Return whether one of the first jobs has not started; looked for from where the last one was found."""
    job = s.n[WATCHED]
    while job < last:
        if s.life[job].status <= WAITING:
            s.n[WATCHED] = job
            return True
        job += 1
    s.n[WATCHED] = last
    return False


@kernel
def _submits_next(w: World, s: State, job: int) -> bool:
    """Return whether the next thing to happen is that this job, or a later one, is submitted."""
    skip_rejected(w, s)
    if s.n[ARRIVED] < job or s.n[ARRIVED] == len(w.job):
        return False
    arrival = w.job[s.n[ARRIVED]].submit
    end = s.end[0].time if s.n[HEAP_N] > 0 else INF
    node = w.event[s.n[NODE_EVENT]].time if s.n[NODE_EVENT] < len(w.event) else INF
    return arrival <= end and arrival <= node


@kernel
def run_before(w: World, s: State, o: Options, moments: int, job: int) -> bool:
    """Simulate as `run` does, but only up to the moment before a job is submitted; True if there is more."""
    for _ in range(moments):
        if w.takes_turns and spells_are_many(s):
            return True
        if _submits_next(w, s, job):
            return True
        if not advance(w, s, o):
            return False
        make_pass(w, s, o)
    return True


@kernel
def stands_before(w: World, s: State, job: int) -> bool:
    """Return whether a run has come to the moment before a job is submitted."""
    return _submits_next(w, s, job)

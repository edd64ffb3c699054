"""Whole windows in compiled code with the network's choices drawn at random, and what was seen and chosen written down.

A choice is which waiting job to take next (see candidates.py) or, for an inspector, whether to accept its rule's. With
the noise at 0 this is what `decide` does, and in commit mode what `run_committed` does. Before a pass with a solver the
order is drawn of the jobs that it looks at, place by place. A quiet run draws nothing: it is the window as the network
would be used, if need be with one choice changed.
"""

from __future__ import annotations

from rltune.kernel.backfill.candidates import begin_look, best_candidate, is_candidate, take
from rltune.kernel.backfill.inspector import fill_accept, fill_refuse, is_refused, may_refuse, refuse
from rltune.kernel.fit.pools import make_pools
from rltune.kernel.fit.ways import wider_fits
from rltune.kernel.jit import kernel
from rltune.kernel.rollout.event_loop import advance
from rltune.kernel.rollout.rlscheduler_machine import make_one_pool, start_selected, wait_for_queue
from rltune.kernel.score.features import A_CAN, feature, look_around
from rltune.kernel.score.network import fill_inputs, logit
from rltune.kernel.score.rules import INSPECTED, queue_end_in_view, score_by_base
from rltune.kernel.state.arrays import (
    ACTIVE_N,
    CHANGED_AT,
    CHANGED_TO,
    CHOICES,
    CHOSEN,
    F8,
    FULL,
    I8,
    N_CRITIC,
    OPEN,
    PASSES,
    Q_HEAD,
    QUIET,
    ROWS,
    SEED_1,
    Options,
    Record,
    State,
    World,
)
from rltune.kernel.state.limits import start_is_allowed
from rltune.kernel.state.random_draw import gumbel
from rltune.kernel.state.score_heap import row_before


@kernel
def _score(w: World, s: State, o: Options, r: Record, end: int) -> None:
    """Score those who may be next with noise: taking the best is drawing from the softmax of the logits.

    Who may not be next now will not be in this look: taking a job that does not start only closes ways.
    """
    for row in range(s.n[Q_HEAD], end):
        s.queue[row].score = 0.0
        if is_candidate(s, o, row):
            s.queue[row].score = _drawn_score(w, s, r, row)


@kernel
def _drawn_score(w: World, s: State, r: Record, row: int) -> float:
    fill_inputs(w, s, row, s.hidden[2])
    noise = 0.0 if r.n[QUIET] else gumbel(r.n, SEED_1)
    return -(logit(w, s, s.hidden[2]) + noise)


@kernel
def _has_room(r: Record, n: int) -> bool:
    """Return whether a choice among n can be written down; if not, that is noted."""
    if r.n[ROWS] + n > len(r.row) or r.n[CHOICES] + 1 >= len(r.first):
        r.n[FULL] = 1
    return r.n[FULL] == 0


@kernel
def _end_choice(s: State, r: Record, end: int) -> None:
    r.when[r.n[CHOICES]] = s.now[0]
    r.n[ROWS] = end
    r.n[CHOICES] += 1
    r.first[r.n[CHOICES]] = end


@kernel
def _write(w: World, s: State, o: Options, r: Record, end: int, best: int) -> None:
    """Write a choice and its candidates down."""
    at = r.n[ROWS]
    for row in range(s.n[Q_HEAD], end):
        if is_candidate(s, o, row):
            _write_candidate(w, s, r, row, at, best)
            at += 1
    _end_choice(s, r, at)


@kernel
def _write_candidate(w: World, s: State, r: Record, row: int, at: int, best: int) -> None:
    fill_inputs(w, s, row, r.row[at])
    for i in range(N_CRITIC):
        r.critic[at, i] = feature(w, s, row, r.critic_of[i])
    if row == best:
        r.taken[r.n[CHOICES]] = at - r.n[ROWS]


@kernel
def _look(w: World, s: State, o: Options, r: Record) -> bool:
    """Choose until a job starts or none is left to choose; True if one started."""
    end = begin_look(w, s, o)
    _score(w, s, o, r, end)
    while True:
        best, n = best_candidate(s, o, end)
        if best < 0:
            return False
        r.n[CHOSEN] += 1
        if n > 1:
            best = _changed(s, o, r, end, best)
            r.n[OPEN] += 1
            if _has_room(r, n):
                _write(w, s, o, r, end, best)
        if take(w, s, o, best):
            return True


@kernel
def _changed(s: State, o: Options, r: Record, end: int, best: int) -> int:
    """Return the place of the one to be taken: the best, unless this is the choice that is to be changed."""
    if r.n[OPEN] != r.n[CHANGED_AT]:
        return best
    before = 0
    for row in range(s.n[Q_HEAD], end):
        if is_candidate(s, o, row):
            if before == r.n[CHANGED_TO]:
                return row
            before += 1
    return best


@kernel
def score_rows(w: World, s: State, rows: F8, logits: F8) -> None:
    """Work out the logit of every row of inputs."""
    for i in range(len(rows)):
        logits[i] = logit(w, s, rows[i])


@kernel
def _verdict(w: World, s: State, r: Record, row: int) -> bool:
    """Draw whether the job is refused, and write that down as a choice between two rows: accept, refuse."""
    x = s.hidden[2]
    fill_accept(w, s, row, x)
    accept = logit(w, s, x) + gumbel(r.n, SEED_1)
    fill_refuse(w, x)
    refused = logit(w, s, x) + gumbel(r.n, SEED_1) > accept
    r.n[CHOSEN] += 1
    if _has_room(r, 2):
        at = r.n[ROWS]
        fill_accept(w, s, row, r.row[at])
        fill_refuse(w, r.row[at + 1])
        for i in range(N_CRITIC):
            r.critic[at, i] = feature(w, s, row, r.critic_of[i])
            r.critic[at + 1, i] = 0.0
        r.taken[r.n[CHOICES]] = refused
        _end_choice(s, r, at + 2)
    return refused


@kernel
def _inspected_look(w: World, s: State, o: Options, r: Record) -> bool:
    """Do as `inspected_look` does, with verdicts drawn."""
    end = begin_look(w, s, o)
    score_by_base(w, s, end)
    while True:
        row, _ = best_candidate(s, o, end)
        if row < 0:
            return False
        if is_refused(s, row) or (may_refuse(w, s, o, row) and _verdict(w, s, r, row)):
            refuse(s, row)
        elif take(w, s, o, row):
            return True


@kernel
def drawn_pass(w: World, s: State, o: Options, r: Record) -> None:
    """Make one pass, drawing every choice."""
    s.n[PASSES] += 1
    while _inspected_look(w, s, o, r) if o.policy == INSPECTED else _look(w, s, o, r):
        pass


@kernel
def rollout(w: World, s: State, o: Options, r: Record) -> None:
    """Run a window to its end, drawing every choice from the network."""
    while advance(w, s, o):
        drawn_pass(w, s, o, r)


@kernel
def rollout_committed(w: World, s: State, o: Options, r: Record) -> None:
    """Run a window on RLScheduler's machine, drawing every selection among those in view."""
    make_one_pool(s)
    while wait_for_queue(w, s, o):
        end = queue_end_in_view(s, o.in_view)
        look_around(w, s, o, end)
        _score(w, s, o, r, end)
        best, n = best_candidate(s, o, end)
        r.n[CHOSEN] += 1
        if n > 1 and _has_room(r, n):
            _write(w, s, o, r, end, best)
        if not start_selected(w, s, o, s.queue[best].job):
            return


@kernel
def draw_order(w: World, s: State, o: Options, r: Record) -> None:
    """Score all in view with noise: their order is then drawn place by place, each from the softmax of those left."""
    end = queue_end_in_view(s, o.in_view)
    make_pools(w, s, o.global_head)
    look_around(w, s, o, end)
    for row in range(s.n[Q_HEAD], end):
        s.queue[row].score = _drawn_score(w, s, r, row)


@kernel
def write_order(w: World, s: State, o: Options, r: Record, pool: int, jobs: I8) -> None:
    """Write down as choices how the first jobs of a pool were drawn, if anything of the pool could start."""
    if not _could_start(w, s, pool):
        return
    end = queue_end_in_view(s, o.in_view)
    for i in range(len(jobs)):
        best = s.n[Q_HEAD]
        while s.queue[best].job != jobs[i]:
            best += 1
        n = 0
        for row in range(s.n[Q_HEAD], end):
            n += _is_left(w, s, row, pool, best)
        if n < 2:
            return
        r.n[CHOSEN] += 1
        if not _has_room(r, n):
            return
        at = r.n[ROWS]
        for row in range(s.n[Q_HEAD], end):
            if _is_left(w, s, row, pool, best):
                _write_candidate(w, s, r, row, at, best)
                at += 1
        _end_choice(s, r, at)


@kernel
def _could_start(w: World, s: State, pool: int) -> bool:
    """Return whether a job of the pool fits now, whole or cut for one node more."""
    for i in range(s.n[ACTIVE_N]):
        shape = s.active[i]
        if s.demand[shape].pool == pool and (s.asked[shape][A_CAN] > 0.0 or wider_fits(w, s, shape, 0.0)):
            return True
    return False


@kernel
def _is_left(w: World, s: State, row: int, pool: int, best: int) -> bool:
    """Return whether a job could have been drawn for the place that the job in row `best` got."""
    if s.demand[s.queue[row].asks].pool != pool or row_before(s, row, best):
        return False
    return not w.has_limits or start_is_allowed(w, s, s.queue[row].job)

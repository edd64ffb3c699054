"""Whole windows in compiled code with the network's choices drawn at random, and what was seen and chosen written down.

A choice is which waiting job to take next (see look.py) or, for an inspector, whether to accept its rule's. With the
noise at 0 this is what `decide` does.
"""

from __future__ import annotations

from rltune.kernel.backfill.candidates import begin_look, best_candidate, is_candidate, take
from rltune.kernel.backfill.inspector import fill_accept, fill_refuse, is_refused, may_refuse, refuse
from rltune.kernel.jit import kernel
from rltune.kernel.rollout.event_loop import advance
from rltune.kernel.score.features import feature
from rltune.kernel.score.network import fill_inputs, logit
from rltune.kernel.score.rules import INSPECTED, score_by_base
from rltune.kernel.state.arrays import (
    CHOICES,
    CHOSEN,
    FULL,
    N_CRITIC,
    PASSES,
    Q_HEAD,
    ROWS,
    SEED_1,
    Options,
    Record,
    State,
    World,
)
from rltune.kernel.state.random_draw import gumbel


@kernel
def _score(w: World, s: State, o: Options, r: Record, end: int) -> None:
    """Score those who may be next with noise: taking the best is drawing from the softmax of the logits.

    Who may not be next now will not be in this look: taking a job that does not start only closes ways.
    """
    for row in range(s.n[Q_HEAD], end):
        s.queue[row].score = 0.0
        if is_candidate(s, o, row):
            fill_inputs(w, s, row, s.hidden[2])
            s.queue[row].score = -(logit(w, s, s.hidden[2]) + gumbel(r.n, SEED_1))


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
            fill_inputs(w, s, row, r.row[at])
            for i in range(N_CRITIC):
                r.critic[at, i] = feature(w, s, row, r.critic_of[i])
            if row == best:
                r.taken[r.n[CHOICES]] = at - r.n[ROWS]
            at += 1
    _end_choice(s, r, at)


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
        if n > 1 and _has_room(r, n):
            _write(w, s, o, r, end, best)
        if take(w, s, o, best):
            return True


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
def rollout(w: World, s: State, o: Options, r: Record) -> None:
    """Run a window to its end, drawing every choice from the network."""
    while advance(w, s, o):
        s.n[PASSES] += 1
        while _inspected_look(w, s, o, r) if o.policy == INSPECTED else _look(w, s, o, r):
            pass

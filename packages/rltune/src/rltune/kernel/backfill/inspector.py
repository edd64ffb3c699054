"""A pass in which a rule picks the job and a network may refuse it: the idea of SchedInspector (HPDC'22).

It is asked only about a job that would start now, at the front of its pool. A refusal leaves the pool as it is until
something happens. The network scores two rows: to accept, the job's inputs, of which the last is 1; to refuse, zeros.
"""

from __future__ import annotations

from rltune.kernel.backfill.candidates import begin_look, best_candidate, take
from rltune.kernel.backfill.job_turn import fits_now
from rltune.kernel.jit import kernel
from rltune.kernel.score.features import INPUTS
from rltune.kernel.score.network import fill_inputs, logit
from rltune.kernel.score.overtaking import guard_queue, is_first_class
from rltune.kernel.score.rules import score_by_base
from rltune.kernel.state.arrays import (
    DRIFTED,
    F8,
    LOOKED,
    PASSES,
    REFUSALS_N,
    REFUSED,
    RUNNING_N,
    SCORED,
    Options,
    State,
    World,
)
from rltune.kernel.state.limits import start_is_allowed

MOST_REFUSALS = 72  # of one job, as in the paper


@kernel
def may_refuse(w: World, s: State, o: Options, row: int) -> bool:
    """Return whether the network is asked: the job would start, and it can be asked again later."""
    job = s.queue[row].job
    shape = s.queue[row].asks
    if o.guarded and is_first_class(s, row):
        return False
    if s.n[RUNNING_N] == 0 or s.life[job].refusals >= MOST_REFUSALS or s.pool[s.demand[shape].pool].head >= 0:
        return False
    if w.has_limits and not start_is_allowed(w, s, job):
        return False
    return fits_now(w, s, o, shape, s.queue[row].estimate)


@kernel
def fill_accept(w: World, s: State, row: int, x: F8) -> bool:
    """Enter the row for accepting the job in this place; tell whether it is within the range of training."""
    inside = fill_inputs(w, s, row, x)
    x[w.net_plan[INPUTS] - 1] = 1.0
    return inside


@kernel
def fill_refuse(w: World, x: F8) -> None:
    """Enter the row for refusing."""
    for i in range(w.net_plan[INPUTS]):
        x[i] = 0.0


@kernel
def _refuses(w: World, s: State, row: int) -> bool:
    """Ask the network; of a job unlike those of training it has nothing to say."""
    x = s.hidden[2]
    s.n[LOOKED] += 1
    s.n[SCORED] += 1
    if not fill_accept(w, s, row, x):
        s.n[DRIFTED] += 1
        return False
    accept = logit(w, s, x)
    fill_refuse(w, x)
    return logit(w, s, x) > accept


@kernel
def is_refused(s: State, row: int) -> bool:
    """Return whether the job was refused in an earlier look of this pass, before a job of another pool started."""
    return s.life[s.queue[row].job].refused_in == s.n[PASSES]


@kernel
def refuse(s: State, row: int) -> None:
    """Keep the job waiting for the rest of the pass, and its pool with it."""
    job = s.queue[row].job
    if not is_refused(s, row):
        s.life[job].refusals += 1
        s.n[REFUSALS_N] += 1
    s.life[job].refused_in = s.n[PASSES]
    s.life[job].reason = REFUSED
    s.pool[s.demand[s.queue[row].asks].pool].shut = 1


@kernel
def inspected_look(w: World, s: State, o: Options) -> bool:
    """Take the rule's jobs in turn until one starts; False if none is left that may."""
    end = begin_look(w, s, o)
    score_by_base(w, s, end)
    if o.guarded:
        guard_queue(w, s, o, end)
    while True:
        row, _ = best_candidate(s, o, end)
        if row < 0:
            return False
        if is_refused(s, row) or (may_refuse(w, s, o, row) and _refuses(w, s, row)):
            refuse(s, row)
        elif take(w, s, o, row):
            return True

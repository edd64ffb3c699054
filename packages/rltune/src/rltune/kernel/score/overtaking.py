"""Bounds on overtaking, around any policy: who is owed the next place, and who comes before all.

A job is owed its start once it has waited for its grace: so many seconds, or so many times its own estimate if that is
longer. Nothing but its submit time is needed to tell, so a live cluster and a simulation agree.
"""

from __future__ import annotations

from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import F8, Q_HEAD, SLA_FIRST, Options, State, World
from rltune.kernel.state.attained import whole_estimate
from rltune.kernel.state.tolls import is_due

# Scores of the classes; no other job has one so low. DUE: who has been away for as long as it may, see tolls.py.
# Within each the oldest is first, as of all equal scores.
DUE, SLA, OWED, OTHERS = -1.7e308, -1.5e308, -1e308, -5e307


@kernel
def _grace(w: World, s: State, o: Options, job: int) -> float:
    return max(o.grace_s, o.grace_times * whole_estimate(w, s, job))


@kernel
def is_owed(w: World, s: State, o: Options, job: int) -> bool:
    """Return whether a job has been overtaken for as long as it may be."""
    return s.now[0] - w.job[job].submit >= _grace(w, s, o, job)


@kernel
def is_protected(w: World, s: State, o: Options, job: int) -> bool:
    """Return whether nothing may delay a job that waits at the head of its pool."""
    return is_due(w, s, job) or (o.guarded and (w.job[job].sla == SLA_FIRST or is_owed(w, s, o, job)))


@kernel
def fill_claims(w: World, s: State, o: Options, last: int, since: F8) -> None:
    """Write for each job of the queue since when it comes first: -inf for SLA jobs, NaN for those that do not."""
    head = s.n[Q_HEAD]
    for i in range(head, last):
        job = s.queue[i].job
        if w.job[job].sla == SLA_FIRST:
            since[i - head] = -float("inf")
        elif is_owed(w, s, o, job):
            since[i - head] = w.job[job].submit + _grace(w, s, o, job)
        else:
            since[i - head] = float("nan")


@kernel
def is_first_class(s: State, row: int) -> bool:
    """Return, from its guarded score, whether the job in this place of the queue is protected."""
    return s.queue[row].score <= OWED


@kernel
def guard_queue(w: World, s: State, o: Options, last: int) -> None:
    """Put SLA jobs before all and owed jobs next, each by age, and leave the rest in the policy's order."""
    for i in range(s.n[Q_HEAD], last):
        job = s.queue[i].job
        s.queue[i].score = guarded_score(w, s, o, job, s.queue[i].score)
        if s.queue[i].score <= OWED:
            s.queue[i].tie = 0.0


@kernel
def guarded_score(w: World, s: State, o: Options, job: int, score: float) -> float:
    """Return the score of a job, waiting or running, as the guard changes it."""
    if w.job[job].sla == SLA_FIRST:
        return SLA
    if is_owed(w, s, o, job):
        return OWED
    return max(score, OTHERS)


@kernel
def put_due_first(w: World, s: State, last: int) -> None:
    """Put jobs that may have their nodes back before all others, in order of their due dates."""
    for i in range(s.n[Q_HEAD], last):
        job = s.queue[i].job
        if is_due(w, s, job):
            s.queue[i].score = DUE
            s.queue[i].tie = s.turn[job].due

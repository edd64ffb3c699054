"""Loans: a displaced job has its nodes back in time to end by its deadline. Rules: docs/reference/preemption.md.

Until it starts again, a node that it lends takes only jobs that are expected to be gone by its due date.
"""

from __future__ import annotations

from rltune.kernel.fit.chunk_need import chunk_cpu, chunk_mem, clear_of_pauses
from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import ACTIVE_N, ASKER, LENDERS_N, RUNNING, Options, State, World
from rltune.kernel.state.attained import work_done
from rltune.kernel.state.online_survival import believed_end, mean_left
from rltune.kernel.state.spells import kept_work

INF = float("inf")


@kernel
def is_lender(w: World, s: State, job: int) -> bool:
    """Return whether a job was displaced and has not started since."""
    return w.lends and s.turn[job].lends != 0


@kernel
def is_due(w: World, s: State, job: int) -> bool:
    """Return whether a job may have its nodes back."""
    return is_lender(w, s, job) and s.now[0] >= s.turn[job].due


@kernel
def next_due(s: State) -> float:
    """Return the first due date that is still to come."""
    first = INF
    for i in range(s.n[LENDERS_N]):
        due = s.turn[s.lender[i]].due
        if s.now[0] < due < first:
            first = due
    return first


@kernel
def ask_as(w: World, s: State, job: int) -> None:
    """Let a job's own loan not be in its way from now on; -1: nobody's."""
    s.n[ASKER] = job if job >= 0 and is_lender(w, s, job) else -1


@kernel
def is_wanted_back(w: World, s: State, node: int, end: float) -> bool:
    """Return whether somebody but the one who asks is due on a node before a time."""
    if end <= s.node_due[node]:
        return False
    asker = s.n[ASKER]
    if asker < 0:
        return True
    due = is_due(w, s, asker)
    for i in range(s.n[LENDERS_N]):
        lender = s.lender[i]
        if lender == asker or end <= s.turn[lender].due or (due and _is_due_before(s, asker, lender)):
            continue
        if _has_chunk_on(w, s, lender, node):
            return True
    return False


@kernel
def _is_due_before(s: State, a: int, b: int) -> bool:
    return s.turn[a].due < s.turn[b].due or (s.turn[a].due == s.turn[b].due and a < b)


@kernel
def _has_chunk_on(w: World, s: State, job: int, node: int) -> bool:
    first = w.job[job].chunk_at
    for at in range(first, first + w.shape[s.life[job].form].chunks):
        if s.at[at].node == node:
            return True
    return False


@kernel
def set_terms(w: World, s: State, o: Options, job: int) -> bool:
    """Note when a running job would be due back if it were displaced now; False if it could not be back in time."""
    turn, life = s.turn[job], s.life[job]
    if turn.preemptions == 0:
        turn.deadline = _deadline(w, s, o, job)
    length = w.yields[job].restart + mean_left(w, s, job, kept_work(w, s, job, work_done(w, s, job)))
    latest = turn.deadline
    first = w.job[job].chunk_at
    last = first + w.shape[life.form].chunks
    for at in range(first, last):
        latest = min(latest, s.node_due[s.at[at].node])
    turn.due = latest - length / life.speed
    if turn.due <= s.now[0]:
        return False
    if w.has_pauses:
        for at in range(first, last):
            if not clear_of_pauses(w, s.node[s.at[at].node].group, turn.due, length):
                return False
    return True


@kernel
def _deadline(w: World, s: State, o: Options, job: int) -> float:
    """Return by when a job has to end that is displaced for the first time now; it would end when that is believed."""
    forecast = believed_end(w, s, job)
    more = -INF
    if o.late_times < INF:
        more = (o.late_times - 1.0) * (forecast - w.job[job].submit)
    if o.late_s < INF:
        more = max(more, o.late_s)
    return forecast + more


@kernel
def lend(w: World, s: State, job: int) -> None:
    """Let a job lend the nodes that it had until its due date."""
    s.lender[s.n[LENDERS_N]] = job
    s.n[LENDERS_N] += 1
    s.turn[job].lends = 1
    first = w.job[job].chunk_at
    for at in range(first, first + w.shape[s.life[job].form].chunks):
        node = s.at[at].node
        s.node_due[node] = min(s.node_due[node], s.turn[job].due)


@kernel
def end_loan(w: World, s: State, job: int) -> None:
    """Let a job have its nodes back, or give them up: all may be tried again there."""
    _strike(s, job)
    first = w.job[job].chunk_at
    for at in range(first, first + w.shape[s.life[job].form].chunks):
        _date_node(w, s, s.at[at].node)
    for i in range(s.n[ACTIVE_N]):
        s.demand[s.active[i]].fails_from = INF
    for g in range(len(s.pool)):
        s.pool[g].reserved = float("nan")


@kernel
def _strike(s: State, job: int) -> None:
    s.turn[job].lends = 0
    kept = 0
    for i in range(s.n[LENDERS_N]):
        if s.lender[i] != job:
            s.lender[kept] = s.lender[i]
            kept += 1
    s.n[LENDERS_N] = kept


@kernel
def _date_node(w: World, s: State, node: int) -> None:
    """Find the first due date on a node."""
    s.node_due[node] = INF
    for i in range(s.n[LENDERS_N]):
        if _has_chunk_on(w, s, s.lender[i], node):
            s.node_due[node] = min(s.node_due[node], s.turn[s.lender[i]].due)


@kernel
def lend_for_now(w: World, s: State, n: int, sign: int) -> None:
    """Let the first n of s.victim lend their nodes (+1) to see what that would do, or as they were (-1)."""
    for i in range(n):
        job = s.victim[i]
        if sign > 0:
            lend(w, s, job)
        else:
            _strike(s, job)
    if sign < 0:
        for i in range(n):
            first = w.job[s.victim[i]].chunk_at
            for at in range(first, first + w.shape[s.life[s.victim[i]].form].chunks):
                _date_node(w, s, s.at[at].node)


@kernel
def pick_own_nodes(w: World, s: State, job: int, estimate: float) -> bool:
    """Choose the nodes that a due job was displaced from, if they have room for it."""
    shape = w.job[job].asks
    end = s.now[0] + estimate / w.mask[w.shape[shape].mask].slowest
    at = w.job[job].chunk_at
    i = 0
    for kind in range(w.shape[shape].kinds):
        for _ in range(w.chunk[shape, kind].n):
            node = s.at[at + i].node
            s.pick[i] = node
            i += 1
            if not _takes_back(w, s, shape, kind, node, estimate, end):
                return False
    return True


@kernel
def _takes_back(w: World, s: State, shape: int, kind: int, node: int, estimate: float, end: float) -> bool:
    own = s.node[node]
    if w.has_pauses and not clear_of_pauses(w, own.group, s.now[0], estimate):
        return False
    return (
        own.up != 0
        and own.gpu >= w.chunk[shape, kind].gpus
        and own.cpu >= chunk_cpu(w, shape, kind, own.group)
        and own.mem >= chunk_mem(w, shape, kind, own.group)
        and not is_wanted_back(w, s, node, end)
    )


@kernel
def waits_for_limit(w: World, s: State, job: int) -> None:
    """Let a due job that only a limit holds give up its loan: it blocks nobody."""
    if is_due(w, s, job) and s.life[job].status != RUNNING:
        end_loan(w, s, job)

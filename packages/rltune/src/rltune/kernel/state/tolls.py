"""What taking turns costs a job, and what it may: a bound on what anyone loses. Rules: docs/reference/preemption.md.

A job's toll is by how much later it will end than if it had never been displaced: the time between its spells, work
that it has to do again, and restarts. What it has left cancels out, so nothing need be known of its run time.
"""

from __future__ import annotations

from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import AWAY_N, NEXT_DUE, RUN_END, Options, State, World
from rltune.kernel.state.attained import work_done
from rltune.kernel.state.spells import work_to_repeat

INF = float("inf")


@kernel
def is_away(s: State, job: int) -> bool:
    """Return whether a job was displaced and has not started since."""
    return s.turn[job].due < INF


@kernel
def is_due(w: World, s: State, job: int) -> bool:
    """Return whether a displaced job has been away for as long as it may."""
    return w.has_tolls and s.now[0] >= s.turn[job].due


@kernel
def next_due(s: State) -> float:
    """Return when the next displaced job will have been away for as long as it may."""
    if s.mark[NEXT_DUE] <= s.now[0]:
        first = INF
        for i in range(s.n[AWAY_N]):
            due = s.turn[s.away[i]].due
            if s.now[0] < due < first:
                first = due
        s.mark[NEXT_DUE] = first
    return s.mark[NEXT_DUE]


@kernel
def has_patience(w: World, s: State, o: Options, job: int) -> bool:
    """Return whether a running job could be away, if it were displaced now: for long, if it has been due before."""
    if s.turn[job].settled == 0:
        return _patience(w, s, _allowance(w, s, o, job), job) > 0.0
    return o.late_times < INF and _patience(w, s, _allowance(w, s, o, job), job) > 2.0 * o.min_run_s


@kernel
def _patience(w: World, s: State, allowed: float, job: int) -> float:
    return allowed - s.turn[job].toll - work_to_repeat(w, s, job) / s.life[job].speed


@kernel
def note_patience(w: World, s: State, o: Options, job: int) -> None:
    """Note how long a running job may be away that is displaced now."""
    s.turn[job].allowed = _allowance(w, s, o, job)
    s.turn[job].patience = _patience(w, s, s.turn[job].allowed, job)


@kernel
def is_surely_patient(w: World, s: State, o: Options, job: int) -> bool:
    """Return whether a running job has patience in all of its spell, whatever work it would have to repeat."""
    repeated = (w.yields[job].checkpoint + w.yields[job].restart) / s.life[job].speed
    known = s.turn[job].settled == 0 and o.late_s < INF
    return known and o.late_s - s.turn[job].toll - repeated > 1.0


@kernel
def _allowance(w: World, s: State, o: Options, job: int) -> float:
    """Return what turns may cost a job in all, as of now: a share of the time that it would have taken at least."""
    allowed = -INF
    if o.late_times < INF:
        ran = work_done(w, s, job) / s.life[job].speed
        allowed = (o.late_times - 1.0) * (s.turn[job].first - w.job[job].submit + ran)
    return max(allowed, o.late_s) if o.late_s < INF else allowed


@kernel
def can_be_called_in(w: World, s: State, o: Options, job: int) -> bool:
    """Return whether a job may be displaced, now or later."""
    turn = s.turn[job]
    return (
        w.yields[job].willing != 0
        and turn.preemptions < o.max_preemptions
        and turn.settled == 0
        and (turn.preemptions == 0 or turn.toll < turn.allowed)
    )


@kernel
def gpus_to_spare(w: World, s: State, o: Options, mask: int) -> int:
    """Return how many GPUs of some groups are free or can be called in, less those that displaced jobs are owed."""
    spare = 0
    for m in range(w.mask[mask].lo, w.mask[mask].hi):
        group = w.mask_group[m]
        for node in range(w.group[group].lo, w.group[group].hi):
            if s.node[node].up:
                spare += s.node[node].gpu
    for i in range(s.n[RUN_END]):
        job = s.run[i].job
        if job >= 0 and can_be_called_in(w, s, o, job):
            first = w.job[job].chunk_at
            for at in range(first, first + w.shape[s.life[job].form].chunks):
                if w.mask_has[mask, s.node[s.at[at].node].group]:
                    spare += s.at[at].gpus
    for i in range(s.n[AWAY_N]):
        if _share_groups(w, mask, w.shape[w.job[s.away[i]].asks].mask):
            spare -= w.job[s.away[i]].gpus
    return spare


@kernel
def _share_groups(w: World, a: int, b: int) -> bool:
    for m in range(w.mask[a].lo, w.mask[a].hi):
        if w.mask_has[b, w.mask_group[m]]:
            return True
    return False


@kernel
def go_away(s: State, o: Options, job: int) -> None:
    """Note that a job is displaced now, and what that costs it already."""
    turn = s.turn[job]
    turn.toll = turn.allowed - turn.patience
    turn.away_from = s.now[0]
    turn.due = s.now[0] + max(0.0, turn.patience - o.min_run_s)
    s.mark[NEXT_DUE] = min(s.mark[NEXT_DUE], turn.due)
    s.away[s.n[AWAY_N]] = job
    s.n[AWAY_N] += 1


@kernel
def come_back(s: State, job: int) -> None:
    """Note, if a job that starts now was displaced, what its absence has cost it."""
    turn = s.turn[job]
    if not is_away(s, job):
        return
    turn.toll += s.now[0] - turn.away_from
    turn.settled = 1 if s.now[0] >= turn.due else 0
    if turn.due == s.mark[NEXT_DUE]:
        s.mark[NEXT_DUE] = -INF  # to be found anew
    turn.due = INF
    kept = 0
    for i in range(s.n[AWAY_N]):
        if s.away[i] != job:
            s.away[kept] = s.away[i]
            kept += 1
    s.n[AWAY_N] = kept

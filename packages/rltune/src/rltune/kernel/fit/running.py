"""Running jobs: by expected end for reservations, in order when asked, and in a heap by true end for the clock."""

from __future__ import annotations

from rltune.kernel.fit.allocate import give_nodes_back, picked_speed, take_nodes
from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import (
    DISTURBED,
    EPOCH,
    EXPECTED_BEFORE,
    FIRST_EXPECTED,
    HEAP_N,
    RUN_END,
    RUN_SORTED,
    RUNNING,
    RUNNING_N,
    WILLING_N,
    State,
    World,
)
from rltune.kernel.state.fair_share import usage_changes
from rltune.kernel.state.limits import count_running
from rltune.kernel.state.movers import enter_mover, leave_mover
from rltune.kernel.state.online_survival import BY_ESTIMATE, believed_end
from rltune.kernel.state.queue import leave_queue
from rltune.kernel.state.spells import begin_spell
from rltune.kernel.state.tolls import come_back

_FEW = 64  # running jobs that a reservation sorts for itself


@kernel
def _earlier(s: State, a: int, b: int) -> bool:
    return s.end[a].time < s.end[b].time or (s.end[a].time == s.end[b].time and s.end[a].turn < s.end[b].turn)


@kernel
def _swap(s: State, a: int, b: int) -> None:
    s.end[a].time, s.end[b].time = s.end[b].time, s.end[a].time
    s.end[a].job, s.end[b].job = s.end[b].job, s.end[a].job
    s.end[a].turn, s.end[b].turn = s.end[b].turn, s.end[a].turn


@kernel
def push_end(s: State, job: int, turn: int) -> None:
    """Enter a running job into the heap by its end; of equal ends the lowest turn comes first."""
    i = s.n[HEAP_N]
    s.n[HEAP_N] += 1
    s.end[i].time = s.life[job].end
    s.end[i].job = job
    s.end[i].turn = turn
    while i > 0 and _earlier(s, i, (i - 1) // 2):
        _swap(s, i, (i - 1) // 2)
        i = (i - 1) // 2


@kernel
def _sift_down(s: State, i: int) -> None:
    n = s.n[HEAP_N]
    while True:
        child = 2 * i + 1
        if child >= n:
            return
        if child + 1 < n and _earlier(s, child + 1, child):
            child += 1
        if not _earlier(s, child, i):
            return
        _swap(s, i, child)
        i = child


@kernel
def pop_end(s: State) -> int:
    """Take the job that ends first off the heap."""
    job = s.end[0].job
    s.n[HEAP_N] -= 1
    _swap(s, 0, s.n[HEAP_N])
    _sift_down(s, 0)
    return job


@kernel
def drop_end(s: State, job: int) -> None:
    """Take a job that is stopped before its end out of the heap."""
    i = 0
    while s.end[i].job != job:
        i += 1
    s.n[HEAP_N] -= 1
    _swap(s, i, s.n[HEAP_N])
    while 0 < i < s.n[HEAP_N] and _earlier(s, i, (i - 1) // 2):
        _swap(s, i, (i - 1) // 2)
        i = (i - 1) // 2
    _sift_down(s, i)


@kernel
def _enter(s: State, job: int, expected: float) -> None:
    """Add a job to those that run, at the unsorted end."""
    if s.n[RUN_END] == len(s.run) // 2:
        settle_running(s)
    i = s.n[RUN_END]
    s.run[i].job = job
    s.run[i].expected = expected
    s.life[job].run_at = i
    s.n[RUN_END] += 1
    s.n[RUNNING_N] += 1
    s.mark[FIRST_EXPECTED] = min(s.mark[FIRST_EXPECTED], expected)


@kernel
def _leave(s: State, job: int) -> None:
    """Take a job away from those that run: a gap in the sorted part, nothing in the unsorted one."""
    i = s.life[job].run_at
    s.n[RUNNING_N] -= 1
    if i < s.n[RUN_SORTED]:
        s.run[i].job = -1
        return
    s.n[RUN_END] -= 1
    last = s.n[RUN_END]
    s.run[i].job = s.run[last].job
    s.run[i].expected = s.run[last].expected
    s.life[s.run[i].job].run_at = i


@kernel
def _close_run_gaps(s: State) -> int:
    """Drop the gaps of the sorted part; give how long it is then."""
    kept = 0
    for i in range(s.n[RUN_SORTED]):
        if s.run[i].job >= 0:
            if kept < i:
                s.run[kept].job = s.run[i].job
                s.run[kept].expected = s.run[i].expected
                s.life[s.run[kept].job].run_at = kept
            kept += 1
    return kept


@kernel
def _sort_recent(s: State, low: int, count: int) -> None:
    """Sort part of s.run by expected end (Shell's method: short and, for the few that are new, quick)."""
    gap = count // 2
    while gap > 0:
        for i in range(low + gap, low + count):
            job, expected = s.run[i].job, s.run[i].expected
            k = i
            while k >= low + gap and s.run[k - gap].expected > expected:
                s.run[k].job = s.run[k - gap].job
                s.run[k].expected = s.run[k - gap].expected
                k -= gap
            s.run[k].job = job
            s.run[k].expected = expected
        gap //= 2


@kernel
def _copy_recent(s: State, recent: int) -> None:
    """Copy those that are not in order yet into the upper half of s.run, by expected end."""
    scratch = len(s.run) // 2
    for i in range(recent):
        s.run[scratch + i].job = s.run[s.n[RUN_SORTED] + i].job
        s.run[scratch + i].expected = s.run[s.n[RUN_SORTED] + i].expected
    _sort_recent(s, scratch, recent)


@kernel
def settle_running(s: State) -> None:
    """Put the running jobs in order of expected end, into the first n[RUNNING_N] places of s.run.

    Who needs that order asks for it; starts and ends do not pay for it. The upper half of s.run is scratch.
    """
    if s.n[RUN_SORTED] == s.n[RUN_END] == s.n[RUNNING_N]:
        return
    recent = s.n[RUN_END] - s.n[RUN_SORTED]
    scratch = len(s.run) // 2
    _copy_recent(s, recent)
    old = _close_run_gaps(s) - 1
    new = scratch + recent - 1
    to = s.n[RUNNING_N] - 1
    while new >= scratch:
        if old >= 0 and s.run[old].expected > s.run[new].expected:
            source = old
            old -= 1
        else:
            source = new
            new -= 1
        s.run[to].job = s.run[source].job
        s.run[to].expected = s.run[source].expected
        s.life[s.run[to].job].run_at = to
        to -= 1
    s.n[RUN_SORTED] = s.n[RUN_END] = s.n[RUNNING_N]


@kernel
def expect_anew(w: World, s: State) -> None:
    """Note that running jobs are to be expected anew, as of now: no reservation made before holds.

    By estimates nothing changes while nobody has outlived his own.
    """
    if w.left_by == BY_ESTIMATE and _all_as_estimated(s):
        return
    s.n[EXPECTED_BEFORE] = 1
    s.n[DISTURBED] += 1


@kernel
def _all_as_estimated(s: State) -> bool:
    """Return whether no running job is at the end of its estimate; a lower bound of the first such end is kept."""
    now = s.now[0]
    if s.mark[FIRST_EXPECTED] > now:
        return True
    first = float("inf")
    for i in range(s.n[RUN_END]):
        job = s.run[i].job
        if job >= 0:
            first = min(first, s.life[job].start + s.life[job].estimate / s.life[job].speed)
            if first <= now:
                return False
    s.mark[FIRST_EXPECTED] = first
    return True


@kernel
def settle_expected(w: World, s: State) -> None:
    """Put the running jobs in order as `settle_running` does, by ends that are believed as of now if that is asked for.

    In most passes nobody asks when somebody ends, and looking it up for all who run is what remainders cost.
    """
    settle_running(s)
    if s.n[EXPECTED_BEFORE] == 0:
        return
    s.n[EXPECTED_BEFORE] = 0
    for i in range(s.n[RUNNING_N]):
        s.run[i].expected = believed_end(w, s, s.run[i].job)
    s.n[RUN_SORTED] = 0
    settle_running(s)


@kernel
def lay_out_ends(w: World, s: State) -> int:
    """Lay out the running jobs for `next_to_end`; return how many of them wait in the upper half of s.run.

    A reservation looks at the few that end first, so while few have started since all were put in order, only those are
    sorted, and gaps stay: moving thousands for each of them is what reservations would cost.
    """
    recent = s.n[RUN_END] - s.n[RUN_SORTED]
    if s.n[EXPECTED_BEFORE] != 0 or recent > _FEW or w.takes_turns:  # who may be displaced is asked in this order
        settle_expected(w, s)
        return 0
    _copy_recent(s, recent)
    return recent


@kernel
def past_gaps(s: State, i: int) -> int:
    """Return the first place from one on, of those in order, where a job runs."""
    while i < s.n[RUN_SORTED] and s.run[i].job < 0:
        i += 1
    return i


@kernel
def next_to_end(s: State, i: int, k: int, last: int) -> int:
    """Return the place of whom is expected to end first: i of those in order, or k of the recent ones; -1 = nobody."""
    if i < s.n[RUN_SORTED] and (k == last or s.run[i].expected <= s.run[k].expected):
        return i
    return k if k < last else -1


@kernel
def start_job(w: World, s: State, job: int) -> None:
    """Start a waiting job now on the nodes in s.pick; of equal ends the older job's will be first."""
    start_in_turn(w, s, job, job)


@kernel
def start_in_turn(w: World, s: State, job: int, turn: int) -> None:
    """Start a waiting job now on the nodes in s.pick; of equal ends the lowest turn's will be first."""
    speed = picked_speed(w, s, s.life[job].form)
    if w.has_tolls:
        come_back(s, job)
    take_nodes(w, s, job)
    leave_queue(w, s, job)
    now = s.now[0]
    s.n[EPOCH] += 1
    s.n[DISTURBED] += 1
    s.life[job].status = RUNNING
    s.life[job].speed = speed
    s.life[job].start = now
    s.life[job].end = now + (begin_spell(s, job) if w.takes_turns else w.job[job].duration) / speed
    push_end(s, job, turn)
    _enter(s, job, now + s.life[job].estimate / speed)
    if w.has_limits:
        count_running(w, s, job, 1)
    if w.takes_turns:
        s.n[WILLING_N] += w.yields[job].willing
        if w.yields[job].willing:
            enter_mover(s, job)
    usage_changes(w, s, job, 1.0)


@kernel
def stop_job(w: World, s: State, job: int) -> None:
    """Free what a running job has, at its end or because its node went down."""
    _leave(s, job)
    give_nodes_back(w, s, job)
    if w.has_limits:
        count_running(w, s, job, -1)
    if w.takes_turns:
        s.n[WILLING_N] -= w.yields[job].willing
        if w.yields[job].willing:
            leave_mover(s, job)
    usage_changes(w, s, job, -1.0)

"""Conservative backfilling: every waiting job gets a reservation, on a profile of what each node has free when.

A pass makes anew only what could have changed. As long as every job ends when expected and nobody comes in between,
the reservations of the last pass are those of this one: jobs whose time has come start, and that is all. Whoever comes
at the end of the order is the only one to be placed. After a surprise everything is placed anew.

With whole nodes, as Slurm plans, a reservation keeps its nodes from all that are behind it in the order, however
little of them it needs. What runs holds only what it has.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rltune.kernel.backfill.profile import (
    FreeProfile,
    close_nodes,
    earliest,
    empty_profile,
    ends_of_running,
    fullest,
    occupy,
    probe_at,
    probed_fits,
    with_more_room,
)
from rltune.kernel.fit.allocate import picked_speed
from rltune.kernel.fit.chunk_need import free_cpu
from rltune.kernel.fit.racks import pick_in_racks
from rltune.kernel.fit.running import settle_expected, start_job
from rltune.kernel.jit import allocating_kernel, kernel
from rltune.kernel.state.arrays import (
    ACTIVE_N,
    BUSIEST_CPUS,
    DISTURBED,
    DUE_AT,
    DUE_N,
    ENTERED,
    F8,
    FIRST_FIT,
    HIERARCHICAL,
    I8,
    LIMITED,
    NO_REASON,
    PLAN_ENTERED,
    PLAN_MARK,
    PLAN_N,
    Q_TAIL,
    RESERVED_LATER,
    RESOURCES,
    RUNNING_N,
    SPREAD,
    STAMP,
    WAITING,
    WHOLE_NODES,
    Options,
    State,
    World,
)
from rltune.kernel.state.limits import start_is_allowed
from rltune.kernel.state.queue import close_gaps, place_in_queue

INF = float("inf")
NONE = float("nan")
_LENGTHS = 160  # classes of estimates, four an octave
_FEW = 32  # jobs for which it does not pay to remember where others were placed


@kernel
def _length(s: State, job: int, speed: float) -> float:
    """Return how long a reservation is; at least a second, so that a job of no length is not overlooked."""
    return max(s.life[job].estimate, 1.0) / speed


@kernel
def _better(w: World, s: State, placement: int, node: int, best: int) -> bool:
    """Return whether a node of s.probe is preferred; nodes are tried lowest first, so ties keep the first."""
    if placement == FIRST_FIT:
        return False
    if placement == BUSIEST_CPUS:
        free = free_cpu(w, s.node[node].group, s.probe[node].cpu)
        return free < free_cpu(w, s.node[best].group, s.probe[best].cpu)
    free, best_free = s.probe[node].gpu, s.probe[best].gpu
    return free > best_free if placement == SPREAD else free < best_free


@kernel
def _choose(w: World, s: State, o: Options, shape: int) -> bool:
    """Choose nodes for a job among those of s.probe, into s.pick."""
    mask = w.shape[shape].mask
    s.n[STAMP] += 1
    if o.placement == HIERARCHICAL and w.shape[shape].chunks > 1:
        return pick_in_racks(w, s, shape)
    found = 0
    for kind in range(w.shape[shape].kinds):
        for _ in range(w.chunk[shape, kind].n):
            best = -1
            for m in range(w.mask[mask].lo, w.mask[mask].hi):
                group = w.mask_group[m]
                for node in range(w.group[group].lo, w.group[group].hi):
                    if s.node[node].picked == s.n[STAMP] or not probed_fits(w, s, shape, kind, node):
                        continue
                    if best < 0 or _better(w, s, o.placement, node, best):
                        best = node
            if best < 0:
                return False
            s.node[best].picked = s.n[STAMP]
            s.pick[found] = best
            found += 1
    return True


@kernel
def _keep_nodes(w: World, s: State, job: int, time: float) -> None:
    """Put the nodes of the job's last reservation into s.pick again, if it was for the same time and they are free.

    Between two passes other jobs may have started on nodes that make another choice look better. Had a job with a
    reservation changed nodes for that, the jobs behind it could find theirs taken.
    """
    if s.life[job].planned != time:
        return
    shape = w.job[job].asks
    first = at = w.job[job].chunk_at
    for kind in range(w.shape[shape].kinds):
        for _ in range(w.chunk[shape, kind].n):
            if not probed_fits(w, s, shape, kind, s.at[at].node):
                return
            at += 1
    for i in range(at - first):
        s.pick[i] = s.at[first + i].node


@kernel
def _remember(w: World, s: State, job: int, time: float) -> None:
    """Note a job's reservation: its time, and its nodes where they will be kept once it runs."""
    s.life[job].planned = time
    first = w.job[job].chunk_at
    for i in range(w.job[job].chunk_end - first):
        s.at[first + i].node = s.pick[i]


@kernel
def _recall(w: World, s: State, job: int) -> None:
    """Put the nodes of a job's reservation into s.pick."""
    first = w.job[job].chunk_at
    for i in range(w.job[job].chunk_end - first):
        s.pick[i] = s.at[first + i].node


class Hints(NamedTuple):
    """Times before which nobody of a shape who is expected to run as long can start: those that others got."""

    place: I8  # [shape] its row in the tables; none if there are no tables
    time: F8  # [row, class of estimate]
    estimate: F8  # the least estimate for which that time holds


@allocating_kernel
def _no_hints(w: World, s: State, jobs: int) -> Hints:
    """Make empty tables for the shapes that wait, or none for so few jobs that they would not pay."""
    rows = s.n[ACTIVE_N] if jobs > _FEW else 0
    place = np.zeros(len(w.shape) if rows > 0 else 0, dtype=np.int64)
    for i in range(rows):
        place[s.active[i]] = i
    return Hints(place, np.full((rows, _LENGTHS), -INF), np.full((rows, _LENGTHS), INF))


@kernel
def _class_of(estimate: float) -> int:
    """Return the class of an estimate: longer ones are never in a lower class."""
    return min(_LENGTHS - 1, int(4.0 * math.log2(max(estimate, 1.0))))


@kernel
def _not_before(h: Hints, shape: int, estimate: float, now: float) -> float:
    """Return a time before which a job cannot start: nobody alike who is not longer could, and less is free since."""
    if len(h.place) == 0:
        return now
    row = h.place[shape]
    own = _class_of(estimate)
    time = max(now, h.time[row, own]) if estimate >= h.estimate[row, own] else now
    for i in range(own):
        time = max(time, h.time[row, i])
    return time


@kernel
def _note_time(h: Hints, shape: int, estimate: float, time: float) -> None:
    if len(h.place) == 0:
        return
    row = h.place[shape]
    own = _class_of(estimate)
    if time > h.time[row, own]:
        h.time[row, own] = time
        h.estimate[row, own] = estimate


@kernel
def _place(w: World, s: State, o: Options, p: FreeProfile, job: int, not_before: float) -> float:
    """Choose time and nodes for a job, the nodes into s.pick; give the time, inf if there is none.

    It starts only if it fits beside what really runs: a job that is past its estimate may still be in the way.
    """
    shape = w.job[job].asks
    time = earliest(w, s, p, shape, s.life[job].estimate, not_before)
    s.life[job].reason = RESOURCES
    if time == INF:
        s.life[job].planned = NONE
        return INF
    starts = False
    if time == s.now[0]:
        probe_at(w, s, p, shape, s.life[job].estimate, time, True)
        starts = _choose(w, s, o, shape)
    if not starts:
        probe_at(w, s, p, shape, s.life[job].estimate, time, False)
        _choose(w, s, o, shape)
    _keep_nodes(w, s, job, time)
    _remember(w, s, job, time)
    s.life[job].reason = NO_REASON if starts else RESERVED_LATER
    return time


@kernel
def plan_stands(w: World, s: State) -> bool:
    """Return whether the reservations of the last pass are still right: all has gone as expected since."""
    settle_expected(w, s)
    on_time = s.n[RUNNING_N] == 0 or s.run[0].expected > s.now[0]
    missed = s.n[DUE_AT] < s.n[DUE_N] and s.life[s.due[s.n[DUE_AT]]].planned < s.now[0]
    same = s.n[PLAN_MARK] == s.n[DISTURBED] + 1 and not w.has_limits and not w.has_slowdown
    return same and on_time and not missed


@kernel
def nobody_came(s: State) -> bool:
    """Return whether all who wait had their reservations in the last pass."""
    return s.n[PLAN_ENTERED] == s.n[ENTERED]


@kernel
def _let_plan_stand(s: State, stands: bool) -> None:
    """Note that the plan is right as of now, or that it is not."""
    s.n[PLAN_MARK] = s.n[DISTURBED] + 1 if stands else 0
    s.n[PLAN_ENTERED] = s.n[ENTERED]


@kernel
def _start_as_planned(w: World, s: State, job: int) -> bool:
    """Start a job on the nodes in s.pick; False if it is expected to run for less than what is reserved."""
    start_job(w, s, job)
    s.life[job].reason = NO_REASON
    return s.life[job].estimate >= 1.0


@kernel
def start_due(w: World, s: State) -> None:
    """Start the jobs of a queue in order whose time has come, by a plan that stands."""
    first = s.n[Q_TAIL]
    last = -1
    stands = True
    while s.n[DUE_AT] < s.n[DUE_N] and s.life[s.due[s.n[DUE_AT]]].planned == s.now[0]:
        job = s.due[s.n[DUE_AT]]
        s.n[DUE_AT] += 1
        row = place_in_queue(s, s.life[job].key, job)
        first = min(first, row)
        last = max(last, row)
        _recall(w, s, job)
        stands = _start_as_planned(w, s, job) and stands
    if last >= 0:
        close_gaps(s, first, last)
        _let_plan_stand(s, stands)


@kernel
def _count_kept(s: State, order: I8) -> int:
    """Count the first jobs of an order that were the first in the last pass, too: their reservations stay."""
    kept = 0
    for i in range(s.n[PLAN_N]):
        job = s.plan[i]
        if s.life[job].status != WAITING:
            continue
        if kept == len(order) or order[kept] != job:
            break
        kept += 1
    return kept


@kernel
def _planned_time(s: State, job: int) -> float:
    """Return the time of a job's reservation, inf if it has none."""
    time = s.life[job].planned
    return time if time == time else INF  # noqa: PLR0124  NaN alone differs from itself


@allocating_kernel
def _note_plan(s: State, o: Options, order: I8) -> None:
    """Remember the order, and who is due when."""
    n = 0
    for job in order:
        if s.life[job].status == WAITING:
            s.plan[n] = job
            n += 1
    s.n[PLAN_N] = n
    s.n[DUE_AT] = s.n[DUE_N] = 0
    if o.dynamic:
        return
    times = np.empty(n)
    for i in range(n):
        times[i] = _planned_time(s, s.plan[i])
    for i in np.argsort(times, kind="mergesort"):
        if times[i] < INF:
            s.due[s.n[DUE_N]] = s.plan[i]
            s.n[DUE_N] += 1


@allocating_kernel
def _profile_of_running(w: World, s: State) -> FreeProfile:
    """Lay out what is free as running jobs end."""
    settle_expected(w, s)
    p = empty_profile(s, s.n[RUNNING_N] + _FEW)
    ends_of_running(w, s, p)
    return p


@kernel
def _reserve(w: World, s: State, o: Options, p: FreeProfile, h: Hints, job: int) -> float:
    """Return a job its reservation; the time, inf if there is none."""
    if w.has_limits and not start_is_allowed(w, s, job):
        s.life[job].reason = LIMITED
        s.life[job].planned = NONE
        return INF
    shape, estimate = w.job[job].asks, s.life[job].estimate
    time = _place(w, s, o, p, job, _not_before(h, shape, estimate, s.now[0]))
    _note_time(h, shape, estimate, time)
    return time


@allocating_kernel
def conservative_pass(w: World, s: State, o: Options, rows: I8, stands: bool) -> tuple[int, int]:
    """Return the jobs in these places of the queue, best first, their reservations; start those whose time is now."""
    order = np.empty(len(rows), dtype=np.int64)
    for i in range(len(rows)):
        order[i] = s.queue[rows[i]].job
    kept = _count_kept(s, order) if stands else 0
    p = _profile_of_running(w, s) if kept < len(order) else empty_profile(s, 1)
    h = _no_hints(w, s, len(order) - kept)
    most = fullest(p)  # a node has no more moments than this
    as_planned = True
    first = s.n[Q_TAIL]
    last = -1
    for i in range(len(order)):
        job = order[i]
        if i < kept:
            time = _planned_time(s, job)
            starts = time == s.now[0]
            _recall(w, s, job)
        else:
            time = _reserve(w, s, o, p, h, job)
            starts = s.life[job].reason == NO_REASON
        if time == INF:
            continue
        if kept < len(order):
            most += 2
            if most > p.time.shape[1]:
                most = fullest(p) + 2
                p = with_more_room(p) if most > p.time.shape[1] else p
            shape = w.job[job].asks
            until = time + _length(s, job, picked_speed(w, s, shape))
            if starts or o.backfill != WHOLE_NODES:
                occupy(w, s, p, shape, time, until)
            else:
                close_nodes(w, s, p, shape, time, until)
        if starts:
            as_planned = _start_as_planned(w, s, job) and as_planned
            first = min(first, rows[i])
            last = max(last, rows[i])
    _note_plan(s, o, order)
    _let_plan_stand(s, as_planned)
    return first, last

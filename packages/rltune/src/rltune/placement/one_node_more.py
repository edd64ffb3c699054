"""Jobs behind the first, cut for one node more: in their turn, where they do not fit whole and may overtake.

Who may start is the core's to say: each job has its turn by `consider`, and a cut one keeps EASY's promise to the head.
"""

from __future__ import annotations

import numpy as np

from rltune.kernel.backfill.easy import lay_down_picked, reservation, reserve
from rltune.kernel.backfill.job_turn import consider, keeps_place
from rltune.kernel.fit.allocate import find, give_nodes_back, picked_speed, take_nodes
from rltune.kernel.fit.pools import bar_pool, is_barring, make_pools, may_split
from rltune.kernel.fit.running import start_job
from rltune.kernel.fit.ways import breaks_no_idle_node, wider_fits
from rltune.kernel.jit import allocating_kernel, kernel
from rltune.kernel.state.arrays import (
    ACTIVE_N,
    BEST_FIT,
    DISTURBED,
    EPOCH,
    F8,
    I8,
    NO_REASON,
    RESOURCES,
    Options,
    State,
    World,
)
from rltune.kernel.state.queue import close_gaps


@kernel
def any_cut_fits(w: World, s: State) -> bool:
    """Return whether some waiting request, cut for one node more, fits now."""
    for i in range(s.n[ACTIVE_N]):  # noqa: SIM110  numba compiles loops, not generators
        if wider_fits(w, s, s.active[i], 0.0):
            return True
    return False


@kernel
def _finds(w: World, s: State, form: int, shape: int, estimate: float, rule: int) -> bool:
    """Choose nodes in use for a cut, into s.pick."""
    return find(w, s, form, estimate, rule) and breaks_no_idle_node(w, s, form, shape)


@kernel
def _pick_cut(w: World, s: State, o: Options, shape: int, estimate: float) -> int:
    """Choose nodes for a request that is cut, into s.pick; give the shape of the cut, -1 if none fits.

    In racks, if that is the rule; the pieces may then be shown an idle node where best fit finds others.
    """
    for form in range(w.shape[shape].wider_lo, w.shape[shape].wider_hi):
        if _finds(w, s, form, shape, estimate, o.placement) or (
            o.placement != BEST_FIT and _finds(w, s, form, shape, estimate, BEST_FIT)
        ):
            return form
    return -1


@kernel
def _leaves_head_its_place(w: World, s: State, job: int, pool: int, time: float) -> bool:
    """Return whether the head still fits at its time beside the job on the nodes in s.pick, though it should never end.

    If so, what is noted of the reservation knows the job; else it is as it was.
    """
    take_nodes(w, s, job)
    fits = reserve(w, s, s.pool[pool].head, pool) <= time
    give_nodes_back(w, s, job)
    if not fits:
        reserve(w, s, s.pool[pool].head, pool)
    return fits


@kernel
def _keeps_promise(w: World, s: State, job: int, form: int, pool: int) -> bool:
    """Return whether a cut job on the nodes in s.pick would leave the head its reservation."""
    time = s.pool[pool].reserved
    if time != time:  # NaN: not computed yet  # noqa: PLR0124
        time = reservation(w, s, pool)
    if s.now[0] + s.life[job].estimate / picked_speed(w, s, form) <= time:
        lay_down_picked(s, pool, w.shape[form].chunks)
        return True
    s.life[job].form = form
    kept = _leaves_head_its_place(w, s, job, pool, time)
    s.life[job].form = w.job[job].asks
    return kept


@kernel
def _start_cut(w: World, s: State, o: Options, job: int, pool: int) -> bool:
    """Start a job that does not fit whole, cut for one node more, if that fits and delays no head."""
    shape = w.job[job].asks
    form = _pick_cut(w, s, o, shape, s.life[job].estimate)
    if form < 0:
        return False
    head = s.pool[pool].head
    keeps = job != head and keeps_place(w, s, o, pool)
    if keeps:
        if not _keeps_promise(w, s, job, form, pool):
            return False
        _pick_cut(w, s, o, shape, s.life[job].estimate)  # s.pick is lent to nobody for long
    s.life[job].form = form
    start_job(w, s, job)
    if job == head:
        s.pool[pool].head = -1
        s.pool[pool].reserved = float("nan")
    elif keeps:
        s.pool[pool].kept_mark = s.n[DISTURBED]  # the reservation knows of this one
    return True


@kernel
def _turn(w: World, s: State, o: Options, row: int, refused_at: I8, refused_from: F8) -> int:
    """Let the job in this place of the queue start whole or else cut; give 0 if it waits, 1 if whole, 2 if cut.

    What is refused a cut is so until something starts, and so are jobs alike that are expected to last longer.
    """
    job = s.queue[row].job
    shape = s.queue[row].asks
    s.life[job].reason = consider(w, s, o, row)
    if s.life[job].reason == NO_REASON:
        return 1
    known = refused_at[shape] == s.n[EPOCH] and s.life[job].estimate >= refused_from[shape]
    if s.life[job].reason != RESOURCES or known:
        return 0
    if _start_cut(w, s, o, job, s.demand[shape].pool):
        s.life[job].reason = NO_REASON
        return 2
    refused_at[shape] = s.n[EPOCH]
    refused_from[shape] = s.life[job].estimate
    return 0


@kernel
def _heads_of_parts(w: World, s: State, o: Options, rows: I8) -> None:
    """Make the pools of those that still wait; the head of each is the first that has had its turn."""
    make_pools(w, s, o.global_head)
    for row in rows:
        if is_barring(w, s, row):
            bar_pool(s, row)


@allocating_kernel
def turns_with_cuts(w: World, s: State, o: Options, rows: I8) -> int:
    """Try to start the jobs in these places of the queue, in this order; return how many started cut."""
    make_pools(w, s, o.global_head)
    s.n[EPOCH] += 1
    refused_at = np.full(len(w.shape), -1, dtype=np.int64)
    refused_from = np.zeros(len(w.shape))
    cut = 0
    first = len(s.queue)
    last = -1
    for i, row in enumerate(rows):
        came_to = _turn(w, s, o, row, refused_at, refused_from)
        cut += came_to == 2
        if came_to > 0:
            first = min(first, row)
            last = max(last, row)
            if may_split(w, s, o, s.queue[row].asks):
                _heads_of_parts(w, s, o, rows[:i])
    if last >= 0:
        close_gaps(s, first, last)
    return cut

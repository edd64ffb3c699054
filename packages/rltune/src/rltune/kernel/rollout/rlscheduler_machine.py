"""RLScheduler's machine, so that its published table can be checked to the digit: see docs/reference/semantics.md."""

from __future__ import annotations

from rltune.kernel.backfill.easy import shadow_time
from rltune.kernel.fit.allocate import find, picked_speed
from rltune.kernel.fit.running import pop_end, start_in_turn
from rltune.kernel.jit import kernel
from rltune.kernel.rollout.event_loop import arrive, complete, skip_rejected
from rltune.kernel.score.rules import queue_end_in_view, score_queue
from rltune.kernel.state.arrays import ARRIVED, HEAP_N, Q_HEAD, Q_TAIL, RUNNING_N, SHADOW, STARTS, Options, State, World
from rltune.kernel.state.queue import close_gaps
from rltune.kernel.state.score_heap import row_before

INF = float("inf")


@kernel
def _advance_one(w: World, s: State, o: Options) -> bool:
    """Let one job arrive or one job end, whichever is next; an arrival goes first on a tie."""
    end = s.end[0].time if s.n[HEAP_N] > 0 else INF
    skip_rejected(w, s)
    if s.n[ARRIVED] < len(w.job) and w.job[s.n[ARRIVED]].submit <= end:
        s.now[0] = max(s.now[0], w.job[s.n[ARRIVED]].submit)
        arrive(w, s, o, s.n[ARRIVED])
        s.n[ARRIVED] += 1
        return True
    if end == INF:
        return False
    s.now[0] = max(s.now[0], end)
    complete(w, s, o, pop_end(s))
    return True


@kernel
def _best_row(s: State, end: int) -> int:
    best = s.n[Q_HEAD]
    for row in range(s.n[Q_HEAD] + 1, end):
        if row_before(s, row, best):
            best = row
    return best


@kernel
def _start_next(w: World, s: State, job: int) -> None:
    """Start a job; of equal ends the job that started first is released first."""
    s.n[STARTS] += 1
    start_in_turn(w, s, job, s.n[STARTS])


@kernel
def _start(w: World, s: State, job: int) -> None:
    _start_next(w, s, job)
    for row in range(s.n[Q_HEAD], s.n[Q_TAIL]):
        if s.queue[row].job == job:
            close_gaps(s, row, row)
            return


@kernel
def _free_gpus(s: State) -> int:
    free = 0
    for node in range(len(s.node)):
        free += s.node[node].gpu
    return free


@kernel
def _starts_in_shadow(w: World, s: State, o: Options, job: int, shadow: float) -> bool:
    """Start a job if it fits and is expected to end before the shadow time."""
    estimate = s.life[job].estimate
    shape = w.job[job].asks
    if not find(w, s, shape, estimate, o.placement) or s.now[0] + estimate / picked_speed(w, s, shape) >= shadow:
        return False
    _start_next(w, s, job)
    return True


@kernel
def _backfill(w: World, s: State, o: Options, selected: int, shadow: float, from_row: int) -> None:
    """Start, oldest first from a row on, what fits and is expected to end before the shadow time."""
    free = _free_gpus(s)
    top_speed = _top_speed(w)
    first = s.n[Q_TAIL]
    last = -1
    for row in range(from_row, s.n[Q_TAIL]):
        job = s.queue[row].job
        too_late = s.now[0] + s.queue[row].estimate / top_speed >= shadow
        if too_late or w.job[job].gpus > free or job == selected:
            continue
        if _starts_in_shadow(w, s, o, job, shadow):
            free -= w.job[job].gpus
            first = min(first, row)
            last = row
    if last >= 0:
        close_gaps(s, first, last)


@kernel
def _top_speed(w: World) -> float:
    """Return a speed that no job exceeds."""
    speed = 0.0
    for g in range(len(w.group)):
        speed = max(speed, w.group[g].speed)
    return speed


@kernel
def start_selected(w: World, s: State, o: Options, job: int) -> bool:
    """Stay with the selected job until it fits; False if it never does."""
    if not _fits(w, s, o, job):
        shadow = shadow_time(w, s, job, 0)
        released = True
        while True:
            if o.backfill == SHADOW:
                # As time goes by less can end before the shadow: unless a job was released, only newcomers can start.
                _backfill(w, s, o, job, shadow, s.n[Q_HEAD] if released else s.n[Q_TAIL] - 1)
            running = s.n[RUNNING_N]
            if not _advance_one(w, s, o):
                return False
            released = s.n[RUNNING_N] < running
            if released and _fits(w, s, o, job):
                break
    _start(w, s, job)
    return True


@kernel
def _fits(w: World, s: State, o: Options, job: int) -> bool:
    return find(w, s, w.job[job].asks, s.life[job].estimate, o.placement)


@kernel
def make_one_pool(s: State) -> None:
    """Join all groups for the whole run; no pool is blocked or shut, since one job is selected at a time."""
    for g in range(len(s.pool)):
        s.pool[g].pool = 0
        s.pool[g].head = -1
        s.pool[g].shut = 0


@kernel
def wait_for_queue(w: World, s: State, o: Options) -> bool:
    """Advance until a job waits; False if none ever will."""
    while s.n[Q_HEAD] == s.n[Q_TAIL]:
        if not _advance_one(w, s, o):
            return False
    return True


@kernel
def _select(w: World, s: State, o: Options) -> int:
    """Return the job that the policy selects of those in view."""
    end = queue_end_in_view(s, o.in_view)
    score_queue(w, s, o, end, False)
    return s.queue[_best_row(s, end)].job


@kernel
def run_committed(w: World, s: State, o: Options) -> None:
    """Simulate a window: select, wait until it fits, start, select again."""
    make_one_pool(s)
    while wait_for_queue(w, s, o):
        if not start_selected(w, s, o, _select(w, s, o)):
            return

"""A sketch of a moment: a small world of the jobs that wait and run now, whose run times are what is believed of them.

A search rolls it forward many times, so copying it must be cheap: nothing in it grows with the trace. The true run
times are not in it, nor jobs that come later, nor outages. What a running job has left is told by online_survival.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rltune.kernel.fit.running import push_end, settle_expected
from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import (
    ACTIVE_N,
    ARRIVED,
    EXPECTED_BEFORE,
    HEAP_N,
    HELD_N,
    NODE_EVENT,
    NODE_WAKE,
    PLAN_MARK,
    Q_HEAD,
    Q_TAIL,
    RUN_END,
    RUN_SORTED,
    RUNNING_N,
    SCOPES,
    State,
    World,
)
from rltune.kernel.state.fair_share import ON
from rltune.kernel.state.online_survival import ENDS_NOW, believed_end


def make_sketch(world: World, state: State, jobs: int, chunks: int) -> tuple[World, State, State]:
    """Make room for so many jobs in so many chunks: a world, the state as it is drawn, and one to roll forward."""
    wakes = world.event[world.event.kind == NODE_WAKE]
    small = world._replace(
        job=_room(world.job, jobs), counters=_room(world.counters, jobs), event=wakes, left_by=ENDS_NOW
    )
    by_job = {
        name: _room(getattr(state, name), jobs + 1) for name in ("life", "queue", "heap", "plan", "due", "end", "held")
    }
    by_job |= {"at": _room(state.at, chunks), "run": _room(state.run, 2 * (jobs + 1)), "seen": _room(state.seen, 1)}
    by_job |= {"survival": np.zeros((1, 1, 2))}  # nothing is learnt there
    drawn, rolled = (
        State(**{name: by_job[name].copy() if name in by_job else part.copy() for name, part in _parts(state)})
        for _ in range(2)
    )
    return small, drawn, rolled


def _parts(state: State) -> list[tuple[str, Any]]:
    return list(state._asdict().items())


def _room(table: Any, rows: int) -> Any:
    """Return an empty table of the same columns."""
    empty = np.zeros((rows, *table.shape[1:]), table.dtype)
    return empty.view(np.recarray) if table.dtype.names else empty


@kernel
def room_needed(w: World, s: State) -> tuple[int, int]:
    """Count the jobs that wait and run, and their chunks."""
    chunks = 0
    for row in range(s.n[Q_HEAD], s.n[Q_TAIL]):
        job = s.queue[row].job
        chunks += w.job[job].chunk_end - w.job[job].chunk_at + 1
    settle_expected(w, s)
    for i in range(s.n[RUNNING_N]):
        job = s.run[i].job
        chunks += w.job[job].chunk_end - w.job[job].chunk_at + 1
    return s.n[Q_TAIL] - s.n[Q_HEAD] + s.n[RUNNING_N], chunks


@kernel
def draw_sketch(w: World, s: State, small: World, drawn: State) -> None:
    """Draw the moment: waiting jobs are numbered by their place in the queue, oldest first, and running ones go on."""
    _copy(s.n, drawn.n, len(s.n))
    drawn.now[0] = s.now[0]
    copy_cluster(w, s, drawn)
    for g in range(len(drawn.pool)):
        drawn.pool[g].kept_head = -1
    number = 0
    at = 0
    for row in range(s.n[Q_HEAD], s.n[Q_TAIL]):
        at = _draw_job(w, s, small, drawn, s.queue[row].job, number, at)
        _draw_row(s, drawn, row, number)
        number += 1
    drawn.n[Q_HEAD] = 0
    drawn.n[Q_TAIL] = number
    settle_expected(w, s)
    drawn.n[HEAP_N] = drawn.n[EXPECTED_BEFORE] = 0
    for i in range(s.n[RUNNING_N]):
        at = _draw_job(w, s, small, drawn, s.run[i].job, number, at)
        _draw_run(w, s, drawn, i, number)
        number += 1
    drawn.n[RUN_END] = drawn.n[RUN_SORTED] = s.n[RUNNING_N]
    drawn.n[ARRIVED] = len(small.job)
    drawn.n[HELD_N] = 0
    drawn.n[PLAN_MARK] = 0  # jobs have other numbers here
    drawn.n[NODE_EVENT] = 0
    while drawn.n[NODE_EVENT] < len(small.event) and small.event[drawn.n[NODE_EVENT]].time <= s.now[0]:
        drawn.n[NODE_EVENT] += 1


@kernel
def _draw_job(w: World, s: State, small: World, drawn: State, job: int, number: int, at: int) -> int:
    """Enter a job under its number, its chunks from a place on; give where the next one's are."""
    small.job[number] = w.job[job]
    drawn.life[number] = s.life[job]
    small.job[number].duration = s.life[job].estimate
    small.job[number].child_end = small.job[number].child_at
    chunks = w.job[job].chunk_end - w.job[job].chunk_at
    small.job[number].chunk_at = at
    small.job[number].chunk_end = at + chunks
    for c in range(SCOPES):
        small.counters[number, c] = w.counters[job, c]
    for c in range(chunks + 1):
        if w.job[job].chunk_at + c < len(s.at):
            drawn.at[at + c] = s.at[w.job[job].chunk_at + c]
    return at + chunks + 1


@kernel
def _draw_row(s: State, drawn: State, row: int, number: int) -> None:
    drawn.queue[number] = s.queue[row]
    drawn.queue[number].job = number
    drawn.queue[number].key = float(number)


@kernel
def _draw_run(w: World, s: State, drawn: State, i: int, number: int) -> None:
    """Let a running job go on to the end that is believed of it."""
    life = drawn.life[number]
    life.end = believed_end(w, s, s.run[i].job)
    life.run_at = i
    drawn.run[i].job = number
    drawn.run[i].expected = s.run[i].expected
    push_end(drawn, number, number)


@kernel
def _copy(rows: Any, to: Any, n: int) -> None:
    """Copy the first n rows of a table."""
    for i in range(n):
        to[i] = rows[i]


@kernel
def copy_cluster(w: World, s: State, to: State) -> None:
    """Copy what does not depend on the number of jobs, but for scratch."""
    _copy(s.node, to.node, len(s.node))
    _copy(s.bits, to.bits, len(s.bits))
    _copy(s.level, to.level, len(s.level))
    _copy(s.demand, to.demand, len(s.demand))
    _copy(s.active, to.active, s.n[ACTIVE_N])
    _copy(s.mask_waiting, to.mask_waiting, len(s.mask_waiting))
    _copy(s.limit, to.limit, len(s.limit))
    _copy(s.pool, to.pool, len(s.pool))
    if w.factor_par[ON] != 0.0:
        _copy(s.growth, to.growth, len(s.growth))
        for row in range(s.owner.shape[0]):
            _copy(s.owner[row], to.owner[row], s.owner.shape[1])


@kernel
def restore(small: World, drawn: State, to: State) -> None:
    """Begin anew from the sketch as it was drawn."""
    _copy(drawn.n, to.n, len(drawn.n))
    to.now[0] = drawn.now[0]
    copy_cluster(small, drawn, to)
    jobs = drawn.n[Q_TAIL] + drawn.n[RUNNING_N]
    _copy(drawn.life, to.life, jobs)
    _copy(drawn.queue, to.queue, drawn.n[Q_TAIL])
    _copy(drawn.run, to.run, drawn.n[RUN_END])
    _copy(drawn.end, to.end, drawn.n[RUN_END])
    _copy(drawn.at, to.at, small.job[jobs - 1].chunk_end + 1)

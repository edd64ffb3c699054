"""Rollouts for training: a window run in compiled code under a model, with what was seen and chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rltune.engine.run import Machine
from rltune.kernel.build.prepare import copy_state
from rltune.kernel.rollout.drawn_window import (
    draw_order,
    drawn_pass,
    rollout,
    rollout_committed,
    score_rows,
    write_order,
)
from rltune.kernel.rollout.event_loop import advance
from rltune.kernel.score.rules import GIVEN
from rltune.kernel.state import arrays as core
from rltune.kernel.state.handles import record_handle, state_handle
from rltune.model.feature_sets import critic_codes
from rltune.placement.look_ahead import LookAhead

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_ROWS_A_JOB = 64  # room at first; made larger when it is not enough
_ROWS_A_JOB_SOLVED = 1024  # with a solver, a run of which is not thrown away lightly


@dataclass(frozen=True)
class Episode:
    """One window under a model: the choices that had an alternative, in order, and when each job started."""

    rows: Floats  # [row, input] every candidate of every choice
    critic: Floats  # [row, 5]
    first: Ints  # [choice + 1] the candidates of choice i are rows first[i] to first[i + 1]
    taken: Ints  # [choice] which of its candidates
    when_s: Floats  # [choice]
    submit_s: Floats  # [job] in order of submit
    start_s: Floats
    end_s: Floats
    chosen: int  # choices made, with those that had no alternative

    def __len__(self) -> int:
        return len(self.taken)


def fresh_run(machine: Machine) -> Machine:
    """Return a machine of its own state, as it was before any run, over the same world."""
    state = copy_state(machine.state)
    arrays = replace(machine.arrays, state=state, s=state_handle(state))
    return replace(machine, arrays=arrays, work={})


def roll(machine: Machine, seed: int) -> Episode:
    """Run a window that has not begun to its end, every choice drawn from the softmax of the network's logits.

    The machine is left as it is, so that the window can be run again; the same seed gives the same episode.
    """
    return _written(machine, np.random.default_rng(seed).integers(1, 2147483398, 2))


def as_used(machine: Machine) -> Episode:
    """Run a window as the network would be used: nothing is drawn, and every choice is written down all the same."""
    return _written(machine, None)


def with_change(machine: Machine, choice: int, candidate: int) -> Machine:
    """Run a window as the network would be used, but for one choice, counted as `as_used` does; return the run."""
    record = _record(machine, 0, None)
    record.n[[core.CHANGED_AT, core.CHANGED_TO]] = choice, candidate
    run = fresh_run(machine)
    _play(run, record_handle(record))
    return run


def logits(machine: Machine, rows: Floats) -> Floats:
    """Return what the network says of rows of an episode."""
    found = np.empty(len(rows))
    score_rows(machine.w, fresh_run(machine).s, np.ascontiguousarray(rows), found)
    return found


def _written(machine: Machine, seeds: Ints | None) -> Episode:
    """Run a window with as much room to write as it takes."""
    room = (_ROWS_A_JOB_SOLVED if machine.placer.solves else _ROWS_A_JOB) * len(machine.jobs)
    while True:
        record = _record(machine, room, seeds)
        run = fresh_run(machine)
        _play(run, record_handle(record))
        if not record.n[core.FULL]:
            return _episode(run, record)
        room *= 4


def _play(run: Machine, record: core.Record) -> None:
    if run.placer.solves:
        _play_with_solver(run, record)
    elif run.pipeline.commit:
        rollout_committed(run.w, run.s, run.options, record)
    else:
        rollout(run.w, run.s, run.options, record)


def _play_with_solver(run: Machine, record: core.Record) -> None:
    """Leave compiled code in every pass, as the solver's runs do.

    The order of the jobs that the solver looks at is drawn, and so is every choice of the pass that follows. Those
    that it lets start on one node more are tried in the network's own order: nothing is drawn there.
    """
    w, s, o = run.w, run.s, run.options
    ahead = LookAhead(run.arrays, o, run.placer.k)
    given = o._replace(policy=GIVEN, relook=False)

    def note(pool: int, jobs: core.I8) -> None:
        write_order(w, s, o, record, pool, jobs)

    while advance(w, s, o):
        if run.state.n[core.Q_TAIL] > run.state.n[core.Q_HEAD]:
            draw_order(w, s, o, record)
            ahead.look(given, note)
            ahead.cut(o)
        drawn_pass(w, s, o, record)


def _record(machine: Machine, rows: int, seeds: Ints | None) -> core.Record:
    choices = rows // 4 + 2
    n = np.zeros(core.N_RECORD, dtype=np.int64)
    n[core.CHANGED_AT] = -1
    n[core.QUIET] = seeds is None
    n[[core.SEED_1, core.SEED_2]] = 1 if seeds is None else seeds
    return core.Record(
        n=n,
        row=np.empty((rows, len(machine.world.net_norm))),
        critic=np.empty((rows, core.N_CRITIC)),
        first=np.zeros(choices + 1, dtype=np.int64),
        taken=np.zeros(choices, dtype=np.int64),
        when=np.zeros(choices),
        critic_of=critic_codes(),
    )


def _episode(run: Machine, record: core.Record) -> Episode:
    rows, choices = int(record.n[core.ROWS]), int(record.n[core.CHOICES])
    life = run.state.life
    return Episode(
        rows=record.row[:rows],
        critic=record.critic[:rows],
        first=record.first[: choices + 1],
        taken=record.taken[:choices],
        when_s=record.when[:choices],
        submit_s=run.world.job.submit,
        start_s=life.start,
        end_s=life.end,
        chosen=int(record.n[core.CHOSEN]),
    )

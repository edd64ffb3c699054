"""The core at a present: one pass with a reason for everybody, or rolled forward."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rltune.engine.filled_moment import FilledMoment, fill
from rltune.engine.known_history import GivenAfter, long_ago, taught
from rltune.engine.pipeline import Pipeline
from rltune.engine.run import Machine
from rltune.engine.view import scores_of
from rltune.jobs import Floats, Jobs
from rltune.kernel.score.rules import queue_end_in_view, score_queue
from rltune.kernel.state import arrays as core
from rltune.kernel.state.online_survival import LEAST_LEFT_S, OVERRUN
from rltune.policy.base import Scored
from rltune.present.present import Present


@dataclass(frozen=True)
class Later:
    """Jobs that come after a present, and what is believed of them."""

    jobs: Jobs
    estimate_s: Floats


def machine_at(present: Present, duration_s: Floats | None = None, later: Later | None = None) -> Machine:
    """Fill a machine with a present; `duration_s`: how long each row runs in all, if it is to be rolled forward."""
    duration = np.zeros(len(present.jobs)) if duration_s is None else duration_s
    jobs = replace(present.jobs, duration_s=duration)  # its other columns were checked when the present was made
    estimate_s = present.estimate_s
    if later is not None and len(later.jobs):
        jobs = jobs.followed_by(later.jobs)
        estimate_s = np.concatenate([estimate_s, later.estimate_s])
    history = present.history
    known = long_ago(history) if history is not None and len(history) and _asks_history(present.pipeline) else None
    pipeline = taught(present.pipeline, history)
    machine = Machine.of_some(jobs, present.cluster, pipeline, GivenAfter(estimate_s, before=known))
    waiting = np.sort(np.asarray(present.waiting, dtype=np.int64))
    if machine.reject_reason:
        waiting = waiting[~np.isin(waiting, list(machine.reject_reason))]
    down = np.array(present.down, dtype=np.int64)
    moment = FilledMoment(present.now_s, present.seats, waiting, np.zeros(len(waiting)), down)
    fill(machine, machine.options, moment)
    machine.state.n[core.ARRIVED] = len(present.jobs)
    return machine


def _asks_history(pipeline: Pipeline) -> bool:
    return bool(pipeline.turns) or pipeline.remaining != "ends-now"


def order_of(machine: Machine) -> tuple[core.I8, Floats]:
    """Return the waiting rows in the order of the policy, guard and all, and their scores; lower is sooner.

    Jobs out of the policy's view come last.
    """
    s = machine.state
    head, tail = int(s.n[core.Q_HEAD]), int(s.n[core.Q_TAIL])
    options = machine.options._replace(cycle_s=0.0, explain=True)
    end = int(queue_end_in_view(machine.s, options.in_view))
    s.queue.score[head:tail] = np.inf
    if isinstance(machine.pipeline.policy, Scored):
        s.queue.score[head:end] = scores_of(machine.pipeline.policy, machine.view(s.queue.job[head:end]))
    else:
        score_queue(machine.w, machine.s, options, end, False)
    queue = s.queue[head:tail]
    rows = np.lexsort((queue["job"], queue["tie"], queue["score"]))  # as kernel/state/score_heap.py compares rows
    return np.array(queue["job"][rows]), np.array(queue["score"][rows])


def believed_durations(present: Present) -> Floats:
    """Return how long each row runs in all by its estimate; one that has outlived it, half as long again as so far."""
    duration = np.maximum(present.estimate_s, LEAST_LEFT_S)
    seats = present.seats
    elapsed = present.now_s - seats.start_s
    whole = duration[seats.rows]
    duration[seats.rows] = np.where(whole > elapsed, whole, elapsed * (1 + OVERRUN) + LEAST_LEFT_S)
    return duration


def roll(
    present: Present, duration_s: Floats | None = None, later: Later | None = None, rows: range | None = None
) -> Floats:
    """Roll a present forward until all that wait have started; return the start of each row, inf if it never does.

    Without durations those that are believed are taken for the truth: the deterministic roll. With `rows` it stops when
    these have started, and tells nothing of others that have not.
    """
    machine = machine_at(present, believed_durations(present) if duration_s is None else duration_s, later)
    machine.make_pass()
    machine.run_while(rows=rows or range(len(present.jobs)))
    life = machine.state.life
    started = (life.status == core.RUNNING) | (life.status == core.DONE)
    first = machine.state.turn.first if machine.world.takes_turns else life.start
    return np.where(started, first, np.inf)[: len(present.jobs)]


def in_order_of(present: Present, pipeline: Pipeline) -> Present:
    """Return the same moment under another pipeline."""
    return replace(present, pipeline=pipeline)

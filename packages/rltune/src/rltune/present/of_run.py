"""A present out of a simulation: one that runs, or a history replayed to a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rltune.cluster import Cluster
from rltune.engine.filled_moment import Seats
from rltune.engine.pipeline import Pipeline
from rltune.engine.run import Machine
from rltune.errors import InputError
from rltune.estimate.estimators import Estimator, Given
from rltune.jobs import Floats, Jobs
from rltune.kernel.state import arrays as core
from rltune.metrics.recorded import NOTHING_RECORDED, recorded_wait
from rltune.opt_in import for_replay
from rltune.policy.multifactor import Multifactor
from rltune.present.fixed_order import FixedOrder
from rltune.present.moment import order_of
from rltune.present.present import Aside, Present, Replayed, SetAside, Why, told_moment


def replay(
    jobs: Jobs,
    cluster: Cluster,
    pipeline: Pipeline,
    estimator: Estimator,
    at_s: float,
    source: str = "",
    origin_s: float | None = None,
) -> Present:
    """Replay a history under a pipeline from its beginning to a time, and take what is there.

    `origin_s`: the date, in seconds since 1970, of the history's time 0, if it tells dates.
    """
    if pipeline.commit:
        raise InputError("commit mode selects one job at a time, so it has no queue to ask about; leave it out")
    jobs = for_replay(jobs, cluster)
    order = np.argsort(jobs.submit_s, kind="stable")
    first, last = float(jobs.submit_s[order[0]]), float((jobs.submit_s + jobs.duration_s).max())
    if not first <= at_s:
        told = told_moment(first, origin_s), told_moment(at_s, origin_s)
        raise InputError(f"the history begins at {told[0]}, after the time asked for, {told[1]}")
    if isinstance(estimator, Given):
        estimator = estimator.in_order(jobs, order)
    machine = Machine.of(jobs.take(order), cluster, pipeline, estimator)
    machine.run_to(at_s)
    if at_s > last and not (machine.state.life.status <= core.RUNNING).any():
        told = told_moment(last, origin_s), told_moment(at_s, origin_s)
        raise InputError(f"the history's last job is over by {told[0]}, before the time asked for, {told[1]}")
    made = present_of_run(machine, at_s, source)
    replayed = _replayed(machine, at_s, origin_s)
    return replace(made, replayed=replayed, notes=(*made.notes, *_level_notes(machine, at_s)))


def _replayed(machine: Machine, now_s: float, origin_s: float | None) -> Replayed:
    """Keep what became of each job; of those of one number, the first counts."""
    jobs, status = machine.jobs, np.asarray(machine.state.life["status"])
    row_of: dict[str, int] = {}
    for row, name in enumerate(jobs.id.tolist()):
        row_of.setdefault(str(name), row)
    start_s = _starts(machine, np.nan)
    return Replayed(row_of, now_s, jobs.submit_s, start_s, status == core.DONE, jobs.recorded_start_s, origin_s)


def _starts(machine: Machine, without: float) -> Floats:
    """Return when each job first started in the run; of those who have not, what is given."""
    state = machine.state
    status = np.asarray(state.life["status"])
    started = (status == core.RUNNING) | (status == core.DONE)
    return np.where(started, state.turn["first"] if machine.world.takes_turns else state.life["start"], without)


def _level_notes(machine: Machine, now_s: float) -> tuple[str, ...]:
    """Say where waits up to now are far from those recorded: then what is told of now is of another queue.

    Who waits still, here or in the record, has waited up to now in both.
    """
    jobs, state = machine.jobs, machine.state
    status = np.asarray(state.life["status"])
    start_s = _starts(machine, now_s)
    counts = (status >= core.HELD) & (jobs.ready_s < now_s)
    until_now = jobs.with_columns(recorded_start_s=np.minimum(jobs.recorded_start_s, now_s))
    beside = recorded_wait(until_now, start_s - jobs.ready_s, counts, calibrated=machine.cluster.calibrated)
    told = beside.level_lines(machine.pipeline.label) if beside.recorded_s.n else [NOTHING_RECORDED]
    return tuple(line.removesuffix(".") for line in told)


def present_of_run(machine: Machine, now_s: float, source: str = "") -> Present:
    """Take the present out of a simulation that has come to a time. What is still to come stays unknown."""
    state = machine.state
    status = np.asarray(state.life["status"])
    rows = np.flatnonzero((status >= core.HELD) & (status <= core.RUNNING))
    kept, waits = _table(machine, rows), status[rows] != core.RUNNING
    running = np.flatnonzero(~waits)
    ids = machine.jobs.id
    rejected = {str(ids[row]): Aside(Why.NEVER, why) for row, why in machine.reject_reason.items()}
    came = {str(ids[row]) for row in machine.reject_reason if machine.jobs.submit_s[row] <= now_s}
    estimates = state.turn["estimate"] if machine.world.takes_turns else state.life["estimate"]
    return Present(
        now_s=now_s,
        cluster=replace(machine.cluster, outages=()),
        jobs=kept,
        names=tuple(str(ids[row]) for row in rows.tolist()),
        estimate_s=np.array(estimates[rows]),
        seats=Seats.of(_seat(machine, i, rows[i]) for i in running.tolist()),
        waiting=np.flatnonzero(waits).astype(np.int64),
        pipeline=_in_force(machine, rows, now_s),
        source=source or "a simulation",
        down=tuple(np.flatnonzero(state.node["up"] == 0).tolist()),
        asides={name: aside for name, aside in rejected.items() if name in came},
        windows=_windows(machine.cluster, now_s),
        history=_ended(machine),
        history_estimate_s=np.array(estimates[np.flatnonzero(status == core.DONE)]),
        notes=_notes(machine),
    )


def _table(machine: Machine, rows: core.I8) -> Jobs:
    """Return the rows as a table that says nothing of how long they will run, or ran."""
    kept = machine.jobs.take(rows.astype(np.intp))
    nothing = np.full(len(rows), np.nan)
    form, asks = np.asarray(machine.state.life["form"])[rows], np.asarray(machine.world.job["asks"])[rows]
    if (form != asks).any():  # the table could not say how its GPUs lie, and a state filled wrongly is worse than none
        cut = f"{machine.placer.name} has cut running jobs for more nodes than they ask"
        raise InputError(f"{cut}; such a moment cannot be taken: give a greedy placement")
    return kept.with_columns(duration_s=np.zeros(len(rows)), recorded_start_s=nothing, id=np.arange(len(rows)))


def _seat(machine: Machine, at: int, row: int) -> tuple[int, float, float, tuple[int, ...]]:
    state, world = machine.state, machine.world
    first = int(world.job["chunk_at"][row])
    last = first + int(world.shape["chunks"][state.life["form"][row]])
    served = float(state.turn["service"][row]) if world.takes_turns else 0.0
    return at, float(state.life["start"][row]), served, tuple(state.at["node"][first:last].tolist())


def _in_force(machine: Machine, rows: core.I8, now_s: float) -> Pipeline:
    """Return the pipeline; an order by fair share is kept as it is now, since usage so far is not in the table."""
    if not isinstance(machine.pipeline.policy, Multifactor):
        return machine.pipeline
    before = float(machine.state.now[0])
    machine.state.now[0] = now_s
    order, score = order_of(machine)
    machine.state.now[0] = before
    priority = np.zeros(len(rows))
    priority[np.searchsorted(rows, order)] = -score
    parts = _factors(machine, machine.pipeline.policy.on(machine.cluster), rows, priority, now_s)
    return replace(machine.pipeline, policy=FixedOrder(priority, name=machine.pipeline.policy.name, parts=parts))


def _factors(machine: Machine, policy: Multifactor, rows: core.I8, priority: Floats, now_s: float) -> dict[str, Floats]:
    """Return what priorities are made of: each factor times its weight, as Slurm's sprio tells them."""
    partition, qos = policy.factors(machine.jobs).of_job[rows].T
    fixed = np.asarray(machine.world.job["fixed_priority"])[rows]
    waited = now_s - machine.jobs.submit_s[rows]
    told = {
        "age": policy.age * np.minimum(1.0, waited / policy.max_age_s),
        "size": fixed - policy.partition * partition - policy.qos * qos,
        "partition": policy.partition * partition,
        "QOS": policy.qos * qos,
    }
    if not policy.time:
        told["fair share"] = priority - sum(told.values())
    return told


def _ended(machine: Machine) -> Jobs:
    """Return the jobs that have ended, with the starts that they had here."""
    life = machine.state.life
    rows = np.flatnonzero(life["status"] == core.DONE)
    return machine.jobs.take(rows).with_columns(recorded_start_s=np.array(life["start"][rows]))


def _windows(cluster: Cluster, now_s: float) -> tuple[SetAside, ...]:
    """Name the nodes of each maintenance window that is not over."""
    last = np.cumsum([group.count for group in cluster.groups])
    made = []
    for window in cluster.maintenance:
        groups = window.groups or range(len(cluster.groups))
        nodes = frozenset(n for g in groups for n in range(last[g] - cluster.groups[g].count, last[g]))
        if window.end_s > now_s:
            made.append(SetAside("maintenance", window.start_s, window.end_s, nodes))
    return tuple(made)


def _notes(machine: Machine) -> tuple[str, ...]:
    notes = []
    if (machine.state.node["up"] == 0).any():
        notes.append("nodes that are down are taken to stay down")
    if isinstance(machine.pipeline.policy, Multifactor):
        notes.append("the order by fair share is taken to stay as it is; jobs to come are behind all that wait")
    return tuple(notes)

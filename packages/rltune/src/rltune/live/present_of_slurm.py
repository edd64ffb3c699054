"""A present out of a running Slurm, or out of a cycle of the controller's journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rltune.engine.filled_moment import Seats
from rltune.engine.pipeline import Pipeline
from rltune.errors import InputError
from rltune.estimate.estimators import ended_by
from rltune.jobs import Jobs
from rltune.live.control_settings import ControlSettings, Mode
from rltune.live.decide.decide import Known, Situation
from rltune.live.decide.job_table import Problem, pose
from rltune.live.decide.node_layout import NodeLayout, asks_of, lay_out
from rltune.live.decide.pinned import Pinned
from rltune.live.decide.ranking import by_slurm, tier_of
from rltune.live.decide.run_times import estimate, like_history, limit_of, told_limit_s
from rltune.live.decide.scope import left_to_slurm
from rltune.live.decide.slurm_planning import MOST_PLANNED, slurms_backfill
from rltune.live.held_by_slurm import aside_of
from rltune.live.journal.store import Journal
from rltune.live.replay_cycle import RecalledCycle, recall
from rltune.live.see.backend import Backend
from rltune.live.see.snapshot import PENDING, RUNNING, LiveJob, Snapshot
from rltune.present.fixed_order import FixedOrder
from rltune.present.present import Aside, Present, SetAside

UNKNOWN = "(unknown)"  # what a node says is in use and no job does


def present_of_slurm(
    backend: Backend, settings: ControlSettings, pinned: Pinned, history: Jobs | None = None
) -> Present:
    """Look at a running Slurm once."""
    return present_of_snapshot(backend.observe(), settings, pinned, history)


def present_of_snapshot(
    snapshot: Snapshot, settings: ControlSettings, pinned: Pinned, history: Jobs | None = None
) -> Present:
    """Return the present of one look."""
    return present_of(Situation(snapshot), settings, pinned, Known(history=history), f"Slurm {snapshot.version}")


def present_of_cycle(journal: Journal, number: int = 0) -> Present:
    """Return what the controller saw in one cycle of its journal; 0 is the last."""
    was = recall(journal, number)
    known = replace(was.known, history=history_until(journal, was))
    source = f"cycle {was.record.id} of the journal"
    return present_of(was.situation, was.settings, was.pinned, known, source, acting=was.record.acting)


def history_until(journal: Journal, was: RecalledCycle) -> Jobs:
    """Return the jobs that the journal knows to have ended by a cycle, whether the policy of then asked or not."""
    most = was.settings.advanced.journal.history_jobs
    return ended_by(journal.history(most), was.situation.snapshot.taken_s)


def present_of(
    situation: Situation,
    settings: ControlSettings,
    pinned: Pinned,
    known: Known,
    source: str = "",
    *,
    acting: bool | None = None,
) -> Present:
    """Return the present of a snapshot. Who is next is Slurm's order unless the controller acts."""
    acts = settings.mode is Mode.ACT if acting is None else acting
    snapshot = situation.snapshot
    if not snapshot.nodes:
        raise InputError("Slurm tells of no nodes")
    left = {job.id: left_to_slurm(job, snapshot, situation.holdings) for job in snapshot.pending}
    queued = [job for job in snapshot.pending if not left[job.id]]
    plain = _plain_asks(snapshot, known.history)
    layout = lay_out(snapshot, [*queued, *plain.values()])
    estimates = _estimates(situation, pinned, known, policy=acts)
    problem = pose(snapshot, layout, queued, estimates)
    pipeline = pinned.pipeline if acts else _slurms_pipeline(problem, snapshot, pinned.pipeline)
    return Present(
        now_s=snapshot.taken_s,
        cluster=layout.cluster,
        jobs=problem.jobs,
        names=_names(problem),
        estimate_s=problem.estimate_s,
        seats=Seats.of((row, p.start_s, p.job.served_s if p.job else 0.0, p.nodes) for row, p in problem.pieces),
        waiting=np.array(sorted(row for row, _ in problem.tasks), dtype=np.int64),
        pipeline=pipeline,
        source=source,
        node_names=layout.names,
        down=layout.down,
        asides=_asides(snapshot, left),
        windows=_windows(snapshot, layout),
        history=known.history,
        alike=_as_recorded(problem, snapshot),
        admission={name: layout.admission[asks_of(job)] for name, job in plain.items()},
        offered=None if acts else pinned.pipeline,
        notes=_notes(snapshot, pipeline, acts=acts),
    )


def _estimates(situation: Situation, pinned: Pinned, known: Known, *, policy: bool) -> dict[int, float]:
    """Return what whoever orders the queue takes run times to be: the policy its estimates, Slurm the limits."""
    snapshot = situation.snapshot
    if not policy:
        return {job.id: limit_of(job, snapshot) for job in snapshot.jobs if not job.ended}
    made = known.estimates if known.estimates is not None else estimate(snapshot, pinned.estimator, known.history)
    return dict(made)


def _plain_asks(snapshot: Snapshot, history: Jobs | None) -> dict[str, LiveJob]:
    """Return for every partition, and for every list of them in the history, a job that asks for nothing else.

    Jobs to come and requests go there, whether or not somebody waits for the same nodes now.
    """
    names = dict.fromkeys((*(one.name for one in snapshot.partitions), *(history.vc.names if history else ())))
    return {
        name: LiveJob(id=0, state=PENDING, submit_s=snapshot.taken_s, partitions=tuple(name.split(",")))
        for name in names
    }


def _as_recorded(problem: Problem, snapshot: Snapshot) -> Jobs:
    """Return the rows as the journal would record their jobs: a piece as its whole job, a task as a job."""
    nobody = LiveJob(id=0, state=RUNNING, submit_s=snapshot.taken_s)
    by_row = {**{row: piece.job or nobody for row, piece in problem.pieces}, **dict(problem.tasks)}
    each = {job.id: job for job in by_row.values()}
    limit = np.array([told_limit_s(job, snapshot) for job in each.values()])
    table, place = like_history(tuple(each.values()), limit, snapshot.taken_s), {job: i for i, job in enumerate(each)}
    rows = table.take(np.array([place[by_row[row].id] for row in range(len(by_row))], dtype=np.intp))
    return replace(rows, id=np.arange(len(rows)), submit_s=problem.jobs.submit_s)


def _slurms_pipeline(problem: Problem, snapshot: Snapshot, ours: Pipeline) -> Pipeline:
    """Return Slurm's order: by tier, priority and age, with its backfilling."""
    jobs = {job.id: job for _, job in problem.tasks}
    ordered = sorted(jobs.values(), key=lambda job: (-tier_of(job, snapshot), *by_slurm(job)))
    place = {job.id: len(ordered) - i for i, job in enumerate(ordered)}
    priority = np.zeros(len(problem.jobs))
    for row, job in problem.tasks:
        priority[row] = place[job.id]
    backfill = slurms_backfill(len(jobs))
    return Pipeline(policy=FixedOrder(priority, name="Slurm's order"), backfill=backfill, seed=ours.seed)


def _names(problem: Problem) -> tuple[str, ...]:
    names = [""] * len(problem.jobs)
    for row, piece in problem.pieces:
        names[row] = piece.job.command_name if piece.job else UNKNOWN
    for row, job in problem.tasks:
        names[row] = job.command_name
    return tuple(names)


def _asides(snapshot: Snapshot, left: Mapping[int, str]) -> dict[str, Aside]:
    return {job.command_name: aside_of(job, left[job.id], snapshot) for job in snapshot.pending if left[job.id]}


def _windows(snapshot: Snapshot, layout: NodeLayout) -> tuple[SetAside, ...]:
    return tuple(
        SetAside(
            name=one.name,
            start_s=one.start_s,
            end_s=one.end_s,
            nodes=frozenset(layout.number[name] for name in one.node_names if name in layout.number),
            maintenance=one.maintenance,
            who=", ".join((*one.users, *(f"account {name}" for name in one.accounts))),
        )
        for one in snapshot.reservations
        if one.end_s > max(snapshot.taken_s, one.start_s)
    )


def _notes(snapshot: Snapshot, pipeline: Pipeline, *, acts: bool) -> tuple[str, ...]:
    notes = []
    if not acts:
        notes.append("Slurm's order of this moment is taken to stay; jobs to come are behind all that wait")
        if pipeline.backfill == "easy":
            notes.append(f"more than {MOST_PLANNED} jobs wait: only the first of each pool has a reservation")
    tiers = {partition.priority_tier for partition in snapshot.partitions}
    if acts and len(tiers) > 1:
        notes.append("partitions' priority tiers are not in the order of jobs to come")
    if not all(node.up for node in snapshot.nodes):
        notes.append("nodes that are down are taken to stay down")
    return tuple(notes)


def in_our_order(present: Present) -> Present:
    """Return the moment as it would be if the controller acted; the same if it does."""
    return present if present.offered is None else replace(present, pipeline=present.offered, offered=None)

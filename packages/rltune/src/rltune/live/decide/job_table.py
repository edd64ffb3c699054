"""A snapshot as the core's table of jobs: what runs, node by node, and what waits, task by task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rltune.jobs import Floats, Jobs
from rltune.live.decide.node_layout import NodeLayout, asks_of
from rltune.live.decide.scope import tasks_that_may_start
from rltune.live.see.snapshot import LiveJob, Snapshot
from rltune.preemptibility import NO_CHECKPOINT_S, NO_RESTART_S

_NAMELESS_S = 3600.0  # how long what is in use by nobody we know is expected to stay so
_OLDEST = -1.0


@dataclass(frozen=True, slots=True)
class JobPiece:
    """What a running job has on one node."""

    job: LiveJob | None  # None: the node says so, and no job does
    node: int
    gpus: int  # and the next two: on each of its nodes
    cpus: float
    mem_gib: float
    start_s: float
    others: tuple[int, ...] = ()  # more nodes, of a job that gives way as a whole

    @property
    def nodes(self) -> tuple[int, ...]:
        """List its nodes."""
        return (self.node, *self.others)

    @property
    def is_whole(self) -> bool:
        """Return whether the piece is all of its job."""
        return self.job is not None and len(self.nodes) == len(self.job.node_names)


@dataclass(frozen=True)
class Willing:
    """Who has agreed to give way, who of them may be asked to now, and what it costs them."""

    agreed: frozenset[int] = frozenset()
    may_give_way: frozenset[int] = frozenset()
    checkpoint_s: float = NO_CHECKPOINT_S
    restart_s: float = NO_RESTART_S

    def costs(self, job: LiveJob | None) -> dict[str, float]:
        """Return what a job loses if it gives way."""
        agreed = job is not None and job.id in self.agreed
        return {
            "checkpoint_s": self.checkpoint_s if agreed else NO_CHECKPOINT_S,
            "restart_s": self.restart_s if agreed else NO_RESTART_S,
        }


@dataclass(frozen=True)
class Problem:
    """Jobs for the core, in order of submit time, and which rows are what."""

    jobs: Jobs
    estimate_s: Floats
    pieces: tuple[tuple[int, JobPiece], ...]  # row, piece; in order of start
    tasks: tuple[tuple[int, LiveJob], ...]  # row, job; an array record has a row for each task that may start


def pose(
    snapshot: Snapshot,
    layout: NodeLayout,
    waiting: Sequence[LiveJob],
    estimates: dict[int, float],
    willing: Willing | None = None,
) -> Problem:
    """Make the table; those who are willing to give way are told apart."""
    willing = willing or Willing()
    pieces = _pieces(snapshot, layout, willing)
    most = layout.cluster.node_count * max(1, *(g.gpus for g in layout.cluster.groups))
    by_id = sorted(waiting, key=lambda job: job.id)  # of equal scores and submit times the core takes the first row
    tasks = [job for job in by_id for _ in range(tasks_that_may_start(job, snapshot, most))]
    rows = [_piece_row(p, willing) for p in pieces] + [_task_row(job, layout, willing) for job in tasks]
    estimate = [_piece_estimate(p, estimates) for p in pieces] + [estimates[job.id] for job in tasks]
    submit = np.array([row["submit_s"] for row in rows])
    order = np.argsort(submit, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    n = len(pieces)
    by_start = sorted(range(n), key=lambda i: (pieces[i].start_s, int(place[i])))
    return Problem(
        jobs=_table([rows[i] for i in order.tolist()]),
        estimate_s=np.array(estimate, dtype=np.float64)[order],
        pieces=tuple((int(place[i]), pieces[i]) for i in by_start),
        tasks=tuple((int(place[n + i]), job) for i, job in enumerate(tasks)),
    )


def _table(rows: list[dict[str, Any]]) -> Jobs:
    columns = {name: [row[name] for row in rows] for name in _COLUMNS}
    return Jobs.from_arrays(duration_s=np.zeros(len(rows)), **columns)


_COLUMNS = (
    "submit_s", "gpus", "nodes", "gpus_per_node", "cpus", "mem_gib", "limit_s",
    "vc", "user", "account", "qos", "name", "gpu_types", "preemptible", "checkpoint_s", "restart_s",
)  # fmt: skip


def _piece_row(piece: JobPiece, willing: Willing) -> dict[str, Any]:
    job, count = piece.job, len(piece.nodes)
    return {
        **willing.costs(job),
        "preemptible": job is not None and job.id in willing.may_give_way and piece.is_whole,
        "submit_s": job.came_s if job else _OLDEST,
        "gpus": count * piece.gpus,
        "nodes": count,
        "gpus_per_node": piece.gpus if piece.others else 0,
        "cpus": count * piece.cpus,
        "mem_gib": count * piece.mem_gib,
        "limit_s": job.limit_s if job else math.nan,
        "vc": None,  # it runs where it runs, whoever may use that node
        "user": job.user if job else None,
        "account": job.account if job else None,
        "qos": job.qos if job else None,
        "name": job.name if job else None,
        "gpu_types": None,
    }


def _task_row(job: LiveJob, layout: NodeLayout, willing: Willing) -> dict[str, Any]:
    nodes = min(job.nodes, job.gpus) if job.gpus else job.nodes
    return {
        **willing.costs(job),
        "preemptible": job.id in willing.agreed,  # orders judge who never gives way by all of its work
        "submit_s": job.came_s,
        "gpus": job.gpus,
        "nodes": nodes,
        "gpus_per_node": job.gpus_per_node,
        "cpus": _cpus(job, layout),
        "mem_gib": job.mem_gib,
        "limit_s": job.limit_s,
        "vc": layout.admission[asks_of(job)],
        "user": job.user,
        "account": job.account,
        "qos": job.qos,
        "name": job.name,
        "gpu_types": list(job.gpu_types) or None,
    }


def _cpus(job: LiveJob, layout: NodeLayout) -> float:
    """Return the CPUs asked for; whoever wants whole nodes asks for all of theirs."""
    if not job.exclusive:
        return job.cpus
    sizes = [g.cpus for g in layout.cluster.groups if g.cpus and layout.admission[asks_of(job)] in g.vc]
    return max(1, job.nodes) * min(sizes, default=job.cpus)


def _piece_estimate(piece: JobPiece, estimates: dict[int, float]) -> float:
    return estimates[piece.job.id] if piece.job else _NAMELESS_S


def _pieces(snapshot: Snapshot, layout: NodeLayout, willing: Willing) -> list[JobPiece]:
    """Cut what runs into pieces; never more GPUs on a node than it has."""
    free = {node.name: node.gpus for node in snapshot.nodes}
    pieces: list[JobPiece] = []
    for job in snapshot.jobs:
        if job.on_nodes:
            cut = _pieces_of(job, snapshot, layout, free)
            for piece in _joined(cut) if job.id in willing.may_give_way else cut:
                for node in piece.nodes:
                    free[layout.names[node]] -= piece.gpus
                pieces.append(piece)
    return pieces + _nameless(snapshot, layout, free)


def _pieces_of(job: LiveJob, snapshot: Snapshot, layout: NodeLayout, free: dict[str, int]) -> list[JobPiece]:
    count = max(1, len(job.node_names))
    even = [job.gpus // count + (i < job.gpus % count) for i in range(count)]
    gpus = job.gpus_by_node if len(job.gpus_by_node) == len(job.node_names) else even
    start = snapshot.taken_s if math.isnan(job.start_s) else min(job.start_s, snapshot.taken_s)
    total = sum(gpus)
    return [
        JobPiece(
            job=job,
            node=layout.number[name],
            gpus=min(gpus[i], free[name]),
            cpus=(0.0 if math.isnan(job.cpus) else job.cpus) * _part(gpus[i], total, count),
            mem_gib=(0.0 if math.isnan(job.mem_gib) else job.mem_gib) * _part(gpus[i], total, count),
            start_s=start,
        )
        for i, name in enumerate(job.node_names)
        if name in layout.number
    ]


def _joined(pieces: list[JobPiece]) -> list[JobPiece]:
    """Make one piece of a job that has the same on each of its nodes: it gives way as a whole or not at all."""
    if len(pieces) < 2 or len({one.gpus for one in pieces}) > 1:
        return pieces
    first, *others = sorted(one.node for one in pieces)
    return [replace(pieces[0], node=first, others=tuple(others))]


def _part(gpus: int, total: int, count: int) -> float:
    return gpus / total if total else 1 / count


def _nameless(snapshot: Snapshot, layout: NodeLayout, free: dict[str, int]) -> list[JobPiece]:
    """Find the GPUs that a node says are in use though no job that we see has them."""
    pieces = []
    for node in snapshot.nodes:
        unexplained = node.gpus_used - (node.gpus - free[node.name])
        if node.name in layout.number and unexplained > 0:
            gpus = min(unexplained, free[node.name])
            pieces.append(JobPiece(None, layout.number[node.name], gpus, 0.0, 0.0, snapshot.taken_s))
    return pieces

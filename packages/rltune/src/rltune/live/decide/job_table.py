"""A snapshot as the core's table of jobs: what runs, node by node, and what waits, task by task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rltune.jobs import Floats, Jobs
from rltune.live.decide.node_layout import NodeLayout, asks_of
from rltune.live.decide.scope import tasks_that_may_start
from rltune.live.see.snapshot import LiveJob, Snapshot

_NAMELESS_S = 3600.0  # how long what is in use by nobody we know is expected to stay so
_OLDEST = -1.0


@dataclass(frozen=True, slots=True)
class JobPiece:
    """What a running job has on one node."""

    job: LiveJob | None  # None: the node says so, and no job does
    node: int
    gpus: int
    cpus: float
    mem_gib: float
    start_s: float


@dataclass(frozen=True)
class Problem:
    """Jobs for the core, in order of submit time, and which rows are what."""

    jobs: Jobs
    estimate_s: Floats
    pieces: tuple[tuple[int, JobPiece], ...]  # row, piece; in order of start
    tasks: tuple[tuple[int, LiveJob], ...]  # row, job; an array record has a row for each task that may start


def pose(snapshot: Snapshot, layout: NodeLayout, waiting: Sequence[LiveJob], estimates: dict[int, float]) -> Problem:
    """Make the table."""
    pieces = _pieces(snapshot, layout)
    most = layout.cluster.node_count * max(1, *(g.gpus for g in layout.cluster.groups))
    by_id = sorted(waiting, key=lambda job: job.id)  # of equal scores and submit times the core takes the first row
    tasks = [job for job in by_id for _ in range(tasks_that_may_start(job, snapshot, most))]
    rows = [_piece_row(p) for p in pieces] + [_task_row(job, layout) for job in tasks]
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
    "vc", "user", "account", "qos", "name", "gpu_types",
)  # fmt: skip


def _piece_row(piece: JobPiece) -> dict[str, Any]:
    job = piece.job
    return {
        "submit_s": job.submit_s if job else _OLDEST,
        "gpus": piece.gpus,
        "nodes": 1,
        "gpus_per_node": 0,
        "cpus": piece.cpus,
        "mem_gib": piece.mem_gib,
        "limit_s": job.limit_s if job else math.nan,
        "vc": None,  # it runs where it runs, whoever may use that node
        "user": job.user if job else None,
        "account": job.account if job else None,
        "qos": job.qos if job else None,
        "name": job.name if job else None,
        "gpu_types": None,
    }


def _task_row(job: LiveJob, layout: NodeLayout) -> dict[str, Any]:
    nodes = min(job.nodes, job.gpus) if job.gpus else job.nodes
    return {
        "submit_s": job.submit_s,
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


def _pieces(snapshot: Snapshot, layout: NodeLayout) -> list[JobPiece]:
    """Cut what runs into pieces; never more GPUs on a node than it has."""
    free = {node.name: node.gpus for node in snapshot.nodes}
    pieces: list[JobPiece] = []
    for job in snapshot.jobs:
        if job.on_nodes:
            for piece in _pieces_of(job, snapshot, layout, free):
                free[layout.names[piece.node]] -= piece.gpus
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

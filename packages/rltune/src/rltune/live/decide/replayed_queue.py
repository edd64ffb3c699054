"""The jobs that were seen, replayed in one order or another: the one answer to whether an order is better.

A replay goes on from the jobs that ran and waited at the first look, backfills as Slurm is taken to, and knows run
times as the settings say, in every order alike. A wait counts from when a job could start; one that is not over at the
last look is counted as far as it has come, so that no order is better off for not having started somebody.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rltune.cluster import Cluster
from rltune.engine.guard import Guard
from rltune.engine.pipeline import Pipeline
from rltune.engine.run import run_pipeline
from rltune.engine.search import Search
from rltune.jobs import Floats, Jobs
from rltune.live.decide.node_layout import NodeLayout, lay_out
from rltune.live.decide.pinned import Pinned
from rltune.live.decide.run_times import limit_of
from rltune.live.see.snapshot import PENDING, LiveJob, Snapshot
from rltune.placement.placers import BEST_FIT
from rltune.present.fixed_order import FixedOrder
from rltune.trials.resumption import Resumption, resume

SLURMS = "Slurm's order"


@dataclass(frozen=True)
class Seen:
    """A job that was seen: what it asked, and what is known or expected of it."""

    job: LiveJob
    duration_s: float  # the truth if it has ended, else the estimate
    priority: int  # Slurm's own


@dataclass(frozen=True)
class ReplayedQueue:
    """Jobs that were seen from a first look to a last one; columns have a row for each, in order of `seen`."""

    seen: tuple[Seen, ...] = field(repr=False)
    pinned: Pinned = field(repr=False)
    cycle_s: float
    backfill: str
    begin_s: float  # the first look; not finite: from an empty machine on
    end_s: float  # the last one
    _snapshot: Snapshot = field(repr=False)
    _order: NDArray[np.intp] = field(repr=False)  # of `seen`, in the table

    @classmethod
    def of(
        cls,
        seen: Sequence[Seen],
        snapshot: Snapshot,
        pinned: Pinned,
        *,
        begin_s: float = -np.inf,
        cycle_s: float = 0.0,
        backfill: str = "",
    ) -> ReplayedQueue:
        """Pose the jobs on the nodes of a snapshot; `backfill`: as the settings have it, if not told."""
        order = np.argsort([one.job.ready_s for one in seen], kind="stable")
        return cls(
            seen=tuple(seen),
            pinned=pinned,
            cycle_s=cycle_s,
            backfill=backfill or pinned.pipeline.backfill,
            begin_s=begin_s,
            end_s=snapshot.taken_s,
            _snapshot=snapshot,
            _order=order.astype(np.intp),
        )

    @cached_property
    def _posed(self) -> tuple[Jobs, Cluster]:
        return replayable([self.seen[i] for i in self._order.tolist()], self._snapshot)

    @cached_property
    def _resumed(self) -> Resumption | None:
        """Return the jobs from the first look on; only asked for where some of them count."""
        return resume(self._posed[0], self.begin_s, self._posed[1]) if np.isfinite(self.begin_s) else None

    @property
    def ready_s(self) -> Floats:
        """Return from when each job could start."""
        return np.array([one.job.ready_s for one in self.seen])

    @property
    def counts(self) -> NDArray[np.bool_]:
        """Return which jobs count: those that could start between the two looks."""
        return np.asarray((self.ready_s >= self.begin_s) & (self.ready_s < self.end_s))

    @property
    def observed_s(self) -> Floats:
        """Return how long each was seen to wait, as far as it has come."""
        waits = np.array([one.job.start_s for one in self.seen]) - self.ready_s
        return self._so_far(np.where(np.isnan(waits), np.inf, waits))

    @property
    def slurms(self) -> Pipeline:
        """Return Slurm's order, by the priorities that it gave."""
        priority = np.array([one.priority for one in self.seen], dtype=np.float64)[self._order]
        if self._resumed is not None:
            posed = np.append(priority[self._resumed.rows], 0.0)  # the gate asks for nothing
            priority = posed[self._resumed.order]
        return replace(self._alike(self.pinned.pipeline), policy=FixedOrder(priority, name=SLURMS), guard=Guard())

    @property
    def ours(self) -> Pipeline:
        """Return the controller's own pipeline, asked once a cycle."""
        made = self._alike(self.pinned.pipeline)
        return replace(made, cycle_s=self.cycle_s if made.takes_cycles else 0.0)

    def rule(self, pipeline: Pipeline) -> Pipeline:
        """Return another order in all else like these."""
        return self._alike(pipeline)

    def waits_s(self, pipeline: Pipeline) -> Floats:
        """Return how long each job waits in an order, as far as it has come; NaN = it could not be replayed."""
        jobs, cluster = self._posed
        if self._resumed is None:
            ran, rows = run_pipeline(jobs, cluster, pipeline, self.pinned.estimator), self._order
        else:
            made = run_pipeline(self._resumed.jobs, self._resumed.run_on(cluster), pipeline, self.pinned.estimator)
            ran, rows = self._resumed.told(made, cluster), self._order[self._resumed.rows]
        waits = np.full(len(self.seen), np.nan)
        waits[rows] = np.where(ran.rejected, np.nan, ran.wait_s)
        return self._so_far(waits)

    def _so_far(self, wait_s: Floats) -> Floats:
        limit = self.end_s - self.ready_s
        return np.asarray(np.maximum(np.minimum(wait_s, limit), 0.0))

    def _alike(self, pipeline: Pipeline) -> Pipeline:
        quick = BEST_FIT if pipeline.placement.may_solve else pipeline.placement
        return replace(pipeline, search=Search(), placement=quick, backfill=self.backfill)


def replayable(seen: Sequence[Seen], snapshot: Snapshot) -> tuple[Jobs, Cluster]:
    """Return the jobs as a table, and the nodes, laid out by partition alone."""
    layout = lay_out_partitions((s.job.partitions for s in seen), snapshot)
    return _table(seen, layout, snapshot), layout.cluster


def lay_out_partitions(partitions: Iterable[tuple[str, ...]], snapshot: Snapshot) -> NodeLayout:
    """Lay the nodes out by partition alone, for jobs that name one of these sets of them."""
    return lay_out(
        snapshot, [LiveJob(id=0, state=PENDING, submit_s=0.0, partitions=p) for p in dict.fromkeys(partitions)]
    )


def _table(seen: Sequence[Seen], layout: NodeLayout, snapshot: Snapshot) -> Jobs:
    jobs = [s.job for s in seen]
    return Jobs.from_arrays(
        submit_s=[job.ready_s for job in jobs],
        duration_s=[s.duration_s for s in seen],
        recorded_start_s=[snapshot.taken_s if math.isnan(job.start_s) else job.start_s for job in jobs],
        gpus=[job.gpus for job in jobs],
        nodes=[min(job.nodes, job.gpus) if job.gpus else job.nodes for job in jobs],
        cpus=[job.cpus for job in jobs],
        mem_gib=[job.mem_gib for job in jobs],
        limit_s=[limit_of(job, snapshot) for job in jobs],
        vc=[layout.admission[job.partitions, "", (), ()] for job in jobs],
        user=[job.user for job in jobs],
        account=[job.account for job in jobs],
        qos=[job.qos for job in jobs],
        name=[job.name for job in jobs],
        gpu_types=[list(job.gpu_types) or None for job in jobs],
    )

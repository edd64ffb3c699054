"""What acting would have won: the jobs seen, replayed in Slurm's order and in ours, all else equal.

The simulator is not the cluster: both replays backfill, place and estimate as told by the settings, from an empty
machine on. How near the replay in Slurm's order comes to what was really seen stands beside the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rltune.cluster import Cluster
from rltune.engine.guard import Guard
from rltune.engine.run import run_pipeline
from rltune.engine.search import Search
from rltune.jobs import Floats, Jobs
from rltune.live.decide.node_layout import NodeLayout, lay_out
from rltune.live.decide.pinned import Pinned
from rltune.live.decide.run_times import limit_of
from rltune.live.see.snapshot import PENDING, LiveJob, Snapshot
from rltune.placement.placers import BEST_FIT
from rltune.present.fixed_order import FixedOrder

FEWEST = 20
_TOLD = re.compile(r"s in ours: ([-+][\d.]+) %$")


@dataclass(frozen=True)
class Seen:
    """A job that was seen: what it asked, and what is known or expected of it."""

    job: LiveJob
    duration_s: float  # the truth if it has ended, else the estimate
    priority: int  # Slurm's own


@dataclass(frozen=True)
class Gain:
    """Mean waits, over the jobs that have ended."""

    jobs: int
    slurm_wait_s: float
    our_wait_s: float
    observed_wait_s: float

    @classmethod
    def share_told(cls, text: str) -> float | None:
        """Return the share out of what `str` wrote; None if it did not."""
        told = _TOLD.search(text)
        return -float(told[1]) / 100 if told else None

    @property
    def share(self) -> float:
        """Return how much of the mean wait is saved."""
        return 1.0 - self.our_wait_s / self.slurm_wait_s if self.slurm_wait_s > 0 else 0.0

    def __str__(self) -> str:
        return (
            f"{self.jobs} jobs replayed: mean wait {self.slurm_wait_s:.0f} s in Slurm's order "
            f"(observed {self.observed_wait_s:.0f} s), {self.our_wait_s:.0f} s in ours: {-100 * self.share:+.1f} %"
        )


@dataclass(frozen=True)
class BothOrders:
    """The same jobs replayed in Slurm's order and in ours: waits from when each could start; NaN = it never ran."""

    slurm_wait_s: Floats
    our_wait_s: Floats

    @property
    def known(self) -> NDArray[np.bool_]:
        """Return which jobs both replays could run."""
        return np.isfinite(self.slurm_wait_s) & np.isfinite(self.our_wait_s)


def estimate_gain(seen: Sequence[Seen], snapshot: Snapshot, pinned: Pinned, cycle_s: float = 0.0) -> Gain | None:
    """Replay the jobs both ways, ours asked once a cycle; None if too few have ended."""
    ended = np.array([s.job.ended for s in seen])
    if ended.sum() < FEWEST or not snapshot.nodes:
        return None
    both = replay_both(seen, snapshot, pinned, cycle_s)
    counted = ended & both.known
    if counted.sum() < FEWEST:
        return None
    observed = np.array([s.job.start_s - s.job.ready_s for s in seen])
    waits = (both.slurm_wait_s, both.our_wait_s, observed)
    return Gain(int(counted.sum()), *(float(w[counted].mean()) for w in waits))


def replay_both(
    seen: Sequence[Seen], snapshot: Snapshot, pinned: Pinned, cycle_s: float = 0.0, backfill: str = ""
) -> BothOrders:
    """Replay jobs in Slurm's order and in ours, asked once a cycle, from an empty machine on.

    `backfill`: by which rule both are filled; as the settings have it, if not told.
    """
    by_age = sorted(range(len(seen)), key=lambda i: seen[i].job.ready_s)  # rows of a run are in this order
    ordered = [seen[i] for i in by_age]
    jobs, cluster = replayable(ordered, snapshot)
    pipeline = pinned.pipeline
    quick = replace(
        pipeline,
        search=Search(),
        placement=BEST_FIT if pipeline.placement.may_solve else pipeline.placement,
        backfill=backfill or pipeline.backfill,
    )
    ours = replace(quick, cycle_s=cycle_s if quick.takes_cycles else 0.0)
    slurm = FixedOrder(np.array([s.priority for s in ordered], dtype=np.float64), name="slurm")
    both = (replace(quick, policy=slurm, guard=Guard()), ours)
    back = np.argsort(by_age)
    return BothOrders(*(run_pipeline(jobs, cluster, one, pinned.estimator).wait_s[back] for one in both))


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
        gpus=[job.gpus for job in jobs],
        nodes=[min(job.nodes, job.gpus) if job.gpus else job.nodes for job in jobs],
        cpus=[job.cpus for job in jobs],
        mem_gib=[job.mem_gib for job in jobs],
        limit_s=[limit_of(job, snapshot) for job in jobs],
        vc=[admission_of(job.partitions, layout) for job in jobs],
        user=[job.user for job in jobs],
        account=[job.account for job in jobs],
        qos=[job.qos for job in jobs],
        name=[job.name for job in jobs],
        gpu_types=[list(job.gpu_types) or None for job in jobs],
    )


def admission_of(partitions: tuple[str, ...], layout: NodeLayout) -> str:
    """Return what the core calls the nodes of some partitions."""
    return layout.admission[partitions, "", (), ()]

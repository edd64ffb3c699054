"""What acting would have won: the jobs seen, replayed in Slurm's order and in ours, all else equal.

The simulator is not the cluster: both replays backfill, place and estimate as told by the settings, from an empty
machine on. How near the replay in Slurm's order comes to what was really seen stands beside the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rltune.cluster import Cluster
from rltune.engine.guard import Guard
from rltune.engine.run import run_pipeline
from rltune.engine.search import Search
from rltune.jobs import Jobs
from rltune.kernel.build.prepare import Factors, Likeness
from rltune.kernel.score.rules import SJF
from rltune.live.decide.node_layout import NodeLayout, lay_out
from rltune.live.decide.pinned import Pinned
from rltune.live.decide.run_times import limit_of
from rltune.live.see.snapshot import PENDING, LiveJob, Snapshot
from rltune.placement.placers import BEST_FIT
from rltune.policy.base import no_factors

FEWEST = 20
_SURE = 1e9
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
class ByPriority:
    """Slurm's own order: the priorities that it gave, as static scores."""

    below_highest: Mapping[str, int] = field(repr=False)
    name: str = "slurm"
    code: int = SJF
    dynamic: bool = False

    def factors(self, jobs: Jobs) -> Factors:
        """Need none."""
        return no_factors(jobs)

    def likeness(self, jobs: Jobs) -> Likeness:
        """Return a likeness that knows each job's own score and nothing else."""
        n = len(jobs)
        score = np.array([self.below_highest[str(i)] for i in jobs.id.tolist()], dtype=np.float64)
        keys = np.arange(n, dtype=np.int32).reshape(n, 1)
        return Likeness(keys, n, trust=1e-9, known=np.stack([np.full(n, _SURE), _SURE * score], axis=1))


def estimate_gain(seen: Sequence[Seen], snapshot: Snapshot, pinned: Pinned, cycle_s: float = 0.0) -> Gain | None:
    """Replay the jobs both ways, ours asked once a cycle; None if too few have ended."""
    ended = np.array([s.job.ended for s in seen])
    if ended.sum() < FEWEST or not snapshot.nodes:
        return None
    jobs, cluster = replayable(seen, snapshot)
    highest = max(s.priority for s in seen)
    pipeline = pinned.pipeline
    quick = replace(
        pipeline, search=Search(), placement=BEST_FIT if pipeline.placement.may_solve else pipeline.placement
    )
    ours = replace(quick, cycle_s=cycle_s if quick.takes_cycles else 0.0)
    slurm = ByPriority({str(i): highest - s.priority for i, s in enumerate(seen)})
    waits = [
        run_pipeline(jobs, cluster, one, pinned.estimator).wait_s
        for one in (replace(quick, policy=slurm, guard=Guard()), ours)
    ]
    counted = ended & np.isfinite(waits[0]) & np.isfinite(waits[1])
    if counted.sum() < FEWEST:
        return None
    observed = np.array([s.job.start_s - s.job.submit_s for s in seen])
    return Gain(int(counted.sum()), *(float(w[counted].mean()) for w in (*waits, observed)))


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
        submit_s=[job.submit_s for job in jobs],
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

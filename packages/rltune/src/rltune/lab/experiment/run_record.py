"""What one run came to, as a file and as a schedule."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.lab.experiment.experiment_plan import Arm
from rltune.lab.testbed.testbed_spec import Spec, ports_needed
from rltune.labels import Labels
from rltune.schedule import Placements, Schedule, Settings
from rltune.whole_file import write_whole

GOOD = "COMPLETED"


@dataclass(frozen=True)
class Ran:
    """One job: times by the testbed's clock, where it ran, how it ended."""

    submit_s: float
    start_s: float
    end_s: float
    nodes: tuple[str, ...]
    state: str


@dataclass(frozen=True)
class Cycles:
    """What the controller did; times are real seconds."""

    count: int = 0
    overran: int = 0  # took longer than the time from one to the next
    mean_s: float = 0.0
    worst_s: float = 0.0
    changes: int = 0
    refused: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    events: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunRecord:
    """One run: an arm, a seed, and every job in the order of the workload."""

    arm: Arm
    seed: int
    jobs: tuple[Ran, ...]
    cycles: Cycles
    real_s: float
    slurm: str  # its release

    def write(self, path: Path) -> None:
        """Write it, as a whole or not at all."""
        write_whole(path, json.dumps(asdict(self)) + "\n")

    @classmethod
    def read(cls, path: Path) -> RunRecord:
        """Read it back."""
        try:
            told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            jobs = tuple(Ran(**{**job, "nodes": tuple(job["nodes"])}) for job in told["jobs"])
            cycles = Cycles(**{**told["cycles"], "events": tuple(told["cycles"]["events"])})
            return cls(Arm(**told["arm"]), told["seed"], jobs, cycles, told["real_s"], told["slurm"])
        except (OSError, ValueError, TypeError, KeyError):
            raise InputError(f"{path}: is not the record of a run; remove it to run it again") from None

    @property
    def failed(self) -> int:
        """Count the jobs that did not end as they should."""
        return sum(job.state != GOOD for job in self.jobs)


class PlanOfRuns(Protocol):
    """What a run was made of."""

    @property
    def cluster(self) -> Cluster:
        """Return the nodes."""
        ...

    @property
    def estimator(self) -> str:
        """Name what is known of run times."""
        ...

    def workload(self, seed: int) -> Jobs:
        """Make the jobs of one seed."""
        ...


def as_jobs(record: RunRecord, plan: PlanOfRuns) -> Jobs:
    """Return the workload as Slurm saw it: submit times are those it wrote down, run times are as made."""
    first_s = min(job.submit_s for job in record.jobs)
    return plan.workload(record.seed).with_columns(
        submit_s=np.array([job.submit_s - first_s for job in record.jobs], dtype=np.float64)
    )


def as_schedule(record: RunRecord, plan: PlanOfRuns) -> Schedule:
    """Return a run as the simulator would, so that all that is known of schedules applies to it."""
    jobs = as_jobs(record, plan)
    first_s = min(job.submit_s for job in record.jobs)
    start_s = np.array([job.start_s - first_s for job in record.jobs])
    end_s = np.array([job.end_s - first_s for job in record.jobs])
    n = len(jobs)
    return Schedule(
        jobs=jobs.with_columns(duration_s=end_s - start_s),
        cluster=plan.cluster,
        settings=Settings(record.arm.name, "slurm", record.arm.placement, plan.estimator, seed=record.seed),
        start_s=start_s,
        end_s=end_s,
        estimate_s=jobs.limit_s,
        rejected=np.zeros(n, dtype=np.bool_),
        reject_reason=Labels.none(n),
        requeues=np.zeros(n, dtype=np.int32),
        placements=_placements(record, plan, jobs),
        passes=record.cycles.count,
        work={},
    )


def _placements(record: RunRecord, plan: PlanOfRuns, jobs: Jobs) -> Placements:
    cluster = plan.cluster
    spec = Spec(Path("/"), cluster, range(1, 1 + ports_needed(cluster)))
    number = {node.name: i for i, node in enumerate(spec.nodes)}
    counts = np.array([len(job.nodes) for job in record.jobs])
    ptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=ptr[1:])
    node = np.array([number[name] for job in record.jobs for name in job.nodes], dtype=np.int32)
    return Placements(ptr, node, np.repeat(jobs.gpus // np.maximum(1, counts), counts).astype(np.int32))

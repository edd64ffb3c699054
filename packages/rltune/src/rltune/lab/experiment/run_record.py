"""What one run came to, as a file and as a schedule."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.jobs import Ints, Jobs
from rltune.lab.experiment.experiment_plan import Arm
from rltune.lab.testbed.testbed_spec import Spec, ports_needed
from rltune.labels import Labels
from rltune.schedule import Placements, Schedule, Settings, Spells, TurnsTaken
from rltune.whole_file import write_whole

GOOD = "COMPLETED"


@dataclass(frozen=True)
class CutShort:
    """A spell that ended before its job did."""

    start_s: float
    end_s: float
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Ran:
    """One job: times by the testbed's clock, where it ran, how it ended. Of several spells this is the last."""

    submit_s: float  # first
    start_s: float
    end_s: float
    nodes: tuple[str, ...]
    state: str
    cut_short: tuple[CutShort, ...] = ()
    lost_s: float = 0.0  # by its own log: restarts, and work that it did again

    @property
    def first_start_s(self) -> float:
        """Return when it ran first; gaps between spells are no run time."""
        return self.cut_short[0].start_s if self.cut_short else self.start_s

    @property
    def run_s(self) -> float:
        """Return how long it ran, without what it lost."""
        earlier_s = sum(spell.end_s - spell.start_s for spell in self.cut_short)
        return self.end_s - self.start_s + earlier_s - self.lost_s


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
class TurnMade:
    """A turn that the controller took: what became of it, and how long after the command the other job started."""

    victims: int
    outcome: str
    freed_s: float | None  # None: it did not start


@dataclass(frozen=True)
class RunRecord:
    """One run: an arm, a seed, and every job in the order of the workload."""

    arm: Arm
    seed: int
    jobs: tuple[Ran, ...]
    cycles: Cycles
    real_s: float
    slurm: str  # its release
    turns: tuple[TurnMade, ...] = ()
    problems: tuple[str, ...] = ()  # jobs whose own logs do not tell of one run to the end

    def write(self, path: Path) -> None:
        """Write it, as a whole or not at all."""
        write_whole(path, json.dumps(asdict(self)) + "\n")

    @classmethod
    def read(cls, path: Path) -> RunRecord:
        """Read it back."""
        try:
            told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            jobs = tuple(map(_ran, told["jobs"]))
            cycles = Cycles(**{**told["cycles"], "events": tuple(told["cycles"]["events"])})
            turns = tuple(TurnMade(**turn) for turn in told.get("turns", ()))
            problems = tuple(told.get("problems", ()))
            arm, real_s, slurm = Arm(**told["arm"]), told["real_s"], told["slurm"]
            return cls(arm, told["seed"], jobs, cycles, real_s, slurm, turns, problems)
        except (OSError, ValueError, TypeError, KeyError):
            raise InputError(f"{path}: is not the record of a run; remove it to run it again") from None

    @property
    def freed_s(self) -> float:
        """Return the mean time from a command to the start of the job that others gave way to; 0 if nobody did."""
        known = [turn.freed_s for turn in self.turns if turn.freed_s is not None]
        return sum(known) / len(known) if known else 0.0

    @property
    def failed(self) -> int:
        """Count the jobs that did not end as they should."""
        return sum(job.state != GOOD for job in self.jobs)


def _ran(told: dict[str, Any]) -> Ran:
    cut = tuple(CutShort(**{**spell, "nodes": tuple(spell["nodes"])}) for spell in told.get("cut_short", ()))
    return Ran(**{**told, "nodes": tuple(told["nodes"]), "cut_short": cut})


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
    n = len(jobs)
    preempt = record.arm.preempt or "off"
    return Schedule(
        jobs=jobs.with_columns(duration_s=np.array([job.run_s for job in record.jobs])),
        cluster=plan.cluster,
        settings=Settings(
            record.arm.name, "slurm", record.arm.placement, plan.estimator, seed=record.seed, preempt=preempt
        ),
        start_s=np.array([job.first_start_s - first_s for job in record.jobs]),
        end_s=np.array([job.end_s - first_s for job in record.jobs]),
        estimate_s=jobs.limit_s,
        rejected=np.zeros(n, dtype=np.bool_),
        reject_reason=Labels.none(n),
        requeues=np.zeros(n, dtype=np.int32),
        placements=_placements([job.nodes for job in record.jobs], plan, jobs.gpus),
        passes=record.cycles.count,
        work={},
        turns=_turns_taken(record, plan, jobs, first_s) if record.arm.turns else None,
    )


def _turns_taken(record: RunRecord, plan: PlanOfRuns, jobs: Jobs, first_s: float) -> TurnsTaken:
    cut = [(row, spell) for row, job in enumerate(record.jobs) for spell in job.cut_short]
    rows = np.array([row for row, _ in cut], dtype=np.int64)
    return TurnsTaken(
        preemptions=np.array([len(job.cut_short) for job in record.jobs], dtype=np.int64),
        lost_s=np.array([job.lost_s for job in record.jobs]),
        last_start_s=np.array([job.start_s - first_s for job in record.jobs]),
        cut_short=Spells(
            rows,
            np.array([spell.start_s - first_s for _, spell in cut]),
            np.array([spell.end_s - first_s for _, spell in cut]),
            _placements([spell.nodes for _, spell in cut], plan, jobs.gpus[rows]),
        ),
    )


def _placements(nodes: Sequence[tuple[str, ...]], plan: PlanOfRuns, gpus: Ints) -> Placements:
    cluster = plan.cluster
    spec = Spec(Path("/"), cluster, range(1, 1 + ports_needed(cluster)))
    number = {node.name: i for i, node in enumerate(spec.nodes)}
    counts = np.array([len(names) for names in nodes], dtype=np.int64)
    ptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=ptr[1:])
    node = np.array([number[name] for names in nodes for name in names], dtype=np.int32)
    return Placements(ptr, node, np.repeat(gpus // np.maximum(1, counts), counts).astype(np.int32))

"""What section 2's four arms came to, job by job, beside what the simulator says of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rltune.lab.experiment.run_record import GOOD, RunRecord, as_schedule
from rltune.lab.motivation.motivation_plan import MotivationArm, MotivationPlan
from rltune.lab.motivation.motivation_prediction import predict_arm
from rltune.metrics.utilisation import share_in_use, span_of
from rltune.schedule import Schedule

WORDS = (
    "The jobs were chosen so that the effects can be seen; the paper does not print its own.",
    "Whole nodes are the partition's OverSubscribe=EXCLUSIVE: OverSubscribe=NO lets jobs share a node (cons_tres).",
    "Jobs sleep: those that share a node do not slow each other down.",
    "Each arm is one run.",
)


@dataclass(frozen=True)
class JobOnSlurm:
    """One job as Slurm recorded it; times in seconds since the first submission."""

    name: str
    gpus: int
    submit_s: float
    start_s: float
    end_s: float
    nodes: tuple[str, ...]
    state: str


@dataclass(frozen=True)
class ArmOnSlurm:
    """One arm: its jobs, what they sum up to, and the simulator's sums of the same."""

    arm: MotivationArm
    jobs: tuple[JobOnSlurm, ...]
    wait_s: float  # of all jobs together
    makespan_s: float
    utilisation: float  # GPUs asked for and running, over first submit to last end
    simulated_wait_s: float
    simulated_makespan_s: float
    moved: tuple[str, ...]  # whose priority was changed, and by how much
    real_s: float
    slurm: str

    @classmethod
    def of(cls, record: RunRecord, plan: MotivationPlan) -> ArmOnSlurm:
        """Sum a run up."""
        arm, real = plan.arm(record.arm.name), as_schedule(record, plan)
        prediction = predict_arm(real, plan, arm)
        begin_s, end_s = span_of(real)
        return cls(
            arm=arm,
            jobs=tuple(_job(real, record, row) for row in range(len(real.jobs))),
            wait_s=float(real.wait_s.sum()),
            makespan_s=end_s - begin_s,
            utilisation=share_in_use(real),
            simulated_wait_s=prediction.wait_s * len(real.jobs),
            simulated_makespan_s=prediction.makespan_s,
            moved=record.cycles.events,
            real_s=record.real_s,
            slurm=record.slurm,
        )

    @property
    def wait_error(self) -> float:
        """Return by which share the simulated wait is off."""
        return self.simulated_wait_s / self.wait_s - 1

    @property
    def makespan_error(self) -> float:
        """Return by which share the simulated makespan is off."""
        return self.simulated_makespan_s / self.makespan_s - 1

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "wait_error": self.wait_error, "makespan_error": self.makespan_error}


@dataclass(frozen=True)
class MotivationEffect:
    """One arm against another, as shares: on Slurm, and as simulated."""

    name: str
    of: str
    against: str
    wait: float
    makespan: float
    utilisation: float  # in percentage points / 100
    simulated_wait: float
    simulated_makespan: float

    @classmethod
    def between(cls, name: str, ours: ArmOnSlurm, theirs: ArmOnSlurm) -> MotivationEffect:
        """Compare two arms."""
        return cls(
            name=name,
            of=ours.arm.name,
            against=theirs.arm.name,
            wait=ours.wait_s / theirs.wait_s - 1,
            makespan=ours.makespan_s / theirs.makespan_s - 1,
            utilisation=ours.utilisation - theirs.utilisation,
            simulated_wait=ours.simulated_wait_s / theirs.simulated_wait_s - 1,
            simulated_makespan=ours.simulated_makespan_s / theirs.simulated_makespan_s - 1,
        )


@dataclass(frozen=True)
class Motivation:
    """Figures 1 to 4."""

    arms: tuple[ArmOnSlurm, ...]
    effects: tuple[MotivationEffect, ...]
    pictures: tuple[Path, ...]  # one SVG an arm
    notes: tuple[str, ...] = WORDS

    @classmethod
    def of(cls, records: tuple[RunRecord, ...], plan: MotivationPlan, pictures: tuple[Path, ...]) -> Motivation:
        """Gather the arms' runs."""
        arms = tuple(ArmOnSlurm.of(record, plan) for record in records)
        failed = [f"{a.arm.name}: job {j.name} ended {j.state}." for a in arms for j in a.jobs if j.state != GOOD]
        return cls(arms, _effects(arms), pictures, (*WORDS, *failed))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "arms": [arm.to_dict() for arm in self.arms],
            "effects": [asdict(effect) for effect in self.effects],
            "pictures": [picture.name for picture in self.pictures],
            "notes": list(self.notes),
        }


def _effects(arms: tuple[ArmOnSlurm, ...]) -> tuple[MotivationEffect, ...]:
    by_figure = {arm.arm.figure: arm for arm in arms}
    wanted = (
        ("two priorities swapped, on whole nodes", 2, 1),
        ("packing instead of whole nodes", 3, 1),
        ("one job raised above two, packed", 4, 3),
    )
    return tuple(MotivationEffect.between(name, by_figure[of], by_figure[to]) for name, of, to in wanted)


def _job(real: Schedule, record: RunRecord, row: int) -> JobOnSlurm:
    ran = record.jobs[row]
    return JobOnSlurm(
        name=real.jobs.name.name_of(row),
        gpus=int(real.jobs.gpus[row]),
        submit_s=float(real.jobs.submit_s[row]),
        start_s=float(real.start_s[row]),
        end_s=float(real.end_s[row]),
        nodes=ran.nodes,
        state=ran.state,
    )

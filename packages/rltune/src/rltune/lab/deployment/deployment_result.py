"""What section 5.6's runs came to: every run, gains over Slurm alone, and GPUs in use over time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rltune.evaluation.comparison import Run, measured
from rltune.lab.experiment.experiment_plan import ALONE
from rltune.lab.experiment.experiment_result import ExperimentResult
from rltune.metrics.timeline import timeline
from rltune.metrics.utilisation import span_of
from rltune.trials.intervals import FEWEST, Interval
from rltune.trials.measures import metric_of

MEASURES = ("wait", "makespan", "utilisation")
STEPS = 120  # of the axis of time


@dataclass(frozen=True)
class DeploymentRun:
    """One arm on the jobs of one seed, beside the simulator's numbers for it."""

    arm: str
    seed: int
    wait_s: float  # mean over its jobs
    makespan_s: float
    utilisation: float
    simulated_wait_s: float
    simulated_makespan_s: float
    failed_jobs: int
    late_cycles: int  # of the controller's: longer than the time to the next
    cycles: int
    real_s: float


@dataclass(frozen=True)
class DeploymentGain:
    """By how much an arm differs from Slurm alone; the interval is over seeds, and None where they are too few."""

    arm: str
    measure: str
    seeds: int
    change: float  # as a share of Slurm's own
    change_low: float | None
    change_high: float | None
    difference: float  # in seconds, or as a share of the GPUs
    by_seed: tuple[float, ...]  # changes
    better_in: int  # seeds


@dataclass(frozen=True)
class UseOverTime:
    """GPUs in use of one run, as shares, each an average over `step_s`; all runs of a seed have the same steps."""

    arm: str
    seed: int
    step_s: float
    share: tuple[float, ...]


@dataclass(frozen=True)
class Deployment:
    """Figures 18 and 19."""

    jobs: int
    seeds: int
    slurm: str
    runs: tuple[DeploymentRun, ...]
    gains: tuple[DeploymentGain, ...]
    use: tuple[UseOverTime, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, result: ExperimentResult) -> Deployment:
        """Sum an experiment up."""
        names = [arm.name for arm in result.plan.arms if arm.name != ALONE]
        return cls(
            jobs=result.plan.jobs,
            seeds=len(result.plan.seeds),
            slurm=result.records[0].slurm,
            runs=tuple(_run(result, i) for i in range(len(result.records))),
            gains=tuple(gain for name in names for measure in MEASURES for gain in _gains(result, name, measure)),
            use=tuple(use for seed in range(len(result.plan.seeds)) for use in _use(result, seed)),
            notes=(*_notes(result), *result.comparison.notes),
        )

    def gain(self, arm: str, measure: str) -> DeploymentGain:
        """Return one gain by its names."""
        return next(gain for gain in self.gains if (gain.arm, gain.measure) == (arm, measure))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def _run(result: ExperimentResult, i: int) -> DeploymentRun:
    record, prediction, summary = result.records[i], result.predictions[i], result.comparison.runs[i].summary
    return DeploymentRun(
        arm=record.arm.name,
        seed=record.seed,
        wait_s=summary.wait_s.mean,
        makespan_s=summary.makespan_s,
        utilisation=summary.utilisation.share,
        simulated_wait_s=prediction.wait_s,
        simulated_makespan_s=prediction.makespan_s,
        failed_jobs=record.failed,
        late_cycles=record.cycles.overran,
        cycles=record.cycles.count,
        real_s=record.real_s,
    )


def _gains(result: ExperimentResult, name: str, measure: str) -> list[DeploymentGain]:
    """Return the gain of an arm by one measure; none if it shares no seed with Slurm alone."""
    comparison = result.comparison.against(ALONE, measure)
    found = [standing for standing in comparison.standings if standing.label == name]
    return [
        DeploymentGain(
            arm=name,
            measure=measure,
            seeds=standing.windows,
            change=standing.ratio.estimate - 1,
            change_low=_bound(standing.ratio, "low", standing.windows),
            change_high=_bound(standing.ratio, "high", standing.windows),
            difference=standing.difference.estimate,
            by_seed=_by_seed(result, name, measure),
            better_in=standing.better_in,
        )
        for standing in found
    ]


def _bound(ratio: Interval, which: str, seeds: int) -> float | None:
    bound = float(getattr(ratio, which)) - 1
    return bound if seeds >= FEWEST and np.isfinite(bound) else None


def _by_seed(result: ExperimentResult, name: str, measure: str) -> tuple[float, ...]:
    numbers = [arm.name for arm in result.plan.arms]
    ours, theirs = (result.comparison.of(numbers.index(one)) for one in (name, ALONE))
    shared = sorted(ours.keys() & theirs.keys())
    return tuple(_value(ours[seed], measure) / _value(theirs[seed], measure) - 1 for seed in shared)


def _value(run: Run, measure: str) -> float:
    return metric_of(measure).value(run.summary, run.schedule, measured(run))


def _use(result: ExperimentResult, seed: int) -> list[UseOverTime]:
    """Average the GPUs in use of all runs of a seed over the steps of one axis."""
    runs = [run for run in result.comparison.runs if run.window == seed]
    if not runs:
        return []
    edges = np.linspace(0.0, max(span_of(run.schedule)[1] for run in runs), STEPS + 1)
    gpus = result.plan.cluster.gpu_count
    made = []
    for run in runs:
        line = timeline(run.schedule)
        share = (line.averaged(line.busy, edges) / gpus).round(4).tolist()
        name = result.plan.arms[run.contender].name
        made.append(UseOverTime(name, result.plan.seeds[seed], float(edges[1]), tuple(share)))
    return made


def _notes(result: ExperimentResult) -> list[str]:
    seeds = len(result.plan.seeds)
    if seeds >= FEWEST:
        return []
    told = f"{seeds} seed(s) are too few for an interval: it takes {FEWEST}"
    return [f"{told}. The changes seed by seed are given instead."]

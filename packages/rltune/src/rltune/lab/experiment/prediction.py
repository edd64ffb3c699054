"""What the simulator says of the runs that were made: the same jobs, at the times at which Slurm saw them.

Run times are those recorded, as for any history. Three things are in it besides. Slurm plans a start for every job in
its queue, so that it backfills conservatively. A job that could not start at once is started by one of the next
backfillings, so that its GPUs stay idle for up to their interval: drawn at random, several times over, because a few
seconds can change who comes next. And the controller orders the queue once a cycle, under its guard. Not in it: that
Slurm chooses nodes itself where it is not led to some.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.pipeline import Pipeline
from rltune.engine.run import run_pipeline
from rltune.estimate import get_estimator
from rltune.jobs import Jobs
from rltune.lab.experiment import tuned_multifactor as multifactor
from rltune.lab.experiment.experiment_plan import Arm, ExperimentPlan
from rltune.lab.experiment.one_run import control_settings
from rltune.lab.experiment.run_record import RunRecord, as_schedule
from rltune.live.pinned_pipeline import pin_policy
from rltune.schedule import Schedule

DRAWS = 20
BACKFILL = "conservative"


@dataclass(frozen=True)
class Prediction:
    """Means over the jobs of a run, in seconds, as simulated and as they were."""

    wait_s: float
    spread_s: float  # standard deviation of the mean wait over the draws
    real_wait_s: float
    makespan_s: float
    real_makespan_s: float

    @property
    def wait_error(self) -> float:
        """Return by which share the simulated mean wait is off."""
        return self.wait_s / self.real_wait_s - 1 if self.real_wait_s > 0 else np.nan


def predict(record: RunRecord, plan: ExperimentPlan) -> Prediction:
    """Simulate a run, and set it beside what was."""
    real = as_schedule(record, plan)
    pipeline = _driven(record.arm, plan) if record.arm.policy else slurm_alone(record.arm)
    return set_beside(real, real.jobs, replace(pipeline, seed=record.seed), plan.estimator)


def set_beside(real: Schedule, jobs: Jobs, pipeline: Pipeline, estimator: str) -> Prediction:
    """Simulate jobs once for every draw of how long GPUs stay idle, and set the means beside what was."""
    late_s = np.random.default_rng(pipeline.seed).uniform(0, multifactor.BACKFILL_S, size=(DRAWS, len(jobs)))
    held = [jobs.with_columns(duration_s=jobs.duration_s + late) for late in late_s]
    made = [run_pipeline(one, real.cluster, pipeline, get_estimator(estimator)) for one in held]
    waits = [float((m.wait_s + np.where(m.wait_s > 0, late, 0.0)).mean()) for m, late in zip(made, late_s, strict=True)]
    return Prediction(
        wait_s=float(np.mean(waits)),
        spread_s=float(np.std(waits)),
        real_wait_s=float(real.wait_s.mean()),
        makespan_s=float(np.mean([_makespan_s(m) for m in made])),
        real_makespan_s=_makespan_s(real),
    )


def slurm_alone(arm: Arm) -> Pipeline:
    """Return Slurm without us as the simulator has it."""
    return parse_pipeline(multifactor.as_policy(), BACKFILL, arm.placement)


def _driven(arm: Arm, plan: ExperimentPlan) -> Pipeline:
    """Return the pipeline as the controller has it, under its guard; a search has all the time it needs here."""
    settings = control_settings(plan, arm)
    pinned = pin_policy(settings).pipeline
    timeless = replace(pinned, backfill=BACKFILL, search=replace(pinned.search, ms=None))
    return replace(timeless, cycle_s=plan.cycle_s if timeless.takes_cycles else 0.0)


def _makespan_s(schedule: Schedule) -> float:
    return float(schedule.end_s.max() - schedule.jobs.submit_s.min())

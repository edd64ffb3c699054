"""What the simulator says of the runs that were made: the same jobs, at the times at which Slurm saw them.

Three things that a real Slurm does are in it. It plans a start for every job in its queue, so that it backfills
conservatively. A job holds its nodes a little longer than it runs. And a job that could not start at once is started
by the next backfilling, on average half its interval after it could have been. Not in it: that the controller orders
the queue only once a cycle, and that Slurm chooses nodes itself where it is not led to some.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rltune.live.slurm.experiment import multifactor
from rltune.live.slurm.experiment.plan import Plan
from rltune.live.slurm.experiment.record import Record, as_jobs
from rltune.schedule import Schedule
from rltune.sim import simulate

LAUNCH_S = 0.1  # that starting and ending a job takes, in real seconds; more by a fast clock
LATE_S = multifactor.BACKFILL_S / 2


@dataclass(frozen=True)
class Prediction:
    """Means over the jobs of a run, in seconds, as simulated and as they were."""

    wait_s: float
    real_wait_s: float
    makespan_s: float
    real_makespan_s: float

    @property
    def wait_error(self) -> float:
        """Tell by which share the simulated mean wait is off."""
        return self.wait_s / self.real_wait_s - 1 if self.real_wait_s > 0 else np.nan


def predict(record: Record, plan: Plan) -> Schedule:
    """Simulate a run."""
    jobs = as_jobs(record, plan)
    held_s = jobs.duration_s + LAUNCH_S * plan.factor + LATE_S
    policy = record.arm.policy or multifactor.as_policy()
    made = simulate(
        jobs.with_columns(duration_s=held_s),
        plan.cluster,
        policy,
        "conservative",
        record.arm.placement,
        plan.estimator,
        seed=record.seed,
    )
    late_s = np.where(made.wait_s > 0, LATE_S, 0.0)
    return replace(made, start_s=made.start_s + late_s)


def compare(real: Schedule, simulated: Schedule) -> Prediction:
    """Set both side by side."""
    return Prediction(
        wait_s=float(simulated.wait_s.mean()),
        real_wait_s=float(real.wait_s.mean()),
        makespan_s=float(simulated.end_s.max() - simulated.jobs.submit_s.min()),
        real_makespan_s=float(real.end_s.max() - real.jobs.submit_s.min()),
    )

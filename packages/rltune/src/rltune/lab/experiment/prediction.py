"""What the simulator says of the runs that were made: the same jobs, at the times at which Slurm saw them.

Run times are those recorded, as for any history. Three things are in it besides. Slurm plans a start for every job in
its queue, on whole nodes: who is behind may use nothing of them then. A job that could not start at once is started by
one of the next backfillings, so that its GPUs stay idle for up to their interval: drawn at random, several times over,
because a few seconds can change who comes next. And the controller orders the queue once a cycle, which is as long as
it was on average, under its guard. Nodes are taken by best fit; Slurm's own rule can be asked for, which tells more of
its choices and no more of the waits (docs/adr/0172-nodes-as-slurm-takes-them.md).

Where jobs take turns three things are otherwise: backfilling is EASY, for turns know no other with reservations; the
policy is asked in every pass, for turns know no cycle; and a job that was stopped holds its GPUs for as much longer
as it took, on average in that run, from the command to the start of the job that it gave way to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rltune.cluster import Cluster
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.pipeline import Pipeline
from rltune.engine.run import run_pipeline
from rltune.estimate import get_estimator
from rltune.jobs import Jobs
from rltune.lab.experiment import tuned_multifactor as multifactor
from rltune.lab.experiment.experiment_plan import Arm, ExperimentPlan
from rltune.lab.experiment.one_run import control_settings
from rltune.lab.experiment.run_record import RunRecord, as_schedule
from rltune.lab.testbed.testbed_spec import Spec, ports_needed
from rltune.live.pinned_pipeline import pin_policy
from rltune.placement.placers import SLURM, Placement
from rltune.schedule import Schedule

DRAWS = 20
BACKFILL = "whole-nodes"
TURN_BACKFILL = "easy"


@dataclass(frozen=True)
class Prediction:
    """Means over the jobs of a run, in seconds, as simulated and as they were."""

    wait_s: float
    spread_s: float  # standard deviation of the mean wait over the draws
    real_wait_s: float
    makespan_s: float
    real_makespan_s: float
    delay_s: float  # completion time beyond the run time: the wait, and what being stopped cost
    real_delay_s: float

    @property
    def wait_error(self) -> float:
        """Return by which share the simulated mean wait is off."""
        return self.wait_s / self.real_wait_s - 1 if self.real_wait_s > 0 else np.nan

    @property
    def delay_error(self) -> float:
        """Return by which share the simulated mean delay is off."""
        return self.delay_s / self.real_delay_s - 1 if self.real_delay_s > 0 else np.nan


def predict(record: RunRecord, plan: ExperimentPlan, *, slurms_nodes: bool = False) -> Prediction:
    """Simulate a run, and set it beside what was; nodes can be those that Slurm takes where nobody leads it."""
    real = as_schedule(record, plan)
    stretch = plan.jobs_profile.stretch
    cycle_s = max(plan.cycle_s, _makespan_s(real) / max(1, record.cycles.count))  # on a busy machine cycles are late
    pipeline = as_driven(record.arm, plan, cycle_s) if record.arm.policy else slurm_alone(record.arm, stretch)
    if slurms_nodes:
        real = replace(real, cluster=by_name(real.cluster))
        pipeline = replace(pipeline, placement=Placement(SLURM))
    jobs = _freed_late(real.jobs, record.freed_s) if record.arm.turns else real.jobs
    interval_s = multifactor.backfill_s(stretch)
    return set_beside(real, jobs, replace(pipeline, seed=record.seed), plan.estimator, interval_s)


def _freed_late(jobs: Jobs, freed_s: float) -> Jobs:
    """Return the jobs with longer restarts: their GPUs stay idle from the command to the other job's start."""
    return jobs.with_columns(restart_s=np.where(jobs.preemptible, jobs.restart_s + freed_s, jobs.restart_s))


def set_beside(
    real: Schedule, jobs: Jobs, pipeline: Pipeline, estimator: str, interval_s: float | None = None
) -> Prediction:
    """Simulate jobs once for every draw of how long GPUs stay idle, and set the means beside what was."""
    longest_s = multifactor.BACKFILL_S if interval_s is None else interval_s
    late_s = np.random.default_rng(pipeline.seed).uniform(0, longest_s, size=(DRAWS, len(jobs)))
    held = [jobs.with_columns(duration_s=jobs.duration_s + late) for late in late_s]
    made = [run_pipeline(one, real.cluster, pipeline, get_estimator(estimator)) for one in held]
    added_s = [np.where(m.wait_s > 0, late, 0.0) for m, late in zip(made, late_s, strict=True)]
    waits = [float((m.wait_s + late).mean()) for m, late in zip(made, added_s, strict=True)]
    delays = [float((m.delay_s + late).mean()) for m, late in zip(made, added_s, strict=True)]
    return Prediction(
        wait_s=float(np.mean(waits)),
        spread_s=float(np.std(waits)),
        real_wait_s=float(real.wait_s.mean()),
        makespan_s=float(np.mean([_makespan_s(m) for m in made])),
        real_makespan_s=_makespan_s(real),
        delay_s=float(np.mean(delays)),
        real_delay_s=float(real.delay_s.mean()),
    )


def by_name(cluster: Cluster) -> Cluster:
    """Return a cluster with its groups in the order of their nodes' names, as Slurm goes through its nodes."""
    spec = Spec(Path("/"), cluster, range(1, 1 + ports_needed(cluster)))
    first = {id(node.group): node.name for node in reversed(spec.nodes)}
    return replace(cluster, groups=tuple(sorted(cluster.groups, key=lambda group: first[id(group)])))


def slurm_alone(arm: Arm, stretch: float = 1.0) -> Pipeline:
    """Return Slurm without us as the simulator has it."""
    return parse_pipeline(multifactor.as_policy(max_age_s=multifactor.AGE_S * stretch), BACKFILL, arm.placement)


def as_driven(arm: Arm, plan: ExperimentPlan, cycle_s: float) -> Pipeline:
    """Return the pipeline as the controller has it, under its guard; a search has all the time it needs here."""
    settings = control_settings(plan, arm)
    pinned = pin_policy(settings).pipeline
    if arm.turns:
        return replace(pinned, backfill=TURN_BACKFILL, turns=arm.turns)
    timeless = replace(pinned, backfill=BACKFILL, search=replace(pinned.search, ms=None))
    return replace(timeless, cycle_s=cycle_s if timeless.takes_cycles else 0.0)


def _makespan_s(schedule: Schedule) -> float:
    return float(schedule.end_s.max() - schedule.jobs.submit_s.min())

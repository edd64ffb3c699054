"""What the simulator says of an arm of section 2.

A job that has its nodes to itself asks for all their CPUs, as the controller sees such jobs, too. Priorities that are
exchanged are a factor of the multifactor rule that does not change while a job waits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.pipeline import Pipeline
from rltune.engine.run import run_pipeline
from rltune.estimate import get_estimator
from rltune.jobs import Jobs
from rltune.lab.experiment import tuned_multifactor as multifactor
from rltune.lab.experiment.prediction import BACKFILL, Prediction, set_beside
from rltune.lab.motivation.motivation_plan import MotivationArm, MotivationPlan, shuffle
from rltune.schedule import Schedule


def predict_arm(real: Schedule, plan: MotivationPlan, arm: MotivationArm) -> Prediction:
    """Simulate an arm at the times at which Slurm saw the jobs, and set it beside what was."""
    jobs = as_simulated(real.jobs, plan, arm)
    return set_beside(real, jobs, _pipeline(jobs, plan, arm), plan.estimator)


def simulate_arm(plan: MotivationPlan, arm: MotivationArm) -> Schedule:
    """Simulate an arm as it is planned."""
    jobs = as_simulated(plan.workload(), plan, arm)
    return run_pipeline(jobs, plan.cluster, _pipeline(jobs, plan, arm), get_estimator(plan.estimator))


def as_simulated(jobs: Jobs, plan: MotivationPlan, arm: MotivationArm) -> Jobs:
    """Return the jobs as the simulator takes them: a QOS each, and all CPUs of nodes that they do not share."""
    named = jobs.with_columns(qos=jobs.name)
    if not arm.whole_nodes:
        return named
    (group,) = plan.cluster.groups
    return named.with_columns(cpus=jobs.nodes * float(group.cpus or 0))


def _pipeline(jobs: Jobs, plan: MotivationPlan, arm: MotivationArm) -> Pipeline:
    rule = multifactor.as_policy(job_size=0.0)
    if arm.order:
        by_age = dict(enumerate((-rule.age / rule.max_age_s * jobs.submit_s).tolist()))
        change = np.zeros(len(jobs))
        for row, by in shuffle(by_age, plan.rows(arm.order)).items():
            change[row] = by
        above = change - change.min()
        given = {name: float(above[row]) for row, name in enumerate(jobs.qos.to_list()) if name}
        rule = replace(rule, qos=float(above.max()), qos_priority=given)
    return parse_pipeline(rule, BACKFILL)

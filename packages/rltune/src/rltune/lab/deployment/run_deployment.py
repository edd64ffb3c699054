"""Section 5.6's experiment from beginning to end: `rltune slurm experiment`, with the figures that the paper shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from rltune.engine.run import run_pipeline
from rltune.estimate import get_estimator
from rltune.lab.deployment.deployment_result import Deployment
from rltune.lab.deployment.use_picture import draw_use
from rltune.lab.experiment.experiment_plan import ALONE, Arm, ExperimentPlan, path_of
from rltune.lab.experiment.experiment_result import ExperimentResult
from rltune.lab.experiment.fresh_slurm import LEAD_S, START_S
from rltune.lab.experiment.perform import perform
from rltune.lab.experiment.prediction import slurm_alone
from rltune.metrics.formats import plain
from rltune.text import seconds
from rltune.whole_file import write_whole

MODEL = "learned:slurm-five"
BAND = 1_000_000  # the order is the policy's; Slurm's own factors only break ties
WORKERS = 3
Told = Callable[[int, int, str], None]  # jobs ended, in all, which run


def deployment_plan(jobs: int = 300, seeds: int = 3, policy: str = MODEL, band: int = BAND) -> ExperimentPlan:
    """Plan tuned multifactor, smallest area first and a learned policy on the paper's five nodes."""
    arms = (Arm(ALONE), Arm.driven("saf"), Arm.driven(policy))
    return ExperimentPlan(arms, tuple(range(1, seeds + 1)), jobs=jobs, band=band)


def estimate_deployment_s(out: Path, plan: ExperimentPlan, workers: int = WORKERS) -> float:
    """Return how many real seconds the runs that are missing will take, by the simulated makespans of Slurm alone."""
    missing = [seed for arm, seed in plan.runs() if not path_of(out, arm, seed).exists()]
    if not missing:
        return 0.0
    run_s = {seed: START_S + (LEAD_S + _makespan_s(plan, seed)) / plan.factor for seed in set(missing)}
    return max(*run_s.values(), sum(run_s[seed] for seed in missing) / workers)


def run_deployment(
    out: Path,
    jobs: int = 300,
    seeds: int = 3,
    policy: str = MODEL,
    *,
    band: int = BAND,
    workers: int = WORKERS,
    progress: Told = lambda *_: None,
) -> Deployment:
    """Make the runs that `out` does not hold yet, and return all; records, numbers, page and SVGs are in `out`."""
    plan = deployment_plan(jobs, seeds, policy, band)
    total = jobs * len(plan.arms) * seeds
    if left_s := estimate_deployment_s(out, plan, workers):
        progress(0, total, f"takes about {seconds(left_s)}")
    perform(plan, out, progress, workers)
    result = ExperimentResult.of(plan, out)
    made = Deployment.of(result)
    result.write(out)
    write_whole(out / "utilisation.svg", draw_use(made.use))
    write_whole(out / "deployment.json", json.dumps(plain(made.to_dict()), indent=1) + "\n")
    return made


def _makespan_s(plan: ExperimentPlan, seed: int) -> float:
    made = run_pipeline(plan.workload(seed), plan.cluster, slurm_alone(Arm(ALONE)), get_estimator(plan.estimator))
    return float(made.end_s.max())

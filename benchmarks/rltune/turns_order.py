"""Which order of turns the simulator would choose for the experiment on a real Slurm, on seeds that it does not use.

python benchmarks/rltune/turns_order.py [--jobs 256] [--load 1.2] [--estimator user] [PIPELINE ...]

The workload is the experiment's profile long-half-willing. Each arm is what the experiment's prediction makes of it:
arms without turns with reservations as Slurm makes them, those with turns under EASY. A policy is asked every 120 s.
"""

import argparse
from dataclasses import replace

import numpy as np

from rltune.engine.pipeline import Pipeline
from rltune.engine.run import run_pipeline
from rltune.estimate import get_estimator
from rltune.lab.experiment.experiment_plan import ALONE, Arm, ExperimentPlan
from rltune.lab.experiment.job_profiles import TURNS
from rltune.lab.experiment.prediction import as_driven, slurm_alone
from rltune.schedule import Schedule

SEEDS = (101, 102, 103, 104)
CYCLE_S = 120.0
WITHOUT = (ALONE, "saf", "learned:slurm-five")
WITH = (
    "sjf+preempt:policy:most=20",
    "sjf+preempt:policy:most=20:run=300",
    "sjf+preempt:policy:most=20:run=120",
    "sjf+preempt:policy:most=100:late=off",
    "saf+preempt:policy:most=20",
    "sjf+preempt:srsf:most=20:run=300",
    "fcfs+preempt:gittins:most=20",
    "saf+preempt:las:most=20",
)


def pipeline_of(plan: ExperimentPlan, arm: Arm) -> Pipeline:
    """Return an arm as the experiment's prediction has it."""
    return as_driven(arm, plan, CYCLE_S) if arm.policy else slurm_alone(arm, plan.jobs_profile.stretch)


def measures(schedule: Schedule) -> tuple[float, ...]:
    """Return mean delay in minutes, its 99th percentile and the makespan in hours, stops a job, and what was lost."""
    jobs = schedule.jobs
    lost = jobs.gpus @ np.nan_to_num(schedule.lost_s) / (jobs.gpus @ jobs.duration_s)
    delay_h = schedule.delay_s / 3600
    makespan_h = (schedule.end_s.max() - jobs.submit_s.min()) / 3600
    return 60 * delay_h.mean(), np.percentile(delay_h, 99), makespan_h, schedule.preemptions.mean(), lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=256, help="of a seed")
    parser.add_argument("--load", type=float, default=1.2, help="as in the experiment")
    parser.add_argument("--estimator", default="user", help="what is known of run times")
    parser.add_argument("pipelines", nargs="*", default=(*WITHOUT, *WITH), help="arms")
    args = parser.parse_args()
    print("| order | mean delay | p99 | makespan | stops a job | lost |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in args.pipelines:
        arm = Arm(ALONE) if name == ALONE else Arm.driven(name)
        plan = ExperimentPlan(
            (arm,),
            SEEDS,
            args.jobs,
            args.load,
            cycle_s=CYCLE_S,
            estimator=args.estimator,
            band=1_000_000,
            profile=TURNS,
        )
        made = (
            run_pipeline(
                plan.workload(seed),
                plan.cluster,
                replace(pipeline_of(plan, arm), seed=seed),
                get_estimator(args.estimator),
            )
            for seed in SEEDS
        )
        delay, p99, makespan, stops, lost = np.mean([measures(one) for one in made], axis=0)
        print(f"| `{name}` | {delay:.0f} min | {p99:.0f} h | {makespan:.0f} h | {stops:.2f} | {lost:.1%} |", flush=True)


if __name__ == "__main__":
    main()

"""Chooses the weights of the multifactor baseline of `rltune slurm experiment`, in the simulator; compares policies.

python benchmarks/rltune/slurm_weights.py
python benchmarks/rltune/slurm_weights.py --policies saf learned:slurm-five --jobs 1024   # 30 seeds

As on Slurm, every waiting job has a reservation. In a comparison policies are asked once a minute and
guarded, as by the controller, and jobs hold their GPUs for up to 30 s longer, too.
"""

import argparse
from itertools import product

import numpy as np

from rltune import simulate
from rltune.cluster import Cluster
from rltune.lab.experiment.experiment_plan import USERS
from rltune.lab.experiment.fine_tuning_jobs import make_jobs
from rltune.lab.experiment.tuned_multifactor import BACKFILL_S, as_policy
from rltune.live.control_settings import ControlSettings

SEEDS = range(1000, 1008)  # no experiment uses these
COMPARED = range(3000, 3030)  # nor these
JOBS, LOAD = 300, 1.2
CONTROL = ControlSettings()
FAIRSHARE, SIZE, AGE_S = (0, 300, 1000), (0, 300, 1000, 3000), (6 * 3600, 86_400, 7 * 86_400)


def measured(policy, traces, cluster, **driven):
    """Return mean wait and makespan of every trace, in minutes: [2, trace]."""
    runs = [simulate(jobs, cluster, policy, "conservative", "best-fit", "user", **driven) for jobs in traces]
    return np.array([[run.wait_s.mean(), run.end_s.max()] for run in runs]).T / 60


def choose(cluster):
    traces = [make_jobs(cluster, JOBS, LOAD, seed, USERS) for seed in SEEDS]

    def measure(policy):
        return tuple(measured(policy, traces, cluster).mean(axis=1))

    found = [(measure(as_policy(f, s, a)), (f, s, a)) for f, s, a in product(FAIRSHARE, SIZE, AGE_S)]
    print("mean wait, makespan (min) by fair share, size, age that counts (h); best first")
    for (wait, makespan), (fairshare, size, age_s) in sorted(found):
        print(f"{wait:7.1f} {makespan:8.1f}   {fairshare:5} {size:5} {age_s / 3600:6g}")
    print("for comparison")
    for name in ("fcfs", "saf", "sjf", "wfp3"):
        wait, makespan = measure(name)
        print(f"{wait:7.1f} {makespan:8.1f}   {name}")


def compare(cluster, policies, count, cycle_s):
    late_s = np.random.default_rng(5).uniform(0, BACKFILL_S, (len(COMPARED), count))
    traces = [make_jobs(cluster, count, LOAD, seed, USERS) for seed in COMPARED]
    traces = [jobs.with_columns(duration_s=jobs.duration_s + late) for jobs, late in zip(traces, late_s, strict=True)]
    base = measured(as_policy(), traces, cluster)
    wait, makespan = base.mean(axis=1)
    print(f"{len(COMPARED)} seeds of {count:,} jobs; in brackets the deviation of a single seed's change")
    print(f"{'multifactor':24} wait {wait:6.1f} min                   makespan {makespan:6.1f} min")
    for name in policies:
        found = measured(name, traces, cluster, cycle_s=cycle_s, guard=CONTROL.safety.guard)
        (wait, makespan), change = found.mean(axis=1), found.mean(axis=1) / base.mean(axis=1) - 1
        spread = (found / base - 1).std(axis=1)
        print(
            f"{name:24} wait {wait:6.1f} min {change[0]:+7.1%} ({spread[0]:5.1%})   "
            f"makespan {makespan:6.1f} min {change[1]:+6.1%} ({spread[1]:4.1%})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", nargs="+", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=JOBS, metavar="N", help="jobs of a seed of the comparison")
    parser.add_argument(
        "--cycle", type=float, default=CONTROL.cycle_s, metavar="S", help="policies are asked this often"
    )
    given = parser.parse_args()
    cluster = Cluster.preset("slurm-five")
    if given.policies:
        compare(cluster, given.policies, given.jobs, given.cycle, estimator="oracle")
    else:
        choose(cluster)


if __name__ == "__main__":
    main()

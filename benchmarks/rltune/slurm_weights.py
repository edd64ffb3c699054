"""Chooses the weights of the multifactor baseline of `rltune slurm experiment`, in the simulator.

.venv/bin/python benchmarks/rltune/slurm_weights.py
"""

from itertools import product

import numpy as np

from rltune import simulate
from rltune.cluster import Cluster
from rltune.live.slurm.experiment.multifactor import as_policy
from rltune.live.slurm.experiment.plan import USERS
from rltune.live.slurm.experiment.workload import make_jobs

SEEDS = range(1000, 1008)  # no experiment uses these
JOBS, LOAD = 300, 1.2
FAIRSHARE, SIZE, AGE_S = (0, 300, 1000), (0, 300, 1000, 3000), (6 * 3600, 86_400, 7 * 86_400)


def main() -> None:
    cluster = Cluster.preset("slurm-five")
    traces = [make_jobs(cluster, JOBS, LOAD, seed, USERS) for seed in SEEDS]

    def measure(policy):
        runs = [simulate(jobs, cluster, policy, "conservative", "best-fit", "user") for jobs in traces]
        return tuple(np.mean([of(r) for r in runs]) / 60 for of in (lambda r: r.wait_s.mean(), lambda r: r.end_s.max()))

    found = [(measure(as_policy(f, s, a)), (f, s, a)) for f, s, a in product(FAIRSHARE, SIZE, AGE_S)]
    print("mean wait, makespan (min) by fair share, size, age that counts (h); best first")
    for (wait, makespan), (fairshare, size, age_s) in sorted(found):
        print(f"{wait:7.1f} {makespan:8.1f}   {fairshare:5} {size:5} {age_s / 3600:6g}")
    print("for comparison")
    for name in ("fcfs", "saf", "sjf", "wfp3"):
        wait, makespan = measure(name)
        print(f"{wait:7.1f} {makespan:8.1f}   {name}")


if __name__ == "__main__":
    main()

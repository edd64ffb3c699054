"""The smallest simulation: three jobs on one node of two GPUs, in order and with backfilling."""
# ruff: noqa: INP001, T201

import rltune

jobs = rltune.Jobs.from_arrays(submit_s=[0, 1, 2], duration_s=[100, 50, 10], gpus=[1, 2, 1])
cluster = rltune.Cluster.uniform(nodes=1, gpus=2)

for backfill in ("none", "easy"):
    schedule = rltune.simulate(jobs, cluster, policy="fcfs", backfill=backfill, estimator="oracle")
    print(f"backfill {backfill}: starts {schedule.start_s.tolist()}, mean wait {schedule.summary().wait_s.mean:.1f} s")

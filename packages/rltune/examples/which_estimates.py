"""What knowing run times is worth: one rule, one trace, and the truth, the truth with errors, or what users asked."""
# ruff: noqa: INP001, T201

import rltune
from rltune.trace import synthesise

cluster = rltune.Cluster.preset("philly-slice")
jobs = synthesise("philly", jobs=3000, seed=2, load=1.0, cluster=cluster)

for estimator in ("oracle", "noisy:0.5", "noisy:1.2", "user"):
    schedule = rltune.simulate(jobs, cluster, policy="saf", backfill="easy", estimator=estimator)
    told = schedule.summary()
    print(f"{estimator:9}  mean wait {told.wait_s.mean / 60:5.1f} min, slowdown {told.bounded_slowdown.mean:5.1f}")

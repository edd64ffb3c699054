"""Compare a policy of one's own with the rule that it comes from, on the same windows and with the same knowledge."""
# ruff: noqa: INP001, T201

from pathlib import Path

import rltune
from rltune.evaluation import compare, parse_windows
from rltune.trace import synthesise

mine = f"{Path(__file__).with_name('my_policy.py')}:small_but_patient"
cluster = rltune.Cluster.preset("philly-slice")
jobs = synthesise("philly", jobs=4000, seed=1, load=1.0, cluster=cluster)
result = compare(jobs, cluster, ["saf", mine], windows=parse_windows("5x512"), estimator="user")

for name, told in zip(("saf", "small but patient"), result.standings, strict=True):
    print(f"{name:17}  mean wait {told.wait_s.mean / 60:5.1f} min, longest {told.wait_s.max / 3600:5.1f} h")

"""What the solver did is part of every summary."""

import json

import rltune
from rltune.trace.synthetic import synthesise


def test_the_summary_says_what_the_solver_did():
    cluster = rltune.Cluster.preset("philly-slice")
    jobs = synthesise("philly", 400, seed=1, load=3.0, cluster=cluster)
    summary = rltune.simulate(jobs, cluster, placement="milp:4", estimator="oracle").summary()
    text = " ".join(str(summary).split())
    assert f"solver: asked in {summary.work['milp_solved']:,} passes" in text
    told = json.loads(json.dumps(summary.to_dict(), allow_nan=False))["work"]
    assert told["milp_skip_rate"] == summary.work["milp_skip_rate"]
    assert not any("_ms" in name for name in told)


def test_without_a_solver_nothing_is_said_of_one():
    jobs = rltune.Jobs.from_arrays([0, 1], [5, 5], [1, 1])
    assert "solver" not in str(rltune.simulate(jobs, rltune.Cluster.uniform(1, 1), estimator="oracle").summary())

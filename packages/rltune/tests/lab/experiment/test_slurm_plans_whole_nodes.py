"""Why a prediction of Slurm has whole nodes: what a real one does with nodes that a waiting job needs a part of."""

import time

import pytest

from rltune.cluster import Cluster, NodeGroup
from rltune.engine.simulate import simulate
from rltune.jobs import Jobs

PASSES_S = 4.0  # the testbed backfills once a second


def test_slurm_keeps_a_planned_job_its_nodes_whole(testbed):
    """Three of four GPUs run, the next job needs two: the fourth is idle for a job that leaves it those two.

    A job that ends before the planned start has it at once.
    """
    on = ("--nodelist=p100-1",)
    testbed.submit(300, *on, gpus=3, limit_min=60)
    testbed.wait_for("it to run", lambda: "RUNNING" in testbed.run("squeue", "-h", "-o", "%T"))
    planned = testbed.submit(1, *on, gpus=2, limit_min=60)
    testbed.wait_for("it to be planned", lambda: testbed.job(planned)["start_time"] > 0)
    long = testbed.submit(300, *on, gpus=1, limit_min=600)
    time.sleep(PASSES_S)
    assert testbed.job(long)["job_state"] == "PENDING"
    short = testbed.submit(300, *on, gpus=1, limit_min=30)
    testbed.wait_for("the short one to run", lambda: testbed.job(short)["job_state"] == "RUNNING")
    assert testbed.job(long)["job_state"] == "PENDING"


@pytest.mark.parametrize(("backfill", "long_starts_s"), [("conservative", 0.0), ("whole-nodes", 3600.0)])
def test_the_simulator_does_the_same_with_whole_nodes(backfill, long_starts_s):
    """And with plain reservations it does not."""
    jobs = Jobs.from_arrays(
        submit_s=[0, 0, 0], duration_s=[3600, 3600, 36000], gpus=[3, 2, 1], limit_s=[3600, 3600, 36000]
    )
    made = simulate(jobs, Cluster(groups=(NodeGroup(count=1, gpus=4),)), "fcfs", backfill, estimator="user")
    assert made.start_s.tolist() == [0.0, 3600.0, long_starts_s]

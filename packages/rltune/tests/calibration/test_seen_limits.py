"""Limits that nobody wrote down: told from full partitions, from each other, and from what requeued jobs make up."""

import tomllib
from dataclasses import replace

import numpy as np
import pytest
from made_history import cluster, happened, workload

from rltune.calibration import calibrate
from rltune.calibration.cluster_file import lines_of
from rltune.calibration.free_room import FreeRoom
from rltune.calibration.history import Happened
from rltune.calibration.seen_limits import find_limits
from rltune.cluster import Cluster, Limit, NodeGroup
from rltune.jobs import Jobs
from rltune.labels import Labels

TWO = Cluster((NodeGroup(count=2, gpus=4, vc=("old",)), NodeGroup(count=3, gpus=4, vc=("new",))))


def limits(jobs, on):
    return tomllib.loads(lines_of(calibrate(jobs, on).findings)).get("limit", [])


def test_room_is_counted_where_a_job_may_run():
    """Four of eight GPUs of one partition and all twelve of the other are in use: a job sees its own."""
    jobs = Jobs.from_arrays(
        [0.0, 0.0, 50.0, 50.0, 50.0],
        [100.0, 100.0, 10.0, 10.0, 10.0],
        [4, 12, 1, 1, 1],
        vc=["old", "new", "old", "new", None],
        recorded_start_s=[0.0, 0.0, 60.0, 150.0, 60.0],
    )
    free = FreeRoom.of(Happened(jobs), TWO)
    rows = np.array([2, 3, 4])
    taken = np.array(free.gpus)[free.kind[rows]] - free.at(np.full(3, 50.0), rows)
    assert taken.tolist() == [4, 12, 16]


def test_a_full_partition_beside_an_idle_one_is_no_limit():
    jobs = workload(load=0.9, gpus=8)
    jobs = replace(jobs, vc=Labels.of(["old" if i % 20 else "new" for i in range(len(jobs))], len(jobs)))
    assert limits(happened(jobs, TWO), TWO) == []


@pytest.mark.parametrize("requeued", [False, True])
def test_limits_of_a_user_and_of_an_account_are_told_apart(requeued):
    """A requeued job is told as one long run, so that for a time more seems to be in use than the limit."""
    jobs = workload(n=2500, load=0.6, users=6)
    students = np.isin(jobs.user.codes, [4, 5])
    jobs = replace(jobs, account=Labels.of(np.where(students, "students", "lab").tolist(), len(jobs)))
    hidden = (Limit(scope="account", name="students", max_gpus=6), Limit(scope="user", name="u0", max_gpus=4))
    size = np.where(students | (jobs.user.codes == jobs.user.names.index("u0")), np.minimum(jobs.gpus, 4), jobs.gpus)
    was = happened(jobs.with_columns(gpus=size), cluster(limits=hidden))
    if requeued:
        longer = np.arange(len(was)) % 150 == 0
        was = was.with_columns(duration_s=was.duration_s * np.where(longer, 1.2, 1.0))
    seen, held = find_limits(Happened(was), FreeRoom.of(Happened(was), cluster()))
    assert {(one.toml[1], one.toml[2], one.toml[3]) for one in seen} == {
        ('scope = "account"', 'name = "students"', "max_gpus = 6"),
        ('scope = "user"', 'name = "u0"', "max_gpus = 4"),
    }
    assert held.any()

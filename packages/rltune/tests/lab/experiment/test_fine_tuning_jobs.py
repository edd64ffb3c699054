"""The experiment's jobs: as stated, the same for the same seed, and all of them can run."""

import numpy as np
import pytest

from rltune.cluster import Cluster, NodeGroup
from rltune.engine.simulate import simulate
from rltune.errors import InputError
from rltune.lab.experiment.experiment_plan import USERS
from rltune.lab.experiment.fine_tuning_jobs import LONGEST_S, SHORTEST_S, make_jobs

FIVE = Cluster.preset("slurm-five")


@pytest.fixture(scope="module")
def jobs():
    return make_jobs(FIVE, 2000, 1.2, 7, USERS)


def test_same_seed_same_jobs(jobs):
    """And another seed gives others."""
    assert make_jobs(FIVE, 2000, 1.2, 7, USERS).to_polars().equals(jobs.to_polars())
    assert not make_jobs(FIVE, 2000, 1.2, 8, USERS).to_polars().equals(jobs.to_polars())


def test_sizes_and_types(jobs):
    """1, 2 and 4 GPUs and two nodes; P100, K80, M40 or any."""
    assert set(zip(jobs.nodes.tolist(), jobs.gpus_per_node.tolist(), strict=True)) == {
        (1, 1),
        (1, 2),
        (1, 4),
        (2, 1),
        (2, 2),
    }
    assert set(jobs.gpu_types.to_list()) == {None, "p100", "k80", "m40"}
    assert set(jobs.user.names) == set(USERS)


def test_run_times_and_limits(jobs):
    """Limits are 1.2 times the run time at least, too long by a factor of 2.5 in the middle, in steps of 5 minutes."""
    assert jobs.duration_s.min() >= SHORTEST_S
    assert jobs.duration_s.max() <= LONGEST_S
    assert (jobs.limit_s >= 1.2 * jobs.duration_s).all()
    assert (jobs.limit_s % 300 == 0).all()
    long = jobs.duration_s > 1800  # where steps of 5 minutes matter little
    assert np.median(jobs.limit_s[long] / jobs.duration_s[long]) == pytest.approx(2.5, rel=0.15)


def test_the_load_is_what_was_asked_for(jobs):
    """GPU time asked for over what the GPUs have while jobs arrive."""
    asked = float((jobs.duration_s * jobs.gpus).sum())
    assert asked / (FIVE.gpu_count * jobs.submit_s.max()) == pytest.approx(1.2, rel=0.01)


def test_every_job_can_run(jobs):
    """None is larger than the nodes of its type."""
    assert not simulate(jobs, FIVE, "fcfs", "fit-first", estimator="oracle").rejected.any()


def test_on_a_cluster_of_another_kind():
    """Sizes that its nodes cannot hold are not asked for."""
    small = Cluster((NodeGroup(count=3, gpus=2, gpu_type="t4"),))
    made = make_jobs(small, 300, 1.0, 0, USERS)
    assert made.gpus_per_node.max() == 2
    assert set(made.gpu_types.to_list()) == {None, "t4"}
    with pytest.raises(InputError, match="can hold a job of one GPU"):
        make_jobs(Cluster((NodeGroup(count=1, gpus=0),)), 1, 1.0, 0, USERS)


@pytest.mark.parametrize(("count", "load"), [(0, 1.0), (5, 0.0), (5, float("inf"))])
def test_what_cannot_be_made(count, load):
    """One sentence."""
    with pytest.raises(InputError, match="cannot be made"):
        make_jobs(FIVE, count, load, 0, USERS)

"""Every rule by hand: its scores, and the order in which jobs start."""

from math import log2

import pytest
from policy.stepping import scores_at

import rltune
from rltune.cluster import Cluster, NodeGroup
from rltune.jobs import Jobs
from rltune.kernel.score.rules import f1_score, unicep_score, wfp3_score

CLUSTER = Cluster.uniform(nodes=1, gpus=8)

# Job 0 takes all until 10; of the others no two fit together.
JOBS = Jobs.from_arrays(submit_s=[0, 1, 2, 3], duration_s=[10, 8, 4, 6], gpus=[8, 6, 8, 5])


def starts(policy: str, jobs: Jobs = JOBS) -> list[float]:
    return rltune.simulate(jobs, CLUSTER, policy=policy, estimator="oracle").start_s.tolist()


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("fcfs", {1: 1.0, 2: 2.0, 3: 3.0}),  # submit
        ("sjf", {1: 8.0, 2: 4.0, 3: 6.0}),  # estimate
        ("srf", {1: 6.0, 2: 8.0, 3: 5.0}),  # GPUs
        ("saf", {1: 48.0, 2: 32.0, 3: 30.0}),  # 6 x 8, 8 x 4, 5 x 6
        ("wfp3", {1: -(1.125**3) * 6, 2: -(2.0**3) * 8, 3: -((7 / 6) ** 3) * 5}),  # waits 9, 8, 7
        ("unicep", {1: -9 / (log2(6) * 8), 2: -8 / (3 * 4), 3: -7 / (log2(5) * 6)}),
        # log10(8) = 0.90309, log10(4) = 0.60206, log10(6) = 0.77815; log10 of the submits 0, 0.30103, 0.47712
        ("f1", {1: 0.90309 * 6, 2: 0.60206 * 8 + 870 * 0.30103, 3: 0.77815 * 5 + 870 * 0.47712}),
    ],
)
def test_scores_when_the_first_job_ends(policy, expected):
    """At 10 the three others have waited 9, 8 and 7 s."""
    assert scores_at(10.0, JOBS, CLUSTER, policy) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("fcfs", [0, 10, 18, 22]),
        ("sjf", [0, 20, 10, 14]),  # 4 s, 6 s, 8 s
        ("srf", [0, 16, 24, 10]),  # 5, 6, 8 GPUs
        ("saf", [0, 20, 16, 10]),  # 30, 32, 48
        # Job 1 is ahead of job 3 at 10 (8.5 against 7.9), behind it at 14 ((13 / 8)^3 6 = 25.7, (11 / 6)^3 5 = 30.8).
        ("wfp3", [0, 20, 10, 14]),
        ("unicep", [0, 20, 10, 14]),  # at 10: 0.44, 0.67, 0.50; at 14: 13 / 20.7 = 0.63 against 11 / 13.9 = 0.79
        ("f1", [0, 10, 18, 22]),  # 870 log10(s) outweighs what there is of size and length
    ],
)
def test_order(policy, expected):
    """The rules start the same four jobs in their own order."""
    assert starts(policy) == expected


def test_f1_looks_at_length_and_size_between_jobs_of_one_time():
    """All three are submitted at 1, where log10(s) = 0: 5.42, 4.82 and 3.89 remain."""
    at_once = Jobs.from_arrays(submit_s=[0, 1, 1, 1], duration_s=[10, 8, 4, 6], gpus=[8, 6, 8, 5])
    assert starts("f1", at_once) == [0, 20, 16, 10]


def test_f1_by_hand():
    """log10(100) 2 + 870 log10(10) = 4 + 870; 0.1 stands for what is not positive: -3 + 1740, 1 - 870."""
    assert f1_score(100.0, 2.0, 10.0) == pytest.approx(874.0)
    assert f1_score(0.0, 3.0, 100.0) == pytest.approx(1737.0)
    assert f1_score(10.0, 1.0, 0.0) == pytest.approx(-869.0)
    assert f1_score(10.0, 1.0, -5.0) == pytest.approx(-869.0)


def test_wfp3_by_hand():
    """(20 / 10)^3 4 = 32; a job of no length has waited infinitely long for its length, unless it has not waited."""
    assert wfp3_score(20.0, 10.0, 4.0) == -32.0
    assert wfp3_score(0.0, 10.0, 4.0) == 0.0
    assert wfp3_score(1.0, 0.0, 1.0) == pytest.approx(-1e45)
    assert wfp3_score(0.0, 0.0, 1.0) == 0.0


def test_unicep_by_hand():
    """12 / (log2(4) 3) = 2; with one GPU the logarithm is 0, floored at 1e-15."""
    assert unicep_score(12.0, 3.0, 4.0) == -2.0
    assert unicep_score(12.0, 3.0, 1.0) == pytest.approx(-4e15)
    assert unicep_score(0.0, 3.0, 1.0) == 0.0


def test_unicep_takes_single_gpus_first_by_age_over_length():
    """At 10 the order is 7 / 4, 8 / 5, 9 / 9; a job of 8 GPUs comes after those of one, however long it has waited."""
    jobs = Jobs.from_arrays(submit_s=[0, 1, 2, 3], duration_s=[10, 9, 5, 4], gpus=1)
    one = Cluster.uniform(nodes=1, gpus=1)
    assert rltune.simulate(jobs, one, policy="unicep", estimator="oracle").start_s.tolist() == [0, 19, 14, 10]
    wide = Jobs.from_arrays(submit_s=[0, 1, 2, 3], duration_s=[10, 9, 5, 4], gpus=[8, 8, 1, 1])
    assert rltune.simulate(wide, CLUSTER, policy="unicep", estimator="oracle").start_s.tolist() == [0, 15, 10, 10]


@pytest.mark.parametrize("policy", ["srf", "saf", "wfp3", "unicep", "f1", "multifactor"])
def test_a_job_without_gpus_counts_as_one(policy):
    """n is 1 for it, so that its length still counts: the same score as of a job with one GPU."""
    jobs = Jobs.from_arrays([0, 1, 1, 2], [9, 5, 5, 5], [8, 0, 1, 8], cpus=[8, 8, 8, 8])
    scores = scores_at(2.0, jobs, Cluster((NodeGroup(count=1, gpus=8, cpus=8.0),)), policy)
    assert scores[1] == scores[2]


@pytest.mark.parametrize("policy", ["sjf", "saf", "wfp3", "unicep", "f1"])
def test_rules_use_the_estimate_and_not_the_truth(policy):
    """With the estimates of jobs 1 and 3 exchanged the scores are those of the exchanged lengths."""
    believed = JOBS.duration_s[[0, 3, 2, 1]]
    exchanged = JOBS.with_columns(duration_s=believed)
    assert scores_at(10.0, JOBS, CLUSTER, policy, believed) == scores_at(10.0, exchanged, CLUSTER, policy)

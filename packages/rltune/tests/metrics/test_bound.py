"""The lower bound: hand-computed cases, and that nothing beats it."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rltune import simulate
from rltune.cluster import Cluster, NodeGroup
from rltune.jobs import Jobs
from rltune.metrics import lower_bound

CLOSE = 1 + 1e-9


def test_a_job_alone_is_bounded_by_its_run():
    b = lower_bound(Jobs.from_arrays([5], [100], [2]), Cluster.uniform(1, 4))
    assert (b.mean_jct_s, b.mean_wait_s, b.own_s) == (100, 0, 100)
    assert b.gap(125) == pytest.approx(0.25)


def test_one_gpu_is_a_single_machine():
    """Jobs of 1, 2 and 4 s at once on one GPU: shortest first, ends 1, 3 and 7, is optimal and is the bound."""
    b = lower_bound(Jobs.from_arrays([0, 0, 0], [4, 1, 2], 1), Cluster.uniform(1, 1))
    assert b.mean_jct_s == pytest.approx(11 / 3)
    assert b.mean_wait_s == pytest.approx(11 / 3 - 7 / 3)


def test_the_bound_of_eastman_even_and_isaacs():
    """Four jobs of 2 s, two GPUs: (1 + 2 + 3 + 4 - 4/2) on a machine twice as fast + 4 * 2/2 = 12 = 2 + 2 + 4 + 4."""
    b = lower_bound(Jobs.from_arrays([0] * 4, 2, 1), Cluster.uniform(2, 1))
    assert b.busy_s == pytest.approx(12 / 4)
    assert b.mean_jct_s == pytest.approx(3)


def test_srpt_switches_to_the_shorter_job():
    """10 s at 0 and 1 s at 4 on one GPU, preemptive: ends at 11 and 5, JCTs 11 and 1."""
    assert lower_bound(Jobs.from_arrays([0, 4], [10, 1], 1), Cluster.uniform(1, 1)).fluid_s == pytest.approx(6)


def test_prices_see_what_the_fast_machine_does_not():
    """Three jobs need all four GPUs and one needs one; no schedule does better than 10, 20, 30 and 40."""
    jobs = Jobs.from_arrays([0, 0, 0, 0], [10, 10, 10, 10], [4, 4, 4, 1])
    b = lower_bound(jobs, Cluster.uniform(1, 4))
    assert b.price_s > b.own_s
    assert b.mean_jct_s <= (10 + 20 + 30 + 40) / 4


def test_parts_that_share_no_job_are_bounded_apart():
    """Two VCs of one GPU: the one with two jobs must queue though the other is idle."""
    cluster = Cluster((NodeGroup(count=1, gpus=1, vc=("a",)), NodeGroup(count=1, gpus=1, vc=("b",))))
    b = lower_bound(Jobs.from_arrays([0, 0, 100], [10, 10, 10], 1, vc=["a", "a", "b"]), cluster)
    assert b.mean_jct_s == pytest.approx((10 + 20 + 10) / 3)
    joined = lower_bound(Jobs.from_arrays([0, 0, 100], [10, 10, 10], 1, vc=["a", "a", None]), cluster)
    assert joined.mean_jct_s < b.mean_jct_s


def test_types_part_the_cluster_too():
    cluster = Cluster((NodeGroup(count=1, gpus=1, gpu_type="T4"), NodeGroup(count=1, gpus=1, gpu_type="V100")))
    b = lower_bound(Jobs.from_arrays([0, 0], [10, 10], 1, gpu_types=["T4", "T4"]), cluster)
    assert b.mean_jct_s == pytest.approx(15)


def test_the_fastest_type_bounds_the_run_and_the_slowest_the_wait():
    groups = (NodeGroup(count=1, gpus=1, gpu_type="slow"), NodeGroup(count=1, gpus=1, gpu_type="fast"))
    b = lower_bound(Jobs.from_arrays([0], [10], 1), Cluster(groups, speed={"fast": 2.0}))
    assert (b.mean_jct_s, b.mean_wait_s) == (5, 0)


def test_jobs_without_gpus_or_time_count_by_their_run():
    b = lower_bound(Jobs.from_arrays([0, 0, 3], [10, 0, 4], [0, 1, 1]), Cluster.uniform(1, 1))
    assert b.mean_jct_s == pytest.approx(14 / 3)


def test_no_jobs_have_no_bound():
    assert np.isnan(lower_bound(Jobs.from_arrays([], [], []), Cluster.uniform(1, 1)).mean_jct_s)
    assert np.isnan(lower_bound(Jobs.from_arrays([0], [1], [9]), Cluster.uniform(1, 1), np.array([False])).gap(1))


rows = st.tuples(st.integers(0, 15), st.integers(0, 12), st.integers(1, 4))


@settings(max_examples=60, deadline=None)
@given(st.lists(rows, min_size=1, max_size=5))
def test_no_order_of_the_jobs_beats_the_bound(toy, workload):
    """Every order by the list scheduler; without release dates one of them is optimal for one GPU jobs."""
    jobs = Jobs.from_arrays(*(np.array(c) for c in zip(*workload, strict=True)))
    cluster = Cluster.uniform(2, 2)
    bound = lower_bound(jobs, cluster)
    for order in itertools.permutations(range(len(workload))):
        schedule = toy(jobs, cluster, order)
        assert bound.mean_jct_s <= schedule.jct_s.mean() * CLOSE + 1e-9
        assert bound.mean_wait_s <= schedule.wait_s.mean() * CLOSE + 1e-9


def _best_by_brute_force(jobs: Jobs, gpus: int) -> float:
    """Try every start at whole seconds: an optimal schedule of whole numbers starts there."""
    horizon = int(jobs.submit_s.max() + jobs.duration_s.sum()) + 1
    best = [np.inf]

    def place(j: int, used, total: float) -> None:
        if total >= best[0]:
            return
        if j == len(jobs):
            best[0] = total
            return
        run, need = int(jobs.duration_s[j]), int(jobs.gpus[j])
        for start in range(int(jobs.submit_s[j]), horizon):
            if (used[start : start + run] + need <= gpus).all():
                after = used.copy()
                after[start : start + run] += need
                place(j + 1, after, total + start + run - jobs.submit_s[j])

    place(0, np.zeros(2 * horizon + 50, dtype=int), 0.0)
    return best[0] / len(jobs)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5), st.integers(1, 3)), min_size=1, max_size=4))
def test_the_best_schedule_there_is_does_not_beat_the_bound(workload):
    jobs = Jobs.from_arrays(*(np.array(c) for c in zip(*workload, strict=True)))
    assert lower_bound(jobs, Cluster.uniform(1, 3)).mean_jct_s <= _best_by_brute_force(jobs, 3) * CLOSE


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31))
def test_no_random_schedule_of_many_jobs_beats_the_bound(toy, seed):
    """Loads from idle to hopeless, gangs over nodes, a random order and smallest area first."""
    rng, n = np.random.default_rng(seed), 60
    jobs = Jobs.from_arrays(
        np.sort(rng.uniform(0, rng.choice([10, 300, 3000]), n)), rng.pareto(1.2, n) * 10, rng.integers(1, 9, n)
    )
    cluster = Cluster.uniform(4, 4)
    bound = lower_bound(jobs, cluster)
    for rank in (rng.random(n), jobs.gpus * jobs.duration_s):
        assert bound.mean_jct_s <= toy(jobs, cluster, rank).jct_s.mean() * CLOSE
    assert bound.mean_jct_s == pytest.approx(max(bound.own_s, bound.fluid_s, bound.busy_s, bound.price_s))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31))
def test_no_policy_on_a_mixed_cluster_beats_the_bound(seed):
    """The engine itself: VCs that share groups or not, GPU types of different speed, jobs that choose among them."""
    rng, n = np.random.default_rng(seed), 50
    groups = (
        NodeGroup(count=2, gpus=4, gpu_type="A", vc=("x",)),
        NodeGroup(count=1, gpus=8, gpu_type="B", vc=("y", "z")),
        NodeGroup(count=2, gpus=2, gpu_type="A"),
    )
    cluster = Cluster(groups, speed={"A": float(rng.choice([0.5, 1.0])), "B": float(rng.choice([1.0, 3.0]))})
    jobs = Jobs.from_arrays(
        submit_s=np.sort(rng.uniform(0, rng.choice([1, 200, 2000]), n)),
        duration_s=rng.pareto(1.1, n) * 20,
        gpus=rng.integers(0, 9, n),
        vc=rng.choice(["x", "y", "z", ""], n),
        gpu_types=rng.choice(["A", "B", "A|B", ""], n),
    )
    for policy, backfill in (("saf", "easy"), ("sjf", "fit-first"), ("fcfs", "none"), ("wfp3", "conservative")):
        schedule = simulate(jobs, cluster, policy, backfill, estimator="oracle")
        bound = lower_bound(jobs, cluster, schedule.ran)
        if bound.jobs:
            assert bound.mean_jct_s <= schedule.jct_s[schedule.ran].mean() * CLOSE
            assert bound.mean_wait_s <= schedule.wait_s[schedule.ran].mean() * CLOSE + 1e-9


def test_the_bound_of_a_hundred_thousand_jobs_takes_about_a_second():
    rng, n = np.random.default_rng(0), 100_000
    jobs = Jobs.from_arrays(np.sort(rng.uniform(0, 1e7, n)), rng.exponential(2e4, n), rng.choice([1, 2, 8], n))
    lower_bound(jobs.window(0, 10), Cluster.uniform(36, 8))
    began = time.process_time()
    lower_bound(jobs, Cluster.uniform(36, 8))
    assert time.process_time() - began < 8.0  # a second or two; the machine may be busy

"""One small schedule, every metric computed by hand."""

import json
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from rltune.cluster import Cluster, NodeGroup, Outage
from rltune.jobs import Jobs
from rltune.metrics import summarise, timeline
from rltune.metrics.formats import most_common

nan = float("nan")


@pytest.fixture
def small(make):
    """Two nodes of 4 GPUs. Job 0: 2 on node 0, [0, 100). Job 1: 2 on node 1, [0, 50). Job 2: 4 + 4, submitted at 10,
    [100, 150). Job 3: 9 GPUs, rejected. Job 4: no GPUs, [20, 25)."""
    jobs = Jobs.from_arrays(
        submit_s=[0, 0, 10, 5, 20],
        duration_s=[100, 50, 50, 1, 5],
        gpus=[2, 2, 8, 9, 0],
        user=["ann", "bob", "ann", "bob", None],
        vc=["a", "a", "b", "b", None],
    )
    chunks = [((0, 2),), ((1, 2),), ((0, 4), (1, 4)), (), ((0, 0),)]
    reasons = [None, None, None, "larger than the cluster", None]
    return make(jobs, Cluster.uniform(2, 4), [0, 0, 100, nan, 20], chunks, reasons, [0, 0, 3, 0, 0])


def test_jobs_are_counted_with_the_reasons_of_those_rejected(small):
    s = summarise(small)
    assert (s.jobs, s.ran, s.rejected, s.requeued, s.passes) == (5, 4, 1, 1, 5)
    assert s.reject_reasons == {"larger than the cluster": 1}


def test_waits_jcts_and_slowdowns(small):
    s = summarise(small)
    assert s.wait_s.mean == pytest.approx(90 / 4)
    assert s.wait_s.max == 90
    assert s.jct_s.mean == pytest.approx((100 + 50 + 140 + 5) / 4)
    assert s.bounded_slowdown.mean == pytest.approx((1 + 1 + 140 / 50 + 1) / 4)
    assert s.bounded_slowdown.p50 == 1


def test_large_jobs_are_those_of_many_gpus_or_nodes(small):
    assert summarise(small).large_wait_s.n == 1
    assert summarise(small).large_wait_s.mean == 90


def test_makespan_and_utilisation(small):
    s = summarise(small)
    assert s.makespan_s == 150
    assert s.utilisation.span_s == (0, 150)
    assert s.utilisation.busy_gpu_s == 200 + 100 + 400
    assert s.utilisation.share == pytest.approx(700 / (8 * 150))
    assert s.utilisation.over_time.max == 1.0
    assert s.utilisation.over_time.p50 == 0.5


def test_fragmentation_weighs_the_time_in_which_somebody_waits(small):
    """Free 2 + 2 in [0, 50): 1/2. Free 2 + 4 in [50, 100): 1 - 20/36. Then none. A job waits from 10 on."""
    f = summarise(small).fragmentation
    skewed = 1 - 20 / 36
    assert f.overall.mean == pytest.approx((50 * 0.5 + 50 * skewed) / 100)
    assert f.while_waiting.mean == pytest.approx((40 * 0.5 + 50 * skewed) / 90)
    assert f.idle_while_waiting == pytest.approx((40 * 4 + 50 * 6) / (8 * 150))


def test_queue_over_time_counts_jobs_that_want_gpus(small):
    assert summarise(small).queue.mean == pytest.approx(90 / 150)


def test_fairness_is_jains_index_of_mean_slowdown(small):
    s = summarise(small).fairness
    ann = (1 + 2.8) / 2
    assert s.users.jain == pytest.approx((ann + 1) ** 2 / (2 * (ann**2 + 1)))
    assert (s.users.groups, s.users.worst, s.users.worst_mean_wait_s, s.users.worst_jobs) == (2, "ann", 45, 2)
    assert (s.vcs.worst, s.vcs.worst_mean_wait_s) == ("b", 90)
    assert s.vcs.mean_wait_s.mean == 45


def test_an_interval_measures_only_what_is_in_it(small):
    """Jobs submitted in [10, 110): 2 and 4; the cluster is 4/8 busy to 50, 2/8 to 100, 8/8 to 110."""
    s = summarise(small, interval_s=(10, 110))
    assert (s.jobs, s.wait_s.max, s.interval_s) == (2, 90, (10, 110))
    assert s.utilisation.share == pytest.approx((40 * 4 + 50 * 2 + 10 * 8) / (8 * 100))
    assert s.bound.jobs == 2


def test_a_node_that_is_down_has_nothing_free(make):
    cluster = Cluster(
        (NodeGroup(count=2, gpus=4),), outages=(Outage(node=1, down_s=2, up_s=4), Outage(node=1, down_s=3))
    )
    jobs = Jobs.from_arrays(submit_s=[0], duration_s=[10], gpus=[1])
    line = timeline(make(jobs, cluster, [0], [((0, 1),)]))
    held = line.held_s(0, 10)
    assert line.free @ held == 3 * 10 + 4 * 2
    assert line.busy @ held == 10


def test_a_summary_prints_itself_and_is_plain_json(small):
    s = summarise(small)
    text = str(s)
    for part in ("wait", "p99", "larger than the cluster: 1", "lower bound", "Jain"):
        assert part in text
    console = Console(record=True, width=120, quiet=True)
    console.print(s)
    assert json.loads(json.dumps(s.to_dict(), allow_nan=False))["wait_s"]["max"] == 90


def test_only_the_commonest_reasons_are_printed():
    assert most_common({"a": 1, "b": 5}) == "b: 5; a: 1"
    assert most_common({"a": 1, "b": 5, "c": 2, "d": 1, "e": 1}) == "b: 5; c: 2; a: 1; and 2 more reasons"


def test_a_schedule_without_a_job_has_a_summary(make):
    none = make(Jobs.from_arrays([], [], []), Cluster.uniform(1, 1), [], [])
    s = summarise(none)
    assert s.ran == 0
    assert s.to_dict()["wait_s"]["mean"] is None
    assert "0 jobs ran" in str(s)


workloads = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(1, 6), st.integers(0, 3)), min_size=1, max_size=12
)


@settings(max_examples=60, deadline=None)
@given(workloads, st.randoms())
def test_the_timeline_agrees_with_a_count_at_every_moment(toy, rows, random):
    """Busy, free, squares and waiting, against a direct count from placements between events."""
    submit, duration, gpus, _ = (np.array(c) for c in zip(*rows, strict=True))
    jobs = Jobs.from_arrays(submit_s=submit, duration_s=duration, gpus=gpus)
    cluster = Cluster.uniform(3, 2)
    schedule = toy(jobs, cluster, [random.random() for _ in rows])
    line = timeline(schedule)
    for moment in np.arange(0, 100) + 0.5:
        at = np.searchsorted(line.time_s, moment, side="right") - 1
        free = np.full(3, 2)
        for j in np.flatnonzero((schedule.start_s <= moment) & (moment < schedule.end_s)):
            for node, taken in schedule.placements[int(j)]:
                free[node] -= taken
        waiting = ((submit <= moment) & (moment < schedule.start_s)).sum()
        state = (line.busy[at], line.free[at], line.free_squared[at], line.waiting[at]) if at >= 0 else (0, 6, 12, 0)
        assert state == (6 - free.sum(), free.sum(), (free**2).sum(), waiting)


@settings(max_examples=60, deadline=None)
@given(workloads, st.randoms())
def test_shares_are_shares(toy, rows, random):
    submit, duration, gpus, user = (np.array(c) for c in zip(*rows, strict=True))
    jobs = Jobs.from_arrays(submit_s=submit, duration_s=duration, gpus=gpus, user=user)
    s = summarise(toy(jobs, Cluster.uniform(3, 2), [random.random() for _ in rows]))
    assert np.isnan(s.utilisation.share) or 0 <= s.utilisation.share <= 1 + 1e-9
    assert 1 / s.fairness.users.groups - 1e-9 <= s.fairness.users.jain <= 1 + 1e-9
    assert s.bounded_slowdown.p50 >= 1
    assert np.isnan(s.fragmentation.overall.max) or 0 <= s.fragmentation.overall.max <= 1


def test_a_hundred_thousand_jobs_take_well_under_a_second(make):
    """The schedule need not be possible: the metrics read it all the same."""
    rng, n = np.random.default_rng(0), 100_000
    jobs = Jobs.from_arrays(
        submit_s=np.sort(rng.uniform(0, 1e7, n)),
        duration_s=rng.exponential(2e3, n),
        gpus=1,
        user=rng.integers(0, 300, n),
        vc=rng.integers(0, 10, n),
    )
    schedule = make(jobs, Cluster.uniform(36, 8), jobs.submit_s + 60, [((j % 36, 1),) for j in range(n)])
    summarise(schedule)
    began = time.process_time()
    summarise(schedule)
    assert time.process_time() - began < 3.0  # half a second; the machine may be busy

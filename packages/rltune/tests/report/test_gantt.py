from base64 import b64decode

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rltune import simulate
from rltune.cluster import Cluster
from rltune.evaluation import WindowSpec, compare
from rltune.jobs import Jobs
from rltune.report.chart_data import page_data
from rltune.report.comparison_page import render
from rltune.report.drawn_jobs import busiest_window, stretch
from rltune.report.gantt_bars import _lowest, _runs, bars
from rltune.report.typed_arrays import pack_counts, pack_floats


@pytest.mark.parametrize(
    ("mask", "runs"), [(0b0, []), (0b1, [(0, 1)]), (0b110110, [(1, 2), (4, 2)]), (0b111, [(0, 3)])]
)
def test_a_mask_splits_into_neighbours(mask, runs):
    assert list(_runs(mask)) == runs


def test_the_lowest_free_lanes_are_taken():
    assert _lowest(0b111010, 2) == 0b1010


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_no_two_bars_share_a_lane_at_one_time(seed):
    """And each job has as many lanes as GPUs, on the nodes where it was placed."""
    rng, n = np.random.default_rng(seed), 40
    jobs = Jobs.from_arrays(np.sort(rng.uniform(0, 50, n)), rng.integers(0, 20, n), rng.integers(0, 9, n))
    cluster = Cluster.uniform(3, 4)
    schedule = simulate(jobs, cluster, "sjf", backfill="easy", estimator="oracle")
    made = bars(schedule, np.arange(n))
    lanes = np.zeros(n, dtype=int)
    np.add.at(lanes, made.job, made.lanes)
    shown = schedule.end_s > schedule.start_s
    assert np.array_equal(lanes[shown], jobs.gpus[shown])
    for lane in range(12):
        on = made.job[(made.lane <= lane) & (lane < made.lane + made.lanes)]
        on = on[np.argsort(schedule.start_s[on], kind="stable")]
        assert (schedule.end_s[on][:-1] <= schedule.start_s[on][1:]).all()
        assert all(lane // 4 in [node for node, _ in schedule.placements[int(j)]] for j in on)


def test_every_spell_has_bars_of_its_own():
    """Jobs that took turns: in each spell as many lanes as GPUs, where it ran then, and no two bars at one time."""
    rng, n = np.random.default_rng(5), 60
    jobs = Jobs.from_arrays(
        np.sort(rng.uniform(0, 4e4, n)),
        rng.lognormal(8, 1.5, n),
        rng.integers(1, 9, n),
        preemptible=np.ones(n, dtype=bool),
        checkpoint_s=np.full(n, 60.0),
        restart_s=np.full(n, 30.0),
    )
    schedule = simulate(jobs, Cluster.uniform(3, 4), backfill="fit-first", estimator="oracle", preempt="las:run=60")
    assert (schedule.preemptions > 1).any()
    made, spells = bars(schedule, np.arange(n)), schedule.spells
    assert np.array_equal(made.start_s, spells.start_s)
    lanes = np.zeros(len(spells), dtype=int)
    np.add.at(lanes, made.spell, made.lanes)
    assert np.array_equal(lanes, jobs.gpus[spells.job])
    assert np.array_equal(made.job, spells.job[made.spell])
    for lane in range(12):
        on = made.spell[(made.lane <= lane) & (lane < made.lane + made.lanes)]
        on = on[np.argsort(spells.start_s[on], kind="stable")]
        assert (spells.end_s[on][:-1] <= spells.start_s[on][1:]).all()
        assert all(lane // 4 in [node for node, _ in spells.placements[int(s)]] for s in on)


def test_a_long_trace_shows_everything_of_a_stretch():
    rng, n = np.random.default_rng(1), 900
    jobs = Jobs.from_arrays(np.sort(rng.uniform(0, 9e4, n)), rng.exponential(900, n), rng.integers(1, 5, n))
    runs = list(compare(jobs, Cluster.uniform(4, 4), ["fcfs", "saf"], estimator="oracle").runs)
    part = stretch(runs, 200)
    assert part.complete
    assert 50 < len(part.rows) <= 200
    for run in runs:
        present = np.flatnonzero((run.schedule.start_s <= part.end_s) & (run.schedule.end_s >= part.begin_s))
        assert set(present) <= set(part.rows)
    assert len(stretch(runs, 900).rows) == 900
    assert not stretch(runs, 3).complete


def test_jobs_of_many_small_nodes_do_not_swell_the_page():
    """Single-GPU nodes: whole runs of nodes are one bar, and bars are what is counted."""
    rng, n = np.random.default_rng(2), 300
    jobs = Jobs.from_arrays(np.sort(rng.uniform(0, 3e4, n)), rng.exponential(900, n), rng.integers(1, 65, n))
    made = compare(jobs, Cluster.uniform(64, 1), ["fcfs"], estimator="oracle")
    idle = bars(simulate(jobs.window(0, 1), Cluster.uniform(64, 1), estimator="oracle"), np.arange(1))
    assert idle.lanes.tolist() == [jobs.gpus[0]]
    part = stretch(list(made.runs), 150)
    assert part.complete
    assert len(bars(made.runs[0].schedule, part.rows).job) <= 150


def test_the_window_shown_is_the_one_where_the_baseline_waits_longest():
    jobs = Jobs.from_arrays(np.r_[np.arange(20) * 100.0, 3000 + np.arange(20)], 50, 2)
    assert (
        busiest_window(compare(jobs, Cluster.uniform(1, 2), ["fcfs"], windows=WindowSpec(2, 20), estimator="oracle"))
        == 1
    )


def test_numbers_are_packed_narrow():
    assert pack_counts(np.array([0, 255]))["t"] == "u1"
    assert pack_counts(np.array([256]))["t"] == "u2"
    assert pack_counts(np.array([70_000]))["t"] == "u4"
    assert pack_counts(np.zeros(0)) == {"t": "u1", "b": ""}
    assert pack_floats(np.array([1.0])) == {"t": "f4", "b": "AACAPw=="}


def test_displacements_over_time_end_at_all_of_them():
    """A pipeline that takes turns has a line that rises to its count; one that does not has none."""
    rng, n = np.random.default_rng(4), 200
    jobs = Jobs.from_arrays(
        np.sort(rng.uniform(0, 3e4, n)), rng.exponential(3000, n), rng.integers(1, 5, n), preemptible=True
    )
    made = compare(
        jobs, Cluster.uniform(2, 4), ["saf", "fcfs+preempt:las"], windows=WindowSpec(1, n), estimator="oracle"
    )
    lines = page_data(made, 0, 1000)["times"][0]["lines"]
    assert ["displaced" in line for line in lines] == [False, True]
    counts = np.frombuffer(b64decode(lines[1]["displaced"]["b"]), dtype=np.float32)
    assert (np.diff(counts) >= 0).all()
    assert counts[-1] == made.runs[1].schedule.preemptions.sum() > 0
    assert "turns-chart" in render(made)

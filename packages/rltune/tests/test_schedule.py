"""A schedule prints itself, and is a data frame if wanted."""

import polars as pl

import rltune

JOBS = rltune.Jobs.from_arrays([0, 1, 2], [100, 50, 10], [1, 2, 9], id=["a", "b", "c"], user=["u", None, "u"])
CLUSTER = rltune.Cluster.uniform(nodes=1, gpus=2)
MADE = rltune.simulate(JOBS, CLUSTER, policy="fcfs", estimator="oracle")


def test_it_prints_how_it_was_made_and_how_the_jobs_fared():
    lines = repr(MADE).splitlines()
    assert lines == [
        "Schedule: fcfs, backfill none, placement best-fit, estimates oracle",
        "  jobs: 2 ran, 1 rejected, on 1 node, 2 GPUs",
        "  wait: mean 49.5 s, p99 98.0 s, longest 99.0 s",
        "  mean bounded slowdown: 1.99",
    ]
    assert str(MADE) == repr(MADE)


def test_a_guard_is_named():
    assert "guard 24h" in repr(rltune.simulate(JOBS, CLUSTER, policy="fcfs", estimator="oracle", guard="24h"))


def test_without_a_job_there_is_little_to_print():
    nothing = rltune.simulate(JOBS.window(0, 0), CLUSTER, estimator="oracle")
    assert repr(nothing).splitlines()[1:] == ["  jobs: 0 ran, 0 rejected, on 1 node, 2 GPUs"]


def test_html_holds_the_same():
    assert "mean 49.5 s" in MADE._repr_html_()
    assert MADE._repr_html_().startswith("<table>")


def test_a_frame_has_a_row_a_job():
    frame = MADE.to_polars()
    assert frame["id"].to_list() == ["a", "b", "c"]
    assert frame["wait_s"].to_list() == [0.0, 99.0, None]
    assert frame["start_s"].to_list() == [0.0, 100.0, None]
    assert frame["rejected"].to_list() == [False, False, True]
    assert frame["reject_reason"].to_list()[:2] == [None, None]
    assert "larger than the cluster" in frame["reject_reason"][2]
    assert frame["nodes"].to_list() == [[0], [0], None]
    assert frame["node_gpus"].to_list() == [[1], [2], None]
    assert frame["user"].to_list() == ["u", None, "u"]


def test_whole_numbers_stay_ids():
    jobs = rltune.Jobs.from_arrays([0.0], [1.0], [1], id=[7])
    assert rltune.simulate(jobs, CLUSTER, estimator="oracle").to_polars()["id"].dtype == pl.Int64


def test_a_summary_prints_itself_and_is_html():
    made = MADE.summary()
    assert repr(made) == str(made)
    assert '<td style="text-align:right">49.5 s</td>' in made._repr_html_()

"""Jobs from data frames, and what is said of frames that hold no jobs."""

import datetime as dt

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from strategies import cases

from rltune import InputError, Jobs

FRAME = pl.DataFrame({"submit_s": [0, 5], "duration_s": [10.0, 20.0], "gpus": [1, 2]})


class Pandas:
    """As much of a pandas frame as is asked for: `to_dict("list")`."""

    def __init__(self, columns):
        self.columns = columns

    def to_dict(self, orient):
        assert orient == "list"
        return self.columns


def test_three_columns_are_jobs():
    jobs = Jobs.from_polars(FRAME)
    assert (jobs.submit_s.tolist(), jobs.duration_s.tolist(), jobs.gpus.tolist()) == ([0, 5], [10, 20], [1, 2])


def test_a_lazy_frame_is_taken():
    assert Jobs.from_polars(FRAME.lazy()).gpus.tolist() == [1, 2]


@given(cases())
def test_what_was_made_a_frame_comes_back(case):
    frame = case.jobs.to_polars()
    assert Jobs.from_polars(frame).to_polars().equals(frame)


def test_ids_of_text_and_dependencies_come_back():
    jobs = Jobs.from_arrays([0, 1], 5.0, 1, id=["a", "b"], after=[[], [0]], user=["u", None], limit_s=[np.nan, 9.0])
    again = Jobs.from_polars(jobs.to_polars())
    assert again.to_polars().equals(jobs.to_polars())
    assert again.depends_on(1).tolist() == [0]


def test_nothing_told_is_null():
    frame = FRAME.with_columns(limit_s=pl.Series([None, 60]), user=pl.Series([None, "u"]), nodes=pl.Series([None, 1]))
    jobs = Jobs.from_polars(frame)
    assert np.isnan(jobs.limit_s[0])
    assert jobs.user.to_list() == [None, "u"]
    assert jobs.nodes.tolist() == [0, 1]


def test_a_column_of_nulls_is_nothing():
    frame = FRAME.with_columns(pl.lit(None).alias(name) for name in ("limit_s", "user", "after", "cpus"))
    assert Jobs.from_polars(frame).to_polars().equals(Jobs.from_polars(FRAME).to_polars())


def test_who_is_preemptible_comes_back_and_null_is_what_is_assumed():
    frame = FRAME.with_columns(
        preemptible=pl.Series([None, True]), checkpoint_s=pl.Series([None, None], dtype=pl.Float64)
    )
    jobs = Jobs.from_polars(frame.with_columns(restart_s=pl.Series([None, 30])))
    assert jobs.preemptible.tolist() == [False, True]
    assert jobs.checkpoint_s.tolist() == [np.inf, 600]
    assert jobs.restart_s.tolist() == [0, 30]
    assert Jobs.from_polars(jobs.to_polars()).to_polars().equals(jobs.to_polars())
    assert jobs.to_polars()["preemptible"].to_list() == [False, True]


def test_a_frame_may_declare_checkpoints_of_jobs_that_are_not_preemptible():
    jobs = Jobs.from_polars(FRAME.with_columns(checkpoint_s=pl.Series([60, None])))
    assert not jobs.preemptible.any()
    assert jobs.checkpoint_s.tolist() == [60, np.inf]


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (
            FRAME.with_columns(preemptible=pl.Series(["yes", "no"])),
            "column preemptible holds String; true and false are expected",
        ),
        (
            FRAME.drop("gpus"),
            "column gpus is missing: submit_s, duration_s, gpus are needed; given: submit_s, duration_s",
        ),
        (FRAME.rename({"duration_s": "runtime"}), "column duration_s is missing"),
        (FRAME.with_columns(limit=1), r"no column of jobs 'limit'; did you mean limit_s\? .*; drop or rename it"),
        (FRAME.with_columns(gpus=pl.Series(["1", "2"])), "column gpus holds String; numbers are expected"),
        (
            FRAME.with_columns(submit_s=pl.Series([dt.datetime(2024, 1, 1, tzinfo=dt.UTC)] * 2)),
            r"column submit_s holds Datetime.*; numbers of seconds are expected",
        ),
        (FRAME.with_columns(user=pl.Series([[1], [2]])), r"column user holds List\(Int64\); names are expected"),
        (FRAME.with_columns(id=pl.Series([1.5, 2.5])), "column id holds Float64; whole numbers or texts are expected"),
        (FRAME.with_columns(after=pl.Series(["0", "1"])), "column after holds String; lists of rows are expected"),
        (
            FRAME.with_columns(gpus=pl.Series([1, None])),
            "column gpus, row 1: nothing is told; numbers are expected",
        ),
        (FRAME.with_columns(gpus=pl.Series([1, -2])), "column gpus, row 1: .* should be 0 or more"),
        ({"submit_s": []}, "a polars frame is expected, not a dict; for pandas: rltune.Jobs.from_pandas"),
    ],
)
def test_a_wrong_column_is_named_with_what_is_expected(frame, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        Jobs.from_polars(frame)


def test_a_pandas_frame_is_taken_without_pandas():
    """Its words for nothing are NaN, None, NA and NaT."""
    na = type("NAType", (), {})()
    columns = {"submit_s": [0, 5], "duration_s": [10.0, 20.0], "gpus": [1, 2], "user": ["u", float("nan")]}
    jobs = Jobs.from_pandas(Pandas({**columns, "limit_s": [na, 7.5], "gpu_types": [None, "A|B"]}))
    assert jobs.user.to_list() == ["u", None]
    assert jobs.gpu_types.to_list() == [None, "A|B"]
    assert np.isnan(jobs.limit_s[0])
    assert jobs.limit_s[1] == 7.5


def test_a_pandas_frame_comes_back():
    pandas = pytest.importorskip("pandas", reason="pandas is no dependency")
    frame = pandas.DataFrame({"submit_s": [0, 5], "duration_s": [1.0, 2.0], "gpus": [1, 2], "user": ["u", None]})
    assert Jobs.from_pandas(frame).user.to_list() == ["u", None]


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (FRAME, "a pandas frame is expected, not a DataFrame; for polars: rltune.Jobs.from_polars"),
        (7, "a pandas frame is expected, not a int; for polars: rltune.Jobs.from_polars"),
        (
            Pandas({"submit_s": [0, "x"], "duration_s": [1, 1], "gpus": [1, 1]}),
            "column submit_s holds values of several",
        ),
        (Pandas({"submit_s": [0], "gpus": [1]}), "column duration_s is missing"),
    ],
)
def test_what_is_no_pandas_frame_of_jobs_is_said(frame, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        Jobs.from_pandas(frame)

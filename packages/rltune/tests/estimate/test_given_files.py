"""Estimates of the site's own: found by job id, and every mistake is one sentence."""

import numpy as np
import pytest

import rltune
from rltune import trace
from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.estimate.estimator_names import candidates, of_trace
from rltune.estimate.last_two import LastTwo
from rltune.jobs import Jobs

ONE = Cluster.uniform(nodes=1, gpus=1)
JOBS = Jobs.from_arrays([0, 1, 2], [10, 10, 10], 1, id=["a", "b", "c"], limit_s=[60, 60, 60])


def written(folder, text: str):
    path = folder / "estimates.csv"
    path.write_text(text)
    return path


def test_jobs_are_found_by_id_in_any_order(tmp_path):
    path = written(tmp_path, "job_id,seconds\nc,5\na,7\nb,99\nz,1\n")
    schedule = rltune.simulate(JOBS, ONE, policy="sjf", estimator=f"file:{path}")
    assert schedule.estimate_s.tolist() == [7, 99, 5]
    assert schedule.start_s.tolist() == [0, 20, 10]
    assert schedule.settings.estimator == "file:estimates.csv"


def test_quantiles_are_for_reservations_and_seconds_for_the_order(tmp_path):
    """By seconds c comes before b; the estimate, by which reservations are made, is the quantile next to 75 %."""
    path = written(tmp_path, "id,seconds,p10,p80\na,7,1,8\nb,9,2,20\nc,5,3,30\n")
    schedule = rltune.simulate(JOBS, ONE, policy="sjf", estimator=f"file:{path}")
    assert schedule.estimate_s.tolist() == [8, 20, 30]
    assert schedule.start_s.tolist() == [0, 20, 10]


def test_a_column_of_the_trace(tmp_path):
    path = tmp_path / "own.csv"
    trace.write(JOBS, path)
    header, *rows = path.read_text().splitlines()
    rows = [f"{row},{seconds}" for row, seconds in zip(rows, (7, 99, 5), strict=True)]
    path.write_text("\n".join((f"{header},our_guess", *rows)) + "\n")
    estimator = of_trace("column:our_guess", str(path))
    assert get_estimator(estimator).name == "column:our_guess"
    assert rltune.simulate(JOBS, ONE, estimator=estimator).estimate_s.tolist() == [7, 99, 5]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("id,seconds\na,7\n", "2 jobs of 3 not in it, the first is b"),
        ("id,seconds\na,7\nb,1\na,8\nc,1\n", "job a is there twice, in rows 1 and 3"),
        ("id,seconds\na,7\nb,0\nc,-1\n", "2 values of seconds not above 0, the first is 0 in row 2"),
        ("id,seconds\na,7\nb,soon\nc,1\n", "1 value of seconds not above 0, the first is 'soon' in row 2"),
        (
            "id,guess\na,7\n",
            "no column of seconds (seconds, estimate_s, predicted_s, mean, mean_s); there are: id, guess",
        ),
        ("seconds\n7\n", "no column of job ids"),
        ("id,seconds,p10,p90\na,7,9,8\nb,1,1,1\nc,1,1,1\n", "row 1: a higher quantile is less than a lower one"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path, text, sentence):
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        rltune.simulate(JOBS, ONE, estimator=f"file:{path}")
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_and_a_column_of_nothing():
    with pytest.raises(InputError, match="no such file of estimates"):
        get_estimator("file:/nowhere/estimates.csv")
    with pytest.raises(InputError, match="a synthetic trace has no columns"):
        of_trace("column:x", "synth:philly")
    with pytest.raises(InputError, match="column of which trace"):
        get_estimator("column:x")


def test_on_a_running_cluster_a_job_that_is_not_in_the_file_has_its_limit(tmp_path):
    path = written(tmp_path, "id,seconds\na,7\n")
    lenient = get_estimator(f"file:{path}").leniently()
    assert lenient.estimate(JOBS, 0).values_s.tolist() == [7, 60, 60]


def test_the_last_two_runs_of_the_user():
    """The first job has the limit, the second what the first ran, later ones the mean of the last two, at most 60 s."""
    n = 5
    jobs = Jobs.from_arrays(np.arange(n) * 100.0, [10, 20, 40, 80, 1], 1, user=["u"] * n, limit_s=[60] * n)
    made = rltune.simulate(jobs, Cluster.uniform(1, 4), estimator="last2").estimate_s
    assert made.tolist() == [60, 10, 15, 30, 60]


def test_a_warm_start_knows_the_last_two_of_everybody_that_had_ended():
    """Of three ended runs the newest two by their ends count; one that still runs does not."""
    before = Jobs.from_arrays(
        submit_s=[0, 1, 2, 3, 4, 5],
        duration_s=[900, 10, 20, 40, 5_000, 70],
        gpus=1,
        user=[*"aaaaab"],
    )
    jobs = Jobs.from_arrays(submit_s=[1_000, 1_001, 1_002], duration_s=[7, 7, 7], gpus=1, user=["a", "b", "c"])
    made = LastTwo().after(before).estimate(jobs, 0).values_s
    assert made.tolist() == [(40 + 900) / 2, 70.0, 3_600.0]


def test_a_blend_is_the_geometric_mean():
    n = 3
    jobs = Jobs.from_arrays(np.arange(n) * 100.0, [10, 10, 10], 1, user=["u"] * n, limit_s=[1000] * n)
    made = rltune.simulate(jobs, Cluster.uniform(1, 4), estimator="blend:user+last2").estimate_s
    assert made == pytest.approx([1000, 100, 100])
    with pytest.raises(InputError, match="history is made inside the run"):
        get_estimator("blend:user+history")
    with pytest.raises(InputError, match="two estimators or more"):
        get_estimator("blend:user")


def test_candidates_need_limits_only_where_there_are_some():
    assert "user" in candidates(JOBS)
    assert candidates(JOBS.with_columns(limit_s=np.full(3, np.nan))) == ("history", "predicted")

"""QSSF's rolling estimate by hand: it learns online, fades, falls back, and never peeks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy.stepping import ranks, scores_at

import rltune
from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.policy import get_policy
from rltune.policy.qssf import Qssf

WIDE = Cluster.uniform(nodes=100, gpus=8)  # nobody waits
HOUR = 3600.0  # what is thought of a job before anything has ended


def seen(*rows: tuple, policy="qssf", cluster: Cluster = WIDE) -> np.ndarray:
    """Give the predictions for rows of (submit, duration, GPUs, user, name)."""
    submit, duration, gpus, user, name = zip(*rows, strict=True)
    return ranks(Jobs.from_arrays(submit, duration, gpus, user=user, name=name), cluster, policy)


def blend(prior: float, *levels: tuple[float, float]) -> float:
    """Blend (number, sum) of each level with a tenth of a job's worth of the level before."""
    for number, total in levels:
        prior = (total + 0.1 * prior) / (number + 0.1)
    return prior


def test_a_repeated_job_is_predicted_from_the_last():
    """100 s at all four levels: 418.18, 128.93, 102.63, 100.24."""
    predicted = seen((0, 100, 1, "u", "x"), (100, 1, 1, "u", "x"))
    assert predicted[0] == HOUR
    assert predicted[1] == pytest.approx(100.239, abs=1e-3)
    assert predicted[1] == pytest.approx(blend(HOUR, *[(1, 100)] * 4))


def test_what_still_runs_is_not_known():
    """At 99 the first job of 100 s is running: nothing has been learnt. At 100 it has ended, just before."""
    predicted = seen((0, 100, 1, "u", "x"), (99, 50, 1, "u", "x"), (100, 7, 1, "u", "x"))
    assert predicted[1] == HOUR
    assert predicted[2] == pytest.approx(blend(HOUR, *[(1, 100)] * 4))


def test_what_waits_is_not_known():
    """The second job, of 5 s, waits for the first until 100; who is submitted at 50 must not know of its 5 s."""
    one = Cluster.uniform(nodes=1, gpus=1)
    predicted = seen((0, 100, 1, "u", "x"), (1, 5, 1, "u", "x"), (50, 1, 1, "u", "x"), cluster=one)
    assert predicted.tolist() == [HOUR] * 3


@given(st.lists(st.floats(0, 1000), min_size=6, max_size=6), st.integers(1, 5))
def test_no_prediction_depends_on_what_has_not_ended(durations, row):
    """Jobs come every 100 s; the prediction for one may change only with durations that ended by then."""
    submit = np.arange(6) * 100.0
    jobs = Jobs.from_arrays(submit, durations, 1, user=["u"] * 6, name=["x"] * 6)
    unknown = submit + jobs.duration_s > submit[row]
    other = jobs.with_columns(duration_s=np.where(unknown, jobs.duration_s + 12345.0, jobs.duration_s))
    assert ranks(jobs, WIDE, "qssf")[row] == ranks(other, WIDE, "qssf")[row]


def test_older_runs_of_the_same_name_fade():
    """After 100 s and then 300 s: 1.9 jobs and 0.9 x 100 + 300 = 390 s of that name; the coarser levels do not fade."""
    predicted = seen((0, 100, 1, "u", "x"), (200, 300, 1, "u", "x"), (600, 1, 1, "u", "x"))
    assert predicted[2] == pytest.approx(blend(HOUR, (2, 400), (2, 400), (2, 400), (1.9, 390)))
    assert predicted[2] == pytest.approx(205.02, abs=0.01)


def test_it_falls_back_from_name_to_user_to_size_to_all():
    """One job of 100 s (1 GPU, u, x) and one of 900 s (2 GPUs, v, y) have ended."""
    past = [(0, 100, 1, "u", "x"), (0, 900, 2, "v", "y")]
    asked = [(1000, 1, 1, "u", "new"), (1000, 1, 1, "new", "x"), (1000, 1, 4, "u", "x"), (1000, 1, 1, None, None)]
    name, user, size, label = seen(*past, *asked)[2:]
    assert name == pytest.approx(blend(HOUR, (2, 1000), (1, 100), (1, 100)))
    assert user == pytest.approx(blend(HOUR, (2, 1000), (1, 100)))
    assert size == pytest.approx(blend(HOUR, (2, 1000)))
    assert label == user


def test_before_any_history_the_users_limit_is_believed():
    """Without one it is an hour."""
    jobs = Jobs.from_arrays([0, 0], [5, 5], 1, limit_s=[60, np.nan])
    assert ranks(jobs, WIDE, "qssf").tolist() == [60.0, HOUR]


def test_it_ranks_by_predicted_gpu_time_whatever_the_estimator():
    """u's jobs have been short, v's long: u's go first although they are longer now. Scores are GPUs x prediction."""
    cluster = Cluster.uniform(nodes=1, gpus=2)
    user, name = ["u", "v", "v", "v", "u"], ["x", "y", "y", "y", "x"]
    jobs = Jobs.from_arrays([0, 10, 1010, 1011, 1012], [10, 1000, 50, 1, 90], 2, user=user, name=name)
    for estimator in ("oracle", "history", "noisy"):
        made = rltune.simulate(jobs, cluster, policy="qssf", estimator=estimator)
        assert made.start_s.tolist() == [0, 10, 1010, 1150, 1060]
    known = ranks(jobs, cluster, "qssf")
    assert scores_at(1060.0, jobs, cluster, "qssf") == {3: 2 * known[3], 4: 2 * known[4]}
    assert known[3:] == pytest.approx([996.0, 14.1], abs=0.1)


def test_a_warm_start_knows_what_an_earlier_run_has_seen():
    """The jobs before, given as history, teach what they would have taught in the run; one that ends later does not."""
    rows = [
        (0, 100, 1, "u", "x"),
        (150, 40, 1, "u", "x"),
        (160, 70, 1, "u", "z"),
        (170, 30, 1, "u", None),
        (180, 500, 1, "u", "x"),
    ]
    submit, duration, gpus, user, name = zip(*[*rows, (300, 9, 1, "u", "x"), (300, 9, 1, "u", None)], strict=True)
    jobs = Jobs.from_arrays(submit, duration, gpus, user=user, name=name)
    policy = Qssf().after(jobs.window(0, 5))
    assert policy.name == "qssf-warm"
    assert ranks(jobs.window(5, 2), WIDE, policy).tolist() == ranks(jobs, WIDE, "qssf")[5:].tolist()


def test_its_parameters():
    """decay 0 keeps the last run only; trust decides how much the coarser level counts."""
    rows = [(0, 100, 1, "u", "x"), (200, 300, 1, "u", "x"), (600, 1, 1, "u", "x")]
    assert seen(*rows, policy=Qssf(decay=0.0, trust=1e-9))[2] == pytest.approx(300.0)
    assert seen(*rows, policy=Qssf(decay=1.0, trust=1e-9))[2] == pytest.approx(200.0)
    assert get_policy("qssf") == Qssf(trust=0.1, decay=0.9)


def test_bad_parameters():
    with pytest.raises(InputError, match="trust should be above 0, not 0"):
        Qssf(trust=0.0)
    with pytest.raises(InputError, match=r"decay should be from 0 .* to 1, not 1.5"):
        Qssf(decay=1.5)

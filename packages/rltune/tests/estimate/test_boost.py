"""Gradient boosting: it learns from what had ended before the run, and from nothing else."""

import sys

import numpy as np
import pytest
from policy.stepping import ranks

import rltune
from rltune import trace
from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.estimate.boosted_trees import FEWEST, Boost, Trees, _rolling
from rltune.jobs import Jobs
from rltune.policy.qssf_boost import QssfBoost

pytest.importorskip("lightgbm", exc_type=(ImportError, OSError))

WIDE = Cluster.uniform(nodes=500, gpus=8)
NAMES = ["short", "long"]
LENGTH_S = np.array([100.0, 5000.0])


def history(n: int = 300, seed: int = 0, from_s: float = 0.0) -> Jobs:
    """Make jobs every 60 s whose length goes by user and name, within a tenth."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n)
    duration = LENGTH_S[kind] * rng.uniform(0.9, 1.1, n)
    label = [NAMES[k] for k in kind]
    return Jobs.from_arrays(
        *(from_s + np.arange(n) * 60.0, duration, rng.integers(1, 5, n)), user=label, name=label, vc=["v"] * n
    )


BEFORE = history()
LATER = history(40, seed=1, from_s=20000.0)
IS_LONG = LATER.user.codes == LATER.user.names.index("long")
FEW_ROUNDS = Trees(rounds=60)


def test_it_learns_the_users_habits():
    """After 60 rounds it tells 100 s from 5000 s by the user, although the tables number users apart."""
    predicted = FEW_ROUNDS.predict(BEFORE, LATER, 0)
    assert predicted[IS_LONG] == pytest.approx(5000.0, rel=0.25)
    assert predicted[~IS_LONG].max() < 600.0


def test_the_same_seed_gives_the_same_trees():
    first, again = (FEW_ROUNDS.predict(BEFORE, LATER, 7) for _ in range(2))
    assert (first == again).all()


def test_nothing_of_the_future_is_used():
    """Whatever had not ended at 20000 s, and whatever is being run, may have any duration."""
    ended = BEFORE.submit_s + BEFORE.duration_s <= 20000.0
    unknown = BEFORE.with_columns(duration_s=np.where(ended, BEFORE.duration_s, 9e8))
    assert 0.1 < ended.mean() < 0.99
    expected = FEW_ROUNDS.predict(BEFORE, LATER, 0)
    assert (FEW_ROUNDS.predict(unknown, LATER, 0) == expected).all()
    assert (FEW_ROUNDS.predict(BEFORE, LATER.with_columns(duration_s=np.full(40, 3.0)), 0) == expected).all()


def test_a_job_of_the_history_that_ends_in_the_run_is_not_learnt_from():
    """Given the run's own jobs as history too, it predicts the same: they end after the start."""
    both = trace_of(BEFORE, LATER)
    assert (
        FEW_ROUNDS.predict(both, both.window(300, 40), 0)
        == FEW_ROUNDS.predict(both.window(0, 300), both.window(300, 40), 0)
    ).all()


def trace_of(first: Jobs, then: Jobs) -> Jobs:
    labels = {c: getattr(first, c).to_list() + getattr(then, c).to_list() for c in ("user", "name", "vc")}
    numbers = [np.concatenate([getattr(first, c), getattr(then, c)]) for c in ("submit_s", "duration_s", "gpus")]
    return Jobs.from_arrays(*numbers, **labels)


def test_rolling_history_by_hand():
    """Key 0 ends at 10 and 40, key 1 at 30. Asked at 10 nothing of key 0 has ended before, at 41 both have."""
    ended = Jobs.from_arrays([0, 20, 25], [np.expm1(2.0), np.expm1(3.0), np.expm1(1.0)], 1)
    ends = ended.submit_s + ended.duration_s  # 6.39, 39.09, 26.72
    asked_at = np.array([0.0, 20.0, 25.0, ends[1], 50.0, 50.0])
    count, mean = _rolling(ended, np.array([0, 0, 1, 0, 0, 1], dtype=np.int32), asked_at)
    assert count.tolist() == [0, 1, 0, 1, 2, 1]
    assert mean.tolist() == pytest.approx([np.nan, 2.0, np.nan, 2.0, 2.5, 1.0], nan_ok=True)


def test_rolling_history_believes_recorded_starts():
    """It started at 50 and ran 10 s: at 55 it had not ended."""
    ended = Jobs.from_arrays([0], [10], 1, recorded_start_s=[50])
    assert _rolling(ended, np.zeros(2, dtype=np.int32), np.array([0.0, 55.0]))[0].tolist() == [0, 0]
    assert _rolling(ended, np.zeros(2, dtype=np.int32), np.array([0.0, 61.0]))[0].tolist() == [0, 1]


# as an estimator


def test_the_run_starts_from_the_trees():
    """Before anything has ended in the run, its estimates are the trees'."""
    jobs = LATER.with_columns(submit_s=np.full(40, 20000.0))
    schedule = rltune.simulate(jobs, WIDE, estimator=Boost(trees=FEW_ROUNDS).after(BEFORE))
    assert schedule.settings.estimator == "boost"
    assert schedule.estimate_s == pytest.approx(FEW_ROUNDS.predict(BEFORE, jobs, 0), rel=1e-5)


def test_the_run_corrects_the_trees():
    """User new runs 9 jobs of 7 s: with trust 1 what has ended weighs 9 to 1 at each of two levels."""
    n = 10
    columns = {"user": ["new"] * n, "name": ["new"] * n, "vc": ["v"] * n}
    jobs = Jobs.from_arrays(20000.0 + np.arange(n) * 60.0, 7.0, 1, **columns)
    made = rltune.simulate(jobs, WIDE, estimator=Boost(before=BEFORE, trust=1.0, trees=FEW_ROUNDS)).estimate_s
    thought = FEW_ROUNDS.predict(BEFORE, jobs, 0)[-1]
    once = (9 * 7.0 + thought) / 10
    assert made[-1] == pytest.approx((9 * 7.0 + once) / 10, rel=1e-5)


def test_history_from_a_file(tmp_path):
    """`boost:TRACE` reads any trace that the package reads."""
    path = tmp_path / "before.csv"
    trace.write(BEFORE, path)
    by_file = rltune.simulate(LATER, WIDE, estimator=f"boost:{path}").estimate_s
    assert (by_file == rltune.simulate(LATER, WIDE, estimator=Boost(BEFORE)).estimate_s).all()


# as a policy


def test_qssf_boost_ranks_by_the_trees_and_corrects_them():
    """Whatever the run's estimator: first as the trees say, then half by the user's last job of that name and size."""
    jobs = Jobs.from_arrays([20000, 21000], [7, 7], 2, user=["long"] * 2, name=["long"] * 2, vc=["v"] * 2)
    thought = FEW_ROUNDS.predict(BEFORE, jobs, 0)
    known = ranks(jobs, WIDE, QssfBoost(before=BEFORE, trees=FEW_ROUNDS), estimator="oracle")
    assert known == pytest.approx([thought[0], (7.0 + thought[1]) / 2], rel=1e-5)


def test_qssf_boost_orders_the_queue(tmp_path):
    """On one GPU a short user's job overtakes an earlier one of a long user, by the name of a history file."""
    path = tmp_path / "before.csv"
    trace.write(BEFORE, path)
    user = ["long", "long", "short"]
    jobs = Jobs.from_arrays([20000, 20001, 20002], [10, 10, 10], 1, user=user, name=user, vc=["v"] * 3)
    one = Cluster.uniform(nodes=1, gpus=1)
    assert rltune.simulate(jobs, one, policy=f"qssf-boost:{path}", estimator="oracle").start_s.tolist() == [
        20000,
        20020,
        20010,
    ]
    assert rltune.simulate(jobs, one, policy="qssf", estimator="oracle").start_s.tolist() == [20000, 20010, 20020]


# mistakes


def test_without_history():
    with pytest.raises(InputError, match="boost learns from earlier history: name it as in boost:TRACE"):
        rltune.simulate(LATER, WIDE, estimator="boost")
    with pytest.raises(InputError, match="boost learns from earlier history"):
        rltune.simulate(LATER, WIDE, policy="qssf-boost", estimator="oracle")


def test_with_too_little_history():
    few = BEFORE.window(0, FEWEST - 1)
    with pytest.raises(
        InputError, match=f"needs {FEWEST} jobs of earlier history to learn from: 49 of 49 jobs had ended"
    ):
        rltune.simulate(LATER, WIDE, estimator=Boost(few))


def test_history_of_later_times():
    """A trace on another clock, or simply a later one, teaches nothing."""
    with pytest.raises(InputError, match="0 of 300 jobs had ended when the first is submitted, at 20000 s"):
        rltune.simulate(LATER, WIDE, estimator=Boost(history(from_s=1e6)))


def test_lightgbm_is_missing(monkeypatch):
    """One sentence that names the extra."""
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(
        InputError, match=r"boost needs lightgbm, which is not installed: pip install 'rltune\[boost\]'"
    ):
        rltune.simulate(LATER, WIDE, estimator=Boost(BEFORE))

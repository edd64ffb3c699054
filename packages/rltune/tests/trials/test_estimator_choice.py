"""The estimator `auto` is the one under which earlier jobs would have waited least; nothing later is read."""

import numpy as np
import pytest

from rltune import Cluster, Jobs, evaluate
from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.trials import estimator_choice
from rltune.trials.estimator_choice import choose_estimator

SIZE = 256
ROW = 8 * SIZE
FOUR_GPUS = Cluster.uniform(1, 4)


def site(*, honest: bool) -> Jobs:
    """Return jobs that nothing tells apart but their limits: true ones, or the longer the shorter the job."""
    rng = np.random.default_rng(2)
    n = 10 * SIZE
    run_s = np.exp(rng.normal(6.0, 1.5, n))
    submit_s = np.cumsum(rng.exponential(run_s.mean() / 4, n))
    limit_s = run_s * 1.1 if honest else 1.1 * run_s.max() * run_s.min() / run_s + run_s.max()
    return Jobs.from_arrays(submit_s, run_s, 1, limit_s=limit_s)


@pytest.fixture(autouse=True)
def _two_candidates(monkeypatch):
    """Judge two estimators alone: trees take long to grow."""
    monkeypatch.setattr(estimator_choice, "candidates", lambda jobs: ("user", "history"))  # noqa: ARG005


def test_limits_are_taken_where_they_are_true():
    made = choose_estimator(site(honest=True), FOUR_GPUS, ROW, SIZE)
    assert made.taken == "user"
    assert made.waits_s["user"].mean() < 0.9 * made.waits_s["history"].mean()
    assert "earlier windows, of the wait with history: user 0.4" in made.told()


def test_limits_that_mislead_are_not_taken():
    assert choose_estimator(site(honest=False), FOUR_GPUS, ROW, SIZE).taken == "history"


def test_what_comes_later_changes_nothing():
    """Neither jobs that are submitted later nor what is left of jobs that run at the moment of the choice."""
    jobs = site(honest=False)
    later = jobs.submit_s + jobs.duration_s > jobs.submit_s[ROW]
    other = jobs.with_columns(duration_s=np.where(later, jobs.duration_s * 50 + 1e6, jobs.duration_s))
    one, two = (choose_estimator(each, FOUR_GPUS, ROW, SIZE).waits_s for each in (jobs, other))
    assert all(np.array_equal(one[name], two[name]) for name in one)


def test_too_little_history_leaves_history():
    made = choose_estimator(site(honest=True), FOUR_GPUS, 3 * SIZE, SIZE)
    assert made.taken == "history"
    assert "too few" in made.told()


def test_evaluate_takes_it_and_says_so():
    """The held-out jobs are run under what the jobs before them chose."""
    jobs, how = site(honest=True), {"holdout": 0.2, "windows": f"{SIZE}:every=128:contended=1"}
    auto, user = (evaluate(jobs, FOUR_GPUS, ["saf"], ["easy"], estimator=e, **how) for e in ("auto", "user"))
    assert auto.estimator == "user"
    assert np.array_equal(auto.test.values, user.test.values)
    assert any(said.startswith("auto took user") for said in auto.warnings)


def test_elsewhere_it_is_refused():
    with pytest.raises(InputError, match="take it in evaluate, or let tune choose"):
        get_estimator("auto")

"""How well run times can be told: as of each submission, with quantiles that hold, and on a page."""

import numpy as np
import pytest

from rltune.errors import InputError
from rltune.evaluation.predictability import EstimatorWorth, Predictability, lines, predictability, told_at_submission
from rltune.report.predictability_page import render_predictability
from rltune.trace import synthesise
from rltune.trials.intervals import Interval


@pytest.fixture(scope="module")
def jobs():
    return synthesise("habits", 4_000, seed=7)


@pytest.fixture(scope="module")
def made(jobs) -> Predictability:
    return predictability(jobs)


def test_users_and_names_tell_the_order_and_intervals_hold(made):
    assert made.told.rank_correlation() > 0.6
    assert 0.65 < made.told.coverage < 0.95
    shares = [was for _, was in made.told.reliability]
    assert shares == sorted(shares)


def test_what_runs_later_changes_nothing_that_was_told(jobs, made):
    """The last jobs may run as long as they like: what was told of the first held-out ones is the same."""
    first = len(jobs) - len(made.told.jobs)
    end_s = jobs.submit_s + jobs.duration_s
    cut_s = float(jobs.submit_s[first + len(made.told.jobs) // 2])
    later = end_s > cut_s
    other = jobs.with_columns(
        duration_s=np.where(later, jobs.duration_s + 5_000.0, jobs.duration_s), limit_s=jobs.limit_s
    )
    again = told_at_submission(other)
    known = made.told.jobs.submit_s <= cut_s
    np.testing.assert_array_equal(made.told.log_s[known], again.log_s[known])
    np.testing.assert_array_equal(made.told.quantiles_s[known], again.quantiles_s[known])
    np.testing.assert_array_equal(made.told.high_s[known], again.high_s[known])


def test_the_page_says_for_whom_by_what_and_what_it_is_worth(made):
    some = Interval(0.5, 0.4, 0.6)
    worth = tuple(
        EstimatorWorth(name, wait, some) for name, wait in (("history", 100.0), ("predicted", 60.0), ("oracle", 20.0))
    )
    page = render_predictability(Predictability(made.told, made.groups, worth, 12), "mine.csv", "ours")
    assert "What decides" in page
    assert "By user" in page
    assert "12 contended windows" in page
    assert "50% is reached" in " ".join(lines(Predictability(made.told, made.groups, worth, 12)))


def test_with_too_few_windows_nothing_is_said_of_waits(made):
    """One window gives a ratio and no interval: a reader would take the ratio for an answer."""
    nan = Interval(1.96, np.nan, np.nan)
    worth = tuple(EstimatorWorth(name, 90.0, nan) for name in ("history", "predicted", "oracle"))
    few = Predictability(made.told, made.groups, worth, 1)
    *_, last = lines(few)
    assert last.startswith("Only 1 window of these jobs had a queue: too few to say")
    assert "1.96" not in render_predictability(few)


def test_what_is_worse_than_history_reaches_nothing(made):
    found = {"history": (100.0, Interval(1.0, 1.0, 1.0)), "predicted": (120.0, Interval(1.2, 0.9, 1.5))}
    found["oracle"] = (50.0, Interval(0.5, 0.4, 0.6))
    worth = tuple(EstimatorWorth(name, wait, interval) for name, (wait, interval) in found.items())
    *_, beside, _, reached = lines(Predictability(made.told, made.groups, worth, 12))
    assert beside.endswith("no difference is shown.")
    assert "nothing is reached" in reached


def test_a_history_too_short_to_learn_from(jobs):
    with pytest.raises(InputError, match="too few to learn from some and predict others"):
        predictability(jobs.window(0, 20))

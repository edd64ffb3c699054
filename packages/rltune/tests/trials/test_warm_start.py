"""What is learnt once along the trace is what a warm start learns anew for every window."""

import numpy as np
import pytest

from rltune import simulate
from rltune.estimate import Given, History, Noisy
from rltune.policy.qssf import Qssf
from rltune.trials.warm_start import Knowledge

FIRST = [0, 40, 41, 300, 301, 1200, 700, 1900]  # also backwards
SIZE = 100


@pytest.mark.parametrize("first", FIRST)
def test_history_recalled_is_history_learnt(trace, cluster, first):
    """Every job starts at the same moment, to the last bit."""
    known = Knowledge(trace, seed=0)
    for other in FIRST[: FIRST.index(first)]:
        known.estimator("history", other, SIZE)
    window, before = trace.window(first, SIZE), trace.window(0, first)
    recalled = simulate(window, cluster, "saf", estimator=known.estimator("history", first, SIZE))
    learnt = simulate(window, cluster, "saf", estimator=History().after(before))
    assert np.array_equal(recalled.start_s, learnt.start_s)
    assert np.array_equal(recalled.estimate_s, learnt.estimate_s)
    assert recalled.settings == learnt.settings


@pytest.mark.parametrize("first", FIRST)
def test_qssf_recalled_is_qssf_learnt(trace, cluster, first):
    """The means that fade with age, too."""
    window = trace.window(first, SIZE)
    recalled = simulate(window, cluster, Knowledge(trace, 0).policy(Qssf(), first, SIZE), estimator="oracle")
    learnt = simulate(window, cluster, Qssf().after(trace.window(0, first)), estimator="oracle")
    assert np.array_equal(recalled.start_s, learnt.start_s)
    assert recalled.settings == learnt.settings


def test_what_comes_later_is_not_known(trace, cluster):
    """Run times from the window's beginning on may be anything."""
    longer = trace.duration_s.copy()
    longer[500:] *= 9
    other = trace.with_columns(duration_s=longer)
    a, b = (Knowledge(jobs, 0).estimator("history", 500, 1).known for jobs in (trace, other))
    assert np.array_equal(a.known, b.known)
    assert not np.array_equal(a.known, Knowledge(other, 0).estimator("history", 600, 1).known.known)


def test_a_job_has_one_error_in_every_window(trace):
    """Windows overlap; a job that changed its error from one to the next would be two jobs."""
    known = Knowledge(trace, seed=4)
    one, two = (known.estimator("noisy:1.2", first, SIZE) for first in (100, 150))
    assert isinstance(one, Given)
    assert one.name == "noisy:1.2"
    assert np.array_equal(one.values_s[50:], two.values_s[:50])
    whole = Noisy(1.2).estimate(trace, 4).values_s
    assert np.array_equal(one.values_s, whole[100:200])


def test_what_does_not_learn_is_left_as_it_is(trace):
    """And a history of one's own is kept."""
    known = Knowledge(trace, 0)
    own = History().after(trace.window(0, 10))
    assert known.estimator(own, 100, SIZE) is own
    assert known.estimator("oracle", 100, SIZE).name == "oracle"
    given = np.arange(len(trace), dtype=float)
    assert np.array_equal(known.estimator(given, 100, SIZE).values_s, given[100:200])
    assert known.policy("fcfs", 100, SIZE) == "fcfs"

import numpy as np
import pytest

from rltune.evaluate.bootstrap import block_length, difference, over_jobs, over_windows, ratio

HOW = {"confidence": 0.9, "resamples": 800, "seed": 3}


def test_the_estimate_is_the_difference_or_ratio_of_means():
    ours, theirs = np.array([1.0, 2, 3, 4, 5]), np.array([2.0, 2, 4, 4, 8])
    assert over_windows(ours, theirs, difference, **HOW).estimate == -1
    assert over_windows(ours, theirs, ratio, **HOW).estimate == pytest.approx(0.75)


def test_pairing_tells_what_windows_hide():
    """Windows differ by hundreds, contenders by one in each: paired, that is certain."""
    base = np.array([100.0, 900, 50, 400, 700, 20])
    got = over_windows(base + 1 + np.array([0, 0.1, -0.1, 0, 0.1, -0.1]), base, difference, **HOW)
    assert 0.9 < got.low <= got.estimate <= got.high < 1.1
    assert got.excludes_zero


def test_equal_pipelines_differ_by_exactly_nothing():
    same = np.array([3.0, 1, 4, 1, 5, 9])
    got = over_windows(same, same, difference, **HOW)
    assert (got.estimate, got.low, got.high, got.excludes_zero) == (0, 0, 0, False)


def test_too_few_windows_get_no_interval():
    got = over_windows(np.array([1.0, 2]), np.array([2.0, 3]), difference, **HOW)
    assert got.estimate == -1
    assert np.isnan([got.low, got.high]).all()


def test_a_baseline_of_zero_has_no_ratio():
    zero = np.zeros(6)
    assert np.isnan(over_windows(np.ones(6), zero, ratio, **HOW).estimate)
    assert np.isnan(over_jobs(np.ones(600), np.zeros(600), ratio, **HOW).low)
    assert np.isnan(over_jobs(np.zeros(0), np.zeros(0), ratio, **HOW).estimate)


def test_same_seed_same_interval():
    rng = np.random.default_rng(0)
    a, b = rng.exponential(5, 20), rng.exponential(5, 20)
    assert over_windows(a, b, difference, **HOW) == over_windows(a, b, difference, **HOW)
    assert over_windows(a, b, difference, **HOW) != over_windows(a, b, difference, **{**HOW, "seed": 4})


def test_intervals_over_windows_hold_the_truth_about_as_often_as_they_say():
    """Skewed differences of mean 1, 20 windows, 90 %: BCa should cover in 80 to 97 of 100."""
    rng, hits, trials = np.random.default_rng(1), 0, 300
    for _ in range(trials):
        base = rng.exponential(10, 20)
        got = over_windows(base + rng.exponential(1, 20), base, difference, **HOW)
        hits += got.low <= 1 <= got.high
    assert 0.80 <= hits / trials <= 0.97


def test_blocks_keep_the_dependence_of_neighbours():
    """An AR(1) of 0.9: single jobs resampled would cover the mean in about a third of the cases, blocks in most."""
    rng, hits, trials, n = np.random.default_rng(2), 0, 150, 1000
    for _ in range(trials):
        noise = rng.normal(size=n + 100)
        series = np.zeros(n + 100)
        for t in range(1, n + 100):
            series[t] = 0.9 * series[t - 1] + noise[t]
        got = over_jobs(series[100:], np.zeros(n), difference, **HOW)
        hits += got.low <= 0 <= got.high
    assert hits / trials >= 0.75


def test_blocks_are_long():
    assert block_length(100_000) == 2155
    assert block_length(1) == 1

import numpy as np
import pytest

from rltune.trials.intervals import (
    Course,
    block_length,
    difference,
    of_sums,
    over_jobs,
    over_time,
    over_windows,
    ratio,
    student,
)

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


def course(windows, length=16, keep=None):
    """Windows at every step, each `length` steps long; `keep` of them."""
    step = np.arange(windows) if keep is None else np.flatnonzero(keep)
    taken, free = 0, 0
    for s in step:
        if s >= free:
            taken, free = taken + 1, s + length
    return Course(step, windows, length, taken)


def overlapping(rng, jobs, length, decay):
    """Means over windows of a series in which what happens fades by `decay` from job to job."""
    noise = rng.normal(size=jobs + 400) * np.sqrt(1 - decay**2)
    series = np.zeros(jobs + 400)
    for t in range(1, jobs + 400):
        series[t] = decay * series[t - 1] + noise[t]
    return np.exp(series[400:])


def window_means(series, length):
    sums = np.concatenate([[0.0], np.cumsum(series)])
    return (sums[length:] - sums[:-length]) / length


def test_overlapping_windows_give_ratio_and_difference_of_means():
    """Whatever the blocks."""
    theirs = np.arange(1.0, 101)
    got = over_time(0.5 * theirs, theirs, course(100), ratio, **HOW)
    assert (got.estimate, got.low, got.high) == pytest.approx((0.5, 0.5, 0.5))
    got = over_time(theirs + 3, theirs, course(100), difference, **HOW)
    assert (got.estimate, got.low, got.high) == pytest.approx((3, 3, 3))


def test_intervals_over_overlapping_windows_hold_the_truth_about_as_often_as_they_say():
    """A ratio of 0.9 on ten disjoint windows, every 8th start: single windows resampled would cover far less often."""
    rng, hits, naive, trials, length = np.random.default_rng(5), 0, 0, 150, 128
    truth = 0.9 * np.exp(0.25**2 / 2)
    how = {**HOW, "confidence": 0.95}
    for _ in range(trials):
        theirs = overlapping(rng, 1370, length, 0.95)
        ours = 0.9 * theirs * overlapping(rng, 1370, length, 0.95) ** 0.25
        a, b = (window_means(x, length)[::8] for x in (ours, theirs))
        got = over_time(a, b, course(len(a), length // 8), ratio, **how)
        hits += got.low <= truth <= got.high
        alone = over_windows(a, b, ratio, **how)
        naive += alone.low <= truth <= alone.high
    assert 0.87 <= hits / trials <= 0.99
    assert naive / trials < 0.6


def test_windows_left_out_leave_gaps_not_neighbours():
    """A block is a stretch of time: with every other window gone it holds half as many."""
    rng = np.random.default_rng(0)
    theirs = rng.exponential(5, 200) + 1
    ours = theirs * rng.uniform(0.5, 1.0, 200)
    keep = np.arange(200) % 2 == 0
    got = over_time(ours[keep], theirs[keep], course(200, keep=keep), ratio, **HOW)
    assert got.estimate == pytest.approx(ours[keep].sum() / theirs[keep].sum())
    assert got.low < got.estimate < got.high


def test_few_disjoint_windows_widen_an_interval_and_too_few_give_none():
    """However many overlap."""
    rng = np.random.default_rng(0)
    theirs = rng.exponential(5, 160) + 1
    ours = theirs * rng.uniform(0.5, 1.0, 160)
    wide, narrow = (over_time(ours, theirs, Course(np.arange(160), 160, 16, n), ratio, **HOW) for n in (5, 10))
    assert wide.high - wide.low > 1.3 * (narrow.high - narrow.low)
    assert np.isnan(over_time(ours, theirs, Course(np.arange(160), 160, 40, 4), ratio, **HOW).low)


def test_a_ratio_s_interval_stays_above_zero():
    """Widened on the log scale."""
    rng = np.random.default_rng(1)
    theirs = rng.exponential(5, 100)
    ours = rng.exponential(1, 100) * (rng.random(100) < 0.2)
    assert over_time(ours, theirs, course(100, 20), ratio, **HOW).low > 0


def test_means_of_a_group_are_sums_over_counts():
    """A window without jobs of the group counts for nothing."""
    jobs = np.tile([0.0, 1.0, 3.0, 0.0], 25)
    got = of_sums((jobs * 2, jobs), (jobs * 4, jobs), course(100), ratio, **HOW)
    assert (got.estimate, got.low, got.high) == pytest.approx((0.5, 0.5, 0.5))
    none = np.zeros(100)
    assert np.isnan(of_sums((none, none), (none, none), course(100), ratio, **HOW).estimate)


def test_student_s_quantiles_are_those_of_the_tables():
    """Whole degrees of freedom from any table; many degrees give the normal distribution."""
    assert student(0.975, 1) == pytest.approx(12.706, rel=1e-3)
    assert student(0.975, 4) == pytest.approx(2.776, rel=1e-3)
    assert student(0.95, 10) == pytest.approx(1.812, rel=1e-3)
    assert student(0.025, 4) == pytest.approx(-2.776, rel=1e-3)
    assert student(0.975, 10_000) == pytest.approx(1.960, rel=1e-3)

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltune.metrics import Distribution


def test_percentiles_interpolate_between_neighbours():
    d = Distribution.of(np.array([0.0, 10.0, 20.0, 30.0, 40.0]))
    assert (d.n, d.mean, d.p50, d.p90, d.max) == (5, 20.0, 20.0, 36.0, 40.0)
    assert d.p99 == pytest.approx(39.6)


def test_a_value_counts_as_long_as_it_was_held():
    d = Distribution.over_time(np.array([5.0, 1.0, 3.0, 99.0]), np.array([1.0, 6.0, 3.0, 0.0]))
    assert d.mean == pytest.approx((5 + 6 + 9) / 10)
    assert (d.p50, d.p90, d.p99, d.max) == (1.0, 3.0, 5.0, 5.0)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), min_size=1, max_size=40))
def test_counts_are_summed_as_they_would_be_sorted(pairs):
    values, held = (np.array(column) for column in zip(*pairs, strict=True))
    summed = Distribution.over_time(values, held.astype(float))
    plain = Distribution.over_time(values.astype(float), held.astype(float))
    assert summed.mean == pytest.approx(plain.mean)
    assert (summed.n, summed.p50, summed.p90, summed.p99, summed.max) == (
        plain.n,
        plain.p50,
        plain.p90,
        plain.p99,
        plain.max,
    )


def test_nothing_has_no_mean():
    """No warning of numpy's, and NaN rather than 0, which would look like a result."""
    for d in (Distribution.of(np.zeros(0)), Distribution.over_time(np.array([3.0]), np.array([0.0]))):
        assert d.n == 0
        assert np.isnan([d.mean, d.p50, d.p90, d.p99, d.max]).all()


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=50))
def test_percentiles_are_ordered(values):
    d = Distribution.of(np.array(values))
    assert min(values) <= d.p50 <= d.p90 <= d.p99 <= d.max == max(values)

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


def test_nothing_has_no_mean():
    """No warning of numpy's, and NaN rather than 0, which would look like a result."""
    for d in (Distribution.of(np.zeros(0)), Distribution.over_time(np.array([3.0]), np.array([0.0]))):
        assert d.n == 0
        assert np.isnan([d.mean, d.p50, d.p90, d.p99, d.max]).all()


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=50))
def test_percentiles_are_ordered(values):
    d = Distribution.of(np.array(values))
    assert min(values) <= d.p50 <= d.p90 <= d.p99 <= d.max == max(values)

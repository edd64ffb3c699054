"""Distinct requests of jobs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rltune.kernel.build.job_shapes import distinct_rows
from rltune.kernel.state.arrays import UNLIMITED

VALUES = st.sampled_from([-1, 0, 1, 7, 1000, 2**40, UNLIMITED])
ROWS = st.lists(st.tuples(*[VALUES] * 6), max_size=30)


@given(ROWS)
def test_rows_are_numbered_in_order_however_large_their_values(rows: list[tuple[int, ...]]) -> None:
    """As numpy's own, slower way has it."""
    table = np.array(rows, dtype=np.int64).reshape(-1, 6)
    of_row, distinct = distinct_rows(tuple(table.T))
    expected, inverse = np.unique(table, axis=0, return_inverse=True)
    assert np.array_equal(distinct, expected)
    assert np.array_equal(of_row, inverse.ravel())

import numpy as np
import pytest

from rltune.kernel.jit import kernel
from rltune.kernel.score.slowdown import bounded_slowdown

CASES = [(100.0, 10.0, 10.0), (100.0, 100.0, 1.0), (10.0, 1.0, 1.0), (25.0, 5.0, 2.5)]


@kernel
def compiled(jct_s, run_s):
    return bounded_slowdown(jct_s, run_s)


@pytest.mark.parametrize(("jct_s", "run_s", "value"), CASES)
def test_it_is_the_same_for_one_job_and_in_compiled_code(jct_s, run_s, value):
    """Waits of very short jobs are not blown up."""
    assert bounded_slowdown(jct_s, run_s) == compiled(jct_s, run_s) == value


def test_it_takes_arrays():
    """Job by job."""
    jct_s, run_s, value = np.array(CASES).T
    np.testing.assert_array_equal(bounded_slowdown(jct_s, run_s), value)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltune.errors import InputError
from rltune.trials.parts import Part, split, usual_size


@given(st.integers(10, 5000), st.floats(0.01, 0.49))
def test_the_parts_follow_each_other_and_are_the_whole(jobs, holdout):
    """Nothing is in two parts, nothing in none, and the later parts are equally long."""
    parts = split(jobs, holdout)
    assert (parts.training.first, parts.test.end) == (0, jobs)
    assert (parts.training.end, parts.validation.end) == (parts.validation.first, parts.test.first)
    assert len(parts.validation) == len(parts.test) == int(jobs * holdout)


@pytest.mark.parametrize("holdout", [-0.1, 0.5, 2, float("nan")])
def test_a_hold_out_that_leaves_nothing_to_train_on_is_refused(holdout):
    """Two parts are held out, so each is less than a half."""
    with pytest.raises(InputError, match=r"above 0 and below 0\.5"):
        split(100, holdout)


@given(st.integers(1, 60), st.integers(1, 90), st.integers(0, 50))
def test_windows_end_within_their_part(size, every, first):
    """So no job of the test part is chosen by, and none of another part is tested."""
    part = Part("test", first, first + 60)
    starts = part.starts(size, every)
    assert starts[0] == first
    assert all(first <= start <= part.end - size for start in starts)
    assert part.end - size - starts[-1] < every


def test_a_window_larger_than_the_part_is_refused():
    """With what to do about it."""
    with pytest.raises(InputError, match=r"does not fit the test part of 60; give smaller windows"):
        Part("test", 0, 60).starts(61, 1)


def test_disjoint_windows_are_counted_greedily():
    """Which gives the most for intervals of one length."""
    part = Part("test", 100, 200)
    assert part.disjoint([100, 105, 109, 110, 115, 119, 120, 150], 10) == 4
    assert part.disjoint(list(range(100, 191)), 10) == 10
    assert part.disjoint([], 10) == 0


@given(st.integers(2_000, 200_000))
def test_a_history_of_any_length_has_windows_enough_for_an_interval(jobs):
    """From 2,000 jobs on; a long one is cut as ever, into tenths and windows of 1,024."""
    parts = split(jobs)
    size = usual_size(parts.test)
    assert len(parts.training) >= jobs // 2 - 1
    assert len(parts.test) // size >= 3
    assert size >= 100
    if jobs >= 31_000:
        assert (len(parts.test), size) == (jobs // 10, 1024)

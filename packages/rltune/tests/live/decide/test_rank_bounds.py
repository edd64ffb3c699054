from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rltune.live.decide.rank_bounds import longest_falling, within_reach


@given(st.permutations(range(12)), st.permutations(range(12)), st.integers(1, 12))
def test_nobody_is_moved_further_than_allowed(wanted, home, reach):
    """Every place in the result is within reach of the place at home, and nobody is lost."""
    order = within_reach(wanted, home, reach)
    assert sorted(order) == list(range(12))
    assert all(abs(order.index(item) - home.index(item)) <= reach for item in home)


@given(st.permutations(range(10)), st.permutations(range(10)))
def test_a_reach_of_the_whole_queue_gives_what_is_wanted(wanted, home):
    """Without a bound, or with one that never binds, the wanted order comes out."""
    assert within_reach(wanted, home, 10) == wanted
    assert within_reach(wanted, home, 0) == wanted


def test_the_bound_binds():
    """The last job wants to be first and may pass two."""
    assert within_reach([4, 0, 1, 2, 3], [0, 1, 2, 3, 4], 2) == [0, 1, 4, 2, 3]


@given(st.lists(st.none() | st.integers(0, 20), max_size=12))
def test_the_longest_falling_run_is_found(values):
    """It falls strictly, and no longer one exists."""
    run = longest_falling(values)
    picked = [values[place] for place in run]
    assert run == sorted(run)
    assert all(a > b for a, b in pairwise(picked))
    assert len(run) == _longest(values)


def _longest(values):
    best = [0] * len(values)
    for i, value in enumerate(values):
        if value is not None:
            best[i] = 1 + max((best[j] for j in range(i) if values[j] is not None and values[j] > value), default=0)
    return max(best, default=0)

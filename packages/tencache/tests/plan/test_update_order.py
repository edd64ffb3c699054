"""The order of the optimizer's updates."""

from hypothesis import given
from hypothesis import strategies as st

from tencache.plan.update_order import order_updates


def test_what_is_needed_first_is_updated_first():
    assert order_updates([0, 0, 0], [1, 1, 1]) == [0, 1, 2]


def test_others_fill_the_time_until_a_gradient_lands():
    assert order_updates([1.5, 0, 0, 0], [1, 1, 1, 1]) == [1, 2, 0, 3]


def test_when_nothing_has_landed_the_first_to_land_is_next():
    assert order_updates([3, 1, 2], [1, 1, 1]) == [1, 2, 0]


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10))))
def test_every_update_has_one_turn(updates):
    order = order_updates([landed for landed, _ in updates], [seconds for _, seconds in updates])
    assert sorted(order) == list(range(len(updates)))

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rltune.live.decide.priority_numbers import Precision, RankedJob, assign, falling, ideals, lowest, room

BAND = 10_000
SLACK = 1250


def numbered(owns, set_now=None, band=BAND, slack=SLACK, exact=None, drift=0.0, step=1):
    """Number jobs 0, 1, ... in this order."""
    now = set_now or [None] * len(owns)
    order = [RankedJob(job, own, now[job]) for job, own in enumerate(owns)]
    ideal = dict(enumerate(ideals(len(owns), band, lowest(owns, band))))
    return assign(order, ideal, Precision(slack, len(owns) if exact is None else exact, drift, step)), order


@given(st.lists(st.integers(1, 50_000), min_size=1, max_size=40), st.sampled_from([1, 2, 25, 100]), st.data())
def test_heights_fall_along_the_order(owns, step, data):
    """Whatever numbers jobs have already, afterwards Slurm sees them in the order wanted."""
    now = data.draw(st.lists(st.none() | st.integers(-BAND, BAND), min_size=len(owns), max_size=len(owns)))
    numbers, order = numbered(owns, now, step=step)
    heights = [runner.own + numbers[runner.job] for runner in order]
    assert all(a > b for a, b in pairwise(heights))


@given(st.lists(st.integers(-5000, 50_000), min_size=1, max_size=40), st.data())
def test_no_height_is_below_the_floor(owns, data):
    """Slurm shows 1 for all that is less, so that an order below it would be lost."""
    now = data.draw(st.lists(st.none() | st.integers(-BAND, BAND), min_size=len(owns), max_size=len(owns)))
    order = [RankedJob(job, own, now[job]) for job, own in enumerate(owns)]
    ideal = dict(enumerate(ideals(len(owns), BAND, lowest(owns, BAND))))
    numbers = assign(order, ideal, Precision(SLACK, len(owns)), floor=1)
    heights = [runner.own + numbers[runner.job] for runner in order]
    assert min(heights) >= 1
    assert all(a > b for a, b in pairwise(heights))


def test_numbers_once_set_stay():
    """A queue that does not change is not numbered again."""
    first, _ = numbered([30_000] * 20)
    again, _ = numbered([30_000] * 20, list(first.values()))
    assert again == first


def test_a_start_changes_no_other_number():
    """When the head leaves, the rest keep their numbers."""
    first, _ = numbered([30_000] * 20)
    rest = list(first.values())[1:]
    after, _ = numbered([30_000] * 19, rest)
    assert list(after.values()) == rest


def test_an_arrival_changes_one_number():
    """A new job in the middle gets a number between its neighbours', and nobody else's changes."""
    first, _ = numbered([30_000] * 20)
    now = list(first.values())
    now.insert(7, None)
    after, _ = numbered([30_000] * 21, now)
    assert sum(after[i] != now[i] for i in range(21)) == 1
    assert after[6] > after[7] > after[8]


def test_who_is_put_over_the_first_stays_there_as_slurms_factors_move():
    """Seen on a real Slurm: one point over a first that was kept, and below it a second later, cycle after cycle."""
    at_once = {"band": 1_000_000, "slack": 125_000, "step": room(1_000_000, 5)}
    first, _ = numbered([917, 1138, 941, 1003, 900], [800_000, 900_000, 620_000, 400_000, 200_000], **at_once)
    assert list(first.values())[1:] == [900_000, 620_000, 400_000, 200_000]
    assert 917 + first[0] >= 1138 + first[1] + 10_000
    again, _ = numbered([918, 1142, 944, 1004, 903], list(first.values()), **at_once)
    assert again == first


def test_without_room_a_neighbour_gives_way():
    """Two neighbours one apart leave no room for a third between them: one moves, the rest of the queue does not."""
    numbers, order = numbered([100] * 5, [9, 6, None, 5, 1], band=9, slack=9)
    heights = [runner.own + numbers[runner.job] for runner in order]
    assert all(a > b for a, b in pairwise(heights))
    assert (numbers[0], numbers[4]) == (9, 1)


@given(st.data(), st.integers(1, 60), st.integers(1, 20), st.sampled_from([0.0, 0.2, 0.25, 1.0]))
def test_the_first_are_in_order_and_those_behind_not_far_off(data, n, exact, drift):
    """Nobody is ahead of an exact job that should be behind it; further back, nobody overtakes by many places."""
    owns = data.draw(st.lists(st.integers(10_000, 12_000), min_size=n, max_size=n))
    now = data.draw(st.lists(st.none() | st.integers(-BAND, BAND), min_size=n, max_size=n))
    numbers, order = numbered(owns, now, exact=exact, drift=drift)
    heights = [runner.own + numbers[runner.job] for runner in order]
    for better in range(n):
        for worse in range(better + 1, n):
            if heights[worse] >= heights[better]:
                assert better >= exact
                assert worse + 1 <= (better + 1) * (1 + drift) ** 2


def test_a_policy_that_changes_its_mind_about_the_far_end_writes_little():
    """Places 10 and above change by up to a fifth: all numbers stay; a job that moves by half is written."""
    first, _ = numbered([30_000] * 100)
    now = [first[i] for i in range(100)]
    swapped = [*now[:50], *now[55:60], *now[50:55], *now[60:]]
    after, _ = numbered([30_000] * 100, swapped, exact=10, drift=0.25)
    assert list(after.values()) == swapped
    moved = [*now[:40], now[90], *now[40:90], *now[91:]]
    after, _ = numbered([30_000] * 100, moved, exact=10, drift=0.25)
    assert [place for place in range(100) if after[place] != moved[place]] == [40]


def test_a_number_far_from_its_ideal_is_moved():
    """Order alone is not enough: a job first in the queue that kept a low number would lose to jobs of others."""
    numbers, _ = numbered([30_000] * 4, [-4000, -4001, -4002, -4003])
    assert numbers[0] > 0


def test_a_band_is_around_zero_where_slurm_has_room_below():
    """Ours gain nothing as a whole, unless priorities are too small to take anything off."""
    assert lowest([20_000] * 5, BAND) == -BAND // 2
    assert lowest([1] * 5, BAND) == 0


@given(st.lists(st.integers(-100, 100), max_size=30))
def test_falling_numbers_are_near_those_given(values):
    """What falls already is left alone; else neighbours are levelled, never beyond the highest and lowest given."""
    result = falling(values)
    assert all(a > b for a, b in pairwise(result))
    if all(a > b for a, b in pairwise(values)):
        assert result == values

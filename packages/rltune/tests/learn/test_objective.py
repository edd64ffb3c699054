"""Objectives: costs, gaps and rewards against numbers worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltune.errors import InputError
from rltune.learn.objective import MEASURES, Objective, Times, WaitBound

# Two jobs: the first at 0 runs 100 s, the second at 10 runs 4 s. Ours starts the short one first.
BASE = Times(np.array([0.0, 10.0]), np.array([20.0, 120.0]), np.array([120.0, 124.0]))
OURS = Times(np.array([0.0, 10.0]), np.array([24.0, 20.0]), np.array([124.0, 24.0]))


@pytest.mark.parametrize(
    ("measure", "base", "ours"),
    [
        ("wait", (20 + 110) / 2, (24 + 10) / 2),
        ("jct", (120 + 114) / 2, (124 + 14) / 2),
        ("slowdown", (1.2 + 11.4) / 2, (1.24 + 1.4) / 2),
        ("utilisation", 124.0, 124.0),
    ],
)
def test_costs_are_those_worked_out_by_hand(measure, base, ours):
    """Wait, completion time and bounded slowdown are means; for utilisation the span is the cost."""
    objective = Objective.parse(measure)
    assert objective.costs(BASE).tolist() == pytest.approx([base])
    assert objective.costs(OURS).tolist() == pytest.approx([ours])
    assert objective.gap(OURS, BASE) == pytest.approx((base - ours) / max(base, ours))


def test_a_job_shorter_than_the_bound_costs_nothing_until_wait_and_run_exceed_it():
    """Bounded slowdown of a 4 s job is 1 until it has waited 6 s."""
    short = Times(np.array([0.0]), np.array([5.0]), np.array([9.0]))
    assert Objective.parse("slowdown").costs(short).tolist() == [1.0]


def test_a_mix_weighs_its_measures():
    """Weights are made to sum to 1, and each measure's gap counts by its own."""
    mixed = Objective.parse("wait:3+slowdown")
    wait, slowdown = Objective.parse("wait"), Objective.parse("slowdown")
    assert mixed.weights == (("wait", 0.75), ("slowdown", 0.25))
    assert mixed.gap(OURS, BASE) == pytest.approx(0.75 * wait.gap(OURS, BASE) + 0.25 * slowdown.gap(OURS, BASE))
    assert str(mixed) == "wait:0.75+slowdown:0.25"


def test_the_reward_at_the_end_is_all_after_the_last_choice():
    """As in the paper."""
    reward = Objective().rewards(np.array([0.0, 20.0]), OURS, BASE, dense=False)
    assert reward.tolist() == pytest.approx([0.0, (65 - 17) / 65])


def test_the_dense_reward_is_what_the_gap_has_grown_by():
    """Between 20 s and 24 s one job less waits under ours, which by then is (base 20 + 10, ours 20 + 10) at 20 s."""
    reward = Objective().rewards(np.array([20.0, 24.0, 50.0]), OURS, BASE, dense=True)
    # Waits so far, halved: base 17 at 24 s, 30 at 50 s; ours 17 at both. Over the larger total, 65.
    assert reward.tolist() == pytest.approx([(17 - 17) / 65, (30 - 17) / 65, (65 - 17 - 13) / 65])


@st.composite
def schedules(draw):
    """Make the same jobs under two schedules, and times of choices."""
    n = draw(st.integers(1, 6))
    times = st.lists(st.floats(0, 1e4), min_size=n, max_size=n).map(np.array)
    submit, run = 1e9 + draw(times), draw(times)
    starts = [submit + draw(times) for _ in range(2)]
    when = np.sort(1e9 + np.array(draw(st.lists(st.floats(0, 3e4), min_size=1, max_size=6))))
    return *(Times(submit, start, start + run) for start in starts), when


@given(schedules(), st.sampled_from([*MEASURES, "wait:2+slowdown:1", "jct+utilisation"]))
def test_dense_rewards_sum_to_the_reward_at_the_end(case, text):
    """They tell the same story, only sooner."""
    ours, base, when = case
    objective = Objective.parse(text)
    dense, end = (objective.rewards(when, ours, base, dense=dense).sum() for dense in (True, False))
    assert dense == pytest.approx(end, abs=1e-9)
    assert end == pytest.approx(objective.gap(ours, base), abs=1e-12)


@given(schedules(), st.sampled_from(list(MEASURES)))
def test_a_cost_grows_to_its_total_and_never_shrinks(case, measure):
    """What has grown by the end of all is the whole but what is fixed."""
    times, _, when = case
    growth = MEASURES[measure](times)
    grown = growth.grown_by(np.append(when, times.end_s.max() + 1))
    assert (np.diff(grown) >= -1e-6 * max(1.0, growth.total)).all()
    assert grown[-1] + growth.fixed == pytest.approx(growth.total, rel=1e-6, abs=1e-6)


def test_no_choices_no_rewards():
    """A window in which nothing could be chosen teaches nothing."""
    assert len(Objective().rewards(np.zeros(0), OURS, BASE, dense=True)) == 0


def test_windows_in_which_nobody_waits_have_no_gap():
    """0 of 0 is no gain."""
    still = Times(np.array([5.0]), np.array([5.0]), np.array([6.0]))
    assert Objective().gap(still, still) == 0.0
    assert Objective().rewards(np.array([5.0]), still, still, dense=True).tolist() == [0.0]


@pytest.mark.parametrize(
    ("text", "seconds", "told"),
    [("1.5x", 1.5 * 109.1, "1.5x"), ("36h", 129_600.0, "129600 s"), ("90m", 5_400.0, "5400 s"), ("7", 7.0, "7 s")],
)
def test_a_bound_is_in_time_or_in_multiples_of_the_base_policys(text, seconds, told):
    """The p99 of waits of 20 and 110 s is 109.1 s."""
    bound = WaitBound.parse(text)
    assert bound.allowed_s(BASE) == pytest.approx(seconds)
    assert str(bound) == told


def test_the_excess_over_a_bound_is_a_share():
    """With a p99 wait of 109.1 s where 50 s are allowed, 54 % of it is too much; without a bound nothing is."""
    assert Objective.parse("wait", "50").excess(BASE, OURS) == pytest.approx((109.1 - 50) / 109.1)
    assert Objective.parse("wait", "10x").excess(OURS, BASE) < 0
    assert Objective.parse("wait").excess(BASE, OURS) == 0.0


@pytest.mark.parametrize("text", ["speed", "wait:", "wait:-1", "wait:x", "wait+wait", ""])
def test_a_wrong_objective_is_refused(text):
    """In one sentence; a measure without a weight after its colon has weight 1."""
    if text == "wait:":
        assert Objective.parse(text).weights == (("wait", 1.0),)
        return
    with pytest.raises(InputError, match="objective"):
        Objective.parse(text)


@pytest.mark.parametrize("text", ["fast", "-3", "0x", "3w"])
def test_a_wrong_bound_is_refused(text):
    """With what can be written instead."""
    with pytest.raises(InputError, match=r"1\.5x"):
        WaitBound.parse(text)

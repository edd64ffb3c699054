"""Optimizer state that stays on the device."""

from dataclasses import replace

import pytest
from plan_traces import KIB, layered

from tencache.plan.kept_state import KeepOffer, choices, keep_offer, kept_bytes, with_kept
from tencache.plan.planner import plan_ahead, plans_early
from tencache.plan.virtual_clock import Bandwidths, best_plan, replay_plan, step_s

UNIT = 64 * KIB


def adam(layers):
    """A model whose state is twice its parameters."""
    trace = layered(layers)
    return replace(trace, updates=tuple(replace(one, second_bytes=3 * UNIT) for one in trace.updates))


def slow_link(**options):
    return Bandwidths(UNIT / 0.1, UNIT / 0.1, piece_bytes=16 * KIB, **options)


def test_nothing_is_kept_where_the_parameters_take_the_whole_budget():
    """A byte of state would take the place of a parameter, which would have to be sent once more."""
    trace = adam(8)
    for share in (3, 5, 8):
        assert not choices(trace, keep_offer(trace, share * UNIT))


@pytest.mark.parametrize("updates", ["after", "late", "within"])
def test_room_beside_the_parameters_is_used_and_makes_the_step_shorter(updates):
    trace = adam(8)
    speeds = slow_link(updates=updates)
    budget = 8 * UNIT + 4 * 3 * UNIT
    plain = best_plan(trace, budget, speeds)
    kept = best_plan(trace, budget, speeds, keep_offer(trace, budget))
    assert len(kept.kept) == 4
    assert kept.kept_bytes == 4 * 4 * UNIT
    assert step_s(kept, speeds) < 0.8 * step_s(plain, speeds)
    cost = replay_plan(kept, speeds)
    assert cost.peak_bytes <= cost.budget_bytes == budget
    # Neither do their gradients come down, nor their parameters go up.
    assert (cost.up_bytes, cost.down_bytes) == (4 * UNIT, 4 * UNIT)


def test_the_device_pays_for_the_updates_of_what_it_keeps():
    """Where nobody waits for the link, keeping more than what is needed first would only take the device's time."""
    trace = adam(8)
    trace = replace(trace, updates=tuple(replace(one, compute_s=0.01) for one in trace.updates))
    speeds = Bandwidths(1e12, 1e12, updates="late")
    budget = 8 * 4 * UNIT
    plan = best_plan(trace, budget, speeds, keep_offer(trace, budget))
    assert len(plan.kept) <= 2
    everything = with_kept(trace, keep_offer(trace, budget).candidates, keep_offer(trace, budget).candidates)
    assert step_s(plan_ahead(everything, budget), speeds) == pytest.approx(trace.compute_s)


def test_of_a_slice_only_a_part_may_be_kept():
    trace = adam(4)
    halves = [
        replace(trace.updates[0], units=(0, 1), compute_s=0.004, second_bytes=6 * UNIT),
        replace(trace.updates[0], units=(2, 3), compute_s=0.004, second_bytes=6 * UNIT),
    ]
    offer = keep_offer(trace, 8 * UNIT)
    cut = with_kept(replace(trace, updates=tuple(halves)), offer.candidates[:1], offer.candidates)
    assert [update.units for update in cut.updates] == [(1,), (2, 3), ()]
    assert [update.compute_s for update in cut.updates] == pytest.approx([0.002, 0.004, 0.002])
    assert cut.compute_s == pytest.approx(trace.device_s + 0.008)


def test_choices_never_take_more_than_the_room():
    trace = adam(8)
    candidates = keep_offer(trace, 0).candidates
    for units in range(30):
        offer = KeepOffer(candidates, units * UNIT)
        for kept in choices(trace, offer):
            assert kept_bytes(kept) - len(kept) * UNIT <= offer.room_bytes


def test_updates_that_all_open_the_next_cycle_go_up_within_backward():
    """The two ways to have all of them early were taken for one, and the slower was tried."""
    trace = adam(8)
    base = plan_ahead(trace, 8 * UNIT)
    plans = plans_early(base, 2**62)
    assert {(len(plan.early), len(plan.closing)) for plan in plans} == {(8, 8), (8, 0)}
    speeds = slow_link(updates="within")
    assert step_s(best_plan(trace, 8 * UNIT, speeds), speeds) == min(step_s(plan, speeds) for plan in plans)

"""Properties of every plan, whatever the trace and the budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_traces import KIB, cases, layered, walk

from tencache.errors import RefusedError
from tencache.plan.planner import STRATEGIES, plan_ahead
from tencache.plan.step_trace import Grad, Op, StepTrace, Unit, Update


@given(cases(), st.sampled_from(STRATEGIES))
def test_every_access_is_resident_nothing_overlaps_and_the_budget_holds(case, strategy):
    trace, budget = case
    try:
        plan = plan_ahead(trace, budget, strategy)
    except RefusedError:
        # Held units that lie in the middle can leave no gap for the rest: refused, never wrong.
        assert any(op.held for op in trace.ops)
        return
    assert walk(plan) == plan.up_bytes
    assert plan.peak_bytes <= budget


def test_a_second_layout_does_not_forget_what_was_in_use():
    """Unit 2 is placed over unit 1, then unit 3 fits nowhere and all are laid out anew: unit 1 is still in use."""
    sizes = (42, 3, 43, 2)
    units = tuple(Unit(f"u{index}", size * 512) for index, size in enumerate(sizes))
    ops = tuple(Op(touched, (), 0.0, "forward") for touched in ((0,), (1,), (2, 0, 3), (1,)))
    written = (0, 3)
    grads = tuple(Grad(unit, 3, units[unit].bytes) for unit in written)
    trace = StepTrace(units, ops, grads, tuple(Update((unit,), 0.001) for unit in written))
    plan = plan_ahead(trace, 87 * 512)
    assert walk(plan) == plan.up_bytes


@pytest.mark.parametrize("share", [0.2, 0.35, 0.6, 1.0])
@pytest.mark.parametrize("frozen", [0, 5, 20])
def test_equal_layers_move_exactly_the_belady_minimum(share, frozen):
    trace = layered(20, frozen=frozen)
    budget = round(share * 20) * 64 * KIB
    plan = plan_ahead(trace, budget)
    assert plan.up_bytes == plan.up_floor_bytes


def test_nothing_is_loaded_again_when_everything_fits_and_nothing_is_written():
    trace = layered(6, frozen=6)
    assert plan_ahead(trace, 6 * 64 * KIB).up_bytes == 0


def test_a_load_never_waits_longer_than_for_the_last_use_of_its_place():
    plan = plan_ahead(layered(10), 4 * 64 * KIB)
    assert [load.trigger for load in plan.loads[:6]] == [0, 0, 0, 0, 1, 2]


def test_an_operation_larger_than_the_budget_is_refused_by_name():
    trace = StepTrace((Unit("small", KIB), Unit("huge", 64 * KIB)), (Op((0, 1)),))
    with pytest.raises(RefusedError, match=r"65\.0 KiB.*small, huge.*budget is 32\.0 KiB.*raise the budget to 66560"):
        plan_ahead(trace, 32 * KIB)


def test_units_that_cut_the_arena_are_laid_out_anew():
    """Two units fit only side by side, whatever lay there before."""
    units = (Unit("a", 2 * KIB), Unit("b", 2 * KIB), Unit("wide", 3 * KIB))
    trace = StepTrace(units, (Op((0,)), Op((1,)), Op((0, 2)), Op((1, 2)), Op((0,)), Op((2, 1))))
    walk(plan_ahead(trace, 5 * KIB))

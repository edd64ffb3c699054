"""A trace rewritten for working copies counts the bytes that move."""

from hypothesis import given
from hypothesis import strategies as st
from plan_traces import KIB, traces

from tencache.plan.floor import floor_up_bytes
from tencache.plan.step_trace import Grad, Op, StepTrace, Unit, Update
from tencache.plan.working_units import add_halves


def pair():
    working = add_halves((Unit("a", 4 * KIB), Unit("b", 4 * KIB)), [0, 1])
    ops = (Op((0,)), Op((1, 0), (3,)), Op((0,), (1,)))
    return StepTrace(working.units, ops, (Grad(0, 2, 4 * KIB),), (Update((0, 1)),)), working


def test_units_that_are_halved_are_used_as_halves_and_no_other():
    trace, working = pair()
    halved = working.rewrite(trace, {0})
    assert halved.order == ((2,), (1, 2), (2,))
    assert [op.held for op in halved.ops] == [(), (), (1,)]
    assert halved.written == {0, 1, 2, 3}
    assert [unit.bytes for unit in halved.units] == [0, 4 * KIB, 2 * KIB, 0]
    assert halved.parameter_bytes == 6 * KIB


def test_a_rewritten_trace_is_rewritten_back():
    trace, working = pair()
    whole = working.rewrite(working.rewrite(trace, {0, 1}), set())
    assert whole.order == trace.order
    assert whole.parameter_bytes == 8 * KIB


@given(traces(), st.data())
def test_the_floor_of_halves_is_at_most_that_of_the_whole(trace, data):
    working = add_halves(trace.units, list(range(len(trace.units))))
    whole = StepTrace(working.units, trace.ops, trace.grads, trace.updates)
    some = set(data.draw(st.lists(st.sampled_from(range(len(trace.units))))))
    budget = max(sum(trace.units[unit].bytes for unit in op.needed) for op in trace.ops)
    halved = working.rewrite(whole, some)
    assert floor_up_bytes(halved, budget) <= floor_up_bytes(working.rewrite(whole, set()), budget)

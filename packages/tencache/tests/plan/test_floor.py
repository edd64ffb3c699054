"""The floor is below every plan."""

from hypothesis import given
from hypothesis import strategies as st
from plan_traces import cases

from tencache.plan.floor import floor_up_bytes
from tencache.plan.rival_policies import make_plan
from tencache.plan.step_trace import Op, StepTrace


@given(cases(), st.sampled_from(["ahead", "lru", "zero3", "bucket"]))
def test_no_table_moves_less_than_the_floor(case, policy):
    trace, budget = case
    plain = StepTrace(
        trace.units, tuple(Op(op.touched, (), op.compute_s) for op in trace.ops), trace.grads, trace.updates
    )
    assert make_plan(plain, budget, policy).up_bytes >= floor_up_bytes(plain, budget)

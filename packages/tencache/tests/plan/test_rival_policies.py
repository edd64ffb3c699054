"""The policies that a plan is compared with keep the same promises."""

import pytest
from hypothesis import given
from plan_traces import KIB, cases, layered, walk

from tencache.plan.rival_policies import make_plan, plan_buckets, plan_lru, plan_zero3
from tencache.plan.step_trace import Op, StepTrace


@given(cases())
def test_the_policies_to_compare_with_hold_the_same_promises(case):
    trace, budget = case
    plain = StepTrace(
        trace.units, tuple(Op(op.touched, (), op.compute_s) for op in trace.ops), trace.grads, trace.updates
    )
    for policy in ("lru", "zero3", "bucket"):
        walk(make_plan(plain, budget, policy))


def test_lru_loads_only_when_asked():
    assert all(load.trigger == load.need for load in plan_lru(layered(10), 4 * 64 * KIB).loads)


def test_buckets_are_fetched_one_ahead_and_released():
    plan = plan_buckets(layered(8), 4 * 64 * KIB)
    assert not plan.eager
    needs = [(load.need, load.trigger) for load in plan.loads]
    assert needs[:6] == [(0, 0), (0, 0), (2, 0), (2, 0), (4, 2), (4, 2)]


def test_zero3_prefetches_a_bucket_with_every_operation_and_stays_within_its_budget():
    """A bucket is a twentieth of the budget, here less than one layer: one layer ahead, then one more each time."""
    plan = plan_zero3(layered(8), 4 * 64 * KIB)
    assert not plan.eager
    assert [(load.need, load.trigger) for load in plan.loads[:4]] == [(0, 0), (1, 0), (2, 1), (3, 2)]
    assert plan.peak_bytes <= plan.budget_bytes


def test_zero3_keeps_what_is_used_again_within_the_budget():
    """Around the turn from forward to backward."""
    plan = plan_zero3(layered(8), 4 * 64 * KIB)
    assert plan.up_bytes < 2 * 8 * 64 * KIB


def test_an_unknown_policy_is_refused():
    with pytest.raises(ValueError, match="choose one of ahead, zero3, bucket, lru"):
        make_plan(layered(2), 64 * KIB, "fifo")

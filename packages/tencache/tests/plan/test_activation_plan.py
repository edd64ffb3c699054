"""Which saved tensors go to the host, when each comes back, and what that costs on the virtual clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tencache.plan.activation_plan import Offload, floor_offloaded_bytes, peak_saved_bytes, plan_offloads
from tencache.plan.planner import plan_ahead
from tencache.plan.step_trace import Op, Saved, StepTrace, Unit
from tencache.plan.virtual_clock import Bandwidths, replay_plan

# Three layers: each saves 10 bytes, and backward uses them in reverse.
LAYERS = (Saved(10, 0, 5), Saved(10, 1, 4), Saved(10, 2, 3))


def test_what_is_used_last_goes_and_comes_back_when_there_is_room():
    """The third is used right after it was saved; the first goes, and its room is free once the others are used."""
    assert plan_offloads(LAYERS, 20) == (Offload(0, 4),)
    assert plan_offloads(LAYERS, 10) == (Offload(1, 4), Offload(0, 5))
    assert plan_offloads(LAYERS, 30) == ()


def test_the_floor_is_what_the_budget_lacks_at_the_peak():
    assert peak_saved_bytes(LAYERS) == 30
    assert floor_offloaded_bytes(LAYERS, 25) == 5
    assert floor_offloaded_bytes(LAYERS, None) == 0
    # What one operation saves and the next uses stays, however small the budget.
    assert floor_offloaded_bytes(LAYERS, 1) == 20


@st.composite
def saves(draw):
    found = []
    for saved in range(draw(st.integers(1, 12))):
        found += [
            Saved(draw(st.integers(1, 50)), saved, draw(st.integers(saved, 30))) for _ in range(draw(st.integers(0, 3)))
        ]
    return tuple(found)


@given(saves(), st.integers(1, 300))
def test_a_plan_keeps_the_budget_where_it_can(found, budget):
    """Carried out operation by operation: what is used is there, and no more than the budget but for what must be."""
    rows = plan_offloads(found, budget)
    gone = {row.saved: row.trigger for row in rows}
    moved = sum(found[number].bytes for number in gone)
    assert floor_offloaded_bytes(found, budget) <= moved
    for op in range(32):
        here = must = 0
        for number, save in enumerate(found):
            if not save.saved <= op <= save.used:
                continue
            now = op in {save.saved, save.used} or save.used <= save.saved + 1
            if number not in gone or now or op >= gone[number]:
                here += save.bytes
            if now:
                must += save.bytes
        early = [number for number in gone if found[number].saved + 1 < op < found[number].used and op >= gone[number]]
        # Nothing comes back early into room that is not there; what is kept throughout was chosen to fit.
        assert not early or here <= max(budget, must)
    assert all(found[number].saved + 1 < trigger <= found[number].used for number, trigger in gone.items())


def _trace():
    ops = tuple(Op((0,), (), 1.0, "forward" if index < 3 else "backward") for index in range(6))
    return StepTrace((Unit("a", 512),), ops, saves=LAYERS)


def test_the_clock_counts_both_ways():
    """At 5 bytes a second each copy takes two seconds: the second comes back beside operation 3, the first waits."""
    plan = plan_ahead(_trace(), 512)
    slow = Bandwidths(5.0, 5.0, latency_s=0, activation_bytes=10)
    result = replay_plan(plan, slow)
    assert result.offloaded_bytes == result.down_bytes == 20
    # 0 leaves from 1 to 3 s, 1 from 3 to 5; 1 may come back after operation 3, at 4, but lands on the host at 5.
    # On the device at 7, so operation 4 runs from 7 to 8; 0 comes back from 8 to 10, and operation 5 ends at 11.
    assert result.step_s == pytest.approx(11)
    assert result.bound_s == pytest.approx(6)
    assert replay_plan(plan, Bandwidths(5.0, 5.0, latency_s=0)).step_s == pytest.approx(6)


def test_a_trace_that_is_saved_keeps_what_was_saved(tmp_path):
    _trace().save(tmp_path / "trace.json")
    assert StepTrace.load(tmp_path / "trace.json") == _trace()

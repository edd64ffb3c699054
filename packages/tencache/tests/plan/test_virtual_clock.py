"""The virtual clock, against times worked out by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from plan_traces import KIB, cases, layered

from tencache.errors import RefusedError
from tencache.plan.planner import plan_ahead, with_early
from tencache.plan.rival_policies import plan_buckets, plan_lru
from tencache.plan.step_trace import Grad, Op, StepTrace, Unit, Update
from tencache.plan.virtual_clock import UPDATE_TIMES, Bandwidths, best_plan, replay_plan, step_s


@given(cases())
def test_plans_and_replays_are_deterministic(case):
    trace, budget = case
    speeds = Bandwidths(1e9, 1e9)
    try:
        one, two = best_plan(trace, budget, speeds), best_plan(trace, budget, speeds)
    except RefusedError:
        return
    assert one == two
    assert replay_plan(one, speeds) == replay_plan(two, speeds)


MB = 1_000_448  # a multiple of the alignment, near enough to a megabyte


def two_layers(**changes):
    units = (Unit("a", MB), Unit("b", MB))
    ops = (Op((0,), (), 0.01), Op((1,), (), 0.01), Op((1,), (), 0.01), Op((0,), (), 0.01))
    return StepTrace(units, ops, changes.get("grads", ()), changes.get("updates", ()))


def test_lru_pays_for_every_load_by_hand():
    """Room for one unit: a, b, then a again are loaded while compute waits; b's second touch is a hit."""
    updates = (Update((0,)), Update((1,)))
    result = replay_plan(plan_lru(two_layers(updates=updates), MB), Bandwidths(MB, MB, latency_s=0))
    assert result.step_s == pytest.approx(3 * 1.0 + 4 * 0.01)
    assert (result.touches, result.hits, result.ready) == (4, 1, 1)


def test_what_fits_is_loaded_during_the_updates():
    updates = (Update((0,), 5.0), Update((1,), 5.0))
    result = replay_plan(plan_ahead(two_layers(updates=updates), 2 * MB), Bandwidths(MB, MB, latency_s=0))
    assert result.step_s == pytest.approx(10 + 0.01 + 0.99 + 0.03)
    assert result.hit_rate == 1.0


def test_late_updates_run_beside_the_operations():
    """Updates of a then b on the host, each ahead of its upload; the first operation waits for a alone."""
    updates = (Update((0,), 5.0), Update((1,), 5.0))
    speeds = Bandwidths(MB, MB, latency_s=0, updates="late")
    result = replay_plan(plan_ahead(two_layers(updates=updates), 2 * MB), speeds)
    # b is updated after 10 s, on the device after 11, and used three times together with a.
    assert result.step_s == pytest.approx(11 + 0.03)
    assert result.bound_s == pytest.approx(10.0)


def test_an_update_within_backward_is_on_the_device_when_the_next_step_begins():
    """b's gradient comes first; its update and its upload are done before the step is."""
    grads = (Grad(1, 2, MB), Grad(0, 3, MB))
    ops = (Op((1,), (), 1.0), Op((0,), (), 1.0), Op((1,), (), 1.0), Op((0,), (), 9.0))
    trace = StepTrace((Unit("a", MB), Unit("b", MB)), ops, grads, (Update((1,), 2.0), Update((0,), 1.0)))
    late = plan_ahead(trace, 3 * MB)
    plan = with_early(late, 0.0, 2**62)
    assert [(row.unit, row.trigger) for row in plan.closing] == [(1, 3), (0, 4)]
    speeds = {updates: Bandwidths(MB, MB, latency_s=0, updates=updates) for updates in ("late", "within")}
    # The first operation finds b there; late, it waits for b's update and upload.
    assert replay_plan(plan, speeds["within"]).step_s == pytest.approx(1 + 2 + 9 + 2)
    assert replay_plan(late, speeds["late"]).step_s == pytest.approx(2 + 1 + 12)
    assert plan.up_bytes == late.up_bytes


def test_second_copies_are_as_many_as_the_host_has_room_for():
    trace = layered(8)
    trace = replace(trace, updates=tuple(replace(update, second_bytes=100) for update in trace.updates))
    plan = plan_ahead(trace, 4 * 64 * KIB)
    assert with_early(plan, 1.0, 350).second_bytes == 300
    assert with_early(plan, 1.0, 99).early == frozenset()
    # Of the first gradients: those of the last layers.
    assert with_early(plan, 0.25, 2**62, reopen=False).early == {7, 6}


def test_a_large_parameter_is_updated_and_sent_up_while_its_gradient_lands():
    """One unit whose gradient, update and upload take 4 s each: in four pieces they take 4 + 1 + 1 s."""
    trace = StepTrace((Unit("a", 4 * MB),), (Op((0,), (), 1.0),), (Grad(0, 0, 4 * MB),), (Update((0,), 4.0),))
    plan = with_early(plan_ahead(trace, 4 * MB), 0.0, 2**62)
    whole, pieces = (Bandwidths(MB, MB, latency_s=0, updates="within", piece_bytes=size) for size in (4 * MB, MB))
    assert replay_plan(plan, whole).step_s == pytest.approx(1 + 12)
    assert replay_plan(plan, pieces).step_s == pytest.approx(1 + 6)


@given(cases())
def test_a_closing_row_takes_a_place_that_this_cycle_needs_no_more(case):
    trace, budget = case
    try:
        plan = with_early(plan_ahead(trace, budget), 1.0, 2**62)
    except RefusedError:
        return
    for row in plan.closing:
        assert row.offset == next(load.offset for load in plan.opening if load.unit == row.unit)
        where, rows = dict(plan.carried), list(plan.loads)
        for index, op in enumerate(trace.ops):
            while rows and rows[0].trigger <= index:
                load = rows.pop(0)
                assert index < row.trigger or not _overlap(trace, row, load.unit, load.offset)
                for unit in load.evicts:
                    where.pop(unit, None)
                where[load.unit] = load.offset
            if index >= row.trigger:
                assert row.unit not in op.needed
                assert not any(_overlap(trace, row, unit, where[unit]) for unit in op.needed)


def _overlap(trace, row, unit, offset):
    return offset < row.offset + row.bytes and row.offset < offset + trace.units[unit].bytes


@pytest.mark.parametrize("updates", UPDATE_TIMES)
@given(cases())
def test_no_replay_beats_its_bound_whenever_updates_are_computed(updates, case):
    trace, budget = case
    speeds = Bandwidths(1e9, 1e9, updates=updates)
    try:
        result = replay_plan(best_plan(trace, budget, speeds), speeds)
    except RefusedError:
        return
    assert result.step_s >= result.bound_s * (1 - 1e-9)


def test_the_bound_is_the_busiest_way():
    grads = (Grad(1, 2, MB), Grad(0, 3, MB))
    trace = two_layers(grads=grads, updates=(Update((0,)), Update((1,))))
    fast = replay_plan(plan_ahead(trace, 2 * MB), Bandwidths(1000 * MB, 1000 * MB))
    assert fast.bound_s == pytest.approx(0.04)
    assert replay_plan(plan_ahead(trace, 2 * MB), Bandwidths(1000 * MB, MB)).bound_s == pytest.approx(2.0)
    assert replay_plan(plan_ahead(trace, 2 * MB), Bandwidths(MB / 2, MB)).bound_s == pytest.approx(4.0)


def test_no_replay_beats_its_bound():
    for share in (0.2, 0.5, 1.0):
        for speed in (1e6, 1e7, 1e9):
            plan = plan_ahead(layered(12), round(share * 12) * 64 * KIB or 64 * KIB)
            result = replay_plan(plan, Bandwidths(speed, speed))
            assert result.step_s >= result.bound_s * (1 - 1e-9)


def test_planning_ahead_is_at_least_as_fast_as_the_other_policies():
    trace, budget = layered(20), 7 * 64 * KIB
    for speed in (2e6, 5e6, 1e7, 1e8):
        speeds = Bandwidths(speed, speed)
        ahead = step_s(best_plan(trace, budget, speeds), speeds)
        assert ahead <= step_s(plan_lru(trace, budget), speeds)
        assert ahead <= step_s(plan_buckets(trace, budget), speeds)


def test_updates_follow_the_gradients_that_have_landed():
    """On a slow way down the last layers are updated, and sent up, while the first ones' gradients are on their way."""
    trace, speeds = layered(8, seconds=0.001), Bandwidths(4e6, 4e6)
    spans = replay_plan(plan_ahead(trace, 8 * 64 * KIB), speeds).spans
    first_up = min((span for span in spans if span.lane == "up"), key=lambda span: span.start_s)
    last_update = max(span.end_s for span in spans if span.name == "optimizer")
    assert first_up.name != "layer0"
    assert first_up.end_s < last_update


def test_backward_waits_for_room_on_the_way_down():
    plan = plan_ahead(layered(10), 10 * 64 * KIB)

    def backward_s(speeds):
        ends = [span.end_s for span in replay_plan(plan, speeds).spans if span.name == "backward"]
        return max(ends) - min(ends)

    tight = backward_s(Bandwidths(1e9, 1e6, gradient_window_bytes=64 * KIB))
    assert tight > 2 * backward_s(Bandwidths(1e9, 1e6))


def test_state_in_the_file_costs_what_its_bytes_take():
    units = (Unit("a", MB),)
    trace = StepTrace(units, (Op((0,), (), 0.1),), (), (Update((0,), 0.0, file_bytes=MB),))
    result = replay_plan(plan_ahead(trace, MB), Bandwidths(1e12, 1e12, file_read=MB, file_write=MB, latency_s=0))
    assert result.file_bytes == 2 * MB
    assert result.bound_s == pytest.approx(1.0)
    assert result.step_s == pytest.approx(1.0, rel=0.01)


def test_state_is_read_only_as_far_ahead_as_staging_allows():
    """With room for one state, each read waits for the write before it."""
    units = tuple(Unit(f"u{index}", MB) for index in range(4))
    updates = tuple(Update((index,), 0.0, file_bytes=MB) for index in range(4))
    trace = StepTrace(units, (Op((0, 1, 2, 3), (), 0.1),), (), updates)
    speeds = Bandwidths(1e12, 1e12, file_read=MB, file_write=MB, latency_s=0, staging_bytes=MB)
    assert replay_plan(plan_ahead(trace, 4 * MB), speeds).step_s == pytest.approx(8.0, rel=0.02)


def test_units_from_the_file_come_through_staging():
    units = tuple(Unit(f"u{index}", MB, "file") for index in range(4))
    trace = StepTrace(units, tuple(Op((index,), (), 0.001) for index in range(4)), (), (Update((0, 1, 2, 3)),))
    slow = replay_plan(plan_ahead(trace, 2 * MB), Bandwidths(1e12, 1e12, file_read=MB, latency_s=0))
    assert slow.step_s == pytest.approx(4.0, rel=0.01)
    assert slow.file_bytes == 4 * MB


def test_spans_cover_the_step():
    result = replay_plan(plan_ahead(layered(5), 2 * 64 * KIB), Bandwidths(1e7, 1e7))
    assert {span.lane for span in result.spans} >= {"compute", "up", "down"}
    assert max(span.end_s for span in result.spans if span.lane == "compute") == pytest.approx(result.step_s)

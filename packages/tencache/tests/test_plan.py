"""Properties of every plan, whatever the trace and the budget."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tencache.errors import RefusedError
from tencache.plan.address_map import aligned
from tencache.plan.floor import floor_up_bytes
from tencache.plan.planner import STRATEGIES, plan_ahead
from tencache.plan.rival_policies import make_plan, plan_buckets, plan_lru, plan_zero3
from tencache.plan.step_trace import Grad, Op, StepTrace, Unit, Update
from tencache.plan.virtual_clock import Bandwidths, best_plan, replay_plan

KIB = 1024


@st.composite
def traces(draw):
    """Any order over a few units of very different sizes, some written, some held."""
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=9))
    units = tuple(Unit(f"u{index}", aligned(size * 700)) for index, size in enumerate(sizes))
    numbers = st.integers(0, len(units) - 1)
    touched = draw(st.lists(st.lists(numbers, min_size=1, max_size=3, unique=True), min_size=1, max_size=30))
    written = draw(st.lists(numbers, unique=True))
    ops = []
    for index, some in enumerate(touched):
        before = touched[index - 1] if index else []
        held = [unit for unit in before if unit not in some and draw(st.booleans())]
        ops.append(Op(tuple(some), tuple(held), draw(st.floats(0, 0.01)), "forward"))
    grads = tuple(Grad(unit, len(ops) - 1, units[unit].bytes) for unit in written)
    return StepTrace(units, tuple(ops), grads, tuple(Update((unit,), 0.001) for unit in written))


@st.composite
def cases(draw):
    trace = draw(traces())
    smallest = max((sum(trace.units[unit].bytes for unit in op.needed) for op in trace.ops), default=0)
    return trace, smallest + draw(st.integers(0, trace.parameter_bytes)) // 512 * 512


def walk(plan):
    """Carry the table out, cycle after cycle, checking what must never happen; return the bytes loaded in the last."""
    trace, where = plan.trace, dict(plan.carried)
    loaded = 0
    for _ in range(2):
        assert where.items() >= dict(plan.carried).items()
        assert not trace.written & dict(plan.carried).keys()
        where = dict(plan.carried)
        rows = list(plan.loads)
        loaded = 0
        for index, op in enumerate(trace.ops):
            while rows and rows[0].trigger <= index:
                row = rows.pop(0)
                assert row.need >= row.trigger
                running = trace.ops[index - 1].held if 0 < index == row.trigger else ()
                assert not set(row.evicts) & set(running) & set(op.held), "a held unit was moved"
                for unit in row.evicts:
                    where.pop(unit, None)
                where[row.unit] = row.offset
                loaded += row.bytes
                check_apart(plan, where)
            assert set(op.needed) <= where.keys(), "an operation ran without its units"
        assert not rows, "rows were left over"
    return loaded


def check_apart(plan, where):
    spans = sorted((offset, offset + aligned(plan.trace.units[unit].bytes)) for unit, offset in where.items())
    assert all(one[1] <= two[0] for one, two in pairwise(spans)), "two units overlap"
    assert not spans or spans[-1][1] <= plan.budget_bytes, "the budget is exceeded"


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


@given(cases())
def test_the_policies_to_compare_with_hold_the_same_promises(case):
    trace, budget = case
    plain = StepTrace(
        trace.units, tuple(Op(op.touched, (), op.compute_s) for op in trace.ops), trace.grads, trace.updates
    )
    for policy in ("lru", "zero3", "bucket"):
        walk(make_plan(plain, budget, policy))


@given(cases(), st.sampled_from(["ahead", "lru", "zero3", "bucket"]))
def test_no_table_moves_less_than_the_floor(case, policy):
    trace, budget = case
    plain = StepTrace(
        trace.units, tuple(Op(op.touched, (), op.compute_s) for op in trace.ops), trace.grads, trace.updates
    )
    assert make_plan(plain, budget, policy).up_bytes >= floor_up_bytes(plain, budget)


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


def layered(layers, *, frozen=0, seconds=0.01):
    """A model like any: forward through equal layers, backward through them again."""
    units = tuple(Unit(f"layer{index}", 64 * KIB) for index in range(layers))
    forward = [Op((index,), (), seconds, "forward") for index in range(layers)]
    backward = [Op((index,), (), 2 * seconds, "backward") for index in reversed(range(layers))]
    trained = range(frozen, layers)
    grads = tuple(Grad(index, 2 * layers - 1 - index, 64 * KIB) for index in trained)
    return StepTrace(units, (*forward, *backward), grads, tuple(Update((index,), 0.002) for index in trained))


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


def test_a_plan_prints_its_rows():
    text = plan_ahead(layered(3), 2 * 64 * KIB).table(limit=2)
    assert "layer0 <- -" in text
    assert text.endswith("rows more")


def test_a_trace_is_saved_and_read_back(tmp_path):
    trace = layered(4)
    trace.save(tmp_path / "trace.json")
    assert StepTrace.load(tmp_path / "trace.json") == trace


def test_a_file_that_is_no_trace_is_refused(tmp_path):
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match="not a trace that tencache saved"):
        StepTrace.load(tmp_path / "other.json")

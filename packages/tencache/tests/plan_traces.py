"""Traces for the tests of plans, and a walk that checks a plan row by row."""

from itertools import pairwise

from hypothesis import strategies as st

from tencache.plan.address_map import aligned
from tencache.plan.step_trace import Grad, Op, StepTrace, Unit, Update

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


def layered(layers, *, frozen=0, seconds=0.01):
    """A model like any: forward through equal layers, backward through them again."""
    units = tuple(Unit(f"layer{index}", 64 * KIB) for index in range(layers))
    forward = [Op((index,), (), seconds, "forward") for index in range(layers)]
    backward = [Op((index,), (), 2 * seconds, "backward") for index in reversed(range(layers))]
    trained = range(frozen, layers)
    grads = tuple(Grad(index, 2 * layers - 1 - index, 64 * KIB) for index in trained)
    return StepTrace(units, (*forward, *backward), grads, tuple(Update((index,), 0.002) for index in trained))

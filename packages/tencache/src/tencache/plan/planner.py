"""Plan a step ahead: choose for every load the earliest moment and the best place.

Pure: no torch, no clock, no chance. The same trace and budget give the same table.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Literal

from tencache.errors import RefusedError
from tencache.plan.address_map import AddressMap, AddressWindow, aligned
from tencache.plan.placing import NoRoomError, place_all
from tencache.plan.step_plan import Load, StepPlan, check_fits, describe_too_large, with_evictions
from tencache.plan.step_trace import StepTrace
from tencache.plan.use_times import UseTimes

Strategy = Literal["farthest", "fewest"]
# Of all second copies, for updates within backward beside those that open the next cycle.
EARLY_SHARES = (0.0, 0.1, 0.2, 0.4, 1.0)
# Of the updates whose state is in the file, for those within backward: the others keep the file busy in the forward.
FILED_SHARES = (0.25, 0.5, 0.75, 1.0)
STRATEGIES: tuple[Strategy, ...] = ("farthest", "fewest")


def plan_ahead(trace: StepTrace, budget_bytes: int, strategy: Strategy = "farthest") -> StepPlan:
    """Return a plan that loads each unit as soon as its place is free, and evicts what is needed last."""
    check_fits(trace, budget_bytes)
    carried: dict[int, int] = {}
    for _ in range(6):
        loads, left = _sweep(trace, budget_bytes, carried, strategy)
        kept = {unit: offset for unit, offset in left.items() if unit not in trace.written}
        if kept == carried:
            return StepPlan("ahead", budget_bytes, trace, loads, tuple(sorted(carried.items())))
        carried = kept
    # A loop over more than fits never settles by itself: what stays for good is chosen instead.
    kept = _static_share(trace, budget_bytes)
    loads, _ = _sweep(trace, budget_bytes, kept, strategy, pinned=tuple(kept))
    return StepPlan("ahead", budget_bytes, trace, loads, tuple(sorted(kept.items())))


def plans_early(plan: StepPlan, second_bytes: int) -> list[StepPlan]:
    """Return the plan with some of its updates within backward, in all the ways that are worth a try."""
    ways = [(share, True) for share in EARLY_SHARES] + [(1.0, False)]
    plans = [with_early(plan, share, second_bytes, reopen=reopen) for share, reopen in ways]
    if any(update.file_bytes for update in plan.trace.updates):
        plans += [_with_filed_early(plan, share, second_bytes) for share in FILED_SHARES]
    # Where all updates open the next cycle, two ways differ in their closing rows alone.
    different = {(found.early, found.closing): found for found in plans if found.early}
    return list(different.values())


def with_early(plan: StepPlan, share: float, second_bytes: int, *, reopen: bool = True) -> StepPlan:
    """Return the plan with updates that are computed within backward, on speculation that step() will ask for them.

    With `reopen` these are the ones that open the next cycle, whose units can then go up before it, and of the others
    those whose gradients are final first, up to a share of all second copies. Together they take up to `second_bytes`
    of the host.
    """
    trace = plan.trace
    reopened = _reopened(trace, plan.loads)
    by_gradient = _by_gradient(trace)
    opening = [index for index in by_gradient if reopen and all(unit in reopened for unit in used_units(trace, index))]
    first = _as_fit(trace, by_gradient, round(share * sum(update.second_bytes for update in trace.updates)))
    early = _as_fit(trace, [*opening, *(index for index in first if index not in opening)], second_bytes)
    return _having_early(plan, early, [index for index in opening if index in early])


def _with_filed_early(plan: StepPlan, share: float, second_bytes: int) -> StepPlan:
    """Return the plan with a share of the updates within backward whose state is in the file, then of the others."""
    trace = plan.trace
    reopened = _reopened(trace, plan.loads)
    by_gradient = _by_gradient(trace)
    filed = [index for index in by_gradient if trace.updates[index].file_bytes]
    opening = [index for index in by_gradient if all(unit in reopened for unit in used_units(trace, index))]
    first = [*(index for index in opening if index in filed), *(index for index in filed if index not in opening)]
    room_bytes = min(second_bytes, round(share * sum(trace.updates[index].second_bytes for index in filed)))
    early = _as_fit(trace, first, room_bytes)
    return _having_early(plan, early, [index for index in opening if index in early])


def _having_early(plan: StepPlan, early: Sequence[int], closing: Sequence[int]) -> StepPlan:
    """Return the plan with these updates within backward; units of the closing ones go up before their cycle."""
    reopened = _reopened(plan.trace, plan.loads)
    rows = tuple(reopened[unit] for index in closing for unit in used_units(plan.trace, index))
    return replace(plan, early=frozenset(early), closing=rows)


def used_units(trace: StepTrace, update: int) -> tuple[int, ...]:
    """Return the units of an update that an operation needs: of a parameter and its half, one."""
    return tuple(unit for unit in trace.updates[update].units if unit in trace.uses)


def _by_gradient(trace: StepTrace) -> list[int]:
    """Return the updates of units that have gradients, in the order in which these are final.

    Not of units that are in the file: a second copy of these would have to be there, too.
    """
    final = {grad.unit: grad.op for grad in trace.grads}
    last = [max((final.get(unit, -1) for unit in update.units), default=-1) for update in trace.updates]
    filed = [any(trace.units[unit].tier == "file" for unit in update.units) for update in trace.updates]
    return sorted((index for index, op in enumerate(last) if op >= 0 and not filed[index]), key=last.__getitem__)


def _as_fit(trace: StepTrace, updates: Iterable[int], room_bytes: int) -> list[int]:
    """Return the first of these updates, as many as a memory holds second copies of."""
    fitting, used_bytes = [], 0
    for index in updates:
        used_bytes += trace.updates[index].second_bytes
        if used_bytes > room_bytes:
            break
        fitting.append(index)
    return fitting


def _reopened(trace: StepTrace, loads: Sequence[Load]) -> dict[int, Load]:
    """Return the opening rows of units that are written, by unit: issued before their cycle, once their place is free.

    Free since the last use of what lies there when a cycle ends, and of the unit itself.
    """
    rows = {}
    for row in loads:
        if row.trigger == 0 and row.unit in trace.written:
            end = row.offset + aligned(row.bytes)
            there = [rank for rank, one in enumerate(loads) if _meets(one, row.offset, end)]
            free = max(_free_at(trace, loads, rank) for rank in there)
            rows[row.unit] = replace(row, trigger=max(free, trace.uses[row.unit][-1] + 1), evicts=())
    return rows


def _meets(row: Load, start: int, end: int) -> bool:
    return row.offset < end and start < row.offset + aligned(row.bytes)


def _free_at(trace: StepTrace, loads: Sequence[Load], rank: int) -> int:
    """Return how many operations are over when what a row brings is gone from its place, or used no more."""
    unit = loads[rank].unit
    gone = next((row.trigger for row in loads[rank + 1 :] if unit in row.evicts), None)
    return trace.uses[unit][-1] + 1 if gone is None else gone


def _static_share(trace: StepTrace, budget_bytes: int) -> dict[int, int]:
    """Choose units that stay for good, and leave room to stream the others through, two operations at a time."""
    room = budget_bytes - 2 * max(sum(aligned(trace.units[unit].bytes) for unit in op.needed) for op in trace.ops)
    kept: dict[int, int] = {}
    end = 0
    for unit in sorted(trace.uses.keys() - trace.written):
        size_bytes = aligned(trace.units[unit].bytes)
        if end + size_bytes <= room:
            kept[unit] = end
            end += size_bytes
    return kept


def _sweep(
    trace: StepTrace, budget_bytes: int, carried: dict[int, int], strategy: Strategy, pinned: tuple[int, ...] = ()
) -> tuple[tuple[Load, ...], dict[int, int]]:
    """Plan one cycle from a given start; return its rows, and where everything lies at its end."""
    use_times = UseTimes(trace)
    addresses = AddressMap(budget_bytes // aligned(1) * aligned(1))
    sizes = [unit.bytes for unit in trace.units]
    for unit, offset in sorted(carried.items()):
        addresses.place(unit, addresses.window_at(offset, sizes[unit]), lambda _: 0)
    loads: list[Load] = []
    for index, op in enumerate(trace.ops):
        score = _score(use_times, index, strategy)
        try:
            needed = tuple(dict.fromkeys((*op.needed, *pinned)))
            placed = place_all(addresses, sizes, needed, (*op.held, *pinned), score, _since(use_times, index))
        except NoRoomError:
            wanted = sum(aligned(sizes[unit]) for unit in op.needed)
            names = [trace.units[unit].name for unit in op.needed]
            raise RefusedError(describe_too_large(names, wanted, budget_bytes)) from None
        loads += [_row(trace, use_times, unit, window, index) for unit, window in placed]
    return with_evictions(trace, loads, carried), addresses.offsets()


def _row(trace: StepTrace, use_times: UseTimes, unit: int, window: AddressWindow, index: int) -> Load:
    # A unit is in one place at a time: its next place counts from the last use of the one before.
    trigger = max(ready_since(use_times, window, index), use_times.free_since(unit, index))
    return Load(unit, window.offset, trace.units[unit].bytes, trigger, index, window.evicts)


def ready_since(use_times: UseTimes, window: AddressWindow, index: int) -> int:
    """Return how many operations must be over before a window may be written."""
    return window.ready_since(_since(use_times, index))


def _since(use_times: UseTimes, index: int) -> Callable[[int], int]:
    return lambda unit: use_times.free_since(unit, index)


def _score(use_times: UseTimes, index: int, strategy: Strategy) -> Callable[[AddressWindow], tuple[float, ...]]:
    def score(window: AddressWindow) -> tuple[float, ...]:
        soonest, live_bytes, spare = math.inf, 0, -window.bytes
        for segment in window.segments:
            spare += segment.bytes
            if segment.unit is None:
                continue
            next_use = use_times.next_use(segment.unit, index)
            if next_use != math.inf:
                soonest = min(soonest, next_use)
                live_bytes += segment.bytes
        when = ready_since(use_times, window, index)
        if strategy == "fewest":
            return (live_bytes, -soonest, when, spare, window.offset)
        return (-soonest, live_bytes, when, spare, window.offset)

    return score

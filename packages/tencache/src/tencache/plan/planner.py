"""Plan a step ahead: choose for every load the earliest moment and the best place.

Pure: no torch, no clock, no chance. The same trace and budget give the same table.
"""

import math
from collections.abc import Callable
from typing import Literal

from tencache.errors import RefusedError
from tencache.plan.address_map import AddressMap, AddressWindow, aligned
from tencache.plan.placing import NoRoomError, place_all
from tencache.plan.step_plan import Load, StepPlan, check_fits, describe_too_large, with_evictions
from tencache.plan.step_trace import StepTrace
from tencache.plan.use_times import UseTimes

Strategy = Literal["farthest", "fewest"]
# Of the budget, for units whose next values are sent up within backward.
EARLY_SHARES = (0.4, 0.6, 0.85)
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


def plan_early(trace: StepTrace, budget_bytes: int, share: float) -> StepPlan | None:
    """Return a plan that keeps a place for the units whose gradients come first, and fills it again within backward.

    By the time of step() their next values are on the device, if the updates were computed on speculation. They take up
    to `share` of the budget. Without room for any beside the largest operation there is no such plan.
    """
    check_fits(trace, budget_bytes)
    largest = max(sum(aligned(trace.units[unit].bytes) for unit in op.needed) for op in trace.ops)
    kept = _first_done(trace, min(round(share * budget_bytes), budget_bytes - largest))
    if not kept:
        return None
    try:
        loads, _ = _sweep(trace, budget_bytes, kept, "farthest", pinned=tuple(kept))
    except RefusedError:
        return None
    closing = tuple(
        Load(unit, offset, trace.units[unit].bytes, trace.uses[unit][-1] + 1, trace.uses[unit][0], (unit,))
        for unit, offset in kept.items()
    )
    return StepPlan("ahead", budget_bytes, trace, loads, tuple(sorted(kept.items())), closing=closing)


def _first_done(trace: StepTrace, room: int) -> dict[int, int]:
    """Choose whole updates in the order in which their gradients are final, and give each unit a place."""
    final = {grad.unit: grad.op for grad in trace.grads}
    ready = [update for update in trace.updates if update.units and all(unit in final for unit in update.units)]
    kept: dict[int, int] = {}
    end = 0
    for update in sorted(ready, key=lambda update: max(final[unit] for unit in update.units)):
        size_bytes = sum(aligned(trace.units[unit].bytes) for unit in update.units)
        # A unit that nothing touches needs no place.
        if end + size_bytes <= room and all(unit in trace.uses for unit in update.units):
            for unit in update.units:
                kept[unit] = end
                end += aligned(trace.units[unit].bytes)
    return kept


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

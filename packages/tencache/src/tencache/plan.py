"""From accesses and a budget to a table: after which operation to load what, where to, and what goes for it.

Pure: no torch, no clock, no chance. The same trace and budget give the same table.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from tencache.access import Trace
from tencache.errors import RefusedError
from tencache.floor import floor_up_bytes
from tencache.future import Future
from tencache.layout import Layout, Window, aligned
from tencache.placing import NoRoomError, place_all
from tencache.quantity import show_bytes

Strategy = Literal["farthest", "fewest"]
STRATEGIES: tuple[Strategy, ...] = ("farthest", "fewest")


@dataclass(frozen=True)
class Load:
    """One row: once `trigger` operations are done, drop `evicts` and copy `unit` to `offset`; `need` waits for it.

    A unit that the optimizer writes is loaded only after its update, whatever the trigger.
    """

    unit: int
    offset: int
    bytes: int
    trigger: int
    need: int
    evicts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Plan:
    """The table of one cycle.

    The opening rows, whose trigger is 0, come first and share no address: each is issued when its unit is updated, or,
    if the plan is not `eager`, when the first operation begins. The others are issued in order, as triggers pass.
    """

    policy: str
    budget_bytes: int
    trace: Trace
    loads: tuple[Load, ...]
    carried: tuple[tuple[int, int], ...] = ()
    eager: bool = True

    @property
    def up_bytes(self) -> int:
        """Bytes to the device in one cycle."""
        return sum(load.bytes for load in self.loads)

    @cached_property
    def up_floor_bytes(self) -> int:
        """Fewest bytes to the device that any schedule of this cycle could do with."""
        return floor_up_bytes(self.trace, self.budget_bytes)

    @cached_property
    def opening(self) -> tuple[Load, ...]:
        """Return the rows that wait for no operation."""
        return tuple(load for load in self.loads if load.trigger == 0)

    @cached_property
    def peak_bytes(self) -> int:
        """Most bytes of the arena that hold a unit at one time."""
        resident = dict.fromkeys((unit for unit, _ in self.carried), 0)
        peak = self._bytes_of(resident)
        for load in self.loads:
            for unit in load.evicts:
                resident.pop(unit, None)
            resident[load.unit] = load.offset
            peak = max(peak, self._bytes_of(resident))
        return peak

    def resident_after(self, rows: int) -> dict[int, int]:
        """Where everything lies once so many rows are issued."""
        resident = dict(self.carried)
        for load in self.loads[:rows]:
            for unit in load.evicts:
                resident.pop(unit, None)
            resident[load.unit] = load.offset
        return resident

    def table(self, limit: int | None = None) -> str:
        """Return the rows as text, the first `limit` of them."""
        lines = [f"{'after':>6} {'for':>6} {'offset':>12} {'bytes':>12}  load <- evict"]
        for load in self.loads[:limit]:
            gone = ", ".join(self.trace.units[unit].name for unit in load.evicts)
            name = self.trace.units[load.unit].name
            lines.append(
                f"{load.trigger:>6} {load.need:>6} {load.offset:>12} {load.bytes:>12}  {name} <- {gone or '-'}"
            )
        if limit is not None and len(self.loads) > limit:
            lines.append(f"... and {len(self.loads) - limit} rows more")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    def _bytes_of(self, units: dict[int, int]) -> int:
        return sum(self.trace.units[unit].bytes for unit in units)


def with_evictions(trace: Trace, loads: list[Load], carried: dict[int, int]) -> tuple[Load, ...]:
    """Complete each row's evictions: whatever still lies at its addresses, and the unit's own older copy."""
    where = dict(carried)
    rows: list[Load] = []
    for load in sorted(loads, key=lambda load: load.trigger > 0):
        end = load.offset + aligned(load.bytes)
        gone = {
            unit
            for unit, offset in where.items()
            if unit == load.unit or (offset < end and load.offset < offset + aligned(trace.units[unit].bytes))
        } | (where.keys() & set(load.evicts))
        for unit in gone:
            del where[unit]
        where[load.unit] = load.offset
        rows.append(replace(load, evicts=tuple(sorted(gone))))
    return tuple(rows)


def plan_ahead(trace: Trace, budget_bytes: int, strategy: Strategy = "farthest") -> Plan:
    """Load everything as early as its place is free, evicting what is needed last, or the fewest bytes."""
    check_fits(trace, budget_bytes)
    carried: dict[int, int] = {}
    for _ in range(6):
        loads, left = _sweep(trace, budget_bytes, carried, strategy)
        kept = {unit: offset for unit, offset in left.items() if unit not in trace.written}
        if kept == carried:
            return Plan("ahead", budget_bytes, trace, loads, tuple(sorted(carried.items())))
        carried = kept
    # A loop over more than fits never settles by itself: what stays for good is chosen instead.
    kept = _static_share(trace, budget_bytes)
    loads, _ = _sweep(trace, budget_bytes, kept, strategy, pinned=tuple(kept))
    return Plan("ahead", budget_bytes, trace, loads, tuple(sorted(kept.items())))


def _static_share(trace: Trace, budget_bytes: int) -> dict[int, int]:
    """Choose units that stay valid and stay put; two operations' worth of room is left to stream the others through."""
    room = budget_bytes - 2 * max(sum(aligned(trace.units[unit].bytes) for unit in op.needed) for op in trace.ops)
    kept: dict[int, int] = {}
    end = 0
    for unit in sorted(trace.uses.keys() - trace.written):
        size_bytes = aligned(trace.units[unit].bytes)
        if end + size_bytes <= room:
            kept[unit] = end
            end += size_bytes
    return kept


def check_fits(trace: Trace, budget_bytes: int) -> None:
    """Refuse a budget that the largest operation does not fit."""
    for op in trace.ops:
        wanted = sum(aligned(trace.units[unit].bytes) for unit in op.needed)
        if wanted > budget_bytes:
            raise RefusedError(describe_too_large([trace.units[unit].name for unit in op.needed], wanted, budget_bytes))


def describe_too_large(names: list[str], wanted_bytes: int, budget_bytes: int) -> str:
    """Say which operation does not fit, and what to do."""
    return (
        f"an operation needs {show_bytes(wanted_bytes)} on the device at once ({', '.join(names)}) and the budget is "
        f"{show_bytes(budget_bytes)}: raise the budget to {wanted_bytes} bytes, or split the layer"
    )


def _sweep(
    trace: Trace, budget_bytes: int, carried: dict[int, int], strategy: Strategy, pinned: tuple[int, ...] = ()
) -> tuple[tuple[Load, ...], dict[int, int]]:
    """One cycle from a given beginning: its rows, and what lies where at its end."""
    future = Future(trace)
    layout = Layout(budget_bytes // aligned(1) * aligned(1))
    sizes = [unit.bytes for unit in trace.units]
    for unit, offset in sorted(carried.items()):
        layout.place(unit, layout.window_at(offset, sizes[unit]), lambda _: 0)
    loads: list[Load] = []
    for index, op in enumerate(trace.ops):
        score = _score(future, index, strategy)
        try:
            needed = tuple(dict.fromkeys((*op.needed, *pinned)))
            placed = place_all(layout, sizes, needed, (*op.held, *pinned), score, _since(future, index))
        except NoRoomError:
            wanted = sum(aligned(sizes[unit]) for unit in op.needed)
            names = [trace.units[unit].name for unit in op.needed]
            raise RefusedError(describe_too_large(names, wanted, budget_bytes)) from None
        loads += [_row(trace, future, unit, window, index) for unit, window in placed]
    return with_evictions(trace, loads, carried), layout.resident()


def _row(trace: Trace, future: Future, unit: int, window: Window, index: int) -> Load:
    # A unit is in one place at a time: its next place counts from the last use of the one before.
    trigger = max(ready_since(future, window, index), future.free_since(unit, index))
    return Load(unit, window.offset, trace.units[unit].bytes, trigger, index, window.evicts)


def ready_since(future: Future, window: Window, index: int) -> int:
    """How many operations must be done before a window may be written."""
    return window.ready_since(_since(future, index))


def _since(future: Future, index: int) -> Callable[[int], int]:
    return lambda unit: future.free_since(unit, index)


def _score(future: Future, index: int, strategy: Strategy) -> Callable[[Window], tuple[float, ...]]:
    def score(window: Window) -> tuple[float, ...]:
        soonest, live_bytes, spare = math.inf, 0, -window.bytes
        for segment in window.segments:
            spare += segment.bytes
            if segment.unit is None:
                continue
            next_use = future.next_use(segment.unit, index)
            if next_use != math.inf:
                soonest = min(soonest, next_use)
                live_bytes += segment.bytes
        when = ready_since(future, window, index)
        if strategy == "fewest":
            return (live_bytes, -soonest, when, spare, window.offset)
        return (-soonest, live_bytes, when, spare, window.offset)

    return score

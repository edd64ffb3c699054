"""The plan of one step, as a table: after which operation to load what, where to, and what goes for it."""

from dataclasses import dataclass, replace
from functools import cached_property

from tencache.errors import RefusedError
from tencache.plan.address_map import aligned
from tencache.plan.floor import floor_up_bytes
from tencache.plan.step_trace import StepTrace
from tencache.quantity import show_bytes


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
class StepPlan:
    """The table of one cycle.

    The opening rows, whose trigger is 0, come first and share no address: each is issued when its unit is updated, or,
    if the plan is not `eager`, when the first operation begins. The others are issued in order, as triggers pass. The
    updates numbered in `early` are computed within backward. Of those a closing row does what an opening row of the
    next cycle would do, as soon as the next value is computed and `trigger` operations are done.
    """

    policy: str
    budget_bytes: int
    trace: StepTrace
    loads: tuple[Load, ...]
    carried: tuple[tuple[int, int], ...] = ()
    eager: bool = True
    closing: tuple[Load, ...] = ()
    early: frozenset[int] = frozenset()
    # Units whose parameters, gradients and optimizer state stay on the device, beside this plan's own budget.
    kept: frozenset[int] = frozenset()
    kept_bytes: int = 0
    # Which of the trace's saved tensors are computed again in backward, instead of kept or sent to the host.
    again: frozenset[int] = frozenset()

    @property
    def up_bytes(self) -> int:
        """Return the bytes sent to the device in one cycle."""
        return sum(load.bytes for load in self.loads)

    @property
    def second_bytes(self) -> int:
        """Return the host's memory for second copies of what is updated within backward."""
        return sum(self.trace.updates[index].second_bytes for index in self.early)

    @cached_property
    def up_floor_bytes(self) -> int:
        """Return the fewest bytes that any plan of this cycle must send to the device."""
        return floor_up_bytes(self.trace, self.budget_bytes)

    @cached_property
    def opening(self) -> tuple[Load, ...]:
        """Return the rows that wait for no operation."""
        return tuple(load for load in self.loads if load.trigger == 0)

    @cached_property
    def peak_bytes(self) -> int:
        """Return the most bytes that units occupy at one time."""
        resident = dict.fromkeys((unit for unit, _ in self.carried), 0)
        peak = self._bytes_of(resident)
        for load in self.loads:
            for unit in load.evicts:
                resident.pop(unit, None)
            resident[load.unit] = load.offset
            peak = max(peak, self._bytes_of(resident))
        return peak

    def resident_after(self, rows: int) -> dict[int, int]:
        """Return the offset of every unit on the device once so many rows are issued."""
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


def with_evictions(trace: StepTrace, loads: list[Load], carried: dict[int, int]) -> tuple[Load, ...]:
    """Return the rows with all their evictions: what lies at their addresses, and the unit's own older copy."""
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


def check_fits(trace: StepTrace, budget_bytes: int) -> None:
    """Refuse a budget that the largest operation does not fit."""
    for op in trace.ops:
        wanted = sum(aligned(trace.units[unit].bytes) for unit in op.needed)
        if wanted > budget_bytes:
            raise RefusedError(describe_too_large([trace.units[unit].name for unit in op.needed], wanted, budget_bytes))


def describe_too_large(names: list[str], wanted_bytes: int, budget_bytes: int) -> str:
    """Return a sentence that says which operation does not fit, and what to do."""
    return (
        f"an operation needs {show_bytes(wanted_bytes)} on the device at once ({', '.join(names)}) and the budget is "
        f"{show_bytes(budget_bytes)}: raise the budget to {wanted_bytes} bytes, or split the layer"
    )

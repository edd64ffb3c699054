"""Where in its plan a cycle is: which operation is next, and which rows are due."""

import math
from collections.abc import Iterable

from tencache.plan.step_plan import Load, StepPlan


class PlanFollower:
    """A plan being followed."""

    def __init__(self, plan: StepPlan) -> None:
        self.plan = plan
        self.done = 0
        self._opening = list(plan.opening)
        self._next_row = len(self._opening)
        self.closing = {row.unit: row for row in plan.closing}
        # No row is due before so many operations are done.
        self.next_trigger: float = 0
        self._look_ahead()

    def expects(self, units: Iterable[int], *, exactly: bool) -> bool:
        """Return whether the next operation touches these units, all of them or these among others."""
        order = self.plan.trace.order
        if self.done >= len(order):
            return False
        touched = order[self.done]
        if units == touched:
            return True
        planned, asked = set(touched), set(units)
        return planned == asked if exactly else asked <= planned

    def due(self) -> Load | None:
        """Return the next row whose trigger has passed. The first operation opens whatever is not open yet."""
        if self._opening:
            return self._opening[0]
        loads = self.plan.loads
        if self._next_row < len(loads) and loads[self._next_row].trigger <= self.done:
            return loads[self._next_row]
        return None

    def issued(self, row: Load) -> None:
        """Mark a due row as issued."""
        if self._opening:
            self._opening.remove(row)
        else:
            self._next_row += 1
        self._look_ahead()

    def _look_ahead(self) -> None:
        loads = self.plan.loads
        if self._opening:
            self.next_trigger = -1
        else:
            self.next_trigger = loads[self._next_row].trigger if self._next_row < len(loads) else math.inf

    def upcoming(self, count: int) -> list[Load]:
        """Return the next rows without taking them."""
        return list(self.plan.loads[self._next_row : self._next_row + count])

    def opened_by(self, units: Iterable[int]) -> list[Load]:
        """Return, and mark as issued, the opening rows of units that have just been updated."""
        if not self.plan.eager:
            return []
        wanted = set(units)
        rows = [row for row in self._opening if row.unit in wanted]
        self._opening = [row for row in self._opening if row.unit not in wanted]
        self._look_ahead()
        return rows

    def opening_bytes(self, units: Iterable[int]) -> int:
        """Return the bytes that go up once these units have been updated."""
        wanted = set(units) if self.plan.eager else set()
        return sum(row.bytes for row in self._opening if row.unit in wanted)

    def expected(self) -> list[Load]:
        """Return rows for what should lie on the device by now and is still needed, after an interruption."""
        resident = self.plan.resident_after(self._next_row)
        waiting = {row.unit for row in self._opening}
        uses = self.plan.trace.uses
        rows = [
            Load(unit, offset, self.plan.trace.units[unit].bytes, self.done, uses[unit][0])
            for unit, offset in resident.items()
            if unit not in waiting and uses.get(unit, (-1,))[-1] >= self.done
        ]
        return sorted(rows, key=lambda row: min(use for use in uses[row.unit] if use >= self.done))

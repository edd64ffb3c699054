"""When a unit is needed next: what a plan knows and a cache does not."""

import math
from bisect import bisect_right

from tencache.plan.step_trace import StepTrace


class UseTimes:
    """When a unit is needed next, seen from an operation; never again before its update means it is dead."""

    def __init__(self, trace: StepTrace) -> None:
        self._uses = trace.uses
        self._written = trace.written
        self._ops = len(trace.ops)

    def next_use(self, unit: int, index: int) -> float:
        """Return the next operation after `index` that needs the unit, in the next cycle too if it stays valid."""
        uses = self._uses.get(unit, ())
        rank = bisect_right(uses, index)
        if rank < len(uses):
            return uses[rank]
        if unit in self._written or not uses:
            return math.inf
        return self._ops + uses[0]

    def free_since(self, unit: int, index: int) -> int:
        """Return how many operations are over when the unit's last use before `index` is."""
        uses = self._uses.get(unit, ())
        rank = bisect_right(uses, index - 1)
        return uses[rank - 1] + 1 if rank else 0

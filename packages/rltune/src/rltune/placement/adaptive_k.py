"""How many jobs of the queue's front are looked at together: fewer as arrivals burst, so that decisions stay quick."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

CHOICES = (16, 8, 4)
# Assumed, not fitted: the benchmark's medians are 3 to 11, 4 to 11 and 1 to 6 ms on 36 and 128 nodes.
COST_MS = {16: 12.0, 8: 5.0, 4: 2.0}


class Depth(Protocol):
    """Says how many jobs to look at."""

    def k(self, now_s: float, arrived: int) -> int:
        """Return K, told the time and how many jobs have arrived so far."""
        ...

    def observe(self, k: int, ms: float) -> None:
        """Learn what a solve took; called only where the clock counts."""
        ...


@dataclass(frozen=True)
class Fixed:
    """Always as many."""

    jobs: int = 8

    def k(self, now_s: float, arrived: int) -> int:  # noqa: ARG002
        """Return the number."""
        return self.jobs

    def observe(self, k: int, ms: float) -> None:
        """Stay as it is."""


@dataclass
class Adaptive:
    """16, 8 or 4: the most whose solves, one for each job that has arrived in the last minute, keep within the budget.

    The cost of a solve is a table and the time is simulated, so the same run always gives the same K. Live,
    `observe` replaces the table's entries by what solves really took.
    """

    budget_ms: float = 250.0
    window_s: float = 60.0
    cost_ms: dict[int, float] = field(default_factory=lambda: dict(COST_MS))
    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    def k(self, now_s: float, arrived: int) -> int:
        """Return K for now."""
        while self._seen and self._seen[0][0] < now_s - self.window_s:
            self._seen.popleft()
        self._seen.append((now_s, arrived))
        recent = max(1, arrived - self._seen[0][1])
        return next((k for k in CHOICES if recent * self.cost_ms[k] <= self.budget_ms), CHOICES[-1])

    def observe(self, k: int, ms: float) -> None:
        """Learn from a solve what one costs here: four fifths of what was believed, one fifth of this."""
        if k in self.cost_ms:
            self.cost_ms[k] += 0.2 * (ms - self.cost_ms[k])

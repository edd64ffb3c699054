"""Whether user code has looked at a parameter, its gradient or its state: it may have written to what it saw."""

from collections import Counter
from collections.abc import Iterable

LookMark = tuple[int, ...]


class Looks:
    """Counts looks, so that whoever computed ahead of time can tell whether anyone has looked since."""

    def __init__(self) -> None:
        self._at: Counter[int] = Counter()
        self._at_all = 0

    def at(self, unit: int) -> None:
        """Count a look at a unit's parameters or gradients."""
        self._at[unit] += 1

    def at_all(self) -> None:
        """Count a look at the optimizer's state, or at everything."""
        self._at_all += 1

    def mark(self, units: Iterable[int]) -> LookMark:
        """Return a mark that is another one after any look at these units."""
        return (self._at_all, *(self._at[unit] for unit in units))

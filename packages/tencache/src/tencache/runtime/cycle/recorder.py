"""Records a cycle while it runs: which operation touched what, and how long compute took between waits."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from tencache.plan.step_trace import Phase, StepTrace, TraceBuilder, Unit, Update
from tencache.runtime.memory.link import Link


class Recorder:
    """Builds the trace of the cycle that runs; if not `timed`, only its order.

    Times are those of the link's clock: on a real device those of events, since the host is done long before it.
    """

    def __init__(self, units: tuple[Unit, ...], clock: Link, *, timed: bool = True) -> None:
        self.timed = timed
        self._clock = clock
        self._builder = TraceBuilder(units)
        self._resumed: Any = None

    def touched(self) -> list[int]:
        """Return every touch so far, in order."""
        return [unit for op in self._builder.ops for unit in op.touched]

    def order(self) -> tuple[tuple[int, ...], ...]:
        """Return the touched units so far, operation by operation."""
        return tuple([op.touched for op in self._builder.ops])

    def saw_backward(self) -> bool:
        """Return whether a backward has begun in this cycle."""
        return bool(self._builder.ops) and self._builder.ops[-1].phase == "backward"

    def op(self, touched: Sequence[int], held: Sequence[int], phase: Phase) -> None:
        """Begin an operation; the compute since the last one was ready counts for that one."""
        # Time up to here belongs to the operation before: kernels that touch no parameter are not seen.
        if self._resumed is not None:
            self.pause()
        self._builder.op(tuple(touched), tuple([unit for unit in held if unit not in touched]) if held else (), phase)

    def also_touches(self, unit: int) -> None:
        """Add a unit to those that the running operation touches."""
        self._builder.also_touches(unit)

    def resume(self) -> None:
        """Start the stopwatch: compute goes on."""
        if self.timed:
            self._resumed = self._clock.mark()

    def pause(self) -> None:
        """Stop the stopwatch, and add its time to the last operation."""
        if self._resumed is not None:
            # A backward that needs no parameter, since all that it needs was kept, belongs to no operation.
            if last := len(self._builder.ops):
                # The time may be known only later, when other operations have come after this one.
                computed = partial(self._builder.computed, last - 1)
                self._clock.note_between(self._resumed, self._clock.mark(), computed)
            self._resumed = None

    def grad(self, unit: int, size_bytes: int) -> None:
        """Record a gradient that left the device."""
        self._builder.grad(unit, size_bytes)

    @property
    def op_count(self) -> int:
        """Return how many operations have begun."""
        return len(self._builder.ops)

    def saved(self, size_bytes: int) -> int:
        """Record memory that autograd keeps from now on; return its number."""
        return self._builder.saved(size_bytes)

    def used(self, number: int) -> None:
        """Record that backward uses what was saved."""
        self._builder.used(number)

    def again(self, number: int, seconds: float, of: tuple[int, ...]) -> None:
        """Record what it takes to compute again what was saved, and from which others."""
        self._builder.again[number] = seconds, of

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Let the stopwatch stand still: what is computed meanwhile is not the model's."""
        running = self._resumed is not None
        self.pause()
        try:
            yield
        finally:
            if running:
                self.resume()

    def finish(self, updates: Iterable[Update]) -> StepTrace:
        """Return the trace."""
        self.pause()
        if self.timed:
            self._clock.resolve(wait=True)
        return self._builder.build(updates)

"""Time, as the controller sees it: handed in, so that a test or a test bed can bring its own."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Protocol


class Clock(Protocol):
    """Tells the time and waits."""

    def now_s(self) -> float:
        """Return the time of day, in seconds since the epoch."""
        ...

    def elapsed_s(self) -> float:
        """Return a time that never jumps; only differences mean something."""
        ...

    def wait(self, seconds: float) -> None:
        """Wait so long, or until somebody wakes it."""
        ...

    def wake(self) -> None:
        """End the wait, from a signal handler or another thread."""
        ...


@dataclass
class SystemClock:
    """The machine's clock; with a factor it runs faster, as a test bed's does, which showed `shown_s` at `at_s`."""

    factor: float = 1.0
    shown_s: float = 0.0
    at_s: float = 0.0
    _first_s: float = field(default_factory=time.monotonic)
    _woken: threading.Event = field(default_factory=threading.Event)

    def now_s(self) -> float:
        """Return the time of day."""
        return self.shown_s + (time.time() - self.at_s) * self.factor

    def elapsed_s(self) -> float:
        """Return the time since this clock was made."""
        return (time.monotonic() - self._first_s) * self.factor

    def wait(self, seconds: float) -> None:
        """Wait, unless it was woken since the last wait."""
        self._woken.wait(max(0.0, seconds) / self.factor)
        self._woken.clear()

    def wake(self) -> None:
        """End this wait, or the next one if nobody waits."""
        self._woken.set()

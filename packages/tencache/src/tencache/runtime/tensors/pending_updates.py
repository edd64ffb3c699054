"""Units whose update by the optimizer is still to come, and how to wait for it."""

import atexit
import os
import threading
import weakref
from collections.abc import Iterable

from tencache.errors import UpdateError

_everyone: "weakref.WeakSet[PendingUpdates]" = weakref.WeakSet()


class PendingUpdates:
    """What `step()` has promised and a thread carries out. Whoever reads or writes a unit's bytes waits here first."""

    def __init__(self) -> None:
        self._over: dict[int, threading.Event] = {}
        self._error: BaseException | None = None
        # What is tried without being asked for. Nobody waits for that, but it must be over before memory goes.
        self.aside: set[threading.Event] = set()
        _everyone.add(self)

    def promise(self, units: Iterable[int]) -> threading.Event:
        """Take in that these units have an update to come, and return what `fulfil` is to be given."""
        over = threading.Event()
        for unit in units:
            self._over[unit] = over
        return over

    def fulfil(self, units: Iterable[int], over: threading.Event) -> None:
        """Take in that these units are as the optimizer left them."""
        for unit in units:
            self._over.pop(unit, None)
        # Set last: who was waiting finds nothing pending.
        over.set()

    def fail(self, error: BaseException) -> None:
        """Take in that an update failed: parameters and state no longer belong together."""
        # The error first: who is woken by an event looks at it.
        self._error = error
        while self._over:
            self._over.popitem()[1].set()

    def forgive(self) -> BaseException | None:
        """Return what went wrong, if anything, and let the bytes be read as they are: for unwrapping."""
        error, self._error = self._error, None
        return error

    def has(self, unit: int) -> bool:
        """Return whether a unit has an update to come."""
        return unit in self._over

    def wait(self, unit: int) -> None:
        """Wait until a unit is up to date."""
        over = self._over.get(unit)
        if over is not None:
            over.wait()
        if self._error is not None:
            self._raise()

    def wait_all(self) -> None:
        """Wait until every unit is up to date."""
        for over in list(self._over.values()):
            over.wait()
        self._raise()

    def wait_quietly(self) -> None:
        """Wait until nothing is pending or tried, well or badly."""
        for over in (*list(self._over.values()), *list(self.aside)):
            over.wait()

    def _raise(self) -> None:
        if self._error is not None:
            raise UpdateError(describe_failure(self._error)) from self._error


def describe_failure(error: BaseException) -> str:
    """Return a sentence that says what a failed update means."""
    return (
        f"the optimizer's update failed after step() had returned ({type(error).__name__}: {error}): some parameters "
        "are updated and some are not, so go back to a checkpoint"
    )


def _settle_before_fork() -> None:
    # A child has the memory but not the threads: what is pending there would be so for good.
    for pending in list(_everyone):
        pending.wait_quietly()


os.register_at_fork(before=_settle_before_fork)
# The interpreter ends daemon threads wherever they are, and one that is inside torch then aborts the process.
atexit.register(_settle_before_fork)

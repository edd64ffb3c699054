"""Carries out updates of the optimizer after `step()` has returned, one slice after another."""

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tencache.runtime.tensors.pending_updates import PendingUpdates
from tencache.runtime.unrouted import Unrouted


@dataclass(eq=False)
class Promise:
    """An update to come: the units that it writes, and what to call."""

    units: Sequence[int]
    over: threading.Event
    update: Callable[[], None]
    # Nobody waits for what is only tried: if it fails, nothing is lost.
    aside: bool = False


class UpdateThread:
    """A thread that keeps promises in the order given. It starts with the first one."""

    def __init__(self, pending: PendingUpdates) -> None:
        self._pending = pending
        self._queue: queue.SimpleQueue[Promise | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, units: Sequence[int], update: Callable[[], None]) -> None:
        """Promise an update. From here on whoever reads or writes these units waits for it."""
        self._put(Promise(units, self._pending.promise(units), update))

    def put_aside(self, over: threading.Event, update: Callable[[], None]) -> None:
        """Try an update that was not asked for; `over` is set when that is over, well or badly."""
        self._pending.aside.add(over)
        self._put(Promise((), over, update, aside=True))

    def _put(self, promise: Promise) -> None:
        # In a forked process there is none, and nothing was queued when it was forked.
        if self._thread is not None and not self._thread.is_alive():
            self._queue, self._thread = queue.SimpleQueue(), None
        self._queue.put(promise)
        if self._thread is None:
            # A daemon: a program that ends without unwrap() must not hang on a thread that waits for work.
            self._thread = threading.Thread(target=self._run, name="tencache-optimizer", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Keep what was promised, and stop the thread."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        failed = False
        with Unrouted():
            while (promise := self._queue.get()) is not None:
                try:
                    if not failed:
                        promise.update()
                except BaseException as error:  # noqa: BLE001  whoever waits raises it
                    if not promise.aside:
                        failed = True
                        self._pending.fail(error)
                self._pending.aside.discard(promise.over)
                # Also what was promised after the failure: nobody is to wait for a thread that does nothing more.
                self._pending.fulfil(promise.units, promise.over)
                # Not kept until the next one: it holds the gradients.
                del promise

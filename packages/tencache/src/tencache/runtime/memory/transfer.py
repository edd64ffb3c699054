"""Copies, and the threads that carry them out one after another."""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tencache.errors import CopyError

_NOTHING = torch.empty(0)


def _nothing() -> Tensor:
    return _NOTHING


class Copy:
    """One copy on its way: `source` gives the bytes (it may wait for them), `landed` runs once they are there."""

    __slots__ = (
        "_arrival",
        "_bytes",
        "asked_s",
        "done",
        "error",
        "fence",
        "landed",
        "ready",
        "size_bytes",
        "source",
        "target",
    )

    def __init__(
        self,
        target: Tensor,
        source: Callable[[], Tensor],
        size_bytes: int,
        landed: Callable[[], None] | None = None,
    ) -> None:
        self.target = target
        self.source = source
        self.size_bytes = size_bytes
        self.landed = landed
        self.asked_s = time.perf_counter()
        self.error: BaseException | None = None
        self.fence: Any = None
        self.ready: Any = None
        self.done = False
        self._bytes = _NOTHING
        # A bare lock, held until the copy is over: an Event costs ten times as much, and there is one for every copy.
        self._arrival = threading.Lock()
        self._arrival.acquire()

    def prepare(self) -> None:
        """Wait for the bytes, if they are to come from the file first."""
        self._bytes = self.source()

    def move(self, *, non_blocking: bool = False) -> None:
        """Copy the bytes."""
        self.target.copy_(self._bytes, non_blocking=non_blocking)

    def finish(self, error: BaseException | None = None) -> None:
        """Mark it as over, and let go of the source."""
        self.error = error
        self._bytes = _NOTHING
        self.source = _nothing
        self.done = True
        self._arrival.release()

    def wait_over(self) -> None:
        """Wait until it is over, well or badly."""
        if not self.done:
            with self._arrival:
                pass

    def wait(self) -> None:
        """Wait until it is over, and raise what went wrong."""
        self.wait_over()
        if self.error is not None:
            raise CopyError(
                f"the copy thread died: {type(self.error).__name__}: {self.error}; unwrap the model and wrap it again"
            ) from self.error


ARRIVED = Copy(_NOTHING, _nothing, 0)
ARRIVED.finish()


class CopyBatch(Copy):
    """Several small copies that travel as one: waking a thread costs more than they do."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        super().__init__(_NOTHING, _nothing, 0, self._land)
        self._parts: list[tuple[Tensor, Tensor, Callable[[], None]]] = []

    def add(self, target: Tensor, source: Tensor, landed: Callable[[], None]) -> None:
        """Put one more in."""
        self._parts.append((target, source, landed))
        self.size_bytes += target.nbytes

    def move(self, *, non_blocking: bool = False) -> None:
        """Copy all of them."""
        for target, source, _ in self._parts:
            target.copy_(source, non_blocking=non_blocking)

    def _land(self) -> None:
        for _, _, landed in self._parts:
            landed()
        self._parts.clear()


class Lane:
    """A thread that carries copies in the order given."""

    def __init__(self, name: str, carry: Callable[[Copy], None]) -> None:
        self._carry = carry
        self._queue: queue.SimpleQueue[Copy | None] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self.bytes_moved = 0
        self._thread = threading.Thread(target=self._run, name=f"tencache-{name}", daemon=True)
        self._thread.start()

    def put(self, copy: Copy) -> None:
        """Queue a copy; on a dead lane it fails at once, which whoever waits for it will see."""
        self._queue.put(copy)
        if self._error is not None:
            self._refuse_queued()

    def close(self) -> None:
        """Let it finish what is queued, and stop."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001  gradients are set on wrapped parameters here
            while (copy := self._queue.get()) is not None:
                try:
                    self._serve(copy)
                except BaseException as error:  # noqa: BLE001  whoever waits raises it
                    # The error is set before the queue is emptied: whoever puts a copy in after that sees it.
                    self._error = error
                    copy.finish(error)
                    self._refuse_queued()
                    return

    def _serve(self, copy: Copy) -> None:
        self._carry(copy)
        if copy.landed is not None:
            copy.landed()
        self.bytes_moved += copy.size_bytes
        copy.finish()

    def _refuse_queued(self) -> None:
        while True:
            try:
                copy = self._queue.get_nowait()
            except queue.Empty:
                return
            if copy is not None:
                copy.finish(self._error)

"""The copy engine: two lanes, up and down, each a thread that takes copies in order.

On a CPU the "device" is simulated: a lane really copies, then sleeps to bytes / bandwidth. On CUDA a lane issues the
copy on a stream of its own, ordered by events. Everything above this file is the same for both.
"""

import ctypes
import queue
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tencache.errors import CopyError

_PR_SET_TIMERSLACK = 29
_cuda: Any = torch.cuda
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


class Batch(Copy):
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


class Link(ABC):
    """The two ways between host and device."""

    up: Lane
    down: Lane

    @abstractmethod
    def fence(self) -> Any:
        """Return a mark after everything the device was told to compute so far."""

    @abstractmethod
    def await_on_device(self, copy: Copy) -> None:
        """Let the device's next work come after a copy that was waited for."""

    @abstractmethod
    def await_on_host(self, copy: Copy) -> None:
        """Wait until the copy no longer reads its source."""

    def close(self) -> None:
        """Stop both lanes."""
        self.up.close()
        self.down.close()


class SimLink(Link):
    """Two throttled threads; the device is the host's own memory."""

    def __init__(self, bytes_per_s: float | None) -> None:
        self.up = Lane("up", _Throttle(bytes_per_s))
        self.down = Lane("down", _Throttle(bytes_per_s))

    def fence(self) -> None:
        """Return nothing: the simulated device computes while it is told to."""

    def await_on_device(self, copy: Copy) -> None:
        """Do nothing: a finished copy is there."""

    def await_on_host(self, copy: Copy) -> None:
        """Wait for the thread."""
        copy.wait()


class _Throttle:
    """Copies, then sleeps until the simulated wire is done with the bytes; the wire is never faster than asked.

    A real link needs no processor: a copy is on the wire from when it was asked for, its bytes are there and the wire
    is free, however late this thread was woken.
    """

    def __init__(self, bytes_per_s: float | None) -> None:
        self._bytes_per_s = bytes_per_s
        self._free_at = 0.0
        self._precise = False

    def __call__(self, copy: Copy) -> None:
        woken_s = time.perf_counter()
        copy.prepare()
        begun_s = max(copy.asked_s, self._free_at) + time.perf_counter() - woken_s
        copy.move()
        if self._bytes_per_s is not None:
            self._free_at = max(begun_s + copy.size_bytes / self._bytes_per_s, time.perf_counter())
            self._sleep_until(self._free_at)

    def _sleep_until(self, when: float) -> None:
        if not self._precise:
            self._precise = True
            _sleep_precisely()
        rest = when - time.perf_counter()
        if rest > 0:
            time.sleep(rest)


def _sleep_precisely() -> None:
    """Ask the system to end this thread's sleeps on time; by default Linux adds up to 50 us to each."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


class CudaLink(Link):
    """A stream for each way. Not run on the machine this was written on: it has no GPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.up = Lane("up", self._carry_on(_cuda.Stream(device)))
        self.down = Lane("down", self._carry_on(_cuda.Stream(device)))

    def fence(self) -> torch.cuda.Event:
        """Record an event on the stream that computes."""
        event: torch.cuda.Event = _cuda.Event()
        event.record(torch.cuda.current_stream(self._device))
        return event

    def await_on_device(self, copy: Copy) -> None:
        """Make the computing stream wait for the copy's event."""
        if copy.ready is not None:
            torch.cuda.current_stream(self._device).wait_event(copy.ready)

    def await_on_host(self, copy: Copy) -> None:
        """Wait for the thread, then for the stream."""
        copy.wait()
        if copy.ready is not None:
            copy.ready.synchronize()

    def _carry_on(self, stream: torch.cuda.Stream) -> Callable[[Copy], None]:
        def carry(copy: Copy) -> None:
            copy.prepare()
            with torch.cuda.stream(stream):
                if copy.fence is not None:
                    stream.wait_event(copy.fence)
                copy.move(non_blocking=True)
                copy.ready = _cuda.Event()
                copy.ready.record(stream)
            if copy.landed is not None:
                copy.ready.synchronize()

        return carry

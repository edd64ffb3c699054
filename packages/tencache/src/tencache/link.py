"""The copy engine: two lanes, up and down, each a thread that takes copies in order.

On a CPU the "device" is simulated: a lane really copies, then sleeps to bytes / bandwidth. On CUDA a lane issues the
copy on a stream of its own, ordered by events. Everything above this file is the same for both.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tencache.errors import CopyError

_SLEEP_ERROR_S = 1e-3
_cuda: Any = torch.cuda
_NOTHING = torch.empty(0)


def _nothing() -> Tensor:
    return _NOTHING


class Copy:
    """One copy on its way: `source` gives the bytes (it may wait for them), `landed` runs once they are there."""

    __slots__ = ("_bytes", "_done", "asked_s", "error", "fence", "landed", "ready", "size_bytes", "source", "target")

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
        self._bytes = _NOTHING
        self._done = threading.Event()

    def prepare(self) -> None:
        """Wait for the bytes, if they are to come from the file first."""
        self._bytes = self.source()

    def move(self, *, non_blocking: bool = False) -> None:
        """Copy the bytes."""
        self.target.copy_(self._bytes, non_blocking=non_blocking)

    @property
    def done(self) -> bool:
        """Whether the bytes have arrived, or never will."""
        return self._done.is_set()

    def finish(self, error: BaseException | None = None) -> None:
        """Mark it as over, and let go of the source."""
        self.error = error
        self._bytes = _NOTHING
        self.source = _nothing
        self._done.set()

    def wait_over(self) -> None:
        """Wait until it is over, well or badly."""
        self._done.wait()

    def wait(self) -> None:
        """Wait until it is over, and raise what went wrong."""
        self._done.wait()
        if self.error is not None:
            raise CopyError(
                f"the copy thread died: {type(self.error).__name__}: {self.error}; unwrap the model and wrap it again"
            ) from self.error


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
        self._queue: deque[Copy | None] = deque()
        self._some = threading.Condition()
        self._error: BaseException | None = None
        self.bytes_moved = 0
        self._thread = threading.Thread(target=self._run, name=f"tencache-{name}", daemon=True)
        self._thread.start()

    def put(self, copy: Copy) -> None:
        """Queue a copy; on a dead lane it fails at once, which whoever waits for it will see."""
        with self._some:
            if self._error is not None:
                copy.finish(self._error)
                return
            self._queue.append(copy)
            self._some.notify()

    def close(self) -> None:
        """Let it finish what is queued, and stop."""
        with self._some:
            self._queue.append(None)
            self._some.notify()
        self._thread.join()

    def _run(self) -> None:
        with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001  gradients are set on wrapped parameters here
            while (copy := self._next()) is not None:
                try:
                    self._serve(copy)
                except BaseException as error:  # noqa: BLE001  whoever waits raises it
                    self._die(copy, error)
                    return

    def _serve(self, copy: Copy) -> None:
        self._carry(copy)
        if copy.landed is not None:
            copy.landed()
        self.bytes_moved += copy.size_bytes
        copy.finish()

    def _next(self) -> Copy | None:
        with self._some:
            while not self._queue:
                self._some.wait()
            return self._queue.popleft()

    def _die(self, copy: Copy, error: BaseException) -> None:
        with self._some:
            self._error = error
            waiting = [copy, *(other for other in self._queue if other is not None)]
            self._queue.clear()
        for one in waiting:
            one.finish(error)


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
    """Copies, then sleeps until the simulated wire would have been done; the wire is never faster than asked."""

    def __init__(self, bytes_per_s: float | None) -> None:
        self._bytes_per_s = bytes_per_s
        self._free_at = 0.0

    def __call__(self, copy: Copy) -> None:
        copy.prepare()
        begun = time.perf_counter()
        copy.move()
        if self._bytes_per_s is None:
            return
        # A sleep ends late by its nature; a copy that was already waiting begins when the wire was free, not then.
        late = copy.asked_s <= self._free_at and begun - self._free_at < _SLEEP_ERROR_S
        self._free_at = (self._free_at if late else begun) + copy.size_bytes / self._bytes_per_s
        rest = self._free_at - time.perf_counter()
        if rest > 0:
            time.sleep(rest)
        else:
            self._free_at = time.perf_counter()


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

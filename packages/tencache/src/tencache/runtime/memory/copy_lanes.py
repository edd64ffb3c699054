"""Copies, and the threads that carry them out one after another."""

import atexit
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tencache.errors import CopyError, PeerError, UpdateError
from tencache.runtime.unrouted import Unrouted

_NOTHING = torch.empty(0)
EXIT_PATIENCE_S = 2.0
FORK_PATIENCE_S = 60.0


def _nothing() -> Tensor:
    return _NOTHING


class Copy:
    """One copy on its way: `source` gives the bytes (it may wait for them), `landed` runs once they are there."""

    __slots__ = (
        "_arrival",
        "_bytes",
        "asked_s",
        "at_once",
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
        # Whether its bytes need not be waited for, so that whoever asks for it may carry it out.
        self.at_once = False
        self._bytes = _NOTHING
        # A bare lock, held until the copy is over: an Event costs ten times as much, and there is one for every copy.
        self._arrival = threading.Lock()
        self._arrival.acquire()

    def prepare(self) -> None:
        """Get the bytes, waiting for them if they come from the file."""
        self._bytes = self.source()

    def move(self, *, non_blocking: bool = False) -> None:
        """Copy the bytes."""
        _copy(self.target, self._bytes, non_blocking=non_blocking)

    def finish(self, error: BaseException | None = None) -> None:
        """Mark the copy as over, and drop its source."""
        # `done` is read without the lock, so everything that it promises is stored before it.
        self.error = error
        # A slot keeps its last copy until the next one: the source must not keep a gradient or a lease alive so long.
        self._bytes = _NOTHING
        self.source = _nothing
        # Nor its target, which may be a gradient: who else holds one is counted.
        self.target = _NOTHING
        self.landed = None
        self.done = True
        self._arrival.release()

    def wait_over(self) -> None:
        """Wait until the copy is over, well or badly."""
        if not self.done:
            with self._arrival:
                pass

    def wait(self) -> None:
        """Wait until the copy is over, and raise what went wrong."""
        self.wait_over()
        # What could not be sent because it was never computed: the thread is not to blame.
        if isinstance(self.error, (UpdateError, PeerError)):
            raise type(self.error)(str(self.error)) from self.error
        if self.error is not None:
            raise CopyError(
                f"the copy thread died: {type(self.error).__name__}: {self.error}; unwrap the model and wrap it again"
            ) from self.error


def _copy(target: Tensor, source: Tensor, *, non_blocking: bool) -> None:
    """Copy in one piece where both lie in memory alike: a device copies anything else through a second buffer."""
    if not target.is_contiguous() and target.stride() == source.stride() and _span(target) == target.numel():
        target, source = (one.as_strided((one.numel(),), (1,)) for one in (target, source))
    target.copy_(source, non_blocking=non_blocking)


def _span(tensor: Tensor) -> int:
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


ARRIVED = Copy(_NOTHING, _nothing, 0)
ARRIVED.finish()


class CopyBatch(Copy):
    """Several small copies that travel as one: waking a thread costs more than they do."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        super().__init__(_NOTHING, _nothing, 0, self._land)
        self._parts: list[tuple[Tensor, Tensor, Callable[[], None]]] = []

    def add(self, target: Tensor, source: Tensor, landed: Callable[[], None]) -> None:
        """Add a copy to the batch."""
        self._parts.append((target, source, landed))
        self.size_bytes += target.nbytes

    def move(self, *, non_blocking: bool = False) -> None:
        """Copy all of them."""
        for target, source, _ in self._parts:
            _copy(target, source, non_blocking=non_blocking)

    def _land(self) -> None:
        # In the order of adding: of a parameter's two gradients the first becomes `.grad`, the second is added.
        for _, _, landed in self._parts:
            landed()
        self._parts.clear()


class Lane:
    """A thread that carries copies in the order given.

    Others rely on that order: gradients of one parameter are added up as they were sent, and a place in the arena that
    is given to another unit is overwritten only after the copy that filled it before.

    Copies of at most `at_once_bytes` that need not wait are carried out by whoever puts them, if none is before them:
    waking the thread, and sharing the interpreter with it, would cost more.
    """

    def __init__(self, name: str, carry: Callable[[Copy], None], *, at_once_bytes: int = 0) -> None:
        self._carry = carry
        self._at_once_bytes = at_once_bytes
        # Each is written by one thread only.
        self._put_count = self._served_count = 0
        self._queue: queue.SimpleQueue[Copy | None] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self.bytes_moved = 0
        self._process = os.getpid()
        # A daemon: a program that ends without unwrap() must not hang on a thread that waits for work.
        self._thread = threading.Thread(target=self._run, name=f"tencache-{name}", daemon=True)
        self._thread.start()
        _everyone.add(self)

    def put(self, copy: Copy) -> None:
        """Queue a copy; on a dead lane it fails at once, and waiting for it raises."""
        if (
            copy.at_once
            and copy.size_bytes <= self._at_once_bytes
            and self._put_count == self._served_count
            and self._error is None
        ):
            self._serve_here(copy)
            return
        # A forked process has no threads but its own. Nothing was queued when it was forked.
        if self._process != os.getpid():
            self._serve_here(copy)
            return
        self._put_count += 1
        # First put, then look. A lane that dies in between either empties the queue after this put, or has set its
        # error before this look. Looked at first, a copy could stay in a queue that nobody serves.
        self._queue.put(copy)
        if self._error is not None:
            self._refuse_queued()

    @property
    def idle(self) -> bool:
        """Return whether everything that was put is over."""
        return self._put_count == self._served_count or self._error is not None

    def close(self) -> None:
        """Finish what is queued, and stop the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        with Unrouted():  # `landed` sets gradients on wrapped parameters
            while (copy := self._queue.get()) is not None:
                try:
                    self._serve(copy)
                    self._served_count += 1
                except BaseException as error:  # noqa: BLE001  whoever waits raises it
                    # The error is set before the queue is emptied: whoever puts a copy in after that sees it.
                    self._error = error
                    copy.finish(error)
                    self._refuse_queued()
                    return

    def _serve_here(self, copy: Copy) -> None:
        try:
            with Unrouted():
                self._serve(copy)
        except BaseException as error:  # noqa: BLE001  whoever waits raises it
            # As if it had failed on the thread, which ends.
            self._error = error
            copy.finish(error)
            self._queue.put(None)

    def _serve(self, copy: Copy) -> None:
        self._carry(copy)
        # Before finish(): whoever waited finds `.grad` set, its lease given back, and the bytes counted.
        if copy.landed is not None:
            copy.landed()
        self.bytes_moved += copy.size_bytes
        copy.finish()

    def wait_empty(self) -> None:
        """Wait until everything that was put before is over, well or badly."""
        last = Copy(_NOTHING, _nothing, 0)
        self.put(last)
        last.wait_over()

    def _refuse_queued(self) -> None:
        while True:
            try:
                copy = self._queue.get_nowait()
            except queue.Empty:
                return
            if copy is not None:
                copy.finish(self._error)


_everyone: "weakref.WeakSet[Lane]" = weakref.WeakSet()


def _settle(patience_s: float) -> None:
    # The interpreter ends daemon threads wherever they are, and one that is inside torch then aborts the process. A
    # forked process has the memory but not the threads: a copy on its way would be so for good. A lane that waits for
    # what will never come may go on waiting.
    deadline_s = time.perf_counter() + patience_s
    while time.perf_counter() < deadline_s and not all(lane.idle for lane in list(_everyone)):
        time.sleep(0.01)


atexit.register(_settle, EXIT_PATIENCE_S)
os.register_at_fork(before=lambda: _settle(FORK_PATIENCE_S))


class IssuingLane(Lane):
    """A lane whose copies are only begun by its thread; another thread waits for them, and lets them land.

    So a copy never waits for the one before it to be over, only to be begun: the device's own queue stays full.
    """

    def __init__(
        self, name: str, begin: Callable[[Copy], None], wait: Callable[[Copy], None], *, over_when_begun: bool
    ) -> None:
        self._over_when_begun = over_when_begun
        self._landing = Lane(f"{name}-landing", wait)
        super().__init__(name, begin)

    def close(self) -> None:
        """Finish what is queued, and stop both threads."""
        super().close()
        self._landing.close()

    def wait_empty(self) -> None:
        """Wait until everything that was put before has been begun, and has landed."""
        super().wait_empty()
        self._landing.wait_empty()

    def _serve(self, copy: Copy) -> None:
        self._carry(copy)
        self.bytes_moved += copy.size_bytes
        if not self._over_when_begun:
            self._landing.put(copy)
            return
        if copy.landed is not None:
            landing = Copy(_NOTHING, _nothing, 0, copy.landed)
            landing.ready = copy.ready
            self._landing.put(landing)
        copy.finish()

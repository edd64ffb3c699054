"""The two ways between host and device.

On a CPU the "device" is simulated: a lane really copies, then sleeps to bytes / bandwidth. On a real device a lane
issues the copy on a stream of its own, ordered by events, and times are those of events. Everything above this file is
the same for both.
"""

import ctypes
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tencache.runtime.memory.accelerator import Accelerator
from tencache.runtime.memory.copy_lanes import Copy, IssuingLane, Lane

_PR_SET_TIMERSLACK = 29
AT_ONCE_BYTES = 2**20


Note = Callable[[float], None]


class Link(ABC):
    """The two ways between host and device, and the clock of what computes there."""

    up: Lane
    down: Lane

    @abstractmethod
    def fence(self) -> Any:
        """Return a mark after everything the device was told to compute so far."""

    @abstractmethod
    def arrived(self, copy: Copy) -> bool:
        """Return whether a copy's bytes are there, so that nothing need wait for it."""

    @abstractmethod
    def await_on_device(self, copy: Copy) -> None:
        """Make the device's next work wait for a copy, or raise what went wrong with it."""

    @abstractmethod
    def await_on_host(self, copy: Copy) -> None:
        """Wait until the copy no longer reads its source."""

    @abstractmethod
    def note_stall(self, copy: Copy, note: Note) -> None:
        """Note how long the device's next work will have waited for a copy: now, or at `resolve`."""

    @abstractmethod
    def mark(self) -> Any:
        """Return a point in the time of what computes."""

    @abstractmethod
    def note_between(self, first: Any, last: Any, note: Note) -> None:
        """Note the seconds between two marks: now, or at `resolve`."""

    @abstractmethod
    def note_stream(self) -> Any:
        """Take in that the stream which this thread computes on may read what is on the device."""

    @abstractmethod
    def resolve(self, *, wait: bool) -> None:
        """Report the times that are known by now, or all of them."""

    @abstractmethod
    def tell(self, flag: Tensor, then: Callable[[bool], None]) -> None:
        """Tell what a byte on the device says, once it is computed: at once, or from a copy thread."""

    @abstractmethod
    def speeds(self, source: Tensor, target: Tensor) -> tuple[float, float]:
        """Measure the bytes per second up and down, with a buffer on the host and one on the device."""

    def drain(self) -> None:
        """Wait until no copy is on its way."""
        self.up.wait_empty()
        self.down.wait_empty()

    def close(self) -> None:
        """Finish what is on its way, and stop both lanes."""
        self.up.close()
        self.down.close()


class SimLink(Link):
    """Two throttled threads; the device is the host's own memory."""

    def __init__(self, bytes_per_s: float | None) -> None:
        self._bytes_per_s = bytes_per_s
        # A wire for each way, as PCIe has them: gradients going down do not slow parameters going up.
        # Without a limit the wire is a copy in memory, and small ones are not worth a thread.
        at_once_bytes = AT_ONCE_BYTES if bytes_per_s is None else 0
        self.up = Lane("up", _carrier(bytes_per_s), at_once_bytes=at_once_bytes)
        self.down = Lane("down", _carrier(bytes_per_s), at_once_bytes=at_once_bytes)

    def fence(self) -> None:
        """Return nothing: the simulated device computes while it is told to."""

    def arrived(self, copy: Copy) -> bool:
        """Return whether the thread is done with it."""
        return copy.done and copy.error is None

    def await_on_device(self, copy: Copy) -> None:
        """Wait for the thread: the simulated device is the thread that calls."""
        copy.wait()

    def await_on_host(self, copy: Copy) -> None:
        """Wait for the thread."""
        copy.wait()

    def note_stall(self, copy: Copy, note: Note) -> None:
        """Wait for the thread, and tell how long it took."""
        began_s = time.perf_counter()
        copy.wait_over()
        note(time.perf_counter() - began_s)

    def mark(self) -> float:
        """Return the time."""
        return time.perf_counter()

    def note_between(self, first: float, last: float, note: Note) -> None:
        """Note the seconds between two times."""
        note(last - first)

    def note_stream(self) -> None:
        """Do nothing: there is one."""

    def resolve(self, *, wait: bool) -> None:
        """Do nothing: every time was told at once."""

    def tell(self, flag: Tensor, then: Callable[[bool], None]) -> None:
        """Tell it."""
        then(bool(flag))

    def speeds(self, source: Tensor, target: Tensor) -> tuple[float, float]:
        """Return the simulated bandwidth; if there is none, that of copies in memory."""
        if self._bytes_per_s is not None:
            return self._bytes_per_s, self._bytes_per_s
        return _best_speed(self, target, source), _best_speed(self, source, target)


def _carrier(bytes_per_s: float | None) -> Callable[[Copy], None]:
    """Return what carries a copy over a wire of this speed."""
    return _carry_freely if bytes_per_s is None else _Throttle(bytes_per_s)


def _carry_freely(copy: Copy) -> None:
    copy.prepare()
    copy.move()


class _Throttle:
    """Copies, then sleeps until the simulated wire is done with the bytes; the wire is never faster than asked.

    A real link needs no processor: a copy is on the wire from when it was asked for, its bytes are there and the wire
    is free, however late this thread was woken.
    """

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._free_at = 0.0
        self._precise = False

    def __call__(self, copy: Copy) -> None:
        woken_s = time.perf_counter()
        copy.prepare()
        begun_s = max(copy.asked_s, self._free_at) + time.perf_counter() - woken_s
        copy.move()
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


class StreamLink(Link):
    """A stream of the device for each way."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        # Every stream that has computed with what is on the device. A program has one, rarely more.
        self._computing: dict[int, Any] = {}
        # Times that are asked for before the device has come to them.
        self._unresolved: deque[tuple[Any, Any, Note]] = deque()
        self._up, self._down = accelerator.new_stream(), accelerator.new_stream()
        # An upload is over for the host once it is queued: await_on_device() orders the device behind it. A gradient is
        # over once it is on the host; until then its memory on the device is kept, and needs no record_stream().
        self.up = IssuingLane("up", self._carry_on(self._up), _wait_for_stream, over_when_begun=True)
        self.down = IssuingLane("down", self._carry_on(self._down), _wait_for_stream, over_when_begun=False)

    def fence(self) -> tuple[Any, ...]:
        """Record an event on each stream that computes."""
        self.note_stream()
        return tuple([self._record(stream) for stream in self._computing.values()])

    def arrived(self, copy: Copy) -> bool:
        """Return whether the stream is done with it."""
        if not copy.done or copy.error is not None:
            return False
        # Not asked again: a parameter is touched often, and each question is a call to the driver.
        if copy.ready is not None and copy.ready.query():
            copy.ready = None
        return copy.ready is None

    def await_on_device(self, copy: Copy) -> None:
        """Make the computing stream wait for the copy's event, once it has been recorded."""
        copy.wait()
        stream = self.note_stream()
        if copy.ready is not None:
            stream.wait_event(copy.ready)

    def await_on_host(self, copy: Copy) -> None:
        """Wait for the thread, then for the stream."""
        copy.wait()
        _wait_for_stream(copy)

    def note_stall(self, copy: Copy, note: Note) -> None:
        """Tell, once the device has come so far, how long it waits here for the copy."""
        reached = self.mark()
        copy.wait_over()
        if copy.ready is not None:
            self.note_between(reached, copy.ready, note)

    def mark(self) -> Any:
        """Return an event on the stream that computes."""
        return self._record(self._accelerator.current_stream())

    def note_between(self, first: Any, last: Any, note: Note) -> None:
        """Note the seconds between two events, once the device has come to both."""
        self._unresolved.append((first, last, note))

    def resolve(self, *, wait: bool) -> None:
        """Report the times whose events are over, in the order in which they were asked for."""
        while self._unresolved:
            first, last, note = self._unresolved[0]
            if wait:
                first.synchronize()
                last.synchronize()
            elif not (first.query() and last.query()):
                return
            self._unresolved.popleft()
            note(max(first.elapsed_time(last), 0.0) / 1e3)

    def tell(self, flag: Tensor, then: Callable[[bool], None]) -> None:
        """Send the byte down, behind what else is on its way: the host does not wait for the device."""
        host = torch.empty(1, dtype=torch.uint8)
        copy = Copy(host, lambda: flag, 1, lambda: then(bool(host)))
        copy.fence = self.fence()
        copy.at_once = True
        self.down.put(copy)

    def note_stream(self) -> Any:
        """Take in that the stream which this thread computes on may read what is on the device."""
        stream = self._accelerator.current_stream()
        return self._computing.setdefault(stream.stream_id, stream)

    def speeds(self, source: Tensor, target: Tensor) -> tuple[float, float]:
        """Measure both ways by events, on the streams that will be used."""
        ways = ((self._up, target, source), (self._down, source, target))
        for stream, _, _ in ways:
            for event in self.fence():
                stream.wait_event(event)
        found = []
        for stream, to, what in ways:
            with self._accelerator.on_stream(stream):
                found.append(_best_speed(self, to, what))
        return found[0], found[1]

    def drain(self) -> None:
        """Wait for the threads, then for the streams."""
        super().drain()
        self._synchronize()

    def close(self) -> None:
        """Finish what is on its way, and stop the threads."""
        super().close()
        self._synchronize()
        self._unresolved.clear()

    def _synchronize(self) -> None:
        self._up.synchronize()
        self._down.synchronize()

    def _record(self, stream: Any) -> Any:
        event = self._accelerator.new_event()
        event.record(stream)
        return event

    def _carry_on(self, stream: Any) -> Callable[[Copy], None]:
        def carry(copy: Copy) -> None:
            # Waits for the file here, on the lane's thread, so that the stream is never blocked by a disk.
            copy.prepare()
            with self._accelerator.on_stream(stream):
                # On the way up, kernels issued before the fence may still read the place that is overwritten; on the
                # way down, they may still be computing the gradient.
                for event in copy.fence or ():
                    stream.wait_event(event)
                copy.move(non_blocking=True)
                copy.ready = self._record(stream)

        return carry


def _wait_for_stream(copy: Copy) -> None:
    # Asked first: under load most copies are over by now, and waiting for an event is a call to the driver.
    if copy.ready is not None and not copy.ready.query():
        copy.ready.synchronize()


_PROBE_BYTES = 16 * 2**20
_PROBES = 3


def _best_speed(link: Link, target: Tensor, source: Tensor) -> float:
    """Return the bytes per second of copies in a row: the best of a few, since the first ones are cold."""
    times = max(1, min(64, _PROBE_BYTES // max(source.numel(), 1)))
    seconds: list[float] = []
    for _ in range(_PROBES):
        first = link.mark()
        for _ in range(times):
            target.copy_(source, non_blocking=True)
        link.note_between(first, link.mark(), seconds.append)
    link.resolve(wait=True)
    # A clock that does not move would make a speed without end.
    return times * source.numel() / max(min(seconds), 1e-9)

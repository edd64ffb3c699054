"""The two ways between host and device.

On a CPU the "device" is simulated: a lane really copies, then sleeps to bytes / bandwidth. On CUDA a lane issues the
copy on a stream of its own, ordered by events. Everything above this file is the same for both.
"""

import ctypes
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch

from tencache.runtime.memory.copy_lanes import Copy, Lane

_PR_SET_TIMERSLACK = 29
_cuda: Any = torch.cuda


class Link(ABC):
    """The two ways between host and device."""

    up: Lane
    down: Lane

    @abstractmethod
    def fence(self) -> Any:
        """Return a mark after everything the device was told to compute so far."""

    @abstractmethod
    def await_on_device(self, copy: Copy) -> None:
        """Make the device's next work wait for a copy that the host has already waited for."""

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
        # A wire for each way, as PCIe has them: gradients going down do not slow parameters going up.
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
            # Waits for the file here, on the lane's thread, so that the stream is never blocked by a disk.
            copy.prepare()
            with torch.cuda.stream(stream):
                # On the way up, kernels issued before the fence may still read the place that is overwritten; on the
                # way down, they may still be computing the gradient.
                if copy.fence is not None:
                    stream.wait_event(copy.fence)
                copy.move(non_blocking=True)
                copy.ready = _cuda.Event()
                copy.ready.record(stream)
            # `landed` uses the bytes on the host, or frees what they were read from, so they must be there, not only
            # under way. A gradient's device memory is therefore freed after its copy and needs no record_stream(). A
            # copy without `landed` is over for the host once queued; await_on_device() orders the device behind it.
            if copy.landed is not None:
                copy.ready.synchronize()

        return carry

"""Pinned host buffers by size class: exact sizes, reuse, high-water marks.

torch rounds a pinned block up to a power of two; here one anonymous mapping holds every buffer that the sizes of the
model ask for, and is registered with the driver once.
"""

import ctypes
import mmap
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from tencache.plan.address_map import aligned
from tencache.runtime.memory.accelerator import Accelerator
from tencache.runtime.memory.private_mapping import map_private


@dataclass(frozen=True)
class PoolStats:
    """Bytes asked for, bytes mapped, most bytes in use at once, and how often a buffer was used again."""

    asked_bytes: int
    pinned_bytes: int
    peak_bytes: int
    reused: int


class HostPool:
    """Hands out host buffers and takes them back."""

    def __init__(self, accelerator: Accelerator | None = None, *, poison: int | None = None) -> None:
        self._accelerator = accelerator
        self._poison = poison
        self._free: dict[int, list[Tensor]] = {}
        self._fresh: set[int] = set()
        self._mappings: list[tuple[memoryview, int]] = []
        self._asked = self._pinned = self._in_use = self._peak = self._reused = 0
        self._lock = threading.RLock()

    def reserve(self, sizes: Iterable[int]) -> None:
        """Map buffers of all these sizes at once."""
        classes = Counter(_size_class(size) for size in sizes)
        total = sum(size * count for size, count in classes.items())
        if not total:
            return
        # One mapping for all of them: registering memory with the driver costs a call, and a walk of its pages.
        mapping = self._map(total)
        offset = 0
        # Whole pages first: the mapping begins at a page, so they do too, as direct access to a disk demands.
        for size, count in sorted(classes.items(), key=lambda item: (item[0] % mmap.PAGESIZE != 0, item[0])):
            for _ in range(count):
                buffer = torch.frombuffer(mapping, dtype=torch.uint8, offset=offset, count=size)
                self._free.setdefault(size, []).append(buffer)
                self._fresh.add(buffer.data_ptr())
                offset += size

    def take(self, size_bytes: int) -> Tensor:
        """Return a buffer of that size class; a new one is mapped only when none is free."""
        size = _size_class(size_bytes)
        with self._lock:
            if not self._free.get(size):
                self.reserve([size])
            buffer = self._free[size].pop()
            if buffer.data_ptr() in self._fresh:
                self._fresh.remove(buffer.data_ptr())
                self._asked += size_bytes
            else:
                self._reused += 1
            self._in_use += size
            self._peak = max(self._peak, self._in_use)
        return buffer

    def give(self, buffer: Tensor) -> None:
        """Take a buffer back."""
        # Called by the copy threads as well, once bytes have landed or were written.
        if self._poison is not None:
            buffer.fill_(self._poison)
        with self._lock:
            self._in_use -= buffer.numel()
            self._free.setdefault(buffer.numel(), []).append(buffer)

    def stats(self) -> PoolStats:
        """Return the counters."""
        return PoolStats(self._asked, self._pinned, self._peak, self._reused)

    def close(self) -> None:
        """Unpin; the memory itself goes when its last tensor does."""
        # Callers have waited for their copies: memory must stay registered for as long as the device may read it.
        self._free.clear()
        if self._accelerator is not None:
            for _, address in self._mappings:
                self._accelerator.unregister_host(address)
        self._mappings.clear()

    def _map(self, size_bytes: int) -> memoryview:
        # Never closed by hand: every tensor over it holds it, and user code may keep a gradient for long.
        mapping = map_private(size_bytes, forked=self._accelerator is None)
        address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
        if self._accelerator is not None:
            self._accelerator.register_host(address, len(mapping))
        self._mappings.append((mapping, address))
        self._pinned += len(mapping)
        return mapping


def _size_class(size_bytes: int) -> int:
    """Return the size of the buffer for so many bytes; torch makes no tensor over nothing, so an empty one has some."""
    return aligned(max(size_bytes, 1))

"""What autograd saves for backward, beyond what the device has room for, waits on the host.

What moves is memory, not tensors: several saved tensors may be views of one storage. It goes down when nobody but the
graph refers to it any more, so that nobody can write to it unseen; that is torch's own count of the storage, as for
parameters. Writes that torch counts are found as torch finds them, by the version at which a tensor was saved.
"""

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from tencache.plan.activation_plan import Offload
from tencache.plan.step_trace import Saved
from tencache.runtime.counters import Counters
from tencache.runtime.memory.copy_lanes import Copy
from tencache.runtime.memory.device_arena import users
from tencache.runtime.memory.host_pool import HostPool
from tencache.runtime.memory.link import Link

# Smaller ones are not worth a copy.
WORTH_BYTES = 64 * 1024
# Without a plan: so many of those before it come back with each that backward uses.
AHEAD = 4
# The tensor of the whole storage, and the storage object that counting makes.
_IDLE_USERS = 2


class SaveLog(Protocol):
    """Where it is noted what was saved, and used."""

    @property
    def op_count(self) -> int:
        """Return how many operations have begun."""

    def saved(self, size_bytes: int) -> int:
        """Record memory that autograd keeps from now on; return its number."""

    def used(self, number: int) -> None:
        """Record that backward uses what was saved."""


class _Memory:
    """One storage that the graph keeps: on the device, on the host, or on its way."""

    def __init__(self, owner: "Activations", data: Tensor, record: SaveLog) -> None:
        self.owner = owner
        self.data: Tensor | None = data
        self.size_bytes = data.numel()
        self.record = record
        self.number = record.saved(self.size_bytes)
        self.host: Tensor | None = None
        self.going: Copy | None = None
        self.coming: Copy | None = None
        # How many saved tensors are views of it, and how many of these backward has asked for.
        self.saved = self.used = 0
        self.wanted = False

    def is_in(self, storage: torch.UntypedStorage) -> bool:
        """Return whether this is the storage's memory."""
        data = self.data
        return data is not None and data.untyped_storage()._cdata == storage._cdata  # noqa: SLF001

    def __del__(self) -> None:
        # Copies hold it until they are over, so nothing reads or writes its bytes by now.
        self.owner.forget(self)


class SavedActivation:
    """What the graph keeps in place of a tensor: which part of which memory it is."""

    __slots__ = ("dtype", "marks", "memory", "offset", "probe", "shape", "stride", "version")

    def __init__(self, memory: _Memory, tensor: Tensor) -> None:
        self.memory = memory
        memory.saved += 1
        self.shape, self.stride, self.dtype = tensor.shape, tensor.stride(), tensor.dtype
        self.offset = tensor.storage_offset()
        self.marks = (tensor.is_conj(), tensor.is_neg())
        # A tensor without bytes that counts the same writes: torch's count belongs to the tensor, not to its storage.
        self.probe = tensor.detach()
        self.probe.data = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        self.version = tensor._version  # noqa: SLF001

    @property
    def was_written(self) -> bool:
        """Return whether the tensor was written to since it was saved."""
        return bool(self.probe._version != self.version)  # noqa: SLF001


class Activations:
    """The memory that graphs keep, of which `limit_bytes` may be on the device."""

    def __init__(self, link: Link, pool: HostPool, device: torch.device, limit_bytes: int, counters: Counters) -> None:
        self.limit_bytes = limit_bytes
        self._link = link
        self._pool = pool
        self._device = device
        self._counters = counters
        # Copy threads let memory land while the program saves more.
        self._lock = threading.RLock()
        self._on_device_bytes = 0
        self._by_storage: dict[int, weakref.ref[_Memory]] = {}
        self._live: weakref.WeakSet[_Memory] = weakref.WeakSet()
        self._numbers: dict[int, weakref.ref[_Memory]] = {}
        self._going: deque[Copy] = deque()
        self._candidates: deque[weakref.ref[_Memory]] = deque()
        self._closed = False
        self._planned: dict[int, int] | None = None
        self._rows: Sequence[Offload] = ()
        self._next_row = 0

    def begin(self, rows: Sequence[Offload] | None, saves: Sequence[Saved]) -> None:
        """Begin a cycle that is planned, or one that nothing is known of."""
        self._planned = None if rows is None else {row.saved: saves[row.saved].bytes for row in rows}
        self._rows, self._next_row = rows or (), 0
        self._numbers = {}
        self._by_storage = {key: found for key, found in self._by_storage.items() if found() is not None}

    def save(self, tensor: Tensor, record: SaveLog) -> SavedActivation | None:
        """Return what the graph is to keep in place of a tensor; None if the tensor itself."""
        if self._closed or type(tensor) is not Tensor or tensor.layout is not torch.strided:
            return None
        if tensor.device != self._device or torch._C._functorch.is_functorch_wrapped_tensor(tensor):  # noqa: SLF001
            return None
        storage = tensor.untyped_storage()
        if storage.nbytes() < WORTH_BYTES:
            return None
        known = self._by_storage.get(storage._cdata)  # noqa: SLF001  no public name gives it
        memory = None if known is None else known()
        # Once it has gone, its address may be another's.
        if memory is None or not memory.is_in(storage):
            memory = self._take(storage, record)
        saved = SavedActivation(memory, tensor)
        del storage, tensor
        self._make_room()
        return saved

    def advance(self, done: int) -> None:
        """Let memory go that nobody else refers to any more, and bring back what the plan has on the device by now."""
        self._let_go()
        while self._next_row < len(self._rows) and self._rows[self._next_row].trigger <= done:
            found = self._numbers.get(self._rows[self._next_row].saved)
            self._next_row += 1
            if found is not None and (memory := found()) is not None:
                self._bring(memory)

    def use(self, saved: SavedActivation) -> Tensor:
        """Return a saved tensor, on the device."""
        memory = saved.memory
        memory.record.used(memory.number)
        memory.used += 1
        data = self._bring(memory)
        self._await(memory)
        if self._planned is None and memory.host is not None:
            self._bring_those_before(memory)
        if memory.used >= memory.saved and memory.host is not None:
            # Once more, if the graph is kept: from the host again.
            memory.used = 0
            memory.wanted = False
            self._drop(memory)
        return data.view(saved.dtype).as_strided(saved.shape, saved.stride, saved.offset)

    def close(self) -> None:
        """Bring everything back for good: graphs may be alive that no link serves from now on."""
        self._closed = True
        for memory in list(self._live):
            if memory.going is not None:
                memory.going.wait_over()
            if memory.data is None and memory.host is not None:
                memory.data = memory.host[: memory.size_bytes].to(self._device, copy=True)
            if memory.coming is not None:
                with contextlib.suppress(Exception):
                    self._link.await_on_device(memory.coming)
            memory.coming = memory.going = None
        self._link.drain()
        for memory in list(self._live):
            memory.host = None

    def forget(self, memory: _Memory) -> None:
        """Take in that no graph needs some memory any more."""
        with self._lock:
            if memory.data is not None:
                self._on_device_bytes -= memory.size_bytes
            host, memory.host, memory.data = memory.host, None, None
        if host is not None and not self._closed:
            self._pool.give(host)

    def _take(self, storage: torch.UntypedStorage, record: SaveLog) -> _Memory:
        size_bytes = storage.nbytes()
        data = torch.empty(0, dtype=torch.uint8, device=self._device).set_(storage, 0, (size_bytes,), (1,))
        memory = _Memory(self, data, record)
        reference = weakref.ref(memory)
        self._by_storage[storage._cdata] = reference  # noqa: SLF001
        self._live.add(memory)
        self._numbers[memory.number] = reference
        with self._lock:
            self._on_device_bytes += size_bytes
        # Another size is another step than the one that was planned for.
        if self._planned is not None and self._planned.get(memory.number, size_bytes) != size_bytes:
            self._planned, self._rows = None, ()
        if self._planned is None or memory.number in self._planned:
            self._candidates.append(reference)
        return memory

    def _make_room(self) -> None:
        """Let memory go; wait for what is on its way if there is too much on the device."""
        self._let_go()
        while self._on_device_bytes > self.limit_bytes and self._going:
            copy = self._going.popleft()
            if not copy.done:
                began = self._link.mark()
                copy.wait_over()
                self._link.note_between(began, self._link.mark(), self._stalled)
        peak = max(self._counters.activation_peak_bytes, self._on_device_bytes)
        self._counters.activation_peak_bytes = peak

    def _let_go(self) -> None:
        """Send down what is to go and nobody else holds: all that is planned, or as much as is too much."""
        leaving_bytes = sum(copy.size_bytes for copy in self._going if not copy.done)
        kept: list[weakref.ref[_Memory]] = []
        while self._candidates:
            if self._planned is None and self._on_device_bytes - leaving_bytes <= self.limit_bytes:
                break
            reference = self._candidates.popleft()
            memory = reference()
            if memory is None or memory.data is None or memory.wanted:
                continue
            if users(memory.data) > _IDLE_USERS:
                kept.append(reference)
                continue
            self._send(memory)
            leaving_bytes += memory.size_bytes
            del memory
        self._candidates.extendleft(reversed(kept))
        while self._going and self._going[0].done:
            self._going.popleft()

    def _send(self, memory: _Memory) -> None:
        assert memory.data is not None
        memory.host = self._pool.take(memory.size_bytes)
        copy = Copy(
            memory.host[: memory.size_bytes], _source(memory.data), memory.size_bytes, lambda: self._landed(memory)
        )
        copy.fence = self._link.fence()
        copy.at_once = True
        memory.going = copy
        self._going.append(copy)
        self._counters.activation_bytes += memory.size_bytes
        self._link.down.put(copy)

    def _landed(self, memory: _Memory) -> None:
        memory.going = None
        with self._lock:
            # Asked for meanwhile, it stays.
            if not memory.wanted:
                self._drop(memory)

    def _drop(self, memory: _Memory) -> None:
        with self._lock:
            if memory.data is not None:
                memory.data = None
                self._on_device_bytes -= memory.size_bytes

    def _bring(self, memory: _Memory) -> Tensor:
        """Return the memory on the device; a copy may still be on its way."""
        with self._lock:
            memory.wanted = True
            data = memory.data
        if data is not None:
            return data
        host = memory.host
        assert host is not None
        data = torch.empty(memory.size_bytes, dtype=torch.uint8, device=self._device)
        with self._lock:
            memory.data = data
            self._on_device_bytes += memory.size_bytes
        # The copy holds the memory until it is over, and so the buffer on the host.
        copy = Copy(data, _source(host[: memory.size_bytes]), memory.size_bytes, lambda: _keep(memory))
        copy.fence = self._link.fence()
        copy.at_once = True
        memory.coming = copy
        self._link.up.put(copy)
        return data

    def _await(self, memory: _Memory) -> None:
        copy = memory.coming
        if copy is not None:
            if not self._link.arrived(copy):
                self._link.note_stall(copy, self._stalled)
            self._link.await_on_device(copy)
            memory.coming = None

    def _bring_those_before(self, memory: _Memory) -> None:
        """Bring back what was saved just before: backward uses it next."""
        for number in range(memory.number - 1, memory.number - 1 - AHEAD, -1):
            found = self._numbers.get(number)
            before = None if found is None else found()
            if before is None or before.data is not None or before.host is None:
                continue
            if self._on_device_bytes + before.size_bytes > self.limit_bytes:
                return
            self._bring(before)

    def _stalled(self, seconds: float) -> None:
        self._counters.activation_stall_s += seconds


def _source(data: Tensor) -> Callable[[], Tensor]:
    return lambda: data


def _keep(_: Any) -> None:
    """Do nothing, with what must live until now."""

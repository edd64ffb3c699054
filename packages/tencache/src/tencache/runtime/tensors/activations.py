"""What autograd saves for backward, beyond what the device has room for, waits on the host or is computed again.

What moves is memory, not tensors: several saved tensors may be views of one storage. It goes down when nobody but the
graph refers to it any more, so that nobody can write to it unseen; that is torch's own count of the storage, as for
parameters. Writes that torch counts are found as torch finds them, by the version at which a tensor was saved.

What the plan computes again is computed once more before its bytes are dropped, and compared. So it does not matter
what user code did to it unseen: if the bytes are others, they go to the host. What it is computed from is held by
nobody but the graph by then, either, and so stays what it is.

Backward itself hands memory out, to functions of the user's own, too, and these may write to it unseen: some put the
gradient where the input lay. So what rests on memory is computed before that is handed out, and stays.
"""

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from tencache.errors import CorruptedError, RefusedError
from tencache.plan.activation_plan import Offload
from tencache.plan.step_trace import Saved
from tencache.quantity import show_bytes
from tencache.runtime.counters import Counters
from tencache.runtime.memory.checksum import checksum
from tencache.runtime.memory.copy_lanes import Copy
from tencache.runtime.memory.host_pool import HostPool
from tencache.runtime.memory.link import Link
from tencache.runtime.tensors.recomputing import PackedByNode, is_idle, same_bytes
from tencache.runtime.tensors.saved_memory import SavedActivation, SavedMemory, SaveLog

# Smaller ones are not worth a copy.
WORTH_BYTES = 64 * 1024
# Without a plan: so many of those before it come back with each that backward uses.
AHEAD = 4


class Activations:
    """The memory that graphs keep, of which `limit_bytes` may be on the device."""

    def __init__(
        self,
        link: Link,
        pool: HostPool,
        device: torch.device,
        limit_bytes: int,
        counters: Counters,
        *,
        host_bytes: int | None = None,
        verify: bool = False,
    ) -> None:
        self.limit_bytes = limit_bytes
        self._host_bytes = host_bytes
        self._verify = verify
        self._link = link
        self._pool = pool
        self._device = device
        self._counters = counters
        # Copy threads let memory land while the program saves more.
        self._lock = threading.RLock()
        self._on_device_bytes = self._on_host_bytes = 0
        # Memory of the model's own, which is no activation.
        self._others: set[int] = set()
        self._packed = PackedByNode()
        # Of what the plan has computed again: the numbers of those that each needs, and which are still to be dropped.
        self._again: dict[int, tuple[int, ...]] = {}
        self._undecided: set[int] = set()
        self._by_storage: dict[int, weakref.ref[SavedMemory]] = {}
        self._live: weakref.WeakSet[SavedMemory] = weakref.WeakSet()
        self._numbers: dict[int, weakref.ref[SavedMemory]] = {}
        self._going: deque[Copy] = deque()
        self._candidates: deque[weakref.ref[SavedMemory]] = deque()
        self._closed = False
        self._planned: dict[int, int] | None = None
        self._rows: Sequence[Offload] = ()
        self._next_row = 0

    def leave_out(self, tensors: Iterable[Tensor]) -> None:
        """Take in that the memory of these is the model's, whatever views of it are saved."""
        self._others.update(tensor.untyped_storage()._cdata for tensor in tensors)  # noqa: SLF001

    def begin(self, rows: Sequence[Offload], saves: Sequence[Saved], again: frozenset[int]) -> None:
        """Begin a cycle that is planned."""
        self._planned = {number: saves[number].bytes for number in (*again, *(row.saved for row in rows))}
        self._rows, self._next_row = rows, 0
        self._again = {number: saves[number].of for number in again}
        self._undecided = set(again)
        self._numbers = {}
        self._packed.clear()
        self._by_storage = {key: found for key, found in self._by_storage.items() if found() is not None}

    def save(self, tensor: Tensor, record: SaveLog) -> SavedActivation | None:
        """Return what the graph is to keep in place of a tensor; None if the tensor itself."""
        saved = self._save(tensor, record)
        self._packed.note(saved)
        return saved

    def _save(self, tensor: Tensor, record: SaveLog) -> SavedActivation | None:
        if self._closed or type(tensor) is not Tensor or tensor.layout is not torch.strided:
            return None
        if tensor.device != self._device or torch._C._functorch.is_functorch_wrapped_tensor(tensor):  # noqa: SLF001
            return None
        storage = tensor.untyped_storage()
        if storage.nbytes() < WORTH_BYTES or storage._cdata in self._others:  # noqa: SLF001
            return None
        known = self._by_storage.get(storage._cdata)  # noqa: SLF001  no public name gives it
        memory = None if known is None else known()
        # Once it has gone, its address may be another's.
        if memory is None or not memory.is_in(storage):
            memory = self._take(storage, record)
            memory.again = self._packed.again(tensor, memory.size_bytes)
            self._measure_again(memory)
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
        tensor = self._on_device(saved)
        if self._planned is None and memory.host is not None:
            self._bring_those_before(memory)
        self._bring_those_that_rest_on(memory)
        memory.handed_out = True
        if memory.used >= memory.saved and (memory.host is not None or memory.dropped):
            # Once more, if the graph is kept: from the host, or by computing, again.
            memory.used = 0
            if memory.host is not None or _sources_stay(memory):
                memory.wanted = memory.handed_out = False
                self._drop(memory)
        return tensor

    def _on_device(self, saved: SavedActivation) -> Tensor:
        """Return a saved tensor, on the device and as it was."""
        memory = saved.memory
        data = self._bring(memory)
        self._await(memory)
        # Once it has been handed out its bytes are the program's.
        if memory.checksum is not None and not memory.handed_out and checksum(data) != memory.checksum:
            raise CorruptedError(
                f"a tensor of shape {tuple(saved.shape)} that was saved for backward is not what it was when it left "
                "the device; something wrote to memory that is tencache's, or a copy went wrong"
            )
        return data.view(saved.dtype).as_strided(saved.shape, saved.stride, saved.offset)

    def close(self) -> None:
        """Bring everything back for good: graphs may be alive that no link serves from now on."""
        self._closed = True
        self._link.drain()
        for memory in list(self._live):
            if memory.data is None and memory.dropped:
                self._bring(memory)
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

    def forget(self, memory: SavedMemory) -> None:
        """Take in that no graph needs some memory any more."""
        with self._lock:
            if memory.data is not None:
                self._on_device_bytes -= memory.size_bytes
            host, memory.host, memory.data = memory.host, None, None
            self._on_host_bytes -= 0 if host is None else memory.size_bytes
        if host is not None and not self._closed:
            self._pool.give(host)

    def _take(self, storage: torch.UntypedStorage, record: SaveLog) -> SavedMemory:
        size_bytes = storage.nbytes()
        data = torch.empty(0, dtype=torch.uint8, device=self._device).set_(storage, 0, (size_bytes,), (1,))
        memory = SavedMemory(data, record, self.forget)
        reference = weakref.ref(memory)
        self._by_storage[storage._cdata] = reference  # noqa: SLF001
        self._live.add(memory)
        self._numbers[memory.number] = reference
        with self._lock:
            self._on_device_bytes += size_bytes
        # Another size is another step than the one that was planned for.
        if self._planned is not None and self._planned.get(memory.number, size_bytes) != size_bytes:
            self._planned, self._rows, self._again = None, (), {}
            self._undecided.clear()
        if self._planned is None or memory.number in self._planned:
            self._candidates.append(reference)
        memory.may_drop = memory.number in self._again
        memory.needed_by = {number for number, of in self._again.items() if memory.number in of}
        return memory

    def _measure_again(self, memory: SavedMemory) -> None:
        """Find out what it takes to compute some memory again; forget how, if that gives other bytes."""
        again, record = memory.again, memory.record
        if again is None or not record.timed:
            return
        with record.aside():
            # Where nothing is planned yet, some of it may have gone.
            before = [(one.memory, one.memory.wanted, one.memory.data is None) for one in again.inputs]
            for one in again.inputs:
                self._on_device(one)
            began = self._link.mark()
            found = self._compute(memory)
            ended = self._link.mark()
            for source, wanted, away in before:
                source.wanted = wanted
                if away:
                    self._drop(source)
            if found is None or memory.data is None or not bool(same_bytes(found, memory.data)):
                memory.again = None
                return
        number, of = memory.number, tuple(one.memory.number for one in again.inputs)
        self._link.note_between(began, ended, lambda seconds: record.again(number, seconds, of))

    def _compute(self, memory: SavedMemory) -> Tensor | None:
        """Return what computing some memory again gives, from what is on the device; None if that is not there."""
        again = memory.again
        if again is None:
            return None
        inputs = []
        for one in again.inputs:
            source = one.memory
            # Of another cycle, or gone, or not whole: the plan would not have it there.
            if source.record is not memory.record or source.data is None or source.coming is not None:
                return None
            inputs.append(source.data.view(one.dtype).as_strided(one.shape, one.stride, one.offset))
        return again.bytes_of(inputs)

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
        kept: list[weakref.ref[SavedMemory]] = []
        while self._candidates:
            if self._planned is None and self._on_device_bytes - leaving_bytes <= self.limit_bytes:
                break
            reference = self._candidates.popleft()
            memory = reference()
            if memory is None or memory.data is None or memory.wanted:
                continue
            if not (memory.needed_by.isdisjoint(self._undecided) and self._is_the_graphs(memory)):
                kept.append(reference)
                continue
            dropped = memory.may_drop and _sources_stay(memory) and self._drop_if_same(memory)
            self._undecided.discard(memory.number)
            if not dropped:
                self._send(memory)
                leaving_bytes += memory.size_bytes
            del memory
        self._candidates.extendleft(reversed(kept))
        while self._going and self._going[0].done:
            self._going.popleft()

    @staticmethod
    def _is_the_graphs(memory: SavedMemory) -> bool:
        """Return whether nobody else holds some memory, nor, if it is to be computed again, what that needs."""
        needed = [memory.data, *(source.data for source in (_sources(memory) if memory.may_drop else ()))]
        return all(data is None or is_idle(data) for data in needed)

    def _drop_if_same(self, memory: SavedMemory) -> bool:
        """Drop memory once it is known that computing it again gives its bytes; return whether that was tried."""
        with memory.record.aside():
            found = self._compute(memory)
        if found is None or memory.data is None:
            return False
        if self._verify:
            memory.checksum = checksum(memory.data)
        self._link.tell(same_bytes(found, memory.data), lambda same: self._found_same(memory, same=same))
        return True

    def _found_same(self, memory: SavedMemory, *, same: bool) -> None:
        with self._lock:
            # Asked for meanwhile, it stays.
            if memory.wanted or self._closed:
                return
            if not same or not _sources_stay(memory):
                memory.may_drop = False
                self._candidates.append(weakref.ref(memory))
                return
            for source in _sources(memory):
                source.resting.add(memory)
            memory.dropped = True
            self._counters.activation_again_bytes += memory.size_bytes
            self._drop(memory)

    def _send(self, memory: SavedMemory) -> None:
        assert memory.data is not None
        if self._host_bytes is not None and self._on_host_bytes + memory.size_bytes > self._host_bytes:
            raise RefusedError(
                f"saved tensors need more of the host than the {show_bytes(self._host_bytes)} that host= leaves them, "
                "an eighth of it: raise host=, raise activations=, or recompute blocks with torch.utils.checkpoint"
            )
        self._on_host_bytes += memory.size_bytes
        if self._verify:
            memory.checksum = checksum(memory.data)
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

    def _landed(self, memory: SavedMemory) -> None:
        memory.going = None
        with self._lock:
            # Asked for meanwhile, it stays.
            if not memory.wanted:
                self._drop(memory)

    def _drop(self, memory: SavedMemory) -> None:
        with self._lock:
            if memory.data is not None:
                memory.data = None
                self._on_device_bytes -= memory.size_bytes

    def _bring(self, memory: SavedMemory) -> Tensor:
        """Return the memory on the device; a copy may still be on its way."""
        with self._lock:
            memory.wanted = True
            data = memory.data
        if data is not None:
            return data
        host = memory.host
        if host is None:
            return self._bring_again(memory)
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

    def _bring_again(self, memory: SavedMemory) -> Tensor:
        """Compute memory again that was dropped, once what that needs is there."""
        again = memory.again
        assert again is not None
        inputs = [self._on_device(one) for one in again.inputs]
        with memory.record.aside():
            data = again.bytes_of(inputs)
        assert data is not None
        with self._lock:
            memory.data = data
            self._on_device_bytes += memory.size_bytes
        return data

    def _bring_those_that_rest_on(self, memory: SavedMemory) -> None:
        """Compute what was dropped and needs some memory, while that is as it was.

        In the usual order backward has used it before, and it is alive only if the graph is kept.
        """
        for resting in list(memory.resting):
            self._bring(resting)
        memory.resting.clear()

    def _await(self, memory: SavedMemory) -> None:
        copy = memory.coming
        if copy is not None:
            if not self._link.arrived(copy):
                self._link.note_stall(copy, self._stalled)
            self._link.await_on_device(copy)
            memory.coming = None

    def _bring_those_before(self, memory: SavedMemory) -> None:
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


def _sources(memory: SavedMemory) -> list[SavedMemory]:
    """Return what some memory is to be computed from."""
    return [] if memory.again is None else [one.memory for one in memory.again.inputs]


def _sources_stay(memory: SavedMemory) -> bool:
    """Return whether nobody can have written to what some memory is to be computed from since it was compared."""
    return not any(source.handed_out for source in _sources(memory))


def _source(data: Tensor) -> Callable[[], Tensor]:
    return lambda: data


def _keep(_: Any) -> None:
    """Do nothing, with what must live until now."""

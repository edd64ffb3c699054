"""The host's copies of the parameters: in pinned memory, or in the file with a bounded part of it staged in memory."""

import ctypes
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tencache.errors import PeerError, RefusedError
from tencache.plan.step_trace import Unit
from tencache.runtime.memory.copy_lanes import Copy
from tencache.runtime.memory.device_arena import users
from tencache.runtime.memory.host_pool import HostPool
from tencache.runtime.memory.nvme_file import Extent, FileTier, blocks
from tencache.runtime.tensors.looks import Looks
from tencache.runtime.tensors.other_memory import OtherMemory, held_outside, refuse_shared, refuse_unaligned
from tencache.runtime.tensors.parameter_entry import ParameterEntry
from tencache.runtime.tensors.pending_updates import PendingUpdates
from tencache.runtime.tensors.shards import Shards

Lease = tuple[Callable[[], Tensor], Callable[[], None] | None]


@dataclass(eq=False)
class _Filed:
    """A unit that lives in the file: while anyone holds a lease, its bytes are also in memory."""

    extent: Extent
    buffer: Tensor | None = None
    read: Copy | None = None
    # The last write that was queued. The next read waits for it, or it would bring the bytes from before the update.
    write: Copy | None = None
    # Who needs the buffer: uploads on their way, writes on their way, one for `staged`, one for `opened`.
    leases: int = 0
    # Uploads that wait for an update: each has its lease when the update is done, not before, to save memory.
    wanted: int = 0
    staged: bool = False
    opened: bool = False
    changed: bool = False


class Masters:
    """Where a unit's bytes come from."""

    def __init__(
        self,
        units: Sequence[Unit],
        entries: Sequence[ParameterEntry],
        pool: HostPool,
        file: FileTier | Shards | None,
        staging_bytes: int,
        *,
        stage_casts: bool = False,
    ) -> None:
        self._units = units
        self._entries: dict[int, list[ParameterEntry]] = {}
        self._halved: dict[int, ParameterEntry] = {}
        for entry in entries:
            self._entries.setdefault(entry.unit, []).append(entry)
            if entry.half is not None:
                self._halved[entry.half] = entry
        # Whether a working copy is cast in a buffer on the host, or by the copy that carries it. torch carries out the
        # latter between host and device only by way of memory that is not pinned.
        self._stage_casts = stage_casts
        self._pool = pool
        self._file = file
        self._shards = file if isinstance(file, Shards) else None
        self._staging_bytes = staging_bytes
        self.pending = PendingUpdates()
        self.looks = Looks()
        self._lock = threading.RLock()
        # Held from when a unit is opened until who asked for it has its view, which keeps it open.
        self.opening = threading.RLock()
        self._buffers: dict[int, Tensor] = {}
        self._filed: dict[int, _Filed] = {}
        self._adopted: set[int] = set()
        self._laid_open: set[int] = set()
        self._others = OtherMemory(pool)

    @property
    def any_filed(self) -> bool:
        """Return whether some units live in the file, and so are to be read ahead."""
        return bool(self._filed) and self._shards is None

    @property
    def staged_bytes(self) -> int:
        """Return the bytes of filed units that are in memory now."""
        return sum(self._units[unit].bytes for unit, filed in self._filed.items() if filed.leases)

    def adopt(self) -> None:
        """Move every parameter's bytes into the host's tiers; if the disk is full, nothing has moved yet."""
        # All of the file's space first: a refusal must find every parameter where it was.
        self._reserve_file()
        held = held_outside([entry.parameter for entries in self._entries.values() for entry in entries])
        for unit, entries in self._entries.items():
            buffer = self._pool.take(self._size(unit))
            self._adopted.add(unit)
            for entry in entries:
                entry.view(buffer).copy_(entry.parameter.detach())
                if entry.parameter in held:
                    self._others.note(entry)
                else:
                    entry.parameter.data = entry.view(buffer)
            if unit in self._filed:
                self._file_away(self._filed[unit], unit, buffer)
            else:
                self._buffers[unit] = buffer

    def release_all(self) -> None:
        """Copy every parameter into memory of its own again."""
        for unit in self._adopted:
            entries = self._entries[unit]
            try:
                self.open(unit)
            except PeerError:
                # Lost with the process that held it. What is not a number cannot be taken for a parameter.
                for entry in entries:
                    entry.parameter.data = torch.full(entry.shape, torch.nan, dtype=entry.dtype)
                continue
            # Where user code holds a view of a parameter, the parameter stays where that view is.
            if unit in self._laid_open or self._is_shared(unit):
                continue
            for entry in [entry for entry in entries if not self._others.has(entry)]:
                own = torch.empty_strided(entry.shape, entry.stride, dtype=entry.dtype)
                entry.parameter.data = own.copy_(entry.parameter.detach())

    def forget(self) -> None:
        """Drop the buffers."""
        self._buffers.clear()
        self._filed.clear()

    def let_go(self, units: Iterable[int]) -> None:
        """Forget units whose parameters are elsewhere for good, and free their memory."""
        for unit in units:
            for entry in self._entries.pop(unit):
                self._halved.pop(-1 if entry.half is None else entry.half, None)
            self._adopted.discard(unit)
            buffer = self._buffers.pop(unit, None)
            if buffer is not None:
                self._pool.give(buffer)
            filed = self._filed.pop(unit, None)
            if filed is not None and filed.opened:
                self._release(filed)

    def lease(self, unit: int, second: Tensor | None = None) -> Lease:
        """Return a source of the bytes of a unit or of its second copy, and what to call once they are copied."""
        if unit in self._halved:
            entry = self._halved[unit]
            return self._lease_half(entry, self._units[unit].bytes, self.lease(entry.unit, second))
        size_bytes = self._units[unit].bytes
        if second is not None:
            return lambda: second[:size_bytes], None
        if self._others.count(unit):
            return self._others.gathered(unit, self._entries[unit], size_bytes)
        if unit in self._buffers:
            buffer = self._buffers[unit]

            # Called by the lane's thread: an upload waits for the optimizer, while compute goes on.
            def updated() -> Tensor:
                self.pending.wait(unit)
                return buffer

            return updated, None
        filed = self._filed[unit]
        self._want(filed, unit)

        # Called by the lane's thread: it is the lane that waits for the disk, while compute goes on.
        def source() -> Tensor:
            self.pending.wait(unit)
            with self._lock:
                if filed.wanted:
                    filed.wanted -= 1
                    self._acquire(unit)
            return self._bytes(filed)[:size_bytes]

        return source, lambda: self._release(filed)

    def is_filed(self, unit: int) -> bool:
        """Return whether a unit lives in the file."""
        return unit in self._filed

    def is_ready(self, unit: int) -> bool:
        """Return whether a unit's bytes are in memory, and no update of them is to come."""
        unit = self._halved[unit].unit if unit in self._halved else unit
        return unit in self._buffers and not self.pending.has(unit)

    def _want(self, filed: _Filed, unit: int) -> None:
        """Take a lease for an upload, now or, if an update is to come, with that."""
        with self._lock:
            if filed.buffer is None and self.pending.has(unit):
                filed.wanted += 1
                return
        # The upload's own lease before the one of reading ahead is given back: at zero the buffer would go to the pool.
        self._acquire(unit)
        if filed.staged:
            filed.staged = False
            self._release(filed)

    def copy_target(self, unit: int, data: Tensor) -> Tensor:
        """Return what a unit's bytes are copied to: its place, or a view of it in the type that they are cast to."""
        entry = self._halved.get(unit)
        if entry is None or self._stage_casts:
            return data
        assert entry.half_dtype is not None
        return entry.flat(data, entry.half_dtype)

    def _lease_half(self, entry: ParameterEntry, half_bytes: int, whole: Lease) -> Lease:
        """Return a source of a working copy: the parameter itself, to be cast by the copy, or cast in a buffer."""
        source, release = whole
        if not self._stage_casts:
            return lambda: apart(source(), entry), release
        # Taken when the copy's turn comes: rows that wait in the lane hold no buffer.
        staged: list[Tensor] = []

        def cast() -> Tensor:
            assert entry.half_dtype is not None
            staged.append(self._pool.take(half_bytes))
            entry.flat(staged[0], entry.half_dtype).copy_(apart(source(), entry))
            return staged[0]

        def over() -> None:
            self._pool.give(staged.pop())
            if release is not None:
                release()

        return cast, over

    def read_ahead(self, units: Iterable[int]) -> None:
        """Read these units from the file, as many as the staging memory takes."""
        for form in units:
            unit = self._halved[form].unit if form in self._halved else form
            filed = self._filed.get(unit)
            if filed is None or filed.leases:
                continue
            # Not the next smaller one: rows are in order of need, and a later unit must not take an earlier one's room.
            if self.staged_bytes + self._units[unit].bytes > self._staging_bytes:
                return
            self._acquire(unit).staged = True

    def open_to_update(self, unit: int) -> None:
        """Bring a unit into memory that is to be updated here."""
        if self._shards is None or self._shards.is_mine(unit):
            self.open(unit)

    def note_updated(self, units: Iterable[int]) -> None:
        """Take in that units have been updated, here or by who holds them."""
        if self._shards is not None:
            self._shards.updated(units)

    def held_bytes(self, unit: int) -> Tensor:
        """Return the bytes of a unit that is in memory for good."""
        return self._buffers[unit]

    def open(self, unit: int) -> None:
        """Bring a unit up to date and, if it is filed, into memory, and let its parameters' data be there."""
        self.pending.wait(unit)
        filed = self._filed.get(unit)
        if filed is None or filed.opened:
            return
        self._acquire(unit)
        filed.opened = True
        data = self._bytes(filed)
        for entry in self._entries[unit]:
            entry.parameter.data = entry.view(data)

    def close(self, unit: int, *, changed: bool) -> None:
        """Release an opened unit's memory; if it was changed, queue it for writing first."""
        filed = self._filed.get(unit)
        if filed is not None and filed.opened:
            with self.opening:
                self._close(filed, unit, changed=changed)

    def _close(self, filed: _Filed, unit: int, *, changed: bool) -> None:
        filed.changed = filed.changed or changed
        # Stays open while user code holds a view: it is to see every update, and must not see another unit's bytes.
        if self.aliased(unit):
            return
        filed.opened = False
        # Before the memory is released: no parameter may point at a buffer that the pool may give to another unit.
        self._make_blank(unit)
        # The write takes a lease of its own before this one goes, so the bytes stay until they are on the disk.
        if filed.changed:
            filed.changed = False
            self._write(filed)
        self._release(filed)

    def may_be_borrowed(self, unit: int) -> bool:
        """Return whether nobody but this package can see when a unit's bytes change."""
        filed = self._filed.get(unit)
        return not self.aliased(unit) and (filed is None or not filed.opened)

    def borrow(self, unit: int) -> Tensor:
        """Return a unit's bytes to write to, from any thread; its parameters' own data stays as it is."""
        if unit in self._buffers:
            return self._buffers[unit]
        return self._bytes(self._acquire(unit))

    def give_back(self, unit: int) -> None:
        """End a loan: queue the bytes for writing if they live in the file."""
        filed = self._filed.get(unit)
        if filed is not None:
            # What is to go up stays in memory until then: read again, it would have to be written first.
            with self._lock:
                filed.leases, filed.wanted = filed.leases + filed.wanted, 0
            self._write(filed)
            self._release(filed)

    def second_copy(self, unit: int) -> Tensor:
        """Return a copy of a unit's bytes in memory of its own, from any thread."""
        buffer = self._buffers[unit]
        second = self._pool.take(buffer.numel())
        # Apart from the buffer's own storage: for a moment the copy would look like a view that user code holds.
        second.copy_(_memory(buffer, buffer.numel(), torch.uint8))
        return second

    def piece_views(self, unit: int, target: Tensor, second: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return a parameter's elements in a row, where copies write to and read from, if it can be sent in pieces."""
        half = self._halved.get(unit)
        if half is not None:
            return None if self._stage_casts else (target, apart(second, half))
        (entry, *others) = self._entries[unit]
        return None if others else (entry.flat(target, entry.dtype), apart(second, entry))

    def give_second(self, second: Tensor) -> None:
        """Take a second copy back."""
        self._pool.give(second)

    def replace(self, unit: int, second: Tensor) -> None:
        """Let a second copy be the unit, and its memory be free for the next one."""
        old, self._buffers[unit] = self._buffers[unit], second
        for entry in self._entries[unit]:
            entry.parameter.data = entry.view(second)
        self._pool.give(old)

    def close_all(self, changed: Callable[[int], bool]) -> None:
        """Close every unit that user code has opened."""
        for unit, filed in self._filed.items():
            if filed.opened:
                self.close(unit, changed=changed(unit))

    def note_changed(self, units: Iterable[int]) -> None:
        """Take in that opened units may be newer than the file: closed later, they are written."""
        for unit in units:
            filed = self._filed.get(unit)
            if filed is not None and filed.opened:
                filed.changed = True

    def take_in_moved(self, units: Iterable[int]) -> set[int]:
        """Take in which parameters were given other memory by `set_()` or by an optimizer; return their units."""
        moved = set()
        for unit in units:
            filed = self._filed.get(unit)
            buffer = self._buffer(unit)
            if buffer is None or (filed is not None and not filed.opened):
                continue
            for entry in self._entries[unit]:
                if entry.size_bytes and self._was_moved(entry, buffer):
                    self._take_in_assigned(entry)
                    moved.add(unit)
        return moved

    def _was_moved(self, entry: ParameterEntry, buffer: Tensor) -> bool:
        if self._others.has(entry):
            return self._others.was_moved(entry)
        return bool(entry.parameter.data_ptr() != buffer.data_ptr() + entry.offset)

    def assign(self, entry: ParameterEntry, value: Tensor) -> None:
        """Let a parameter's data be a tensor of the user's: both are one memory from now on."""
        refuse_unaligned(entry, value)
        self._refuse_shared(entry, value)
        self.open(entry.unit)
        entry.parameter.data = value
        self._note_memory(entry)

    def _take_in_assigned(self, entry: ParameterEntry) -> None:
        value = entry.parameter.detach()
        if not entry.is_laid_out_as(value) or value.dtype != entry.dtype:
            raise RefusedError(f"{entry.name} was given data of another shape or type: unwrap the model to change it")
        refuse_unaligned(entry, value)
        self._refuse_shared(entry, value)
        self._note_memory(entry)
        # Graphs that are alive may need what was there before, or what is there now: nobody saw which.
        for handle in list(entry.handles):
            handle.lose()

    def _refuse_shared(self, entry: ParameterEntry, value: Tensor) -> None:
        refuse_shared(entry, value, (other for entries in self._entries.values() for other in entries))

    def _note_memory(self, entry: ParameterEntry) -> None:
        buffer = self._buffer(entry.unit)
        # A view of its own memory that was kept meanwhile may have been given back.
        if buffer is not None and entry.parameter.data_ptr() == buffer.data_ptr() + entry.offset:
            self._others.forget(entry)
        else:
            self._others.note(entry)

    def elsewhere(self) -> list[int]:
        """Return the units of which a parameter is in memory of the user's."""
        return self._others.units()

    def bring_home(self) -> None:
        """Let parameters whose other memory nobody else refers to any more be in their unit's memory again."""
        returning = self._others.returning()
        for unit in self._others.units() if returning else ():
            buffer = self._buffer(unit)
            if buffer is None or unit in self._laid_open or self._is_shared(unit):
                continue
            for entry in [entry for entry in self._entries[unit] if entry.index in returning]:
                home = entry.view(buffer)
                entry.parameter.data = home.copy_(entry.parameter.detach())
                self._others.forget(entry)

    def lay_open(self, entry: ParameterEntry) -> None:
        """Take a parameter's memory to be referred to for good: its storage was given to user code."""
        # There is one storage object however many hold it, so nobody can tell when the last one is gone.
        self._laid_open.add(entry.unit)

    def aliased(self, unit: int) -> bool:
        """Return whether anything but the parameters refers to a unit's memory on the host."""
        if unit in self._laid_open or self._others.count(unit):
            return True
        # While an update writes to it, what the optimizer is given refers to it, too.
        self.pending.wait(unit)
        return self._is_shared(unit)

    def _is_shared(self, unit: int) -> bool:
        buffer = self._buffer(unit)
        if buffer is None:
            return False
        home = len(self._entries[unit]) - self._others.count(unit)
        # The buffer itself, the storage object that counting makes, and each parameter's data.
        return users(buffer) > home + 2

    def _buffer(self, unit: int) -> Tensor | None:
        filed = self._filed.get(unit)
        return self._buffers.get(unit) if filed is None else filed.buffer

    def _size(self, unit: int) -> int:
        size_bytes = self._units[unit].bytes
        return blocks(size_bytes) if self._units[unit].tier == "file" else size_bytes

    def _reserve_file(self) -> None:
        for unit in self._entries:
            elsewhere = self._units[unit].tier == "file" if self._shards is None else not self._shards.is_mine(unit)
            if elsewhere and self._file is not None:
                self._filed[unit] = _Filed(self._file.place(unit, self._size(unit)))

    def _file_away(self, filed: _Filed, unit: int, buffer: Tensor) -> None:
        filed.buffer, filed.leases, filed.opened = buffer, 1, True
        self.close(unit, changed=True)

    def _make_blank(self, unit: int) -> None:
        """Point the parameters at a single element, stretched: the right shape, no memory.

        Whoever reads it past this package gets what is not a number, and cannot take it for a parameter.
        """
        for entry in self._entries[unit]:
            blank = torch.nan if entry.dtype.is_floating_point or entry.dtype.is_complex else 0
            entry.parameter.data = torch.full((), blank, dtype=entry.dtype).expand(entry.shape)

    def _acquire(self, unit: int) -> _Filed:
        assert self._file is not None
        with self._lock:
            filed = self._filed[unit]
            filed.leases += 1
            # While anyone holds a lease, the bytes in memory are the newest, even if they are just being written.
            if filed.buffer is None:
                filed.buffer = self._pool.take(filed.extent.bytes)
                filed.read = self._file.read(filed.extent, filed.buffer, after=filed.write)
            return filed

    def _release(self, filed: _Filed) -> None:
        with self._lock:
            filed.leases -= 1
            if filed.leases == 0 and filed.buffer is not None:
                self._pool.give(filed.buffer)
                filed.buffer = filed.read = None

    def _write(self, filed: _Filed) -> None:
        assert self._file is not None
        assert filed.buffer is not None
        # Under the lock, because the writing thread may be done, and release, before the write is noted here.
        with self._lock:
            filed.leases += 1
            filed.write = self._file.write(filed.extent, filed.buffer, lambda: self._release(filed))

    @staticmethod
    def _bytes(filed: _Filed) -> Tensor:
        if filed.read is not None:
            filed.read.wait()
        assert filed.buffer is not None
        return filed.buffer


def apart(data: Tensor, entry: ParameterEntry) -> Tensor:
    """Return a parameter's elements in a row, as a tensor whose storage is its own; whoever uses it holds `data`."""
    # A view, made on the lane's thread, would for a moment look like one that user code holds.
    return _memory(data, entry.size_bytes, entry.dtype)


def _memory(data: Tensor, size_bytes: int, dtype: torch.dtype) -> Tensor:
    """Return the bytes of a tensor as one whose storage is its own."""
    memory = (ctypes.c_char * size_bytes).from_address(data.data_ptr())
    return torch.frombuffer(memory, dtype=dtype)

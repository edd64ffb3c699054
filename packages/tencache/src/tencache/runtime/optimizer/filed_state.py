"""Optimizer state in the file: a static share stays in memory, the rest is read ahead and written behind."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tencache.errors import RefusedError
from tencache.runtime.memory.copy_lanes import Copy
from tencache.runtime.memory.host_pool import HostPool
from tencache.runtime.memory.nvme_file import Extent, FileTier, blocks
from tencache.runtime.tensors.parameter_entry import ParameterEntry

SMALLEST_BYTES = 4096


@dataclass(frozen=True)
class StatePiece:
    """One tensor of a parameter's state, and where in the parameter's extent it lies."""

    key: str
    offset: int
    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    bytes: int

    def view(self, buffer: Tensor) -> Tensor:
        """Return this tensor in a buffer that holds the extent."""
        part = buffer[self.offset : self.offset + self.bytes].view(self.dtype)
        return part.as_strided(self.shape, self.stride, part.storage_offset())


class FiledState(dict[str, Any]):
    """A parameter's state whose large tensors are in the file.

    Whoever asks for one opens the state: its tensors are in memory then, and are those that the next update goes on
    with. After that update they go back to the file, unless someone still holds them.
    """

    def __init__(self, rest: dict[str, Any], record: "StateRecord", store: "StateStore") -> None:
        super().__init__(rest)
        self.record = record
        self.opened = False
        self._store = store
        for piece in record.pieces:
            super().__setitem__(piece.key, None)

    def open(self) -> None:
        """Bring the tensors into memory of their own, from where the file holds them."""
        if not self.opened:
            buffer = self._store.fetch(self.record)
            for piece in self.record.pieces:
                super().__setitem__(piece.key, piece.view(buffer).clone())
            self.opened = True

    def __getitem__(self, key: str) -> Any:
        if any(piece.key == key for piece in self.record.pieces):
            self.open()
        return super().__getitem__(key)

    def __setitem__(self, key: str, value: Any) -> None:
        self.open()
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        self.open()
        super().__delitem__(key)

    def update(self, *values: Any, **named: Any) -> None:
        """Set several."""
        self.open()
        super().update(*values, **named)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return a value, set first if there is none."""
        self.open()
        return super().setdefault(key, default)

    def popitem(self) -> tuple[str, Any]:
        """Remove and return one."""
        self.open()
        return super().popitem()

    def clear(self) -> None:
        """Remove all."""
        self.open()
        super().clear()

    def __iter__(self) -> Iterator[str]:
        # dict() and ** copy the raw values of a subclass, here None, unless it has an __iter__ of its own.
        return super().__iter__()

    def copy(self) -> dict[str, Any]:
        """Return a plain dictionary with every tensor in memory."""
        return dict(self.items())

    def pop(self, key: str, *default: Any) -> Any:
        """Remove a key and return its value."""
        self.open()
        return super().pop(key, *default)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value or the default, read from the file if it is there."""
        return self[key] if key in self else default  # noqa: SIM401  this is get

    def items(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]
        """Return the keys and values, read from the file one after another."""
        return ((key, self[key]) for key in self)

    def values(self) -> Iterator[Any]:  # type: ignore[override]
        """Return the values, read from the file one after another."""
        return (self[key] for key in self)

    def in_memory(self) -> dict[str, Any]:
        """Return what is not in the file."""
        filed = {piece.key for piece in self.record.pieces}
        return {key: dict.__getitem__(self, key) for key in self if key not in filed}


@dataclass(eq=False)
class StateRecord:
    """One parameter's state in the file."""

    name: str
    extent: Extent
    pieces: tuple[StatePiece, ...]
    buffer: Tensor | None = None
    read: Copy | None = None
    write: Copy | None = None
    # Another place in the file: the next state is written there before anyone has asked for it.
    second: Extent | None = None
    # Whether an update that was not asked for has this state's bytes; it is not read ahead meanwhile.
    taken: bool = False


@dataclass(eq=False)
class SecondState:
    """A filed state's bytes, taken to compute the next state in; None once they are on their way to the file."""

    # Not the placeholder: held from here, it would look like one that user code holds.
    record: StateRecord
    buffer: Tensor | None
    values: dict[str, Tensor] = field(default_factory=dict)


@dataclass
class Shares:
    """Decides, parameter by parameter, who stays in memory: spread evenly, and never more than the limit."""

    limit_bytes: int
    kept_bytes: int = 0
    filed_bytes: int = 0
    _debt: float = field(default=0.0)

    def keeps(self, size_bytes: int, expected_total_bytes: int) -> bool:
        """Return whether a parameter's state of that size stays in memory."""
        over = max(0.0, 1 - self.limit_bytes / max(expected_total_bytes, 1))
        self._debt += over * size_bytes
        keep = self._debt < size_bytes / 2 and self.kept_bytes + size_bytes <= self.limit_bytes
        if not keep:
            self._debt -= size_bytes
        self.kept_bytes += size_bytes if keep else 0
        self.filed_bytes += 0 if keep else size_bytes
        return keep


class StateStore:
    """Moves per-parameter state between memory and the file."""

    def __init__(self, file: FileTier, limit_bytes: int, staging_bytes: int) -> None:
        self.shares = Shares(limit_bytes)
        self._file = file
        self._pool = HostPool()
        self._staging_bytes = staging_bytes
        self._staged_bytes = 0
        self._ratio: float | None = None
        self._extents: dict[tuple[str, int], Extent] = {}
        self._writing: deque[Copy] = deque()
        self._brought: set[StateRecord] = set()
        self._lock = threading.Lock()
        # Held by one of the threads that step, or look, at a time; never while a read is waited for.
        self._turn = threading.RLock()

    def reserve(self, parameter_bytes: Iterable[int], tensors_each: int, *, twice: bool) -> bool:
        """Take the disk space that the state will need, so that a full disk is found before training begins.

        Return whether there was room for it `twice`, if that was asked for.
        """
        state_bytes = tensors_each * sum(blocks(size) for size in parameter_bytes if size >= SMALLEST_BYTES)
        filed_bytes = state_bytes - self.shares.limit_bytes
        if filed_bytes <= 0:
            return twice
        self._file.reserve(filed_bytes)
        try:
            if twice:
                self._file.reserve(2 * filed_bytes)
        except RefusedError:
            return False
        return twice

    def settle(self, entry: ParameterEntry, state: dict[str, Any], parameter_bytes: int) -> dict[str, Any]:
        """Decide where a parameter's new state is kept, and return it, or its placeholder if that is the file."""
        with self._turn:
            return self._settle(entry, state, parameter_bytes)

    def _settle(self, entry: ParameterEntry, state: dict[str, Any], parameter_bytes: int) -> dict[str, Any]:
        tensors = {key: value for key, value in state.items() if _streams(value)}
        size_bytes = sum(value.nbytes for value in tensors.values())
        if not size_bytes:
            return state
        # The total is not known while states appear one by one: the first parameter's share stands for the others.
        if self._ratio is None:
            self._ratio = size_bytes / entry.size_bytes
        if self.shares.keeps(size_bytes, round(self._ratio * parameter_bytes)):
            return state
        return self._file_away(entry, state, tensors)

    def _file_away(self, entry: ParameterEntry, state: dict[str, Any], tensors: dict[str, Tensor]) -> dict[str, Any]:
        if not tensors:
            return state
        pieces, offset = [], 0
        for key, value in tensors.items():
            pieces.append(StatePiece(key, offset, value.shape, value.stride(), value.dtype, value.nbytes))
            # Each begins at a block, so that its view of the buffer is aligned for any type.
            offset += blocks(value.nbytes)
        record = StateRecord(entry.name, self._extent(entry.name, offset), tuple(pieces))
        record.buffer = self._take(record)
        for piece in pieces:
            piece.view(record.buffer).copy_(tensors[piece.key])
        return self.put_back(FiledState(_without(state, tensors), record, self), _without(state, tensors))

    def close(self, entry: ParameterEntry, state: FiledState) -> dict[str, Any]:
        """Return an opened state to the file, and return its placeholder."""
        values = dict(dict.items(state))
        with self._turn:
            return self._file_away(entry, values, {key: value for key, value in values.items() if _streams(value)})

    def forget(self) -> None:
        """Start over, after the optimizer was given another state; places in the file are used again."""
        self.shares = Shares(self.shares.limit_bytes)
        # What was read ahead is of no use now; kept, its staging memory would be missing for good.
        while self._brought:
            record = self._brought.pop()
            if record.buffer is not None and record.read is not None:
                record.read.wait_over()
                self._give(record.buffer)
                record.buffer = record.read = None

    def let_go(self, state: FiledState) -> dict[str, Any]:
        """Return a state in memory that the file holds no more."""
        values = dict(state.items())
        self.shares.filed_bytes -= sum(piece.bytes for piece in state.record.pieces)
        self.release(state.record)
        return values

    def release(self, record: StateRecord) -> None:
        """Give back the memory that a state was read ahead into."""
        with self._turn:
            self._brought.discard(record)
            if record.buffer is not None and record.read is not None:
                record.read.wait_over()
                self._give(record.buffer)
                record.buffer = record.read = None

    def read_ahead(self, state: Any) -> bool:
        """Start reading a parameter's state if it is filed; return whether there was staging memory for it."""
        if not isinstance(state, FiledState) or state.opened or state.record.buffer is not None or state.record.taken:
            return True
        # Who reads ahead does not wait for who steps.
        if not self._turn.acquire(blocking=False):
            return False
        try:
            # The last quarter is for what is asked for out of turn.
            if self._staged_bytes + state.record.extent.bytes > self._staging_bytes // 4 * 3:
                return False
            if state.record.buffer is None:
                self._start_read(state.record)
            return True
        finally:
            self._turn.release()

    @staticmethod
    def is_there(state: Any) -> bool:
        """Return whether a state needs no waiting for the file."""
        if not isinstance(state, FiledState) or state.opened:
            return True
        return state.record.read is not None and state.record.read.done

    def bring(self, state: FiledState) -> dict[str, Any]:
        """Return the state with every tensor in memory, for one update."""
        record = state.record
        with self._turn:
            if record.buffer is None:
                self._start_read(record)
        assert record.read is not None
        record.read.wait()
        assert record.buffer is not None
        return {**state.in_memory(), **{piece.key: piece.view(record.buffer) for piece in record.pieces}}

    def take_second(self, state: FiledState) -> "SecondState":
        """Return a state's bytes to compute the next state in; the file keeps the old one until that is asked for."""
        record = state.record
        with self._turn:
            if record.buffer is None:
                self._start_read(record)
            buffer, read = record.buffer, record.read
            # Not the record's any more: whoever looks at the state meanwhile reads the file.
            record.buffer = record.read = None
            record.taken = True
            self._brought.discard(record)
        assert buffer is not None
        assert read is not None
        second = SecondState(record, buffer)
        try:
            read.wait()
        except BaseException:
            self.drop_second(second)
            raise
        second.values = {piece.key: piece.view(buffer) for piece in record.pieces}
        return second

    def write_second(self, second: "SecondState", updated: dict[str, Any]) -> FiledState:
        """Queue a next state for writing to its own place, and return its placeholder."""
        record, buffer = second.record, second.buffer
        assert buffer is not None
        second.buffer = None
        with self._turn:
            if record.second is None:
                record.second = self._extent(f"{record.name}, second", record.extent.bytes)
            # Writes come in the order in which they are queued, so what was written there before is over then.
            write = self._file.write(record.second, buffer, lambda: self._give(buffer))
            self._writing.append(write)
        keys = {piece.key for piece in record.pieces}
        rest = {key: value for key, value in updated.items() if key not in keys}
        new = StateRecord(record.name, record.second, record.pieces, write=write, second=record.extent)
        return FiledState(rest, new, self)

    def drop_second(self, second: "SecondState") -> None:
        """Give back what was taken for a next state that nobody asked for."""
        second.record.taken = False
        if second.buffer is not None:
            self._give(second.buffer)
            second.buffer = None

    def put_back(self, state: FiledState, updated: dict[str, Any]) -> FiledState:
        """Queue the state for writing, and return its placeholder."""
        with self._turn:
            return self._put_back(state, updated)

    def _put_back(self, state: FiledState, updated: dict[str, Any]) -> FiledState:
        record = state.record
        buffer = record.buffer
        assert buffer is not None
        # The writing thread owns the buffer from here on. Who needs the state again reads it from the file, behind that
        # write, and never sees a buffer that is about to be given to another.
        record.buffer = record.read = None
        self._brought.discard(record)
        record.write = self._file.write(record.extent, buffer, lambda: self._give(buffer))
        while self._writing and self._writing[0].done:
            self._writing.popleft()
        self._writing.append(record.write)
        keys = {piece.key for piece in record.pieces}
        return FiledState({key: value for key, value in updated.items() if key not in keys}, record, self)

    def fetch(self, record: StateRecord) -> Tensor:
        """Return a record's bytes, for someone who asks from outside the step."""
        # Not what was read ahead, which an update may be computed in by now; nor into the staging memory: a checkpoint
        # reads every state at once, and nothing would be left for the step.
        pool = HostPool()
        buffer = pool.take(record.extent.bytes)
        self._file.read(record.extent, buffer, after=record.write).wait()
        return buffer

    def _extent(self, name: str, size_bytes: int) -> Extent:
        # Found again by name after a state was loaded, so that the file does not grow with every load.
        key = (name, size_bytes)
        if key not in self._extents:
            self._extents[key] = self._file.allocate(size_bytes)
        return self._extents[key]

    def _start_read(self, record: StateRecord) -> None:
        record.buffer = self._take(record)
        record.read = self._file.read(record.extent, record.buffer, after=record.write)
        self._brought.add(record)

    def _take(self, record: StateRecord) -> Tensor:
        """Return staging memory; if it is full of what is being written, wait for that."""
        # Only writes are waited for: they end by themselves. What was read ahead is freed by this very thread, later.
        while self._writing and self._staged_bytes + record.extent.bytes > self._staging_bytes:
            self._writing.popleft().wait()
        with self._lock:
            self._staged_bytes += record.extent.bytes
        return self._pool.take(record.extent.bytes)

    def _give(self, buffer: Tensor) -> None:
        self._pool.give(buffer)
        with self._lock:
            self._staged_bytes -= buffer.numel()


def is_opened(state: Any) -> bool:
    """Return whether a state that belongs in the file is in memory, because someone has looked at it."""
    return isinstance(state, FiledState) and state.opened


def _streams(value: Any) -> bool:
    return isinstance(value, Tensor) and value.nbytes >= SMALLEST_BYTES


def _without(state: dict[str, Any], keys: Any) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key not in keys}

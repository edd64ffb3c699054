"""What the graph keeps for backward: memory on the device, on the host, or to be computed again; and its parts."""

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import torch
from torch import Tensor

from tencache.runtime.memory.copy_lanes import Copy
from tencache.runtime.tensors.recomputing import Again


class SaveLog(Protocol):
    """Where it is noted what was saved, and used."""

    timed: bool

    @property
    def op_count(self) -> int:
        """Return how many operations have begun."""

    def saved(self, size_bytes: int) -> int:
        """Record memory that autograd keeps from now on; return its number."""

    def used(self, number: int) -> None:
        """Record that backward uses what was saved."""

    def again(self, number: int, seconds: float, of: tuple[int, ...]) -> None:
        """Record what it takes to compute again what was saved, and from which others."""

    def aside(self) -> AbstractContextManager[None]:
        """Let the stopwatch stand still."""


class SavedMemory:
    """One storage that the graph keeps: on the device, on the host, or on its way."""

    def __init__(self, data: Tensor, record: SaveLog, forget: Callable[["SavedMemory"], None]) -> None:
        self._forget = forget
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
        # Whether backward has asked for it since its bytes were last known: what it is given to may write to it unseen.
        self.handed_out = False
        # How it can be computed again; whether the plan has it so; and whether its bytes were dropped for that.
        self.again: Again | None = None
        self.may_drop = self.dropped = False
        # The numbers of those that are to be computed of it.
        self.needed_by: set[int] = set()
        # What was dropped because it can be computed of it.
        self.resting: weakref.WeakSet[SavedMemory] = weakref.WeakSet()
        # What its bytes were when they left, for `verify=True`.
        self.checksum: int | None = None

    def is_in(self, storage: torch.UntypedStorage) -> bool:
        """Return whether this is the storage's memory."""
        data = self.data
        return data is not None and data.untyped_storage()._cdata == storage._cdata  # noqa: SLF001

    def __del__(self) -> None:
        # Copies hold it until they are over, so nothing reads or writes its bytes by now.
        self._forget(self)


class SavedActivation:
    """What the graph keeps in place of a tensor: which part of which memory it is."""

    __slots__ = ("__weakref__", "dtype", "marks", "memory", "offset", "probe", "shape", "stride", "version")

    def __init__(self, memory: SavedMemory, tensor: Tensor) -> None:
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

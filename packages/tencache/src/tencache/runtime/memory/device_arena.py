"""One contiguous device allocation of exactly the budget; slots at the offsets that the plan fixed."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tencache.runtime.memory.accelerator import Accelerator
from tencache.runtime.memory.private_mapping import map_private

# Four or two such bytes are not a number: who computes with memory that is free notices.
POISON = 0xFF


class Arena:
    """The device's memory for parameters. It never grows."""

    def __init__(self, size_bytes: int, accelerator: Accelerator | None = None) -> None:
        self.size_bytes = size_bytes
        self._accelerator = accelerator
        if accelerator is None:
            # Not a tensor: slices of a tensor share its storage, and could not be told apart by who uses them.
            self._memory: Any = map_private(size_bytes)
            self.base = torch.frombuffer(self._memory, dtype=torch.uint8).data_ptr()
        else:
            self._memory = torch.empty(size_bytes, dtype=torch.uint8, device=accelerator.device)
            self.base = self._memory.data_ptr()

    @property
    def device(self) -> torch.device:
        """Return where it is; what is simulated is in the host's memory."""
        return torch.device("cpu") if self._accelerator is None else self._accelerator.device

    def carve(self, offset: int, size_bytes: int) -> Tensor:
        """Return the bytes at an offset as a tensor with a storage of its own, so that its users can be counted."""
        if self._accelerator is None:
            return torch.frombuffer(self._memory, dtype=torch.uint8, offset=offset, count=size_bytes)
        return self._accelerator.bytes_at(self.base + offset, size_bytes, self._memory)

    @property
    def closed(self) -> bool:
        """Return whether the memory was let go."""
        return self._memory is None

    def poison(self) -> None:
        """Fill all of it with what no parameter holds."""
        self.carve(0, self.size_bytes).fill_(POISON)

    def close(self) -> None:
        """Drop the memory; it is freed with the last slot."""
        self._memory = None


class _Counter(partial[int]):
    """A bound count that keeps its storage alive."""

    storage: torch.UntypedStorage


def user_counter(tensor: Tensor) -> Callable[[], int]:
    """Return what counts the tensors, and other holders, that share this tensor's storage; it is one of them itself."""
    # The count is asked for by the storage's address. Held here, the storage cannot be freed and its address given to
    # another. Bound once, asking costs one call: it is asked for every slot that a load would overwrite.
    storage = tensor.untyped_storage()
    counter = _Counter(torch._C._storage_Use_Count, storage._cdata)  # noqa: SLF001  no public name gives it
    counter.storage = storage
    return counter


def users(tensor: Tensor) -> int:
    """Return the number of tensors that share this tensor's storage."""
    return int(torch._C._storage_Use_Count(tensor.untyped_storage()._cdata))  # noqa: SLF001  no public name gives it

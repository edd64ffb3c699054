"""What user code may do with parameters that are divided over processes: read them, as copies."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tencache.errors import RefusedError
from tencache.runtime.memory.device_arena import users
from tencache.runtime.tensors.masters import Masters
from tencache.runtime.tensors.parameter_entry import ParameterEntry
from tencache.runtime.tensors.shards import Shards

# The tensor that is kept here, and the storage object that counting makes.
_IDLE_USERS = 2


class SharedReads:
    """Answers operations on the host with copies, and finds writes to those: they would reach no process."""

    def __init__(self, shards: Shards, masters: Masters) -> None:
        self._shards = shards
        self._masters = masters
        self._given: list[tuple[str, Tensor]] = []

    def run(self, func: Callable[..., Any], entries: Sequence[ParameterEntry], args: Any, kwargs: Any) -> Any:
        """Run an operation that only reads, on parameters that are in memory now."""
        try:
            return self._apart(func(*args, **kwargs), entries)
        finally:
            for entry in entries:
                self._masters.close(entry.unit, changed=False)

    def check(self) -> None:
        """Refuse if a copy that was given out has been written to, and forget those that nobody holds."""
        given, self._given = self._given, []
        for name, copy in given:
            if copy._version:  # noqa: SLF001
                self.refuse_write(name)
            if users(copy) > _IDLE_USERS:
                self._given.append((name, copy))

    def refuse_write(self, name: str) -> None:
        """Refuse a write to a parameter."""
        raise RefusedError(
            f"{name} is written to while it is divided over processes, where each would have to do so at the same "
            "moment: write to parameters, or load a checkpoint, before wrap() or after unwrap()"
        )

    def refuse_gradient(self, name: str) -> None:
        """Refuse to show or to change a gradient."""
        raise RefusedError(
            f"{name}.grad is with the process that holds {name}: call clip_grad_norm_() of what wrap() returned, and "
            "zero_grad() after step()"
        )

    def may_drop(self, value: Any) -> bool:
        """Return whether a gradient may be set to this: to nothing, while there are no new ones."""
        return value is None and not self._shards.has_gradients

    def _apart(self, result: Any, entries: Sequence[ParameterEntry]) -> Any:
        if isinstance(result, Tensor):
            memory = {entry.parameter.untyped_storage().data_ptr() for entry in entries}
            if result.untyped_storage().data_ptr() not in memory:
                return result
            copy = result.detach().clone()
            self.check()
            self._given.append((entries[0].name, copy.detach()))
            return copy.requires_grad_(result.requires_grad) if result.requires_grad else copy
        if isinstance(result, (torch.UntypedStorage, torch.TypedStorage, list, tuple)):
            raise RefusedError(
                f"views of {entries[0].name} cannot be given out while it is divided over processes: use detach() first"
            )
        return result

"""For `verify=True`: what an operation of a forward reads in the arena is checked before it runs."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode, _pop_mode, _push_mode
from torch.utils._pytree import tree_leaves

from tencache.errors import CorruptedError
from tencache.runtime.cycle.leaf_writes import LeafWrites
from tencache.runtime.tensors.device_copies import DeviceCopies
from tencache.runtime.unrouted import Bookkeeping


class ByteGuard(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Checks, before every operation of a forward, each argument that lies in the arena.

    Operations on parameters are checked when the parameter is brought. This sees the others, on tensors that share
    memory with a device copy.
    """

    def __init__(self, device_copies: DeviceCopies, leaves: LeafWrites) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._device_copies = device_copies
        self._leaves = leaves

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Check the arguments, and run the operation."""
        del types
        if not Bookkeeping.depth:
            for value in tree_leaves((args, kwargs)):
                if isinstance(value, torch.Tensor) and value.layout is torch.strided:
                    self._check(value)
        return func(*args, **(kwargs or {}))

    def _check(self, value: torch.Tensor) -> None:
        try:
            self._device_copies.check_read(value)
        except CorruptedError:
            # Written to by the model itself, as max_norm does: that is refused, by name.
            self._leaves.refuse_written()
            raise


def leave_mode(mode: TorchDispatchMode) -> None:
    """Leave a dispatch mode, also if others were entered since: after Ctrl-C in a forward it is left late."""
    above: list[TorchDispatchMode] = []
    while _get_current_dispatch_mode() not in {None, mode}:
        above.append(_pop_mode())
    mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
    for other in reversed(above):
        _push_mode(other)

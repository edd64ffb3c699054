"""Tensor operations that bypass the routing of wrapped parameters."""

from types import TracebackType
from typing import Any, ClassVar

import torch
from torch.utils._python_dispatch import _disable_current_modes

# Inside `with Unrouted():` a wrapped parameter is the plain host tensor that it is made of. This package's own code
# runs inside it: otherwise reading a parameter's host bytes would load that parameter to the device. The setting
# belongs to a thread, so each thread that touches parameters must enter it for itself.
Unrouted = torch._C.DisableTorchFunctionSubclass  # noqa: SLF001  torch documents it by this name
# Inside `with Routed():` operations are routed again: a closure that an optimizer calls is the user's code.
Routed = torch._C._EnableTorchFunction  # noqa: SLF001  no public name gives it


class Bookkeeping:
    """A context for this package's own tensors: ordinary ones, whatever mode the user is in.

    A tensor made under `torch.inference_mode()` can never take part in training again, and slots and leaves are kept.
    """

    __slots__ = ("_contexts",)
    # How many are entered. What this package does with the arena is not for `verify=True` to judge.
    depth: ClassVar[int] = 0

    def __init__(self) -> None:
        self._contexts: tuple[Any, ...] = ()

    def __enter__(self) -> None:
        """Leave inference mode and dispatch modes, if there are any."""
        Bookkeeping.depth += 1
        if torch.is_inference_mode_enabled():
            # Leaving inference mode turns gradients on again, so they are turned off.
            self._contexts = (torch.inference_mode(mode=False), torch.no_grad())
        # A mode of the user's, as selective checkpointing has, would count our copies among the model's operations.
        if torch._C._len_torch_dispatch_stack():  # noqa: SLF001  no public name gives it
            self._contexts = (*self._contexts, _disable_current_modes())
        for context in self._contexts:
            context.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Go back to the user's mode."""
        Bookkeeping.depth -= 1
        for context in reversed(self._contexts):
            context.__exit__(kind, error, trace)

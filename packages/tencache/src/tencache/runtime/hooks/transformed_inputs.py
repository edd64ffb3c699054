"""Parameters that are given to `torch.func`, which takes a tensor's bytes without asking it."""

from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar

import torch._functorch.eager_transforms as transforms
import torch._functorch.vmap as mapping
from torch import Tensor

from tencache.errors import RefusedError
from tencache.runtime.hooks.refusals import describe_transform
from tencache.runtime.hooks.wrapped_parameter import WrappedParameter


class TransformedInputs:
    """Stands before the two functions by which `torch.func` takes its inputs, while any model is wrapped."""

    # The only functions of torch that are replaced: nothing else sees a parameter on this way, and what was read could
    # be its value from before an update.
    own: ClassVar[list[Callable[..., Any]]] = []
    _watching: ClassVar[int] = 0

    def __init__(self) -> None:
        self._begun = False

    def begin(self) -> None:
        """Begin to watch."""
        self._begun = True
        if TransformedInputs._watching == 0:
            TransformedInputs.own = [vars(module)[name] for module, name, _ in _REPLACED]
            for module, name, replacement in _REPLACED:
                vars(module)[name] = replacement
        TransformedInputs._watching += 1

    def end(self) -> None:
        """End it, if it was begun; the last one gives torch its functions back."""
        if not self._begun:
            return
        self._begun = False
        TransformedInputs._watching -= 1
        if TransformedInputs._watching == 0:
            for (module, name, _), own in zip(_REPLACED, TransformedInputs.own, strict=True):
                vars(module)[name] = own


def _map_over(tensor: Tensor, *args: Any) -> Any:
    """Map over a view of a parameter, which is an operation as any other."""
    if type(tensor) is WrappedParameter:
        tensor = tensor.view_as(tensor)
    return TransformedInputs.own[0](tensor, *args)


def _differentiate_by(tensor: Tensor, *args: Any) -> Any:
    """Refuse to differentiate by a parameter: the graph would keep its bytes."""
    if type(tensor) is WrappedParameter:
        raise RefusedError(describe_transform(tensor.__dict__["_tencache_entry"].name))
    return TransformedInputs.own[1](tensor, *args)


_REPLACED: tuple[tuple[ModuleType, str, Callable[..., Any]], ...] = (
    (mapping, "_add_batch_dim", _map_over),
    (transforms, "_wrap_for_grad", _differentiate_by),
)

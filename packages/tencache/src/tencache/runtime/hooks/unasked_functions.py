"""Functions of torch that take a parameter's bytes without asking its class first.

Most functions of torch ask `__torch_function__` of their arguments. These do not: constructors (`torch.tensor`), what
`torch.jit` compiled, and the inputs of `torch.func`. They would read the host's bytes, which may be those from before
the last update, or not there at all. While any model is wrapped, each is replaced by one that is given a view of the
parameter: making the view is an operation as any other, so it waits, and is on the device where the others are.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, ClassVar

import torch
import torch._functorch.eager_transforms as transforms
import torch._functorch.vmap as mapping
from torch import Tensor

from tencache.errors import RefusedError
from tencache.runtime.hooks.refusals import describe_transform
from tencache.runtime.hooks.wrapped_parameter import WrappedParameter, swap, swap_back
from tencache.runtime.tensors.parameter_entry import ParameterEntry

Function = Callable[..., Any]


class UnaskedFunctions:
    """The replacements, which are in place while any model is wrapped."""

    # What each holder had by that name itself; None if it had it from a class above, or a module above.
    _own: ClassVar[list[Function | None]] = []
    _watching: ClassVar[int] = 0

    def __init__(self) -> None:
        self._begun = False

    def begin(self) -> None:
        """Put them in place, if they are not."""
        self._begun = True
        if UnaskedFunctions._watching == 0:
            UnaskedFunctions._own = [vars(holder).get(name) for holder, name, _ in _REPLACED]
            for holder, name, replace in _REPLACED:
                setattr(holder, name, replace(getattr(holder, name)))
        UnaskedFunctions._watching += 1

    def end(self) -> None:
        """Take them away, if they were put in place from here; the last one gives torch its functions back."""
        if not self._begun:
            return
        self._begun = False
        UnaskedFunctions._watching -= 1
        if UnaskedFunctions._watching == 0:
            for (holder, name, _), own in zip(_REPLACED, UnaskedFunctions._own, strict=True):
                if own is None:
                    delattr(holder, name)
                else:
                    setattr(holder, name, own)


def _asking(func: Function) -> Function:
    """Return the function, given a view in place of each parameter; a view that comes back is the parameter."""

    @wraps(func)
    def asking(*args: Any, **kwargs: Any) -> Any:
        found = _parameters((args, kwargs))
        if not found:
            return func(*args, **kwargs)
        views = {id(parameter): parameter.view_as(parameter) for parameter in found}
        result = func(*swap(args, views), **swap(kwargs, views))
        return swap_back(result, {id(views[id(parameter)]): parameter for parameter in found})

    return asking


def _asking_for_memory(func: Function, *, static: bool = False) -> Function:
    """Return the function, given each parameter's own memory, whether gradients are recorded or not."""

    @wraps(func)
    def asking(*args: Any, **kwargs: Any) -> Any:
        found = _parameters((args, kwargs))
        if found and (args[0] is not found[0] or func.__name__ != "set_"):
            with torch.no_grad():
                views = {id(parameter): parameter.detach() for parameter in found}
            args, kwargs = swap(args, views), swap(kwargs, views)
        return func(*args, **kwargs)

    return staticmethod(asking) if static else asking


def _parameters(value: Any) -> list[WrappedParameter]:
    """Return the wrapped parameters in arguments, each once."""
    if type(value) is WrappedParameter:
        return [value] if "_tencache_entry" in value.__dict__ else []
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, (list, tuple)):
        return []
    found: dict[int, WrappedParameter] = {}
    for item in value:
        kind = type(item)
        # Of numbers in a row the first tells of all, or a table would be walked through one by one.
        if kind is int or kind is float or kind is bool:
            if item is value[0] and len(value) > _LONG:
                return []
            continue
        found.update((id(one), one) for one in _parameters(item))
    return list(found.values())


_LONG = 64


def _map_over(func: Function) -> Function:
    """Map over a view of a parameter."""

    def map_over(tensor: Tensor, *args: Any) -> Any:
        return func(tensor.view_as(tensor) if type(tensor) is WrappedParameter else tensor, *args)

    return map_over


def _differentiate_by(func: Function) -> Function:
    """Refuse to differentiate by a parameter: the graph would keep its bytes."""

    def differentiate_by(tensor: Tensor, *args: Any) -> Any:
        if type(tensor) is WrappedParameter:
            entry: ParameterEntry = tensor.__dict__["_tencache_entry"]
            raise RefusedError(describe_transform(entry.name))
        return func(tensor, *args)

    return differentiate_by


_CONSTRUCTORS = (
    *("tensor", "as_tensor", "asarray", "scalar_tensor"),
    *("sparse_coo_tensor", "sparse_csr_tensor", "sparse_csc_tensor", "sparse_bsr_tensor", "sparse_bsc_tensor"),
    "sparse_compressed_tensor",
)

_REPLACED: tuple[tuple[Any, str, Callable[[Function], Any]], ...] = (
    (mapping, "_add_batch_dim", _map_over),
    (transforms, "_wrap_for_grad", _differentiate_by),
    *((torch, name, _asking) for name in _CONSTRUCTORS),
    (torch.nested, "nested_tensor", _asking),
    (torch._C.ScriptFunction, "__call__", _asking),  # noqa: SLF001  torch.jit has no other name for them
    (torch._C.ScriptMethod, "__call__", _asking),  # noqa: SLF001
    (torch.Tensor, "new_tensor", _asking),
    (torch.Tensor, "new", _asking_for_memory),
    (torch.Tensor, "__new__", partial(_asking_for_memory, static=True)),
    (torch.Tensor, "set_", _asking_for_memory),
    (torch.Tensor, "_make_subclass", partial(_asking_for_memory, static=True)),
    (torch, "to_dlpack", _asking_for_memory),
    (torch.utils.dlpack, "to_dlpack", _asking_for_memory),
)

"""The class that wrapped parameters have while they are wrapped: every operation on one passes here.

A parameter's own data stays on the host. Where an operation computes with it, the operation is given the parameter's
device leaf instead, made resident first. No function is patched, and the parameter keeps its identity.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import torch
from torch import nn

from tencache.runtime.tensors.parameter_entry import ParameterEntry
from tencache.runtime.unrouted import Routed, Unrouted

# Attributes that are views of the parameter's bytes, and so operations; all others only describe it.
_COMPUTING_GETTERS = frozenset({"T", "mT", "H", "mH", "data", "real", "imag"})
# Answered from the parameter itself, without its bytes. What returns the parameter (requires_grad_) must be here: run
# on the device, it would hand the leaf to user code.
_DESCRIBING = frozenset(
    [
        "size",
        "dim",
        "numel",
        "nelement",
        "stride",
        "is_floating_point",
        "is_complex",
        "element_size",
        "ndimension",
        "storage_offset",
        "is_contiguous",
        "__len__",
        "__hash__",
        "get_device",
        "is_shared",
        "is_pinned",
        "requires_grad_",
        "_is_view",
        "is_inference",
        "is_set_to",
        "is_same_size",
        "has_names",
        "retain_grad",
    ]
)
# Outside forward and backward these are how checkpoints, logging and initialisation read and write parameters: with the
# host's bytes, even where gradients are enabled. Anything else that is differentiable is part of a loss.
_HOST_SIDE = frozenset(
    [
        "__repr__",
        "__format__",
        "detach",
        "detach_",
        "cpu",
        "numpy",
        "tolist",
        "item",
        "copy_",
        "data_ptr",
        "untyped_storage",
    ]
)

_WRITING = frozenset(
    ["__setitem__"]
    + [f"__i{name}__" for name in ("add", "sub", "mul", "div", "truediv", "floordiv", "mod", "pow", "and", "or", "xor")]
)

# Of several parameters these are asked of the first.
_ASKED_OF_ONE = frozenset(["__get__", "__set__", "__delete__", "register_hook", "register_post_accumulate_grad_hook"])

# These name parameters only to say whose gradients are wanted.
_DIFFERENTIATING = frozenset([torch.autograd.grad, torch.autograd.backward, torch.Tensor.backward])


class Owner(Protocol):
    """What a wrapped parameter needs of the engine that holds it."""

    def computing(self) -> bool:
        """Return whether the model's forward or a backward runs."""

    def run(self, func: Callable[..., Any], entries: list[ParameterEntry], args: Any, kwargs: Any) -> Any:
        """Run an operation on the device."""

    def differentiate(self, func: Callable[..., Any], entries: list[ParameterEntry], args: Any, kwargs: Any) -> Any:
        """Compute gradients of the parameters."""

    def on_host(self, func: Callable[..., Any], entries: list[ParameterEntry], args: Any, kwargs: Any) -> Any:
        """Run an operation on the parameter's own data."""

    def get(self, entry: ParameterEntry, name: str, func: Callable[..., Any]) -> Any:
        """Read an attribute that only describes the parameter."""

    def set(self, entry: ParameterEntry, name: str, func: Callable[..., Any], value: Any) -> None:
        """Write an attribute."""

    def add_hook(self, entry: ParameterEntry, register: Callable[[], Any]) -> Any:
        """Register a gradient hook."""


class WrappedParameter(nn.Parameter):
    """A parameter whose device copy comes and goes."""

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Route the operation to the device, to the host's bytes, or to a description of the parameter."""
        if len(types) > 1 and func not in _DIFFERENTIATING and not _PLAIN.issuperset(types):
            func = _seen_by_others(func)
        with Unrouted():
            entries: list[ParameterEntry] = []
            _collect(args, entries)
            if kwargs:
                _collect(kwargs.values(), entries)
            # torch also asks when a parameter is deep inside an argument that is not looked into.
            if not entries:
                return func(*args, **(kwargs or {}))
            owner: Owner = entries[0].parameter.__dict__["_tencache_owner"]
            if len(entries) == 1:
                return _route(owner, func, entries, args, kwargs or {})
            return _route_all(func, entries, args, kwargs or {})

    # torch does not ask `__torch_function__` for these two.
    def as_subclass(self, cls: Any) -> Any:
        """Return a view of another class."""
        return self.view_as(self).as_subclass(cls)

    def set_(self, *args: Any, **kwargs: Any) -> Any:
        """Let other memory be the parameter's, as an assignment of `.data` does."""
        with Unrouted():
            entry: ParameterEntry = self.__dict__["_tencache_entry"]
            owner: Owner = self.__dict__["_tencache_owner"]
            return _route(owner, torch.Tensor.set_, [entry], (self, *args), kwargs)


_PLAIN = frozenset([torch.Tensor, nn.Parameter, WrappedParameter])


def _seen_by_others(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return the operation as tensors of classes of the user's see it, whose own `__torch_function__` comes next."""

    def seen(*args: Any, **kwargs: Any) -> Any:
        with Routed():
            return func(*args, **kwargs)

    seen.__name__ = getattr(func, "__name__", "")
    return seen


def _route_all(func: Callable[..., Any], entries: list[ParameterEntry], args: Any, kwargs: Any) -> Any:
    """Route an operation on several parameters, which may be those of several wrapped models."""
    groups: dict[Owner, list[ParameterEntry]] = {}
    for entry in entries:
        groups.setdefault(entry.parameter.__dict__["_tencache_owner"], []).append(entry)
    first = entries[0].parameter.__dict__["_tencache_owner"]
    name = getattr(func, "__name__", "")
    if len(groups) == 1 or name in _ASKED_OF_ONE or name in _DESCRIBING:
        return _route(first, func, groups[first], args, kwargs)
    on_device = any(owner.computing() for owner in groups) or _is_in_a_loss(name, entries, args, kwargs)
    # Each owner replaces its own parameters, and leaves the others' to the next.
    for owner, own in groups.items():
        if func in _DIFFERENTIATING or getattr(func, "differentiates", False):
            func = _nested(owner.differentiate, func, own)
            vars(func)["differentiates"] = True
        else:
            func = _nested(owner.run if on_device else owner.on_host, func, own)
    return func(*args, **kwargs)


def _nested(route: Callable[..., Any], func: Callable[..., Any], entries: list[ParameterEntry]) -> Callable[..., Any]:
    """Return the operation, routed for these parameters, by its own name."""

    def nested(*args: Any, **kwargs: Any) -> Any:
        with Unrouted():
            return route(func, entries, args, kwargs)

    nested.__name__ = getattr(func, "__name__", "")
    return nested


def _route(owner: Owner, func: Callable[..., Any], entries: list[ParameterEntry], args: Any, kwargs: Any) -> Any:
    name = getattr(func, "__name__", "")
    if name == "__get__":
        attribute = func.__self__.__name__  # type: ignore[attr-defined]
        if attribute not in _COMPUTING_GETTERS:
            return owner.get(entries[0], attribute, func)
        # Inside a forward `.data` is computed with, on the device; outside it is the host's, to be written.
        if attribute == "data" and not owner.computing():
            return owner.on_host(func, entries, args, kwargs)
    elif name == "__set__":
        owner.set(entries[0], func.__self__.__name__, func, args[1])  # type: ignore[attr-defined]
        entries[0].freeze_leaf()
        return None
    elif name == "__delete__":
        owner.set(entries[0], func.__self__.__name__, lambda parameter, _: func(parameter), None)  # type: ignore[attr-defined]
        return None
    elif name in {"register_hook", "register_post_accumulate_grad_hook"}:
        return owner.add_hook(entries[0], lambda: func(*args, **kwargs))
    elif name in _DESCRIBING:
        result = func(*args, **kwargs)
        if name == "requires_grad_":
            entries[0].freeze_leaf()
        return result
    elif func in _DIFFERENTIATING:
        return owner.differentiate(func, entries, args, kwargs)
    if owner.computing() or _is_in_a_loss(name, entries, args, kwargs):
        return owner.run(func, entries, args, kwargs)
    return owner.on_host(func, entries, args, kwargs)


def _is_in_a_loss(name: str, entries: list[ParameterEntry], args: Any, kwargs: Any) -> bool:
    recorded = torch.is_grad_enabled() and any(entry.parameter.requires_grad for entry in entries)
    return recorded and not _stays_on_host(name, args, kwargs)


def _stays_on_host(name: str, args: Any, kwargs: Any) -> bool:
    if name in _HOST_SIDE:
        return True
    # What writes to a parameter, as nn.init does, is no part of a loss; torch itself refuses where it would be.
    first = args[0] if args else kwargs.get("tensor")
    return type(first) is WrappedParameter and writes(name)


def writes(name: str) -> bool:
    """Return whether a function's name says that it writes to its first argument."""
    return name in _WRITING or (name.endswith("_") and not name.endswith("__"))


def _collect(values: Iterable[Any], found: list[ParameterEntry]) -> None:
    # Asked by type: isinstance() on a Parameter goes through a metaclass, and this runs for every operation.
    for value in values:
        if type(value) is WrappedParameter:
            entry = value.__dict__.get("_tencache_entry")
            if entry is not None and entry not in found:
                found.append(entry)
        elif isinstance(value, (list, tuple)):
            _collect(value, found)
        elif isinstance(value, dict):
            _collect(value.values(), found)


def swap_back(result: Any, originals: Mapping[int, nn.Parameter]) -> Any:
    """Return an operation's result with each device leaf in it replaced by its parameter."""
    if isinstance(result, torch.Tensor):
        return originals.get(id(result), result)
    if type(result) is tuple or type(result) is list:
        return type(result)([swap_back(item, originals) for item in result])
    return result


def swap(value: Any, replacement: Mapping[int, Any]) -> Any:
    """Return the arguments with each wrapped parameter replaced by its device tensor."""
    kind = type(value)
    if kind is WrappedParameter:
        return replacement.get(id(value), value)
    if kind is torch.Tensor or value is None:
        return value
    if kind is tuple or kind is list:
        return kind([swap(item, replacement) for item in value])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*(swap(item, replacement) for item in value))
    if isinstance(value, (list, tuple)):
        return kind(swap(item, replacement) for item in value)
    if isinstance(value, dict):
        return {key: swap(item, replacement) for key, item in value.items()}
    return value

"""Sees what autocast makes of the parameters of one operation, and gives it working copies for casts."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tencache.runtime.cycle.engine import Engine
from tencache.runtime.tensors.parameter_entry import ParameterEntry
from tencache.runtime.unrouted import Bookkeeping

_TO_COPY = torch.ops.aten._to_copy.default  # noqa: SLF001
_HALVES = (torch.bfloat16, torch.float16)
# These cast because user code says so: each makes a cast of its own, and gives it to user code.
_CONVERTING = frozenset(["to", "type", "type_as", "bfloat16", "half", "__get__"])
# These autocast casts for before anything else sees them.
_CAST_FIRST = frozenset(
    ["linear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "addmm", "baddbmm", "conv1d", "conv2d", "conv3d"]
)


def casts_to(func: Callable[..., Any], device_type: str) -> torch.dtype | None:
    """Return the type that autocast may cast an operation's parameters to; None if it does not."""
    if not torch.is_autocast_enabled(device_type):
        return None
    name = getattr(func, "__name__", "")
    if name in _CONVERTING or (autocast_hides(device_type) and name not in _CAST_FIRST):
        return None
    return torch.get_autocast_dtype(device_type)


def autocast_hides(device_type: str) -> bool:
    """Return whether a dispatch mode would disturb autocast.

    In inference mode torch hands an operation that is made of others to a dispatch mode as one, and autocast does not
    see those others any more.
    """
    return torch.is_inference_mode_enabled() and torch.is_autocast_enabled(device_type)


class CastWatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Entered for one operation under autocast.

    Autocast casts by an operation below it, which arrives here. It gets the working copy, and keeps it as it would
    keep its own: whether two uses share a cast, and where gradients are rounded, is decided by autocast itself. Any
    other operation on a leaf that has only its working copy on the device brings the whole first.
    """

    def __init__(self, engine: Engine, forms: dict[int, tuple[ParameterEntry, int]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._engine = engine
        self._forms = forms
        self._made: list[tuple[ParameterEntry, Tensor, bool]] = []

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Cast, or bring what is computed with, and run the operation."""
        del types
        if Bookkeeping.depth:
            return func(*args, **(kwargs or {}))
        if func is _TO_COPY and id(args[0]) in self._forms and kwargs is not None:
            dtype = kwargs.get("dtype")
            if dtype in _HALVES and len(kwargs) == 1:
                return self._cast(args, dtype)
        for entry, _ in self._used(args, kwargs):
            with Bookkeeping():
                self._engine.use_whole(entry)
        return func(*args, **(kwargs or {}))

    def settle(self, result: Any) -> None:
        """After the operation, note whose gradient each cast has; autocast may keep those of leaves that have one."""
        for entry, cast, working in self._made:
            if cast.grad_fn is not None:
                cast.register_hook(_noting(entry))  # type: ignore[no-untyped-call]
            if not working:
                continue
            if cast is result:
                # Some operations return their argument, as einsum may: what user code gets is not moved under it.
                cast.data = cast.detach().clone()
            elif entry.leaf.requires_grad and torch.is_autocast_cache_enabled():
                self._engine.device_copies.bindings.keep_cast(entry, cast)

    def _cast(self, args: Sequence[Any], dtype: torch.dtype) -> Tensor:
        entry, unit = self._forms[id(args[0])]
        with Bookkeeping():
            self._engine.note_cast(entry, dtype)
            working = unit == entry.half and entry.half_dtype is dtype
            if working:
                cast = self._engine.device_copies.bindings.make_cast(entry)
            elif unit == entry.half:
                self._engine.bring_whole(entry)
        if not working:
            cast = _TO_COPY(args[0], dtype=dtype)
        self._made.append((entry, cast, working))
        return cast

    def _used(self, args: Any, kwargs: dict[str, Any] | None) -> Iterable[tuple[ParameterEntry, int]]:
        values = (*args, *kwargs.values()) if kwargs else args
        for value in values:
            if isinstance(value, Tensor):
                if id(value) in self._forms:
                    yield self._forms[id(value)]
            elif isinstance(value, (list, tuple)):
                yield from self._used(value, None)


def _noting(entry: ParameterEntry) -> Callable[[Tensor], None]:
    def note(gradient: Tensor) -> None:
        # With the backward that it belongs to: one that fails, or asks for gradients only, leaves it behind.
        if gradient.dtype in _HALVES:
            backward_id = torch._C._current_graph_task_id()  # noqa: SLF001
            entry.cast_gradients = [pair for pair in entry.cast_gradients if pair[0] == backward_id]
            entry.cast_gradients.append((backward_id, gradient))
        else:
            entry.used_whole = True

    return note

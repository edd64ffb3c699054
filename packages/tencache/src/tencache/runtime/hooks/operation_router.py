"""What happens to an operation on a wrapped parameter, and around the model's forward."""

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.autograd.graph import saved_tensors_hooks

from tencache.errors import RefusedError
from tencache.runtime.cycle.engine import Engine
from tencache.runtime.hooks.refusals import describe_hook, describe_write, refuse_if_compiling
from tencache.runtime.hooks.saved_tensors import SavedTensors
from tencache.runtime.hooks.wrapped_parameter import swap
from tencache.runtime.tensors.masters import Masters
from tencache.runtime.tensors.parameter_entry import ParameterEntry
from tencache.runtime.unrouted import Unrouted


class OperationRouter:
    """Decides where an operation runs: on the device, or on the parameter's own data."""

    def __init__(self, engine: Engine, masters: Masters, saved: SavedTensors, device: torch.device) -> None:
        self._engine = engine
        self._masters = masters
        self._saved = saved
        self._device = device
        self._depth = 0
        self._exposed: set[int] = set()
        self._uses: dict[int, int] = {}
        self._used_twice: set[int] = set()
        self._first_cast_forward = True
        self._context: saved_tensors_hooks | None = None

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise RefusedError("a wrapped model cannot be copied: copy its state_dict(), or unwrap() it first")

    def __reduce__(self) -> NoReturn:
        raise RefusedError("a wrapped model cannot be pickled: save its state_dict(), or unwrap() it first")

    def computing(self) -> bool:
        """Return whether the model's forward or a backward runs."""
        return self._depth > 0 or torch._C._current_graph_task_id() != -1  # noqa: SLF001

    def run(self, func: Callable[..., Any], entries: list[ParameterEntry], args: Any, kwargs: Any) -> Any:
        """Run an operation on the device, once its parameters are there."""
        refuse_if_compiling()
        self._engine.begin_op(tuple(dict.fromkeys(entry.unit for entry in entries)))
        # Ended also when it fails: units of an operation that never ends would count as in use for good.
        try:
            return self._compute(func, entries, args, kwargs)
        finally:
            self._engine.end_op()

    def on_host(self, func: Callable[..., Any], entries: list[ParameterEntry], args: Any, kwargs: Any) -> Any:
        """Run an operation on the parameters' own data, brought from the file if need be."""
        for entry in entries:
            self._masters.open(entry.unit)
            if getattr(func, "__name__", "") == "__get__":
                # `.data` can be written without a trace: the device copy is sent again before it is used.
                self._exposed.add(entry.unit)
        return func(*args, **kwargs)

    def get(self, entry: ParameterEntry, name: str, func: Callable[..., Any]) -> Any:
        """Read an attribute; a gradient is complete when it is read."""
        if name == "grad":
            self._engine.gradients.wait(entry)
        # Where operations run, not where the bytes are: user code makes inputs and masks on `parameter.device`.
        if name == "device":
            return self._device
        if name == "is_cuda":
            return self._device.type == "cuda"
        return func(entry.parameter)

    def set(self, entry: ParameterEntry, name: str, func: Callable[..., Any], value: Any) -> None:
        """Write an attribute; new data goes into the parameter's own memory."""
        if name == "grad":
            self._engine.gradients.wait(entry)
        if name != "data":
            func(entry.parameter, value)
            return
        if self.computing():
            raise RefusedError(describe_write(entry.name))
        if value.shape != entry.shape or value.dtype != entry.dtype:
            raise RefusedError(f"{entry.name} is given data of another shape or type: unwrap the model to change it")
        # Copied, not rebound: the parameter must stay in the buffer that uploads read. The copy raises its version, and
        # so the next forward sends it again.
        self._masters.open(entry.unit)
        with torch.no_grad():
            entry.parameter.copy_(value)

    def refuse_hook(self, entry: ParameterEntry) -> None:
        """Refuse a gradient hook on a wrapped parameter."""
        raise RefusedError(describe_hook(entry.name))

    def before_forward(self, *_: Any) -> None:
        """Begin a forward: take in what changed since the last, and save handles instead of bytes for backward."""
        refuse_if_compiling()
        # A model may call itself; only the outermost forward is the step's.
        self._depth += 1
        if self._depth > 1:
            return
        with Unrouted():
            self._take_in_changes()
            self._engine.forward_begins()
        self._context = self._saved.entered()
        self._context.__enter__()

    def after_forward(self, *_: Any) -> None:
        """End a forward, also one that failed."""
        # torch calls this even when before_forward() refused and counted nothing.
        if self._depth == 0:
            return
        self._depth -= 1
        if self._depth:
            return
        if self._context is not None:
            self._context.__exit__()
            self._context = None
        self._saved.left()
        if self._uses:
            self._used_twice.update(key for key, count in self._uses.items() if count > 1)
            self._uses.clear()
            self._first_cast_forward = False
        with Unrouted():
            self._engine.forward_ends()

    def _take_in_changes(self) -> None:
        changed = self._engine.changed_units() | self._exposed
        # Closed before the forward, which uploads from the file's newest bytes; dropped, so that it does upload them.
        self._masters.close_all(changed.__contains__)
        self._engine.device_copies.drop(self._exposed)
        self._exposed.clear()

    def _compute(self, func: Callable[..., Any], entries: list[ParameterEntry], args: Any, kwargs: Any) -> Any:
        leaves = {id(entry.parameter): self._engine.device_copies.bind(entry) for entry in entries}
        # A write to the leaf would be lost with its place. It cannot be prevented here, only found and refused.
        versions = [leaf._version for leaf in leaves.values()]  # noqa: SLF001
        on_top = self._saved.on_top() if torch.is_grad_enabled() else True
        if on_top is False:
            # Others decide what is saved here, and may keep the tensor: give them one whose users can be counted.
            leaves = {key: leaf.view_as(leaf) for key, leaf in leaves.items()}
        keep_casts = self._count_uses(entries) if torch.is_autocast_enabled(self._device.type) else True
        # An operation outside the model's forward, such as a penalty on weights: handles are made for it alone.
        if on_top is None:
            with self._saved.entered():
                result = _call(func, swap(args, leaves), swap(kwargs, leaves), keep_casts=keep_casts)
        else:
            result = _call(func, swap(args, leaves), swap(kwargs, leaves), keep_casts=keep_casts)
        for entry, leaf, version in zip(entries, leaves.values(), versions, strict=True):
            if leaf._version != version:  # noqa: SLF001
                raise RefusedError(describe_write(entry.name))
        return result

    def _count_uses(self, entries: list[ParameterEntry]) -> bool:
        """Return whether autocast may cache its casts of these: only where one is used again in the same forward."""
        for entry in entries:
            self._uses[id(entry)] = self._uses.get(id(entry), 0) + 1
        return self._first_cast_forward or any(id(entry) in self._used_twice for entry in entries)


def _call(func: Callable[..., Any], args: Any, kwargs: Any, *, keep_casts: bool) -> Any:
    if keep_casts or not torch.is_autocast_cache_enabled():
        return func(*args, **kwargs)
    # A cached cast holds a copy of the weight until autocast ends: memory that the budget does not know of.
    torch.set_autocast_cache_enabled(False)
    try:
        return func(*args, **kwargs)
    finally:
        torch.set_autocast_cache_enabled(True)

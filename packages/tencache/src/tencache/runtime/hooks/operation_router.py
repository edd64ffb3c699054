"""What happens to an operation on a wrapped parameter, and around the model's forward."""

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.parallel import DistributedDataParallel

from tencache.errors import RefusedError
from tencache.runtime.cycle.engine import Engine
from tencache.runtime.hooks.byte_guard import ByteGuard, leave_mode
from tencache.runtime.hooks.cast_watch import CastWatch, autocast_hides, casts_to
from tencache.runtime.hooks.large_operations import in_parts
from tencache.runtime.hooks.part_hooks import PartHooks
from tencache.runtime.hooks.refusals import (
    FastPaths,
    describe_hook,
    describe_transform,
    differentiating_functions,
    refuse_if_compiling,
)
from tencache.runtime.hooks.saved_tensors import SavedTensors
from tencache.runtime.hooks.shared_reads import SharedReads
from tencache.runtime.hooks.wrapped_parameter import WrappedParameter, swap, swap_back, writes
from tencache.runtime.tensors.gradient_reduction import GradientReduction
from tencache.runtime.tensors.masters import Masters
from tencache.runtime.tensors.other_memory import describe_shared
from tencache.runtime.tensors.parameter_entry import ParameterEntry, describe_write
from tencache.runtime.unrouted import Bookkeeping, Routed, Unrouted

USE_COPY = "use .copy_(), which keeps the parameter's own memory"


class OperationRouter:
    """Decides where an operation runs: on the device, or on the parameter's own data."""

    def __init__(
        self,
        engine: Engine,
        masters: Masters,
        saved: SavedTensors,
        device: torch.device,
        fast_paths: FastPaths,
        reduction: GradientReduction,
        guard: ByteGuard | None = None,
        reads: SharedReads | None = None,
    ) -> None:
        self._engine = engine
        self._masters = masters
        self._saved = saved
        self._device = device
        self._fast_paths = fast_paths
        self._reduction = reduction
        self._guard = guard
        self._guarded = False
        self._context: saved_tensors_hooks | None = None
        self._in_gradient_hook = False
        self._forward = engine.forward
        self.parts = PartHooks()
        self._reads = reads

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise RefusedError("a wrapped model cannot be copied: copy its state_dict(), or unwrap() it first")

    def __reduce__(self) -> NoReturn:
        raise RefusedError("a wrapped model cannot be pickled: save its state_dict(), or unwrap() it first")

    def computing(self) -> bool:
        """Return whether the model's forward or a backward runs."""
        # A hook that is called when a gradient has landed may write, as between steps: the graph is done with it.
        if self._in_gradient_hook:
            return False
        self._end_broken_off()
        return self._forward.depth > 0 or torch._C._current_graph_task_id() != -1  # noqa: SLF001

    def run(self, func: Callable[..., Any], entries: list[ParameterEntry], args: Any, kwargs: Any) -> Any:
        """Run an operation on the device, once its parameters are there."""
        refuse_if_compiling()
        # Unlike `.data`, a detached view counts writes together with the leaf: they are found, and refused.
        if getattr(func, "__name__", "") == "__get__" and func.__self__.__name__ == "data":  # type: ignore[attr-defined]
            func = torch.Tensor.detach
        if self._forward.depth:
            self._forward.refuse_another()
        elif torch._C._current_graph_task_id() == -1:  # noqa: SLF001  no public name gives it
            return self._run_outside(func, entries, args, kwargs)
        return self._run(func, entries, args, kwargs)

    def _run_outside(self, func: Callable[..., Any], entries: list[ParameterEntry], args: Any, kwargs: Any) -> Any:
        """Run an operation outside of forward and backward, and let no other thread begin one meanwhile."""
        mine = self._forward.is_here()
        self._forward.claim()
        try:
            return self._run(func, entries, args, kwargs)
        finally:
            if not mine:
                self._forward.let_go()

    def _run(self, func: Callable[..., Any], entries: list[ParameterEntry], args: Any, kwargs: Any) -> Any:
        if differentiating_functions():
            raise RefusedError(describe_transform(entries[0].name))
        if len(entries) > 1 and not self._engine.device_copies.can_hold(_units(entries)):
            parts = in_parts(func, args, self._device.type)
            if parts is not None:
                with Routed():
                    return parts(*args, **kwargs)
        narrow = casts_to(func, self._device.type)
        if (
            narrow is not None
            or self._guard is not None
            or torch.is_inference_mode_enabled()
            or torch._C._len_torch_dispatch_stack()  # noqa: SLF001  a mode of the user's is not to see our copies
        ):
            return self._run_watched(func, narrow, entries, args, kwargs)
        # The way of nearly all operations, so it is short: nothing is cast, nothing is checked, no mode is left.
        engine = self._engine
        if not self.computing():
            self._take_in_changes()
        for entry in entries:
            engine.note_whole(entry)
        engine.begin_op(_units(entries))
        try:
            bind = engine.device_copies.bindings.bind
            leaves = {id(entry.parameter): bind(entry) for entry in entries}
            return self._run_on(leaves, func, entries, args, kwargs)
        finally:
            engine.end_op()

    def _run_watched(
        self,
        func: Callable[..., Any],
        narrow: torch.dtype | None,
        entries: list[ParameterEntry],
        args: Any,
        kwargs: Any,
    ) -> Any:
        """Run an operation that autocast may cast for, in inference mode, or with its bytes checked."""
        with Bookkeeping():
            # Inside a forward or a backward this was done when it began.
            if not self.computing():
                self._take_in_changes()
            forms = [self._engine.form(entry, narrow) for entry in entries]
            self._engine.begin_op(tuple(dict.fromkeys(forms)))
        # Ended also when it fails: units of an operation that never ends would count as in use for good.
        try:
            if narrow is None or all(entry.half is None for entry in entries):
                return self._compute(func, entries, args, kwargs)
            return self._compute_casting(func, entries, forms, args, kwargs)
        finally:
            with Bookkeeping():
                self._engine.end_op()

    def differentiate(self, func: Callable[..., Any], entries: list[ParameterEntry], args: Any, kwargs: Any) -> Any:
        """Run `torch.autograd.grad` and the like: the graph ends in the leaves, and needs none of their bytes."""
        leaves = {id(entry.parameter): entry.leaf for entry in entries}
        # Routed again: a block that is recomputed meanwhile, and hooks, are the user's code.
        with Routed():
            return func(*swap(args, leaves), **swap(kwargs, leaves))

    def on_host(self, func: Callable[..., Any], entries: list[ParameterEntry], args: Any, kwargs: Any) -> Any:
        """Run an operation on the parameters' own data, brought from the file if need be."""
        if differentiating_functions():
            raise RefusedError(describe_transform(entries[0].name))
        if self._reads is not None and _writes(func):
            self._reads.refuse_write(entries[0].name)
        # Another thread, which writes a checkpoint, must not see the file's parameters close before it has its view.
        with self._masters.opening:
            return self._on_host(func, entries, args, kwargs)

    def _on_host(self, func: Callable[..., Any], entries: list[ParameterEntry], args: Any, kwargs: Any) -> Any:
        sets = getattr(func, "__name__", "") == "set_"
        with Bookkeeping():
            for entry in entries:
                self._masters.looks.at(entry.unit)
                self._masters.open(entry.unit)
            if self._reads is not None:
                return self._reads.run(func, entries, args, kwargs)
            if _writes(func):
                self._engine.kept.before_change(entries)
            if sets:
                self._engine.kept.before_assignment(entries[0])
        result = func(*args, **kwargs)
        if _writes(func):
            self._refuse_reshaped(entries)
            self._masters.take_in_moved({entry.unit for entry in entries})
        if sets:
            entries[0].renew_node()
        if isinstance(result, (torch.UntypedStorage, torch.TypedStorage)):
            self._masters.lay_open(entries[0])
        # An alias (`.data`, `.detach()`, `.numpy()`) can be written to without a trace: the device copy is sent again
        # before it is used.
        units = {entry.unit for entry in entries}
        if given := self._engine.expose(units):
            with Bookkeeping():
                self._engine.kept.before_change([entry for entry in entries if entry.unit in given])
        # Not every operation that writes counts it as a change: torch's fused optimizers do not.
        if _writes(func):
            self._engine.exposed.update(units)
            self._engine.exposures.update(units)
        return result

    def _refuse_reshaped(self, entries: list[ParameterEntry]) -> None:
        """Refuse what changes a parameter's shape or strides in place, and give it its own again."""
        for entry in entries:
            if not entry.is_laid_out_as(entry.parameter):
                with torch.no_grad():
                    entry.parameter.data = entry.parameter.detach().as_strided(entry.shape, entry.stride)
                raise RefusedError(f"{entry.name} is given another shape or strides in place: unwrap() the model first")

    def get(self, entry: ParameterEntry, name: str, func: Callable[..., Any]) -> Any:
        """Read an attribute; a gradient is complete when it is read, and no update to come uses it."""
        if name == "grad":
            if self._reads is not None:
                self._reads.refuse_gradient(entry.name)
            self._masters.looks.at(entry.unit)
            self._engine.gradients.wait(entry)
            self._masters.pending.wait(entry.unit)
        # Where operations run, not where the bytes are: user code makes inputs and masks on `parameter.device`.
        if name == "device":
            return self._device
        if name == "is_cuda":
            return self._device.type == "cuda"
        return func(entry.parameter)

    def set(self, entry: ParameterEntry, name: str, func: Callable[..., Any], value: Any) -> None:
        """Write an attribute; new data goes into the parameter's own memory."""
        if name in {"grad", "data"}:
            self._masters.looks.at(entry.unit)
        if name == "grad":
            self._engine.gradients.wait(entry)
        if self._reads is not None and name in {"grad", "data"} and not self._reads.may_drop(value):
            self._reads.refuse_write(f"{entry.name}.{name}")
        if name != "data":
            func(entry.parameter, value)
            return
        if self.computing():
            raise RefusedError(describe_write(entry.name))
        # `module.to(device)` gives a parameter itself where nothing is to be moved.
        if value is entry.parameter:
            return
        if type(value) is WrappedParameter:
            raise RefusedError(describe_shared(entry.name, "another parameter"))
        if value.shape != entry.shape or value.dtype != entry.dtype:
            raise RefusedError(f"{entry.name} is given data of another shape or type: unwrap the model to change it")
        if value.device != entry.parameter.device or not entry.is_laid_out_as(value):
            raise RefusedError(
                f"{entry.name} is given data on {value.device} with strides {value.stride()}: {USE_COPY}"
            )
        with Bookkeeping():
            # `weight.data += delta` gives back the very view that it was given.
            if not value.is_set_to(entry.parameter):
                self._assign(entry, value)
        # torch does not count this as a change, so it is noted for the next forward, which sends it again.
        self._engine.assigned(entry.unit)

    def _assign(self, entry: ParameterEntry, value: torch.Tensor) -> None:
        with torch.no_grad():
            self._masters.open(entry.unit)
            self._engine.kept.before_assignment(entry)
            self._masters.assign(entry, value)

    def add_hook(self, entry: ParameterEntry, register: Callable[[], Any]) -> Any:
        """Register a gradient hook on a parameter, and let gradients of its leaf run it."""
        if self._reads is not None:
            raise RefusedError(describe_hook(entry.name))
        handle = register()
        entry.share_hooks()
        return handle

    def run_hooks(self, entry: ParameterEntry, hooks: Iterable[Callable[..., Any]]) -> None:
        """Call what user code wants called when a parameter's gradient has been accumulated."""
        self._engine.gradients.wait(entry)
        self._in_gradient_hook = True
        try:
            with Routed():
                for hook in hooks:
                    if hook(entry.parameter) is not None:
                        # As torch does.
                        raise RuntimeError("Tensor post accumulate grad hooks should return None.")
        finally:
            self._in_gradient_hook = False
        # It may have written to parameters, as an optimizer does that steps within backward.
        with Bookkeeping():
            self._take_in_changes()

    def before_forward(self, module: nn.Module, *_: Any) -> None:
        """Begin a forward: take in what changed since the last, and save handles instead of bytes for backward."""
        refuse_if_compiling()
        # Tensors that are made inside torch.func are its own: nothing of ours may be. Parameters are refused there.
        if differentiating_functions():
            return
        self._end_broken_off()
        # A model may call itself; only the outermost forward is the step's.
        if self._forward.depth:
            self._forward.enter()
            return
        if not torch.is_grad_enabled():
            self._fast_paths.refuse()
        else:
            self._reduction.forward_begins(DistributedDataParallel._active_ddp_module)  # noqa: SLF001
        if self._reads is not None:
            self._reads.check()
        self._forward.enter()
        evaluating = not torch.is_grad_enabled()
        with Unrouted(), Bookkeeping():
            self._take_in_changes()
            if evaluating:
                # Functions that torch compiled by itself (torch.jit) read a parameter's own bytes, unasked. Where
                # gradients are recorded that is found and refused; here it cannot be, so the bytes are new.
                self._masters.pending.wait_all()
            self._engine.forward_begins(evaluating=evaluating)
        self._context = self._saved.entered()
        self._context.__enter__()
        # In inference mode autocast does not see the parts of an operation that a dispatch mode has seen as one.
        if self._guard is not None and not (evaluating and autocast_hides(self._device.type)):
            self._guard.__enter__()  # type: ignore[no-untyped-call]
            self._guarded = True
        self.parts.take_off(module)

    def after_forward(self, *_: Any) -> None:
        """End a forward, also one that failed."""
        # torch calls this even when before_forward() refused and counted nothing.
        if self._forward.depth and self._forward.is_here() and not differentiating_functions():
            self._end_forward()

    def _end_broken_off(self) -> None:
        if self._forward.was_broken_off():
            self._forward.depth = 1
            self._end_forward()

    def _end_forward(self) -> None:
        if not self._forward.leave():
            return
        try:
            self.parts.put_on()
            if self._guard is not None and self._guarded:
                leave_mode(self._guard)
                self._guarded = False
            if self._context is not None:
                self._saved.leave(self._context)
                self._context = None
            with Unrouted(), Bookkeeping():
                self._engine.forward_ends()
        finally:
            self._forward.let_go()

    def before_part(self, module: nn.Module, *_: Any) -> None:
        """Begin the forward of a part of the model, which may be called by itself."""
        # A block that is recomputed belongs to the backward that asked for it.
        if torch._C._current_graph_task_id() == -1:  # noqa: SLF001
            self.before_forward(module)

    def after_part(self, *_: Any) -> None:
        """End the forward of a part of the model."""
        if torch._C._current_graph_task_id() == -1:  # noqa: SLF001
            self.after_forward()

    def _take_in_changes(self) -> None:
        for entry in self._engine.entries:
            if entry.parameter.__dict__.get("_tencache_entry") is not entry:
                raise RefusedError(
                    f"{entry.name} was exchanged for another tensor, as torch.utils.swap_tensors() does: use .copy_(), "
                    "or unwrap() the model first"
                )
        self._masters.bring_home()
        changed = self._engine.changed_units() | self._engine.exposed
        # Closed before the forward, which uploads from the file's newest bytes.
        self._masters.close_all(changed.__contains__)
        self._engine.take_in_changes()

    def _compute(self, func: Callable[..., Any], entries: list[ParameterEntry], args: Any, kwargs: Any) -> Any:
        with Bookkeeping():
            leaves = {id(entry.parameter): self._engine.device_copies.bindings.bind(entry) for entry in entries}
        return self._run_on(leaves, func, entries, args, kwargs)

    def _compute_casting(
        self, func: Callable[..., Any], entries: list[ParameterEntry], forms: list[int], args: Any, kwargs: Any
    ) -> Any:
        """Run an operation under autocast, which casts by asking for working copies where they are on the device."""
        copies = self._engine.device_copies
        with Bookkeeping():
            leaves = {
                id(entry.parameter): copies.bindings.bind_half(entry)
                if form == entry.half
                else copies.bindings.bind(entry)
                for entry, form in zip(entries, forms, strict=True)
            }
        watched = {
            id(entry.leaf): (entry, form) for entry, form in zip(entries, forms, strict=True) if entry.half is not None
        }
        watch = CastWatch(self._engine, watched)

        def compute(*args: Any, **kwargs: Any) -> Any:
            with watch:
                result = func(*args, **kwargs)
            with Bookkeeping():
                watch.settle(result)
            return result

        return self._run_on(leaves, compute, entries, args, kwargs)

    def _run_on(
        self,
        leaves: dict[int, torch.Tensor],
        func: Callable[..., Any],
        entries: list[ParameterEntry],
        args: Any,
        kwargs: Any,
    ) -> Any:
        swapped, named = swap(args, leaves), swap(kwargs, leaves) if kwargs else kwargs
        # Outside the model's forward, and where others' hooks are inside it, handles are made for this operation alone.
        if torch.is_grad_enabled() and not self._saved.on_top():
            with self._saved.entered():
                result = func(*swapped, **named)
        else:
            result = func(*swapped, **named)
        # A write to the leaf would be lost with its place. It cannot be prevented here, only found and refused.
        self._engine.leaves.refuse(entries)
        # `weight.to(x.dtype)` returns its argument. The leaf must not leave: it points elsewhere when its unit moves.
        if type(result) is torch.Tensor:
            for entry in entries:
                if result is entry.leaf:
                    return entry.parameter
            return result
        return swap_back(result, {id(entry.leaf): entry.parameter for entry in entries})


def _units(entries: list[ParameterEntry]) -> tuple[int, ...]:
    """Return the units of parameters, each once, in order."""
    if len(entries) == 1:
        return (entries[0].unit,)
    return tuple(dict.fromkeys([entry.unit for entry in entries]))


def _writes(func: Callable[..., Any]) -> bool:
    return writes(getattr(func, "__name__", ""))

"""What autograd keeps for backward: a handle in place of a parameter's bytes, brought back when it is asked for."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from tencache.errors import RefusedError
from tencache.runtime.cycle.engine import Engine
from tencache.runtime.hooks.wrapped_parameter import WrappedParameter
from tencache.runtime.memory.device_arena import Arena
from tencache.runtime.tensors.parameter_entry import ParameterEntry
from tencache.runtime.tensors.saved_memory import SavedActivation
from tencache.runtime.unrouted import Bookkeeping, Unrouted

_HALVES = (torch.bfloat16, torch.float16)
_VIEW_DEPTH = 4
Hooks = tuple[Callable[[Tensor], Any], Callable[[Any], Tensor]]


@dataclass(eq=False)
class UnitView:
    """A view of a unit: enough to make it again wherever the unit lies by then."""

    unit: int
    offset_bytes: int
    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    entry: ParameterEntry
    version: int
    # Whether a copy would have been kept, by autocast or by hooks around the model, which no later write reaches; and
    # whether torch would see such writes. Hooks around the model hide them.
    copied: bool
    checked: bool
    exposures: int
    # The units of the operation that saved it: its node may ask for several of them at once.
    beside: tuple[int, ...]
    # Whether the view is a conjugate or a negative that torch has not computed: it only marks the tensor.
    marks: tuple[bool, bool]
    # Whether the parameter was trained, if it is the parameter itself that was saved: checkpointing computes with it.
    trained: bool | None = None
    # That copy, made when the parameter is about to change.
    kept: Tensor | None = None
    unclear: bool = False

    def keep_at_assignment(self, data: Tensor) -> None:
        """Keep the view's bytes, unless this may be all of the parameter: of that torch may go on with the new data."""
        # What is saved of the parameter itself follows it to the new data, and a view of all of it looks the same.
        # Hooks that keep what they are given, as save_on_cpu does on the CPU, keep the parameter itself, too.
        if not self.copied and (self.shape, self.stride) == (self.entry.shape, self.entry.stride):
            self.unclear = True
        else:
            self.keep(data)

    def lose(self) -> None:
        """Note that the parameter got other data unseen: what torch may go on with is gone, unless it is kept."""
        self.unclear = self.unclear or self.kept is None

    def keep(self, data: Tensor) -> None:
        """Keep the view's bytes, from the parameter's data."""
        if self.kept is None:
            whole = data.to(self.entry.half_dtype) if self.unit == self.entry.half else data.clone()
            flat = whole.as_strided((whole.numel(),), (1,)).view(self.dtype)
            offset_bytes = self.offset_bytes - (0 if self.unit == self.entry.half else self.entry.offset)
            view = flat.as_strided(self.shape, self.stride, offset_bytes // self.dtype.itemsize)
            self.kept = _marked(view, self.marks)


@dataclass(eq=False)
class CastView:
    """A view of a parameter cast to a narrower type, as autocast makes them: cast again instead of kept."""

    entry: ParameterEntry
    shape: torch.Size
    stride: tuple[int, ...]
    storage_offset: int
    dtype: torch.dtype
    version: int
    exposures: int
    copied: bool = True
    checked: bool = False
    kept: Tensor | None = None
    unclear: bool = False

    def keep_at_assignment(self, data: Tensor) -> None:
        """Keep the cast's bytes."""
        self.keep(data)

    def lose(self) -> None:
        """Note that the parameter got other data unseen: what torch may go on with is gone, unless it is kept."""
        self.unclear = self.unclear or self.kept is None

    def keep(self, data: Tensor) -> None:
        """Keep the view's bytes, from the parameter's data."""
        if self.kept is None:
            self.kept = data.to(self.dtype).as_strided(self.shape, self.stride, self.storage_offset)


@dataclass(frozen=True)
class Foreign:
    """What hooks around the model made of a tensor that is not a parameter."""

    packed: Any
    unpack: Callable[[Any], Tensor]


class SavedTensors:
    """The pair of hooks."""

    def __init__(self, engine: Engine, arena: Arena) -> None:
        self._engine = engine
        self._activations = engine.activations
        # Whether save_on_cpu() makes a copy: of what is on the CPU it keeps the tensor itself.
        self._copies = arena.device.type != "cpu"
        self.begin_anew(arena)

    def begin_anew(self, arena: Arena) -> None:
        """Begin with an arena, and the parameters that the engine has now."""
        engine = self._engine
        self._arena = arena
        self._base, self._end = arena.base, arena.base + arena.size_bytes
        self._by_unit: dict[int, list[ParameterEntry]] = {}
        for entry in engine.entries:
            self._by_unit.setdefault(entry.unit, []).append(entry)
            if entry.half is not None:
                self._by_unit[entry.half] = [entry]
        self._parameters = {id(entry.parameter): entry for entry in engine.entries}
        self._leaves = {id(entry.leaf): entry for entry in engine.entries}

    def entered(self) -> saved_tensors_hooks:
        """Return the context in which handles are made; hooks already around it see everything else."""
        # torch calls the innermost pair only. Activations are handed on to the pair around it, so that offloading and
        # checkpointing by others go on working.
        enabled = torch._C._autograd._saved_tensors_hooks_is_enabled  # type: ignore[attr-defined]  # noqa: SLF001
        if not enabled():
            raise RefusedError(
                "hooks on saved tensors are switched off here (torch.autograd.graph.disable_saved_tensors_hooks), and "
                "a wrapped model needs them: leave that context out around it"
            )
        return saved_tensors_hooks(_Pack(self, top_hooks(), self._base, self._end), self._unpack)

    def leave(self, context: saved_tensors_hooks) -> None:
        """Leave that context, also if others were entered since: after Ctrl-C in a forward it is left late."""
        above: list[Hooks] = []
        while (top := top_hooks()) is not None and top[0] is not context.pack_hook:
            above.append(top)
            torch._C._autograd._pop_saved_tensors_default_hooks()  # noqa: SLF001  no public name gives it
        if top is not None:
            context.__exit__()
        for hooks in reversed(above):
            torch._C._autograd._push_saved_tensors_default_hooks(*hooks)  # noqa: SLF001  no public name gives it

    def on_top(self) -> bool:
        """Return whether these hooks are the innermost."""
        top = top_hooks()
        return top is not None and isinstance(top[0], _Pack) and top[0].owner is self

    def pack(self, tensor: Tensor, outer: Hooks | None) -> Any:
        """Return what is kept in place of a tensor."""
        tensor = self._whole(tensor)
        if outer is not None and not _only_stores(outer):
            # They may round what is saved or, as checkpointing does, count it: parameters too. The alias keeps its
            # place while they hold it.
            return self._hand_on(tensor, outer)
        handle = self._handle(tensor, stored=outer is not None and not isinstance(outer[0], _Pack))
        if handle is not None:
            return handle
        return self.keep(tensor) if outer is None else self._hand_on(tensor, outer)

    def keep(self, tensor: Tensor) -> tuple[Tensor, int] | SavedActivation:
        """Return what is kept of a tensor that has nothing to do with a parameter."""
        if self._activations is not None:
            with Unrouted(), Bookkeeping(), torch.no_grad():
                saved = self._activations.save(tensor, self._engine.cycle.recorder)
            if saved is not None:
                return saved
        return tensor, tensor._version  # noqa: SLF001

    def _whole(self, tensor: Tensor) -> Tensor:
        """Return the tensor; a leaf that has no bytes yet is brought first: autograd saves before it computes."""
        if not self._in_arena(tensor) or (entry := self._engine.device_copies.bindings.blank_leaf(tensor)) is None:
            return tensor
        with Unrouted(), Bookkeeping():
            self._engine.use_whole(entry)
            return entry.leaf.detach()

    def _hand_on(self, tensor: Tensor, outer: Hooks) -> Foreign:
        # Never the leaf itself, which points elsewhere when its unit moves.
        return Foreign(outer[0](tensor.detach() if self._in_arena(tensor) else tensor), outer[1])

    def _in_arena(self, tensor: Tensor) -> bool:
        return tensor.layout is torch.strided and self._base <= tensor.data_ptr() < self._end

    def _handle(self, tensor: Tensor, *, stored: bool) -> UnitView | CastView | None:
        # A function of the user's own, or checkpointing, may keep a parameter that it was given. The bytes on the host
        # are not what it computes with, and may be in the file.
        if type(tensor) is WrappedParameter and (entry := self._parameters.get(id(tensor))) is not None:
            if self._engine.stepped_in_autocast and torch.is_autocast_enabled(entry.leaf.device.type):
                raise RefusedError(
                    f"{entry.name} is given to checkpointing inside an autocast that goes on over steps, with casts of "
                    "old values: end the autocast before step()"
                )
            handle = self._view(entry.unit, entry.offset, tensor, stored=stored)
            handle.trained = entry.parameter.requires_grad
            return handle
        # Addresses are unique over host and devices, so the arena's need no other test.
        if tensor.layout is torch.strided:
            if self._base <= (address := tensor.data_ptr()) < self._end:
                return self.in_slot(tensor, address - self._base, stored=stored)
            if tensor.dtype in _HALVES and (entry := self._cast_of(tensor)) is not None:
                return None if self._engine.aliased(entry.unit) else self._cast(entry, tensor)
        return None

    @property
    def any_blank(self) -> bool:
        """Return whether some leaf may have no bytes of its own."""
        return self._engine.device_copies.bindings.any_blank

    def in_slot(self, tensor: Tensor, offset: int, *, stored: bool) -> UnitView | None:
        """Return a handle for a tensor that lies at an offset in the arena; None if it must be kept as it is."""
        # A view may be used on another stream than the one that it was made on.
        self._engine.link.note_stream()
        slot = self._engine.device_copies.at(offset)
        # A copy is kept as a copy where the parameter may be written to without a trace before backward.
        if stored and self._copies and self._engine.aliased(slot.unit):
            return None
        return self._view(slot.unit, offset - slot.offset, tensor, stored=stored)

    def _cast(self, entry: ParameterEntry, tensor: Tensor) -> CastView:
        offset, version = int(tensor.storage_offset()), entry.parameter._version  # noqa: SLF001
        exposures = self._engine.exposures[entry.unit]
        handle = CastView(entry, tensor.shape, tensor.stride(), offset, tensor.dtype, version, exposures)
        entry.handles.add(handle)
        return handle

    def _view(self, unit: int, offset: int, tensor: Tensor, *, stored: bool) -> UnitView:
        entries = self._by_unit[unit]
        entry = entries[0]
        if len(entries) > 1:
            entry = entries[bisect_right(entries, offset, key=lambda one: one.offset) - 1]
        # A parameter that is in the file has one element, stretched: the strides are those that it will have.
        stride = entry.stride if tensor is entry.parameter else tensor.stride()
        version = entry.parameter._version  # noqa: SLF001
        exposures = self._engine.exposures[entry.unit]
        # A working copy stands for a cast, which stays what it was when the parameter changes.
        copied = unit == entry.half or (stored and self._copies)
        handle = UnitView(
            unit,
            offset,
            tensor.shape,
            stride,
            tensor.dtype,
            entry,
            version,
            copied,
            not stored,
            exposures,
            self._engine.running,
            (tensor.is_conj(), tensor.is_neg()),
        )
        entry.handles.add(handle)
        return handle

    def _unpack(self, packed: UnitView | CastView | Foreign | SavedActivation | tuple[Tensor, int]) -> Tensor:
        if type(packed) is tuple:
            tensor, version = packed
            # torch leaves this check to whoever has hooks: what was saved must be what it was.
            if tensor._version != version:  # noqa: SLF001
                raise RuntimeError(_describe_changed(tensor, version))
            return tensor
        assert not isinstance(packed, tuple)
        if isinstance(packed, SavedActivation):
            return self._back(packed)
        if isinstance(packed, Foreign):
            # They may hold a device copy, which is refused if the parameter has changed: they would not see that.
            if not self._arena.closed:
                with Unrouted(), Bookkeeping():
                    self._engine.enter_backward()
            return packed.unpack(packed.packed)
        # With create_graph the views made here would be saved again, raw, in a graph that outlives this backward.
        if torch.is_grad_enabled() and torch._C._current_graph_task_id() != -1:  # noqa: SLF001
            raise RefusedError("backward(create_graph=True) would keep views of parameters: unwrap the model for it")
        # All of it unrouted: even to ask a parameter for its version would be an operation on it.
        with Unrouted(), Bookkeeping():
            self._check_version(packed)
            if packed.kept is None and (self._arena.closed or packed.entry.on_device):
                # A graph from before unwrap(), or from before the parameter was on the device for good.
                packed.keep(packed.entry.parameter.detach().to(self._arena.device))
            if packed.kept is not None:
                return packed.kept
            return self._from_cast(packed) if isinstance(packed, CastView) else self._from_slot(packed)

    def _back(self, saved: SavedActivation) -> Tensor:
        """Return a saved tensor that may have been on the host meanwhile."""
        assert self._activations is not None
        if saved.was_written:
            raise RuntimeError(_describe_changed(saved.probe, saved.version, saved.shape))
        with Unrouted(), Bookkeeping(), torch.no_grad():
            return _marked(self._activations.use(saved), saved.marks)

    def _check_version(self, handle: UnitView | CastView) -> None:
        """Raise as autograd does when a parameter was changed in place between forward and backward."""
        version = handle.entry.parameter._version  # noqa: SLF001
        if isinstance(handle, UnitView) and handle.trained not in {None, handle.entry.parameter.requires_grad}:
            raise RefusedError(
                f"{handle.entry.name} is given to checkpointing, and was frozen or thawed between forward and "
                "backward: do it before or after both"
            )
        if handle.copied:
            # Kept when the change was seen coming. One that was not, as by `out=`, cannot be made undone.
            changed = version != handle.version or self._engine.exposures[handle.entry.unit] != handle.exposures
            if (changed or handle.unclear) and handle.kept is None:
                raise RefusedError(
                    f"{handle.entry.name} may have changed between forward and backward, and what was kept of it for "
                    "backward (a cast for autocast, a copy by save_on_cpu) is made again there: change it before or "
                    "after both"
                )
            return
        if handle.checked and version != handle.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"{handle.entry.name} is at version {version}; expected version {handle.version} instead"
            )
        if handle.unclear:
            raise RefusedError(
                f"{handle.entry.name}.data was assigned to between forward and backward: do it before or after both"
            )

    def _from_slot(self, handle: UnitView) -> Tensor:
        # The tensor shares the slot's storage. While the node holds it the slot counts as in use and stays where it is.
        if handle.unit == handle.entry.unit:
            self._engine.cycle.whole.add(handle.unit)
        self._engine.begin_backward(handle.unit, handle.beside)
        data = self._engine.device_copies.slots[handle.unit].data.view(handle.dtype)
        view = data.as_strided(handle.shape, handle.stride, handle.offset_bytes // handle.dtype.itemsize)
        return _marked(view, handle.marks)

    def _from_cast(self, handle: CastView) -> Tensor:
        self._engine.begin_backward(handle.entry.unit)
        data = handle.entry.view(self._engine.device_copies.slots[handle.entry.unit].data)
        return data.to(handle.dtype).as_strided(handle.shape, handle.stride, handle.storage_offset)

    def _cast_of(self, tensor: Tensor) -> ParameterEntry | None:
        """Return the parameter of whose cast this tensor is a view, if the cast is of all of it."""
        # Only a chain of single inputs: views, then autocast's cast, then the leaf. The same bytes come out of casting
        # again, since neither the parameter nor the rounding changes between forward and backward.
        node: Any = tensor.grad_fn
        for _ in range(_VIEW_DEPTH):
            if node is None or len(node.next_functions) != 1:
                return None
            number, name = node._sequence_nr(), node.name()  # noqa: SLF001
            node = node.next_functions[0][0]
            if name == "ToCopyBackward0":
                # Autocast keeps a cast until it ends. One from before the parameter changed cannot be made again.
                if number < self._engine.changed_at_node:
                    return None
                entry = self._leaves.get(id(getattr(node, "variable", None)))
                whole = entry is not None and entry.leaf.numel() * tensor.dtype.itemsize
                return entry if whole == tensor.untyped_storage().nbytes() else None
        return None


class _Pack:
    """The pack hook, with the hooks that were around it when it was entered."""

    __slots__ = ("_base", "_end", "_outer", "owner")

    def __init__(self, owner: SavedTensors, outer: Hooks | None, start: int, end: int) -> None:
        self.owner = owner
        self._outer = outer
        self._base, self._end = start, end

    def __call__(self, tensor: Tensor) -> Any:
        # Most of what is saved are activations, which have nothing to do with parameters, or device copies as they are.
        if self._outer is None and type(tensor) is Tensor and tensor.layout is torch.strided:
            if self._base <= (address := tensor.data_ptr()) < self._end:
                if not self.owner.any_blank:
                    return self.owner.in_slot(tensor, address - self._base, stored=False)
            # Halves may be casts of a parameter.
            elif tensor.dtype not in _HALVES:
                return self.owner.keep(tensor)
        return self.owner.pack(tensor, self._outer)


def _marked(view: Tensor, marks: tuple[bool, bool]) -> Tensor:
    """Return a view as a conjugate, a negative, or both: torch computes these when it computes with them."""
    conjugate, negative = marks
    view = view.conj() if conjugate else view
    return torch._neg_view(view) if negative else view  # noqa: SLF001  no public name gives it


def _describe_changed(tensor: Tensor, version: int, shape: Sequence[int] | None = None) -> str:
    node = "" if tensor.grad_fn is None else f", which is output {tensor.output_nr} of {tensor.grad_fn.name()},"
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{tensor.type()} {list(tensor.shape if shape is None else shape)}]{node} is at version {tensor._version}; "  # noqa: SLF001
        f"expected version {version} instead"
    )


def _only_stores(hooks: Hooks) -> bool:
    """Return whether hooks are known to give back what they are given, one by one: save_on_cpu, and these."""
    return isinstance(hooks[0], _Pack) or hooks[0].__module__ == "torch.autograd.graph"


def top_hooks() -> Hooks | None:
    """Return the innermost saved-tensor hooks of this thread."""
    found: Hooks | None = torch._C._autograd._top_saved_tensors_default_hooks(False)  # noqa: SLF001
    return found

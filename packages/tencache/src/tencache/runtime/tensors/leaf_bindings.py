"""Which device copy each parameter's leaf, and its cast, points at now."""

from typing import Protocol

from torch import Tensor

from tencache.runtime.memory.device_arena import Arena
from tencache.runtime.tensors.parameter_entry import ParameterEntry
from tencache.runtime.tensors.slot import Slot


class Places(Protocol):
    """Where units lie on the device."""

    arena: Arena
    slots: dict[int, Slot]


class LeafBindings:
    """Lets leaves, and the casts that autocast keeps, follow their units from place to place."""

    def __init__(self, places: Places) -> None:
        self._places = places
        # Leaves without bytes, by the storage that stands for these.
        self._blanks: dict[int, ParameterEntry] = {}

    def clear(self) -> None:
        """Forget everything."""
        self._blanks.clear()

    def bind(self, entry: ParameterEntry) -> Tensor:
        """Return the parameter's leaf, its data the unit's bytes where they lie now."""
        slot = self._places.slots[entry.unit]
        if entry.slot is not slot:
            if entry.slot is not None:
                entry.slot.bound.discard(id(entry))
            # Swapping `.data` keeps the leaf, and with it the hook that sends its gradient. Nodes of the graph are not
            # misled: what they saved is a handle, not the leaf's bytes.
            entry.leaf.data = entry.view(slot.data)
            entry.slot = slot
            slot.bound.add(id(entry))
        entry.freeze_leaf()
        return entry.leaf

    def bind_half(self, entry: ParameterEntry) -> Tensor:
        """Return the parameter's leaf, of which only the cast is where its bytes lie now: the leaf has none."""
        if entry.cast is not None:
            self._bind_cast(entry, entry.cast)
        if entry.slot is not None:
            entry.slot.bound.discard(id(entry))
            entry.slot = None
            entry.leaf.data = self._blank(entry)
        entry.freeze_leaf()
        return entry.leaf

    def blank_leaf(self, tensor: Tensor) -> ParameterEntry | None:
        """Return the parameter whose leaf a tensor is, if the leaf has no bytes now."""
        return self._blanks.get(tensor.untyped_storage()._cdata)  # noqa: SLF001

    @property
    def any_blank(self) -> bool:
        """Return whether some leaf may have no bytes."""
        return bool(self._blanks)

    def _blank(self, entry: ParameterEntry) -> Tensor:
        """Return what a leaf without bytes points at: its shape and strides over memory that is not read."""
        # Known by its storage, whatever lies at these addresses. Operations are seen before they read a leaf, but not
        # before autograd saves it.
        if entry.blank is None:
            data = self._places.arena.carve(0, entry.size_bytes)
            entry.blank = entry.like(data)
            self._blanks[data.untyped_storage()._cdata] = entry  # noqa: SLF001
        return entry.blank

    def make_cast(self, entry: ParameterEntry) -> Tensor:
        """Return the parameter's working copy as a tensor of its own, to stand for a cast of the leaf."""
        assert entry.half is not None
        return entry.half_view(self._places.slots[entry.half].data)

    def keep_cast(self, entry: ParameterEntry, cast: Tensor) -> None:
        """Take it that autocast keeps a cast that was made by `make_cast`: it follows the working copy from now on."""
        self.forget_cast(entry)
        assert entry.half is not None
        slot = self._places.slots[entry.half]
        entry.cast, entry.cast_slot = cast, slot
        slot.bound.add(id(cast))

    def forget_cast(self, entry: ParameterEntry) -> Tensor | None:
        """Return the parameter's cast, which from now on counts as a user of its place like any other tensor."""
        cast, entry.cast = entry.cast, None
        if entry.cast_slot is not None:
            entry.cast_slot.bound.discard(id(cast))
            entry.cast_slot = None
        return cast

    def _bind_cast(self, entry: ParameterEntry, cast: Tensor) -> None:
        assert entry.half is not None
        slot = self._places.slots[entry.half]
        if entry.cast_slot is not slot:
            if entry.cast_slot is not None:
                entry.cast_slot.bound.discard(id(cast))
            cast.data = entry.half_view(slot.data)
            entry.cast_slot = slot
            slot.bound.add(id(cast))

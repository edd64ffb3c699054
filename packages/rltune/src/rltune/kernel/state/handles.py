"""World and State as compiled code takes them: one pointer each.

A kernel that took the tuples themselves would be passed every array of theirs, several words each, in every call: that
was measured to make the core 20 times slower, and its compilation last minutes. Numba's own structref counts
references at every access, which cost another factor of 3. So a handle is a block of memory that holds the arrays'
addresses and shapes, laid out as numba lays out arrays, and `w.job` in a kernel is a load from that block. The handle
keeps the arrays alive; kernels are compiled without reference counting (see jit.py).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import config, typeof, types
from numba.core.datamodel import models
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, infer_getattr, lower_getattr_generic, register_model, typeof_impl, unbox

from rltune.kernel.jit import SOURCE_HASH
from rltune.kernel.state.arrays import Plans, Record, State, World

_WORD = 8


class BlockType(types.Type):
    """Numba's type of a handle: names and types of the fields, in order. Every field takes whole words."""

    def __init__(self, title, fields):
        self.fields = fields
        super().__init__(name=f"Block({title}, {fields})")

    def place_of(self, attribute):
        """Return the field's type and where it begins, in bytes."""
        at = 0
        for name, field in self.fields:
            if name == attribute:
                return field, at
            at += _WORD * _words(field)
        return None, at


def _words(field):
    """Count the words of a field: five of an array (owner, parent, items, item size, data), its shape and strides."""
    return 5 + 2 * field.ndim if isinstance(field, types.Array) else 1


@register_model(BlockType)
class _BlockModel(models.OpaqueModel):
    """A handle is an address."""


@infer_getattr
class _BlockAttributes(AttributeTemplate):
    """Types `w.job`."""

    key = BlockType

    def generic_resolve(self, block, attribute):
        """Return the type of a field."""
        return block.place_of(attribute)[0]


@lower_getattr_generic(BlockType)
def _load_field(context, builder, block, address, attribute):
    """Load a field. The block never changes while a kernel runs, so a load may be moved out of a loop."""
    field, at = block.place_of(attribute)
    place = builder.gep(address, [ir.Constant(ir.IntType(64), at)])
    value = builder.load(builder.bitcast(place, context.get_value_type(field).as_pointer()))
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


@unbox(BlockType)
def _unbox_block(_block, handle, c):
    address = c.pyapi.object_getattr_string(handle, "address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return NativeValue(pointer)


_types: dict[Any, BlockType] = {}  # of such parts seen before: asking numba takes longer than a small window

# What is asked of every array, past the lookups of record arrays, which are many times slower.
_dtype, _flags, _shape, _strides, _size, _itemsize, _ctypes = (
    getattr(np.ndarray, name).__get__ for name in ("dtype", "flags", "shape", "strides", "size", "itemsize", "ctypes")
)


def _key_of(part: Any) -> Any:
    """Return what the type of a field depends on; cheap to compare, unlike numba's types."""
    if isinstance(part, np.ndarray):
        return type(part), _dtype(part), len(_shape(part)), _flags(part).num
    return float if isinstance(part, float) else int


def _type_of(part: Any) -> Any:
    if isinstance(part, np.ndarray):
        return typeof(part)
    return types.float64 if isinstance(part, float) else types.int64


def _block_type(parts: Any) -> BlockType:
    key = (type(parts), *map(_key_of, parts))
    if key not in _types:
        fields = tuple((name, _type_of(part)) for name, part in zip(parts._fields, parts, strict=True))
        _types[key] = _one_block_type(f"{type(parts).__name__}@{SOURCE_HASH}", fields)
    return _types[key]


@cache
def _one_block_type(title: str, fields: tuple[tuple[str, Any], ...]) -> BlockType:
    return BlockType(title, fields)


class Handle:
    """What Python holds of a tuple of arrays given to compiled code."""

    def __init__(self, parts: Any) -> None:
        self._parts = parts  # keeps the arrays alive
        words: list[int] = []
        for part in parts:
            if isinstance(part, np.ndarray):
                words += (0, 0, _size(part), _itemsize(part), _ctypes(part).data, *_shape(part), *_strides(part))
            else:
                words.append(int(np.float64(part).view(np.int64)) if isinstance(part, float) else int(part))
        self._block = array("q", words)
        self.address = self._block.buffer_info()[0]
        self.type = _block_type(parts)


@typeof_impl.register(Handle)
def _typeof_handle(handle, _context):
    return handle.type


def world_handle(world: World) -> World:
    """Return what kernels take in place of a World; with NUMBA_DISABLE_JIT=1 that is the World itself."""
    return world if config.DISABLE_JIT else cast("World", Handle(world))


def record_handle(record: Record) -> Record:
    """Return what kernels take in place of a Record."""
    return record if config.DISABLE_JIT else cast("Record", Handle(record))


def plans_handle(plans: Plans) -> Plans:
    """Return what kernels take in place of Plans."""
    return plans if config.DISABLE_JIT else cast("Plans", Handle(plans))


def state_handle(state: State) -> State:
    """Return what kernels take in place of a State; it changes the same arrays."""
    return state if config.DISABLE_JIT else cast("State", Handle(state))


@dataclass(frozen=True)
class Arrays:
    """World and State, and the handles of the two for compiled code."""

    world: World
    state: State
    w: World
    s: State


def arrays_of(world: World, state: State) -> Arrays:
    """Put a world and a state beside their handles."""
    return Arrays(world, state, world_handle(world), state_handle(state))

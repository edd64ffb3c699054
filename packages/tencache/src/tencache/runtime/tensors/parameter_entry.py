"""What is known of one wrapped parameter."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakSet

import torch
from torch import Tensor, nn

from tencache.runtime.memory.copy_lanes import Copy
from tencache.runtime.tensors.slot import Slot


class SavedHandle(Protocol):
    """What a graph keeps in place of a parameter's bytes."""

    # Whether torch would have kept a copy, which later writes do not reach; and the version it was made of.
    copied: bool
    version: int

    def keep(self, data: Tensor) -> None:
        """Make that copy now, of the parameter's data."""

    def keep_at_assignment(self, data: Tensor) -> None:
        """Make a copy of the data that is about to be replaced, or note that torch may go on with the new."""

    def lose(self) -> None:
        """Note that the data was replaced unseen."""


# Where a weight does not begin at a multiple of this, torch may round a product with it differently.
ROUNDING_ALIGN = 16


@dataclass(eq=False)
class ParameterEntry:
    """A parameter: the host's copy is its own data, the device's is `leaf`, which operations see instead."""

    name: str
    parameter: nn.Parameter
    unit: int
    offset: int
    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    size_bytes: int
    leaf: Tensor
    index: int = 0
    slot: Slot | None = None
    gradient: Copy | None = None
    # Of a large gradient, the copies of all pieces but the last, which is `gradient`.
    gradient_pieces: list[Copy] = field(default_factory=list)
    gradient_buffer: Tensor | None = None
    # The unit that is this parameter as a half, and the type that autocast casts it to; None before it ever did.
    half: int | None = None
    half_dtype: torch.dtype | None = None
    # The cast that autocast may keep of the leaf. Like the leaf it is bound anew before each use.
    cast: Tensor | None = None
    cast_slot: Slot | None = None
    # What the leaf points at while only its cast is on the device.
    blank: Tensor | None = None
    # Gradients of casts, with the backward that made each. Once the leaf was used without a cast while gradients were
    # recorded, its gradient may be a sum, and is sent as it is.
    cast_gradients: list[tuple[int, Tensor]] = field(default_factory=list)
    used_whole: bool = False
    # What graphs keep in place of this parameter's bytes, while they do.
    handles: "WeakSet[SavedHandle]" = field(default_factory=WeakSet)
    # The hook of ours among those that are called when a gradient has been accumulated.
    watch_id: int | None = None
    # Whether the parameter stays on the device for good, as a plain one.
    on_device: bool = False

    def unbind(self) -> None:
        """Let the leaf have no bytes, as before it was first used."""
        self.leaf.data = blank_like(self.parameter, self.leaf.device)
        self.slot = self.cast = self.cast_slot = self.blank = None

    def forget(self) -> None:
        """Drop every byte, and the leaf, whose hook holds everything else."""
        self.leaf = torch.empty(0)
        self.slot = self.gradient = self.gradient_buffer = None
        self.cast = self.cast_slot = self.blank = None
        self.cast_gradients.clear()
        self.gradient_pieces.clear()

    def share_hooks(self) -> None:
        """Let gradients of the leaf run the parameter's hooks, by having the very same container."""
        leaf: Any = self.leaf
        if self.parameter._backward_hooks is not leaf._backward_hooks:  # noqa: SLF001
            leaf._backward_hooks = self.parameter._backward_hooks  # noqa: SLF001

    def freeze_leaf(self) -> None:
        """Let the leaf be frozen if the parameter is, and thawed if not: graphs that are alive end in the leaf."""
        if self.leaf.requires_grad != self.parameter.requires_grad:
            # Not requires_grad_(), which torch.vmap forbids.
            self.leaf.requires_grad = self.parameter.requires_grad

    def landing_hooks(self) -> list[Callable[..., Any]]:
        """Return what user code wants called when a gradient has been accumulated, in order."""
        hooks: Any = getattr(self.parameter, "_post_accumulate_grad_hooks", None)
        return [hook for key, hook in hooks.items() if key != self.watch_id] if hooks and len(hooks) > 1 else []

    def renew_node(self) -> None:
        """Let another node accumulate the leaf's gradient from now on, as torch has it after `set_()` of a tensor."""
        leaf: Any = self.leaf
        version = leaf._version  # noqa: SLF001
        with torch.no_grad():
            leaf.set_(leaf.detach())
        # It is no write.
        bump_version(leaf, version - leaf._version)  # noqa: SLF001

    def node_is_held(self) -> bool:
        """Return whether user code holds the graph's node that accumulates the leaf's gradient, as hooks on it do."""
        return bool(self.leaf.requires_grad) and _node_references(self.leaf) > _IDLE_NODE

    def is_dense(self) -> bool:
        """Return whether the parameter's elements lie in a row, in whatever order."""
        span = 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.stride, strict=True))
        return span == self.shape.numel()

    def is_laid_out_as(self, value: Tensor) -> bool:
        """Return whether a tensor has this parameter's shape and strides; those of a single element do not matter."""
        return value.shape == self.shape and all(
            size <= 1 or one == other for size, one, other in zip(self.shape, value.stride(), self.stride, strict=True)
        )

    def view(self, data: Tensor) -> Tensor:
        """Return this parameter's part of its unit's bytes, in its own type and shape."""
        part = data[self.offset : self.offset + self.size_bytes].view(self.dtype)
        return part.as_strided(self.shape, self.stride, part.storage_offset())

    def half_view(self, data: Tensor) -> Tensor:
        """Return a half unit's bytes as the cast of this parameter."""
        assert self.half_dtype is not None
        return data.view(self.half_dtype).as_strided(self.shape, self.stride)

    def flat(self, data: Tensor, dtype: torch.dtype) -> Tensor:
        """Return as many elements of a type as this parameter has, from the beginning of a buffer."""
        return data[: self.shape.numel() * dtype.itemsize].view(dtype)

    def like(self, data: Tensor) -> Tensor:
        """Return a flat buffer that holds this parameter alone, in its own type and shape."""
        part = data[: self.size_bytes].view(self.dtype)
        return part.as_strided(self.shape, self.stride, part.storage_offset())


def blank_like(parameter: Tensor, device: torch.device) -> Tensor:
    """Return a tensor of a parameter's shape without memory of that size."""
    # One element stretched to the shape: correct in every description, and no memory until it is bound.
    return torch.zeros((), dtype=parameter.dtype, device=device).expand(parameter.shape).detach()


def _node_references(leaf: Tensor) -> int:
    with torch.enable_grad():
        node: Any = leaf.view_as(leaf).grad_fn
    return sys.getrefcount(node.next_functions[0][0])


# Counted on a sample whose node nobody else holds.
_IDLE_NODE = _node_references(torch.zeros(1, requires_grad=True))
PIECE_BYTES = 2 * 2**20


def cut_pieces(elements: int, element_bytes: int) -> list[tuple[int, int]]:
    """Return where each piece of so many elements begins and ends: a large parameter moves, and is updated, in them."""
    each = max(PIECE_BYTES // element_bytes, 1)
    return [(begin, min(begin + each, elements)) for begin in range(0, elements, each)] or [(0, 0)]


def flat(tensor: Tensor) -> Tensor:
    """Return a dense tensor's elements in a row, as they lie in memory."""
    return tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())


def describe_write(name: str) -> str:
    """Return a sentence that says why a forward must not write to a parameter."""
    return f"{name} is written to while the model runs: the device's copy is dropped after use. Change it between steps"


def bump_version(parameter: Tensor, by: int) -> None:
    """Count a change of a parameter that comes later, so that autograd refuses what it would refuse then."""
    version = parameter._version + by  # noqa: SLF001
    torch._C._autograd._unsafe_set_version_counter((parameter,), (version,))  # noqa: SLF001  no public name gives it

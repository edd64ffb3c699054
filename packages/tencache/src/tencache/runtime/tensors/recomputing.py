"""How a saved tensor is computed again, with the same bits, from others that autograd has saved.

Only what one cheap operation made, element by element, of tensors that its own node saved: no random numbers, no
parameters, nothing that remembers. Which operation that was is known by the node of the graph, and what the node saved
by its number: a node takes its number right before it saves.
"""

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tencache.runtime.memory.device_arena import users

Operation = Callable[..., Tensor]
# The tensor of the whole storage, and the storage object that counting makes.
IDLE_USERS = 2
# What more nodes have saved than this is forgotten: it is then not computed again.
_KNOWN_NODES = 2**16


def _plain(operation: Operation, **settings: str) -> Callable[[Any], Operation]:
    """Return what makes an operation of a node, with settings that the node has by these names."""
    return lambda node: partial(operation, **{name: getattr(node, key) for name, key in settings.items()})


# By the name of a node: how many tensors it saves, and the operation, which is given them in that order.
OPERATIONS: dict[str, tuple[int, Callable[[Any], Operation]]] = {
    "GeluBackward0": (1, _plain(functional.gelu, approximate="_saved_approximate")),
    "SiluBackward0": (1, _plain(functional.silu)),
    "MishBackward0": (1, _plain(functional.mish)),
    "HardswishBackward0": (1, _plain(functional.hardswish)),
    "LeakyReluBackward0": (1, _plain(functional.leaky_relu, negative_slope="_saved_negative_slope")),
    "CeluBackward0": (1, _plain(functional.celu, alpha="_saved_alpha")),
    "SoftplusBackward0": (1, _plain(functional.softplus, beta="_saved_beta", threshold="_saved_threshold")),
    "PowBackward0": (1, _plain(torch.pow, exponent="_saved_exponent")),
    "SinBackward0": (1, _plain(torch.sin)),
    "CosBackward0": (1, _plain(torch.cos)),
    "AbsBackward0": (1, _plain(torch.abs)),
    "MulBackward0": (2, _plain(lambda other, one: torch.mul(one, other))),
    "DivBackward0": (2, _plain(lambda other, one: torch.div(one, other))),
}


class Again:
    """How one tensor is computed again: an operation, and what the graph keeps of its arguments."""

    def __init__(self, operation: Operation, inputs: Sequence[Any], made: Tensor) -> None:
        self.inputs = tuple(inputs)
        self._operation = operation
        self._layout = made.shape, made.stride(), made.dtype
        self._threads = torch.get_num_threads()

    def bytes_of(self, inputs: Sequence[Tensor]) -> Tensor | None:
        """Return the bytes that come out; None if they lie in memory otherwise than those that were saved."""
        device = inputs[0].device
        with _as_it_was_made(device.type, self._threads):
            found = self._operation(*inputs)
        if (found.shape, found.stride(), found.dtype) != self._layout:
            return None
        storage = found.untyped_storage()
        return torch.empty(0, dtype=torch.uint8, device=device).set_(storage, 0, (storage.nbytes(),), (1,))


@contextmanager
def _as_it_was_made(device_type: str, threads: int) -> Iterator[None]:
    """Compute without autocast, since the arguments are those of after any cast, and with so many threads.

    Leaving `torch.autocast()` in a thread where no other is open forgets the casts of the whole process, also those of
    an autocast that goes on in another thread; so the switch alone is turned. On the CPU the last bits of some
    operations depend on how many threads share them.
    """
    casts, before = torch.is_autocast_enabled(device_type), torch.get_num_threads()
    torch.set_autocast_enabled(device_type, False)
    if before != threads:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_autocast_enabled(device_type, casts)
        if before != threads:
            torch.set_num_threads(before)


class PackedByNode:
    """What each node of the graph has saved, in order: found by the number that it took right before."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], list[weakref.ref[Any] | None]] = {}

    def clear(self) -> None:
        """Forget everything."""
        self._found.clear()

    def note(self, saved: Any) -> None:
        """Take in what the node that saves now keeps; None is a tensor itself."""
        if len(self._found) > _KNOWN_NODES:
            self._found.clear()
        # No public name gives it. Each thread counts for itself.
        number = torch._C._autograd._get_sequence_nr() - 1  # noqa: SLF001
        key = threading.get_ident(), number
        self._found.setdefault(key, []).append(None if saved is None else weakref.ref(saved))

    def again(self, tensor: Tensor, storage_bytes: int) -> Again | None:
        """Return how all of a tensor's storage is computed again, if that is known."""
        made: Any = tensor._base if tensor._is_view() else tensor  # noqa: SLF001  no public name gives it
        node = None if made is None else made.grad_fn
        # What was written to since is not what the operation made.
        if node is None or made._version or made.nbytes != storage_bytes or node.name() not in OPERATIONS:  # noqa: SLF001
            return None
        count, operation = OPERATIONS[node.name()]
        # Of two, a node saves both only if both get a gradient. What checkpointing saves is no node's, and would be
        # taken for the second one.
        if count > 1 and any(edge is None for edge, _ in node.next_functions):
            return None
        found = self._found.get((threading.get_ident(), node._sequence_nr()), [])  # noqa: SLF001
        inputs = [None if one is None else one() for one in found]
        if len(inputs) != count or None in inputs:
            return None
        return Again(operation(node), inputs, made)


def is_idle(data: Tensor) -> bool:
    """Return whether nobody but the graph holds a tensor's storage."""
    return users(data) <= IDLE_USERS


def same_bytes(one: Tensor, two: Tensor) -> Tensor:
    """Return, where they are, whether two pieces of memory hold the same: one byte, 1 or 0."""
    if one.numel() != two.numel():
        return torch.zeros(1, dtype=torch.uint8, device=one.device)
    return (one == two).all().view(torch.uint8).view(1)

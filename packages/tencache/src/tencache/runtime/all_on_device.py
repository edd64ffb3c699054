"""When parameters, gradients and optimizer state all fit the device, they stay there and nothing moves any more."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tencache.runtime.memory.copy_lanes import Copy
from tencache.runtime.memory.link import Link


def needed_bytes(parameters: Sequence[Tensor], optimizer: Optimizer) -> int:
    """Return the bytes of parameters, gradients and state, with frozen parameters counted as if trained."""
    total = sum(parameter.nbytes for parameter in parameters)
    trained = sum(parameter.nbytes for parameter in optimizer.state)
    state = sum(value.nbytes for values in optimizer.state.values() for value in _tensors(values))
    return 2 * total + (state * total // trained if trained else 0)


class Mover:
    """Brings tensors to the device over the link, each into memory of its own."""

    def __init__(self, link: Link, device: torch.device) -> None:
        self._link = link
        self._device = device
        self._copies: list[Copy] = []

    def send(self, tensor: Tensor) -> Tensor:
        """Return the tensor's copy on the device; its bytes are there after `wait`."""
        # Memory of its own, not the arena's: the allocator may have handed out a block whose last user is still queued,
        # which is what the fence waits for.
        target = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=self._device)
        copy = Copy(target, lambda: tensor, tensor.nbytes)
        copy.fence = self._link.fence()
        self._link.up.put(copy)
        self._copies.append(copy)
        return target

    def wait(self) -> None:
        """Wait for every copy."""
        for copy in self._copies:
            copy.wait()
            self._link.await_on_device(copy)
        self._copies.clear()


def move_all(parameters: Iterable[nn.Parameter], optimizer: Optimizer, mover: Mover) -> None:
    """Move parameters, gradients and optimizer state to the device."""
    moved = list(parameters)
    for parameter in moved:
        # torch accepts a gradient only on its parameter's device: it is set again once the parameter is there.
        gradient, parameter.grad = parameter.grad, None
        parameter.data = mover.send(parameter.detach())
        if gradient is not None:
            parameter.grad = mover.send(gradient)
    known = set(map(id, moved))
    for group in optimizer.param_groups:
        for parameter in (one for one in group["params"] if id(one) in known):
            state = optimizer.state.get(parameter, {})
            state.update({key: mover.send(value) for key, value in state.items() if _follows(value, group)})
    mover.wait()


def bring_back(parameters: Iterable[nn.Parameter], optimizer: Optimizer) -> None:
    """Move them back to the host."""
    for parameter in parameters:
        gradient, parameter.grad = parameter.grad, None
        parameter.data = parameter.detach().cpu()
        parameter.grad = None if gradient is None else gradient.cpu()
    for values in optimizer.state.values():
        values.update({key: value.cpu() for key, value in values.items() if isinstance(value, Tensor)})


def _tensors(values: dict[str, Any]) -> list[Tensor]:
    return [value for value in values.values() if isinstance(value, Tensor)]


def _follows(value: object, group: dict[str, Any]) -> bool:
    """Return whether a piece of state is to be on its parameter's device; torch keeps step counters on the host."""
    if not isinstance(value, Tensor):
        return False
    return value.dim() > 0 or bool(group.get("fused") or group.get("capturable"))

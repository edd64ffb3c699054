"""What is asked of a device that computes by itself: streams, events, and memory by address.

CUDA is the one there is. The tests have another, made to show every fence that is missing.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from tencache.errors import RefusedError
from tencache.quantity import show_bytes

_cuda: Any = torch.cuda


class Accelerator(ABC):
    """A device with streams: work put on one is done in order, and later."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @abstractmethod
    def new_stream(self) -> Any:
        """Return a stream of its own."""

    @abstractmethod
    def current_stream(self) -> Any:
        """Return the stream that this thread computes on."""

    @abstractmethod
    def on_stream(self, stream: Any) -> AbstractContextManager[Any]:
        """Return a context in which this thread's work goes to the stream."""

    @abstractmethod
    def new_event(self) -> Any:
        """Return an event that takes times, and lets a thread that waits for it sleep."""

    @abstractmethod
    def bytes_at(self, address: int, size_bytes: int, owner: Tensor) -> Tensor:
        """Return device memory at an address as a tensor with a storage of its own, which keeps the owner."""

    @abstractmethod
    def register_host(self, address: int, size_bytes: int) -> None:
        """Pin host memory, so that copies from and to it need no thread."""

    @abstractmethod
    def unregister_host(self, address: int) -> None:
        """Unpin host memory."""

    @abstractmethod
    def is_pinned(self, tensor: Tensor) -> bool:
        """Return whether the device's driver takes a tensor's memory for pinned."""


class CudaAccelerator(Accelerator):
    """A GPU of NVIDIA's, or what torch calls by that name."""

    def new_stream(self) -> Any:
        """Return a stream of its own."""
        return _cuda.Stream(self.device)

    def current_stream(self) -> Any:
        """Return the stream that this thread computes on."""
        return _cuda.current_stream(self.device)

    def on_stream(self, stream: Any) -> AbstractContextManager[Any]:
        """Return a context in which this thread's work goes to the stream."""
        context: AbstractContextManager[Any] = _cuda.stream(stream)
        return context

    def new_event(self) -> Any:
        """Return an event that takes times, and lets a thread that waits for it sleep."""
        # The host's cores are for the optimizer: a thread that spins would take one of them.
        return _cuda.Event(enable_timing=True, blocking=True)

    def bytes_at(self, address: int, size_bytes: int, owner: Tensor) -> Tensor:
        """Return device memory at an address as a tensor with a storage of its own, which keeps the owner."""
        return torch.as_tensor(_CudaBytes(address, size_bytes, owner), device=self.device)

    def register_host(self, address: int, size_bytes: int) -> None:
        """Pin host memory, so that copies from and to it need no thread."""
        try:
            _cuda.check_error(_cuda.cudart().cudaHostRegister(address, size_bytes, 0))
        except RuntimeError as error:
            raise RefusedError(
                f"the driver does not pin {show_bytes(size_bytes)} of host memory ({error}): keep less on the host "
                "with host= and nvme=, or allow the process more locked memory (ulimit -l)"
            ) from error

    def unregister_host(self, address: int) -> None:
        """Unpin host memory."""
        _cuda.check_error(_cuda.cudart().cudaHostUnregister(address))

    def is_pinned(self, tensor: Tensor) -> bool:
        """Return whether the device's driver takes a tensor's memory for pinned."""
        return tensor.is_pinned()


class _CudaBytes:
    """Raw device bytes for `torch.as_tensor`, which keeps this object, and so the arena, alive."""

    def __init__(self, address: int, size_bytes: int, owner: Tensor) -> None:
        self.owner = owner
        self.__cuda_array_interface__ = {
            "shape": (size_bytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


# Another kind of device is another class here, under the name that torch has for it.
ACCELERATORS: dict[str, Callable[[torch.device], Accelerator]] = {"cuda": CudaAccelerator}


def find_accelerator(device: torch.device) -> Accelerator | None:
    """Return what works a device, or None for the simulated one, which is the host's own memory."""
    return None if device.type == "cpu" else ACCELERATORS[device.type](device)


def find_device(name: str) -> torch.device:
    """Return the device that a user names, with its number; "sim" is the host's own memory."""
    if name == "sim":
        return torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ACCELERATORS:
        raise ValueError(f"device={name!r}: choose 'sim' or a CUDA device")
    module: Any = torch.get_device_module(device)
    if not module.is_available():
        raise RefusedError(f"device={name!r}: torch finds no CUDA device here; use device='sim' to try it out")
    # Tensors name their device with its number, and are compared with it.
    return torch.device(device.type, module.current_device()) if device.index is None else device

"""An asynchronous device on the CPU, so that order, fences and lifetimes are tested where there is no GPU.

The device is C++ (`standin.cpp`), built once by torch's own tools. Here it gets its name, "standin", and the few
functions that torch and tencache look for.
"""

import shutil
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from tencache.runtime.memory.accelerator import ACCELERATORS, Accelerator

NAME = "standin"
SOURCE = Path(__file__).with_name("standin.cpp")


def missing() -> str | None:
    """Return why the stand-in cannot be built here, if it cannot."""
    found = [tool for tool in ("c++", "ninja") if shutil.which(tool) is None]
    return f"the stand-in is built by a compiler, and {' and '.join(found)} is missing" if found else None


@cache
def machine() -> Any:
    """Return the device's own functions; the first call builds it, and gives it to torch."""
    from torch.utils.cpp_extension import load

    built = load(name="tencache_standin", sources=[str(SOURCE)], extra_cflags=["-O1", "-g0", "-w"])
    torch.utils.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, _module())
    ACCELERATORS[NAME] = StandIn
    return built


def _module() -> ModuleType:
    """Return what torch expects of `torch.standin`."""
    module = ModuleType(f"torch.{NAME}")
    vars(module).update(
        is_available=lambda: True,
        device_count=lambda: 1,
        current_device=lambda: 0,
        _is_in_bad_fork=lambda: False,
        manual_seed_all=lambda _: None,
        get_rng_state=lambda _device=None: torch.empty(0, dtype=torch.uint8),
        set_rng_state=lambda _state, _device=None: None,
        get_amp_supported_dtype=lambda: [torch.bfloat16],
        is_initialized=lambda: True,
        _lazy_init=lambda: None,
    )
    return module


class StandIn(Accelerator):
    """The stand-in, as tencache asks for a device."""

    def new_stream(self) -> Any:
        """Return a stream of its own."""
        return torch.Stream(self.device)

    def current_stream(self) -> Any:
        """Return the stream that this thread computes on."""
        return torch.accelerator.current_stream(self.device)

    def on_stream(self, stream: Any) -> AbstractContextManager[Any]:
        """Return a context in which this thread's work goes to the stream."""
        return stream

    def new_event(self) -> Any:
        """Return an event that takes times."""
        return torch.Event(self.device, enable_timing=True)

    def bytes_at(self, address: int, size_bytes: int, owner: torch.Tensor) -> torch.Tensor:
        """Return device memory at an address as a tensor with a storage of its own, which keeps the owner."""
        return machine().bytes_at(address, size_bytes, owner)

    def register_host(self, address: int, size_bytes: int) -> None:
        """Pin host memory."""
        machine().register_host(address, size_bytes)

    def unregister_host(self, address: int) -> None:
        """Unpin host memory."""
        machine().unregister_host(address)

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor's memory is registered."""
        return machine().is_registered(tensor.data_ptr(), tensor.nbytes)

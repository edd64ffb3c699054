"""What is known of one wrapped parameter."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tencache.runtime.memory.copy_lanes import Copy
from tencache.runtime.tensors.slot import Slot


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
    # The version after `.data` was assigned to last: torch does not count that as a change.
    assigned_version: int = 0
    slot: Slot | None = None
    gradient: Copy | None = None
    gradient_buffer: Tensor | None = None

    def forget(self) -> None:
        """Drop every byte, and the leaf, whose hook holds everything else."""
        self.leaf = torch.empty(0)
        self.slot = self.gradient = self.gradient_buffer = None

    def view(self, data: Tensor) -> Tensor:
        """Return this parameter's part of its unit's bytes, in its own type and shape."""
        part = data[self.offset : self.offset + self.size_bytes].view(self.dtype)
        return part.as_strided(self.shape, self.stride, part.storage_offset())

    def like(self, data: Tensor) -> Tensor:
        """Return a flat buffer that holds this parameter alone, in its own type and shape."""
        part = data[: self.size_bytes].view(self.dtype)
        return part.as_strided(self.shape, self.stride, part.storage_offset())


def describe_write(name: str) -> str:
    """Return a sentence that says why a forward must not write to a parameter."""
    return f"{name} is written to while the model runs: the device's copy is dropped after use. Change it between steps"


def bump_version(parameter: nn.Parameter, by: int) -> None:
    """Count a change of a parameter that comes later, so that autograd refuses what it would refuse then."""
    version = parameter._version + by  # noqa: SLF001
    torch._C._autograd._unsafe_set_version_counter((parameter,), (version,))  # noqa: SLF001  no public name gives it

"""One wrapped parameter, and the grouping of parameters into the units that move."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from tencache.access import Unit
from tencache.layout import aligned
from tencache.link import Copy
from tencache.slot import Slot

SMALL_BYTES = 64 * 1024


@dataclass(eq=False)
class Entry:
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
    slot: Slot | None = None
    gradient: Copy | None = None
    gradient_buffer: Tensor | None = None

    def forget(self) -> None:
        """Let go of every byte, and of the leaf, whose hook holds everything else."""
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


@dataclass
class Group:
    """The parameters that move as one unit."""

    names: list[str] = field(default_factory=list)
    parameters: list[nn.Parameter] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, name: str, parameter: nn.Parameter) -> None:
        """Append a parameter, aligned so that any type may follow any other."""
        self.names.append(name)
        self.parameters.append(parameter)
        self.offsets.append(self.size_bytes)
        self.size_bytes += -(-parameter.numel() * parameter.element_size() // 16) * 16

    @property
    def name(self) -> str:
        """The parameter's own name, or the first of many."""
        return self.names[0] if len(self.names) == 1 else f"{self.names[0]} and {len(self.names) - 1} small ones"


def group_parameters(
    named: Sequence[tuple[str, nn.Parameter]], budget_bytes: int, *, together: bool = True
) -> list[Group]:
    """Each large parameter alone; small ones packed, since a copy's cost does not shrink with its size.

    Packs stay below a sixteenth of the budget, and frozen parameters apart: only the others go stale.
    """
    small_bytes = min(SMALL_BYTES, budget_bytes // 256) if together else 0
    groups: list[Group] = []
    packs: dict[bool, Group] = {}
    for name, parameter in named:
        size_bytes = parameter.numel() * parameter.element_size()
        if size_bytes > small_bytes:
            groups.append(Group())
            groups[-1].add(name, parameter)
            continue
        pack = packs.get(parameter.requires_grad)
        if pack is None or pack.size_bytes + size_bytes > budget_bytes // 16:
            pack = packs[parameter.requires_grad] = Group()
            groups.append(pack)
        pack.add(name, parameter)
    return groups


def make_entries(groups: Sequence[Group], device: torch.device) -> list[Entry]:
    """One entry for each parameter, its device leaf still without bytes."""
    entries = []
    for unit, group in enumerate(groups):
        for name, parameter, offset in zip(group.names, group.parameters, group.offsets, strict=True):
            leaf = torch.zeros((), dtype=parameter.dtype, device=device).expand(parameter.shape).detach()
            size_bytes = parameter.numel() * parameter.element_size()
            entries.append(
                Entry(
                    name,
                    parameter,
                    unit,
                    offset,
                    parameter.shape,
                    parameter.stride(),
                    parameter.dtype,
                    size_bytes,
                    leaf,
                )
            )
    return entries


def make_units(groups: Sequence[Group], filed: frozenset[int] = frozenset()) -> tuple[Unit, ...]:
    """Describe the groups for a trace."""
    return tuple(
        Unit(group.name, aligned(group.size_bytes), "file" if index in filed else "host")
        for index, group in enumerate(groups)
    )

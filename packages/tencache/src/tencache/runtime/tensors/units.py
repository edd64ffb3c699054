"""Groups parameters into the units that move."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from tencache.plan.address_map import aligned
from tencache.plan.step_trace import Unit
from tencache.runtime.tensors.parameter_entry import ROUNDING_ALIGN, ParameterEntry, blank_like

SMALL_BYTES = 64 * 1024


@dataclass
class UnitMembers:
    """The parameters that move as one unit."""

    names: list[str] = field(default_factory=list)
    parameters: list[nn.Parameter] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, name: str, parameter: nn.Parameter) -> None:
        """Append a parameter, aligned so that any type may follow any other, and torch rounds as it does elsewhere."""
        self.names.append(name)
        self.parameters.append(parameter)
        self.offsets.append(self.size_bytes)
        # A parameter without elements has a place too: torch makes no tensor over an empty range of memory.
        self.size_bytes += max(-(-parameter.numel() * parameter.element_size() // ROUNDING_ALIGN), 1) * ROUNDING_ALIGN

    @property
    def name(self) -> str:
        """Return the parameter's name, or the first of several."""
        return self.names[0] if len(self.names) == 1 else f"{self.names[0]} and {len(self.names) - 1} small ones"


def group_parameters(named: Sequence[tuple[str, nn.Parameter]], budget_bytes: int) -> list[UnitMembers]:
    """Return the units: each large parameter alone, small ones packed, since small copies cost as much as large ones.

    Packs stay below a sixteenth of the budget. Frozen parameters are apart, since only the others go stale, and so is
    each type: torch does not save tensors of two types that lie in one storage.
    """
    # Relative to the budget too: in a small arena a pack of 64 KiB would be most of it.
    small_bytes = min(SMALL_BYTES, budget_bytes // 256)
    groups: list[UnitMembers] = []
    packs: dict[tuple[bool, torch.dtype], UnitMembers] = {}
    for name, parameter in named:
        size_bytes = parameter.numel() * parameter.element_size()
        if size_bytes > small_bytes:
            groups.append(UnitMembers())
            groups[-1].add(name, parameter)
            continue
        kind = (parameter.requires_grad, parameter.dtype)
        pack = packs.get(kind)
        if pack is None or pack.size_bytes + size_bytes > budget_bytes // 16:
            pack = packs[kind] = UnitMembers()
            groups.append(pack)
        pack.add(name, parameter)
    return groups


def make_entries(groups: Sequence[UnitMembers], device: torch.device) -> list[ParameterEntry]:
    """Return an entry for each parameter; its device leaf has no bytes yet."""
    entries: list[ParameterEntry] = []
    for unit, group in enumerate(groups):
        for name, parameter, offset in zip(group.names, group.parameters, group.offsets, strict=True):
            leaf = blank_like(parameter, device)
            size_bytes = parameter.numel() * parameter.element_size()
            entries.append(
                ParameterEntry(
                    name,
                    parameter,
                    unit,
                    offset,
                    parameter.shape,
                    parameter.stride(),
                    parameter.dtype,
                    size_bytes,
                    leaf,
                    len(entries),
                )
            )
    return entries


def may_halve(entry: ParameterEntry, groups: Sequence[UnitMembers]) -> bool:
    """Return whether autocast may cast a parameter to half its bytes, and it is a unit of its own."""
    return entry.dtype is torch.float32 and len(groups[entry.unit].parameters) == 1


def make_units(groups: Sequence[UnitMembers], filed: frozenset[int] = frozenset()) -> tuple[Unit, ...]:
    """Return the units' descriptions for a trace."""
    return tuple(
        Unit(group.name, aligned(group.size_bytes), "file" if index in filed else "host")
        for index, group in enumerate(groups)
    )

"""The parts that an optimizer's step is cut into."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn
from torch.optim import Optimizer

from tencache.runtime.tensors.parameter_entry import ParameterEntry


@dataclass(eq=False)
class Slice:
    """Units that are updated by one call, with the parameters of each parameter group."""

    entries: list[ParameterEntry]
    units: tuple[int, ...]
    members: list[list[nn.Parameter]]
    seconds: float = 0.0

    @property
    def size_bytes(self) -> int:
        """Return the bytes of the parameters."""
        return sum(entry.size_bytes for entry in self.entries)


def cut_slices(
    optimizer: Optimizer, entries: Sequence[ParameterEntry], order: Sequence[int], slice_bytes: int
) -> list[Slice]:
    """Return slices of about that size, units in this order, then one of parameters that nobody moves."""
    known = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    by_unit: dict[int, list[ParameterEntry]] = {}
    for entry in entries:
        if id(entry.parameter) in known:
            by_unit.setdefault(entry.unit, []).append(entry)
    cuts: list[list[int]] = []
    size_bytes = slice_bytes
    for unit in order:
        if unit not in by_unit:
            continue
        unit_bytes = sum(entry.size_bytes for entry in by_unit[unit])
        # A large parameter is alone: it is updated piece by piece.
        if size_bytes >= slice_bytes or unit_bytes >= slice_bytes:
            cuts.append([])
            size_bytes = 0
        cuts[-1].append(unit)
        size_bytes += unit_bytes
    slices = [_slice(optimizer, [entry for unit in units for entry in by_unit[unit]], units) for units in cuts]
    return slices + _others(optimizer, known - {id(entry.parameter) for entry in entries})


def _slice(optimizer: Optimizer, entries: list[ParameterEntry], units: Sequence[int]) -> Slice:
    return Slice(entries, tuple(units), _members(optimizer, {id(entry.parameter) for entry in entries}))


def _others(optimizer: Optimizer, others: set[int]) -> list[Slice]:
    """Return a slice of the parameters that came to the optimizer after wrapping: nobody moves them."""
    return [Slice([], (), _members(optimizer, others))] if others else []


def _members(optimizer: Optimizer, wanted: set[int]) -> list[list[nn.Parameter]]:
    return [[one for one in group["params"] if id(one) in wanted] for group in optimizer.param_groups]

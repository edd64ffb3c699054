"""Units that may move as a working copy of half their bytes, and a step's trace rewritten for those that do.

A working copy is a unit of its own beside the whole one, so that plans, floors and replays count the bytes that move.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tencache.plan.address_map import aligned
from tencache.plan.step_trace import Op, StepTrace, Unit


@dataclass(frozen=True)
class WorkingUnits:
    """All units with their sizes, and which is the half of which."""

    units: tuple[Unit, ...]
    half_of: Mapping[int, int]

    @cached_property
    def base_of(self) -> dict[int, int]:
        """Return the whole unit of each half."""
        return {half: base for base, half in self.half_of.items()}

    def base(self, unit: int) -> int:
        """Return the unit itself, or the whole unit of a half."""
        return self.base_of.get(unit, unit)

    def forms(self, units: Iterable[int]) -> tuple[int, ...]:
        """Return these units and their halves."""
        found = tuple(units)
        return (*found, *(self.half_of[unit] for unit in found if unit in self.half_of))

    def halved(self, trace: StepTrace) -> frozenset[int]:
        """Return the units that a trace uses as halves."""
        return frozenset(self.base_of[unit] for unit in trace.uses if unit in self.base_of)

    def rewrite(self, trace: StepTrace, halved: Collection[int]) -> StepTrace:
        """Return the trace as it is if these units are used as halves, and all others whole."""
        if not self.half_of:
            return trace
        to = {unit: self.half_of[base] if base in halved else base for unit, base in self._both()}
        ops = tuple(_rewritten(op, to) for op in trace.ops)
        updates = tuple(replace(update, units=self.forms(update.units)) for update in trace.updates)
        # The form that is not used has no bytes, so that sums over the units are what the step moves.
        idle = {base if base in halved else half for base, half in self.half_of.items()}
        units = tuple(replace(unit, bytes=0) if index in idle else unit for index, unit in enumerate(self.units))
        return StepTrace(units, ops, trace.grads, updates, trace.saves)

    def _both(self) -> Iterable[tuple[int, int]]:
        for base, half in self.half_of.items():
            yield base, base
            yield half, base


def add_halves(units: tuple[Unit, ...], may_halve: Sequence[int]) -> WorkingUnits:
    """Return the units with a half for each of these that would be smaller."""
    bases = [base for base in may_halve if _half_bytes(units[base].bytes) < units[base].bytes]
    halves = (Unit(f"{units[base].name} as half", _half_bytes(units[base].bytes), units[base].tier) for base in bases)
    return WorkingUnits((*units, *halves), {base: len(units) + rank for rank, base in enumerate(bases)})


def _half_bytes(size_bytes: int) -> int:
    return aligned(size_bytes // 2)


def _rewritten(op: Op, to: Mapping[int, int]) -> Op:
    touched = tuple(dict.fromkeys(to.get(unit, unit) for unit in op.touched))
    held = dict.fromkeys(to.get(unit, unit) for unit in op.held)
    return replace(op, touched=touched, held=tuple(unit for unit in held if unit not in touched))

"""What one training step touches, in order, with sizes and measured durations."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

Phase = Literal["forward", "backward"]
Tier = Literal["host", "file"]


@dataclass(frozen=True)
class Unit:
    """What moves as one: a parameter, or a pack of small ones."""

    name: str
    bytes: int
    tier: Tier = "host"


@dataclass(frozen=True)
class Op:
    """One operation: the units it touches, those that views still hold, and the compute until the next operation."""

    touched: tuple[int, ...]
    held: tuple[int, ...] = ()
    compute_s: float = 0.0
    phase: Phase = "forward"

    @property
    def needed(self) -> tuple[int, ...]:
        """Return every unit that must stay where it is while this runs."""
        return self.touched + self.held


@dataclass(frozen=True)
class Grad:
    """A gradient leaving the device after operation number `op`."""

    unit: int
    op: int
    bytes: int


@dataclass(frozen=True)
class Update:
    """One slice of the optimizer's step: the units it writes, and the state it reads from and writes to the file.

    One without units is of parameters that stay on the device, and is computed there.

    `second_bytes` is the host's memory that a second copy of the units, and of their state in memory, takes.
    """

    units: tuple[int, ...]
    compute_s: float = 0.0
    file_bytes: int = 0
    second_bytes: int = 0


@dataclass(frozen=True)
class Saved:
    """Memory that autograd keeps for backward: saved by operation number `saved`, first used by number `used`.

    What nothing used is used by an operation after the last. `again_s` is what it takes to compute it again from those
    saved tensors whose numbers are in `of`; None if that cannot be done exactly.
    """

    bytes: int
    saved: int
    used: int
    again_s: float | None = None
    of: tuple[int, ...] = ()


@dataclass(frozen=True)
class StepTrace:
    """One cycle: the updates, in the order of next use, then the operations up to the next optimizer step."""

    units: tuple[Unit, ...]
    ops: tuple[Op, ...]
    grads: tuple[Grad, ...] = ()
    updates: tuple[Update, ...] = ()
    saves: tuple[Saved, ...] = ()

    @cached_property
    def order(self) -> tuple[tuple[int, ...], ...]:
        """Return the touched units, operation by operation: two steps with the same order can share a plan."""
        return tuple(op.touched for op in self.ops)

    @cached_property
    def written(self) -> frozenset[int]:
        """Return the units whose device copies the optimizer makes stale."""
        return frozenset(unit for update in self.updates for unit in update.units)

    @cached_property
    def uses(self) -> dict[int, tuple[int, ...]]:
        """Return, for each unit, the operations that need it, in order."""
        found: dict[int, list[int]] = {}
        for index, op in enumerate(self.ops):
            for unit in op.needed:
                found.setdefault(unit, []).append(index)
        return {unit: tuple(indices) for unit, indices in found.items()}

    @property
    def compute_s(self) -> float:
        """Return the seconds of the step if nothing ever waited."""
        return self.device_s + self.host_s

    @property
    def device_s(self) -> float:
        """Return the seconds of the device: operations, and updates of what stays there."""
        return sum(op.compute_s for op in self.ops) + self.update_s - self.host_s

    @property
    def update_s(self) -> float:
        """Return the seconds of the optimizer alone."""
        return sum(update.compute_s for update in self.updates)

    @property
    def host_s(self) -> float:
        """Return the seconds of those updates that the host computes."""
        return sum(update.compute_s for update in self.updates if update.units)

    @property
    def parameter_bytes(self) -> int:
        """Return the bytes of all units together."""
        return sum(unit.bytes for unit in self.units)

    @property
    def grad_bytes(self) -> int:
        """Return the bytes that leave the device in one step."""
        return sum(grad.bytes for grad in self.grads)

    def save(self, path: str | Path) -> None:
        """Write the trace as JSON, for `tencache plan` and `tencache replay`."""
        Path(path).write_text(json.dumps({"tencache_trace": 1, **asdict(self)}), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "StepTrace":
        """Read a trace that `save` wrote."""
        data = read_json(path)
        if not isinstance(data, dict) or data.get("tencache_trace") != 1:
            raise ValueError(f"{path}: not a trace that tencache saved (cached.trace.save(path) writes one)")
        try:
            return cls._from(data)
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"{path}: this trace is damaged ({type(error).__name__}: {error})") from None

    @classmethod
    def _from(cls, data: dict[str, Any]) -> "StepTrace":
        return cls(
            units=tuple(Unit(**unit) for unit in data["units"]),
            ops=tuple(_read_op(op) for op in data["ops"]),
            grads=tuple(Grad(**grad) for grad in data["grads"]),
            updates=tuple(
                Update(tuple(item["units"]), item["compute_s"], item["file_bytes"], item.get("second_bytes", 0))
                for item in data["updates"]
            ),
            saves=tuple(Saved(**{**item, "of": tuple(item.get("of", ()))}) for item in data.get("saves", ())),
        )


def read_json(path: str | Path) -> Any:
    """Return what a file of JSON holds; what is not JSON is an error that names the file."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not a file of JSON ({error})") from None


@dataclass(slots=True)
class _Running:
    """An operation while it is recorded."""

    touched: tuple[int, ...]
    held: tuple[int, ...]
    phase: Phase
    compute_s: float = 0.0


class TraceBuilder:
    """Collects a trace operation by operation."""

    def __init__(self, units: tuple[Unit, ...]) -> None:
        self.units = units
        self.ops: list[_Running] = []
        self.grads: list[Grad] = []
        # Bytes, the operation that saved them, and the one that used them, if one did.
        self.saves: list[tuple[int, int, int | None]] = []
        # What it takes to compute one again, and from which others.
        self.again: dict[int, tuple[float, tuple[int, ...]]] = {}

    def op(self, touched: tuple[int, ...], held: tuple[int, ...], phase: Phase) -> None:
        """Begin an operation."""
        self.ops.append(_Running(touched, held, phase))

    def also_touches(self, unit: int) -> None:
        """Add a unit to those that the running operation touches."""
        last = self.ops[-1]
        if unit not in last.touched:
            last.touched = (*last.touched, unit)
            last.held = tuple(held for held in last.held if held != unit)

    def computed(self, op: int, seconds: float) -> None:
        """Add seconds of compute to an operation."""
        self.ops[op].compute_s += seconds

    def grad(self, unit: int, size_bytes: int) -> None:
        """Record a gradient that left after the last operation."""
        self.grads.append(Grad(unit, max(len(self.ops) - 1, 0), size_bytes))

    def saved(self, size_bytes: int) -> int:
        """Record memory that autograd keeps from now on; return its number."""
        self.saves.append((size_bytes, max(len(self.ops) - 1, 0), None))
        return len(self.saves) - 1

    def used(self, number: int) -> None:
        """Record that backward uses what was saved, if it is the first time."""
        size_bytes, saved, used = self.saves[number]
        if used is None:
            self.saves[number] = (size_bytes, saved, max(len(self.ops) - 1, 0))

    def build(self, updates: Iterable[Update] = ()) -> StepTrace:
        """Return what was collected."""
        ops = tuple(Op(op.touched, op.held, op.compute_s, op.phase) for op in self.ops)
        saves = tuple(
            Saved(size, saved, len(ops) if used is None else used, *self.again.get(number, (None, ())))
            for number, (size, saved, used) in enumerate(self.saves)
        )
        return StepTrace(self.units, ops, tuple(self.grads), tuple(updates), saves)


def _read_op(item: dict[str, Any]) -> Op:
    return Op(tuple(item["touched"]), tuple(item["held"]), item["compute_s"], item["phase"])

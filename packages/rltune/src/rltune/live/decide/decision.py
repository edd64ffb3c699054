"""What a cycle comes to: who should start where, in which order the others wait, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One waiting job of a decision. Ranks count from 0 within all jobs that compete; -1 = it does not."""

    job: int
    reason: str  # why it does not start, or why it is left to Slurm; "" if it starts
    competes: bool = False
    ours: bool = False  # it may be touched
    kept: str = ""  # why it may not
    score: float = math.nan  # by the policy; lower is sooner
    estimate_s: float = math.nan
    slurm_rank: int = -1  # where Slurm alone has it
    rank: int = -1  # where this decision has it
    number: int | None = None  # the SiteFactor or Priority that puts it there; None = it is not to be given one
    tasks: int = 0  # how many start; more than one only of an array
    nodes: tuple[str, ...] = ()  # where the first of these starts
    reserved_s: float = math.nan  # when it is expected to start, where the core has reserved for it
    owed_since_s: float | None = None  # since when the guard puts it first; None = it does not

    @property
    def starts(self) -> bool:
        """Return whether it should start now."""
        return self.tasks > 0


@dataclass(frozen=True)
class Decision:
    """One pass of the core over a snapshot; `waiting` is in order of rank, those that do not compete last."""

    taken_s: float
    waiting: tuple[Waiting, ...] = field(repr=False)
    work: dict[str, Any]  # counters of the core, the search and the solver, and what there was no time for; no clock

    @cached_property
    def by_job(self) -> dict[int, Waiting]:
        """Find a job's part."""
        return {w.job: w for w in self.waiting}

    @property
    def starts(self) -> tuple[Waiting, ...]:
        """List who should start now, in order."""
        return tuple(w for w in self.waiting if w.starts)

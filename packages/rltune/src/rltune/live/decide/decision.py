"""What a cycle comes to: who should start where, in which order the others wait, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
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
    led_to: tuple[str, ...] = ()  # the nodes that others give way on for it
    reserved_s: float = math.nan  # when it is expected to start, where the core has reserved for it
    owed_since_s: float | None = None  # since when the guard puts it first; None = it does not

    @property
    def starts(self) -> bool:
        """Return whether it should start now."""
        return self.tasks > 0


@dataclass(frozen=True, slots=True)
class Victim:
    """One spell of a running job: another one of the same job is none that was decided on."""

    job: int
    submit_s: float
    start_s: float
    restarts: int
    ref: str = ""  # LiveJob.ref


@dataclass(frozen=True)
class Displacement:
    """Running jobs that give way together, so that a waiting one can start at that very moment."""

    claimant: int
    victims: tuple[Victim, ...]
    nodes: tuple[str, ...]  # where the claimant then starts
    reason: str

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> Displacement:
        """Take it from what JSON keeps of it."""
        victims = tuple(Victim(**one) for one in plain["victims"])
        return cls(plain["claimant"], victims, tuple(plain["nodes"]), plain["reason"])

    def __str__(self) -> str:
        who = ", ".join(one.ref or str(one.job) for one in self.victims)
        return f"job {who} gives way to job {self.claimant} on {','.join(self.nodes)}: {self.reason}"


@dataclass(frozen=True)
class OpenTurn:
    """A displacement whose victims were told to stop."""

    turn: Displacement
    commanded_s: float  # by the cluster's clock
    id: int = 0  # in the journal
    settled: bool = False  # the claimant has started, or will not; victims may still have to be let in


@dataclass(frozen=True)
class Decision:
    """One pass of the core over a snapshot; `waiting` is in order of rank, those that do not compete last."""

    taken_s: float
    waiting: tuple[Waiting, ...] = field(repr=False)
    work: dict[str, Any]  # counters of the core, the search and the solver, and what there was no time for; no clock
    displacements: tuple[Displacement, ...] = ()

    @cached_property
    def by_job(self) -> dict[int, Waiting]:
        """Find a job's part."""
        return {w.job: w for w in self.waiting}

    @property
    def starts(self) -> tuple[Waiting, ...]:
        """List who should start now, in order."""
        return tuple(w for w in self.waiting if w.starts)

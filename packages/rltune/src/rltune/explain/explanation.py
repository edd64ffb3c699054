"""The answer to "why does my job wait?": values that print themselves and turn into JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rltune.present.present import Why, told_time
from rltune.text import counted, number, seconds


@dataclass(frozen=True)
class Reason:
    """One reason: its kind, a sentence, and the numbers behind it."""

    why: Why
    text: str
    evidence: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.why}: {self.text}"


@dataclass(frozen=True)
class ScorePart:
    """One term of a job's score: what it is, and by how much it moves the score from the queue's usual."""

    name: str
    value: float
    moved: float  # above 0: it stands further back for it

    def __str__(self) -> str:
        where = "back" if self.moved > 0 else "forward"
        moved = f"moves it {where} by {number(abs(self.moved))}" if self.moved else "moves it nowhere"
        return f"{self.name} {number(self.value)}: {moved}"


@dataclass(frozen=True)
class Ahead:
    """A waiting job that comes before."""

    job: str
    gpus: int
    estimate_s: float
    starts: bool  # in this pass
    text: str  # why it is before

    def __str__(self) -> str:
        now = "starts now; " if self.starts else ""
        return f"job {self.job}, {counted(self.gpus, 'GPU')} for {seconds(self.estimate_s)}: {now}{self.text}"


@dataclass(frozen=True)
class Overtaker:
    """A job that was submitted later and runs already, where this one could run."""

    job: str
    gpus: int
    later_s: float  # by which it was submitted later
    running_s: float

    def __str__(self) -> str:
        came = f"came {seconds(self.later_s)} later and has run for {seconds(self.running_s)}"
        return f"job {self.job}, {counted(self.gpus, 'GPU')}: {came}"


@dataclass(frozen=True)
class TriedChange:
    """A change of the request, made on a copy and run through the core."""

    text: str
    columns: dict[str, Any]  # of the job's row, as they were changed
    starts_now: bool
    start_s: float  # by estimates, with nobody else coming; NaN if it was not rolled
    sooner_s: float  # than without the change; NaN if not rolled

    def __str__(self) -> str:
        sooner = (
            f"{seconds(self.sooner_s)} sooner by estimated run times"
            if math.isfinite(self.sooner_s)
            else "at some time, and as it is it does not"
        )
        return f"{self.text}: it starts {'now' if self.starts_now else sooner}"


@dataclass(frozen=True)
class Explanation:
    """Why one job waits."""

    job: str
    now_s: float
    reason: Reason
    others: tuple[Reason, ...] = ()
    next_step: str = ""
    earliest_s: float = math.nan  # by estimates, if nobody else took what gets free
    earliest_by: str = ""  # whose end makes room then
    place: int = 0  # in the queue of its pool, from 1; 0 = not in the queue
    pool: int = 0  # how many wait there
    score: float = math.nan
    parts: tuple[ScorePart, ...] = ()
    ahead: tuple[Ahead, ...] = ()
    overtaken_by: tuple[Overtaker, ...] = ()
    changes: tuple[TriedChange, ...] = ()
    changes_tried: int = 0
    notes: tuple[str, ...] = ()
    by_priority: bool = False  # the score is a priority that is given, turned round
    recorded: str = ""  # of a history: when the job started in truth

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _told_score(self) -> str:
        if self.by_priority:
            return f"priority {number(-self.score)}, the higher the sooner"
        return f"score {number(self.score)}, the lower the sooner"

    def lines(self) -> list[str]:
        """Return the answer line by line, the dominant reason first."""
        told = [f"Job {self.job}: {self.reason}"]
        if self.recorded:
            told.append(f"Recorded: {self.recorded}")
        if self.next_step:
            told.append(f"Next step: {self.next_step}")
        told += self._section("Also", self.others)
        if self.place:
            score = f"; {self._told_score()}" if self.parts else ""
            told.append(f"Place {self.place} of {self.pool} in the queue for these nodes{score}")
        told += self._section("The score, against the queue's median job", self.parts)
        told += self._section("Before it", self.ahead)
        told += self._section("Overtaken by", self.overtaken_by)
        told += self._section("Would start it, each tried in the core", self.changes)
        if self.changes_tried and not self.changes:
            told.append(
                f"None of {counted(self.changes_tried, 'change')} of its request that were tried starts it sooner."
            )
        return [*told, *(f"Note: {note}." for note in self.notes)]

    @classmethod
    def of_plain(cls, plain: dict[str, Any]) -> Explanation:
        """Read what `to_dict` wrote; null is what is not known."""
        parts = {"parts": ScorePart, "ahead": Ahead, "overtaken_by": Overtaker, "changes": TriedChange}
        told = {one.name: plain[one.name] for one in fields(cls)}
        told |= {name: tuple(_of(kind, one) for one in plain[name]) for name, kind in parts.items()}
        told |= {"reason": _reason(plain["reason"]), "others": tuple(map(_reason, plain["others"]))}
        told |= {name: math.nan for name in ("earliest_s", "score") if told[name] is None}
        return cls(**{**told, "notes": tuple(plain["notes"])})

    @staticmethod
    def _section(title: str, rows: tuple[Any, ...]) -> list[str]:
        return [f"{title}:", *(f"  {row}" for row in rows)] if rows else []

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON keeps; what is not known is null."""
        plain = asdict(self)
        earliest = told_time(self.earliest_s, self.now_s) if math.isfinite(self.earliest_s) else None
        return {**_known(plain), "earliest": earliest, "sentence": str(self.reason)}


def _reason(plain: dict[str, Any]) -> Reason:
    return Reason(Why(plain["why"]), plain["text"], plain["evidence"])


def _of(kind: Any, plain: dict[str, Any]) -> Any:
    return kind(**{name: math.nan if value is None else value for name, value in plain.items()})


def _known(value: Any) -> Any:
    """Replace numbers that are none by null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _known(one) for key, one in value.items()}
    return [_known(one) for one in value] if isinstance(value, list | tuple) else value

"""Where a model comes from: who made it, how, from which jobs, and how it did on jobs held out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rltune.jobs import Jobs
from rltune.model.fingerprint import MOST, Fingerprint

TAUGHT, CHOSE = "taught", "chose"
NOT_NOTED = "its file does not say which jobs did"
_TEXTS = ("made_by", "command", "trace", "cluster")
_SAID = {TAUGHT: "taught by", CHOSE: "chosen on"}
_MOST_CHOSE = MOST // 2  # they are fewer
_MOST_TOLD = 4  # spans to name one by one
_DAY_S = 86_400.0


@dataclass(frozen=True)
class HeldOut:
    """How the model did on windows that it was not taught by, against its base policy."""

    windows: int | None = None
    jobs_each: int | None = None
    cost_over_base: float | None = None
    p99_excess: float | None = None
    generation: int | None = None  # of an evolution, in which it was found


@dataclass(frozen=True)
class Span:
    """Jobs of one trace that taught the model, or that chose it among others."""

    role: str
    trace: str
    jobs: int
    first_s: float  # submits, on the trace's own clock
    last_s: float

    @classmethod
    def of(cls, role: str, trace: str, jobs: Jobs) -> Span:
        """Describe some jobs."""
        first, last = (float(jobs.submit_s.min()), float(jobs.submit_s.max())) if len(jobs) else (0.0, 0.0)
        return cls(role, trace, len(jobs), first, last)

    def __str__(self) -> str:
        days = (self.last_s - self.first_s) / _DAY_S
        return f"{self.jobs:,} jobs over {days:,.1f} days{f' of {self.trace}' if self.trace else ''}"


@dataclass(frozen=True)
class Lessons:
    """Which jobs taught a model, and which chose the best of its states: neither may judge it."""

    spans: tuple[Span, ...]
    taught: Fingerprint
    chose: Fingerprint

    @classmethod
    def of(cls, taught: Sequence[tuple[str, Jobs]], chose: Sequence[tuple[str, Jobs]]) -> Lessons:
        """Note the jobs that taught and those that chose, each table with its trace's name. Who teaches calls this."""
        spans = [Span.of(role, *one) for role, given in ((TAUGHT, taught), (CHOSE, chose)) for one in given]
        by_taught, by_chose = ([jobs for _, jobs in given] for given in (taught, chose))
        return cls(tuple(spans), Fingerprint.of(by_taught), Fingerprint.of(by_chose, _MOST_CHOSE))

    def after(self, earlier: Lessons) -> Lessons:
        """Add what had taught the model that this training began with."""
        return Lessons(
            (*earlier.spans, *self.spans),
            earlier.taught.joined(self.taught),
            earlier.chose.joined(self.chose, _MOST_CHOSE),
        )

    def told(self, role: str) -> tuple[str, ...]:
        """Describe the jobs that taught, or chose: span by span, or all together if there are many."""
        spans = [span for span in self.spans if span.role == role]
        if len(spans) <= _MOST_TOLD:
            return tuple(map(str, spans))
        traces = ", ".join(dict.fromkeys(span.trace for span in spans if span.trace))
        return (f"{sum(span.jobs for span in spans):,} jobs in {len(spans)} spans{traces and f' of {traces}'}",)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as in a file."""
        return {**asdict(self), "spans": [asdict(span) for span in self.spans]}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Lessons:
        """Take lessons from a file; ValueError or TypeError if they are damaged."""
        made = cls(
            tuple(Span(**span) for span in given["spans"]),
            Fingerprint(**given["taught"]),
            Fingerprint(**given["chose"]),
        )
        for fingerprint in (made.taught, made.chose):
            _ = fingerprint.marks  # damage is told when the file is read
        return made


@dataclass(frozen=True)
class Card:
    """What a model's file says of where it comes from."""

    made_by: str = ""
    command: str = ""
    trace: str = ""
    cluster: str = ""
    estimators: tuple[str, ...] = ()
    held_out: HeldOut | None = None
    lessons: Lessons | None = None
    unknown: str = NOT_NOTED  # why there are no lessons, or which part of them is missing; "" = nothing is
    settings: dict[str, Any] = field(default_factory=dict)  # all else that the maker noted

    @property
    def taught_by(self) -> str:
        """Return which jobs taught it, in a few words."""
        spans = self.lessons.told(TAUGHT) if self.lessons else ()
        return "; ".join([*spans, *([f"not known: {self.unknown}"] if self.unknown else [])])

    def entries(self) -> Iterator[tuple[str, Any]]:
        """Return what there is to show, by name; of fingerprints only how many jobs they tell of."""
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name == "held_out" and value:
                yield from ((f"held out {name}", v) for name, v in asdict(value).items() if v is not None)
            elif one.name == "lessons" and value:
                yield from ((said, text) for role, said in _SAID.items() for text in value.told(role))
            elif one.name == "settings":
                yield from value.items()
            elif value:
                yield one.name, ", ".join(value) if isinstance(value, tuple) else value

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as in a file; what is empty is left out."""
        made = {one.name: getattr(self, one.name) for one in fields(self)}
        if self.held_out:
            made["held_out"] = {name: value for name, value in asdict(self.held_out).items() if value is not None}
        made |= {"estimators": list(self.estimators), "lessons": self.lessons.to_dict() if self.lessons else None}
        return {name: value for name, value in made.items() if value or name == "unknown"}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Card:
        """Take a card from a file; ValueError, KeyError or TypeError if it is damaged."""
        lessons = given.get("lessons")
        return cls(
            **{name: str(given.get(name, "")) for name in _TEXTS},
            estimators=tuple(given.get("estimators", ())),
            held_out=HeldOut(**given["held_out"]) if given.get("held_out") else None,
            lessons=Lessons.from_dict(lessons) if lessons else None,
            unknown=str(given.get("unknown", NOT_NOTED)),
            settings=dict(given.get("settings", {})),
        )

    @classmethod
    def from_first_version(cls, given: Mapping[str, Any]) -> Card:
        """Take a card of version 1, a bare dictionary; what has no place of its own stays among the settings."""
        known = {one.name for one in fields(HeldOut)}
        held_out = {name: value for name, value in dict(given.get("held_out") or {}).items() if name in known}
        estimators = given.get("estimators", "")
        return cls(
            **{name: str(given.get(name, "")) for name in _TEXTS},
            estimators=tuple(str(estimators).split(",")) if estimators else (),
            held_out=HeldOut(**held_out) if held_out else None,
            lessons=None,
            unknown=NOT_NOTED,
            settings={name: v for name, v in given.items() if name not in {*_TEXTS, "held_out", "estimators"}},
        )

"""A job's own log: whether it ran to its end exactly once, and what being stopped cost it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

_ROUNDED_S = 0.01  # the log has milliseconds


@dataclass(frozen=True)
class LogLine:
    """Something that a job told: the work done by then, and when, by the machine's clock."""

    what: str
    done_s: float
    at_s: float


@dataclass(frozen=True)
class WorkDone:
    """What a job's log says; seconds of work, and of restarts by the fast clock."""

    starts: int
    ends: int
    redone_s: float  # work that was lost when it was stopped
    restarts_s: float  # that it held its GPUs before it went on
    problem: str = ""

    @property
    def lost_s(self) -> float:
        """Return all that being stopped cost."""
        return self.redone_s + self.restarts_s


def read_log(text: str, work_s: float, factor: float, stops_s: Sequence[float] = ()) -> WorkDone:
    """Read a log; `stops_s` is when its spells were cut short, for those that were killed before they could tell."""
    spells = list(_spells([_line(line) for line in text.splitlines()]))
    saved_s = redone_s = restarts_s = 0.0
    problem = ""
    for number, spell in enumerate(spells):
        if abs(spell[0].done_s - saved_s) > _ROUNDED_S:
            problem = f"went on from {spell[0].done_s:g} s, with {saved_s:g} s saved"
        saved_s = max([saved_s, *(line.done_s for line in spell if line.what == "checkpoint")])
        last = spell[-1]
        if last.what not in {"stop", "end", "over"}:
            last = _killed(spell, factor, stops_s)
        restarts_s += (_resumed_s(spell, last) - spell[0].at_s) * factor if number else 0.0
        redone_s += max(0.0, last.done_s - saved_s)
    ends = sum(line.what == "end" for spell in spells for line in spell)
    done_s = spells[-1][-1].done_s if spells else 0.0
    if ends != 1 or abs(done_s - work_s) > _ROUNDED_S:
        problem = f"ended {ends} times, with {done_s:g} s of {work_s:g} s done"
    return WorkDone(len(spells), ends, redone_s, restarts_s, problem)


def _line(text: str) -> LogLine:
    what, done, at = text.split()
    return LogLine(what, float(done), float(at))


def _spells(lines: Sequence[LogLine]) -> Iterator[Sequence[LogLine]]:
    begins = [i for i, line in enumerate(lines) if line.what == "start"]
    return (lines[a:b] for a, b in pairwise([*begins, len(lines)]))


def _resumed_s(spell: Sequence[LogLine], last: LogLine) -> float:
    """Return when work went on; the end of a spell that was stopped before."""
    return next((line.at_s for line in spell if line.what == "resume"), last.at_s)


def _killed(spell: Sequence[LogLine], factor: float, stops_s: Sequence[float]) -> LogLine:
    """Return what a spell that was killed would have told: it worked on from its last line until Slurm stopped it."""
    last = spell[-1]
    at_s = min((s for s in stops_s if s >= last.at_s), default=last.at_s)
    worked_s = (at_s - last.at_s) * factor if last.what != "start" or spell[0].done_s == 0 else 0.0
    return LogLine("killed", last.done_s + worked_s, at_s)

"""A job's whole story: what was seen, decided, changed, and how it ended."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass

from rltune.errors import InputError
from rltune.live.journal.store import Journal


@dataclass(frozen=True, order=True)
class Line:
    """Something that happened at a time; what was decided in a moment comes before what was done."""

    at_s: float
    step: int
    text: str

    def __str__(self) -> str:
        when = dt.datetime.fromtimestamp(self.at_s, dt.UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        return f"{when}  {self.text}"


def story(journal: Journal, job: int) -> list[Line]:
    """Return everything about a job, in order."""
    lines = sorted([*_notes(journal, job), *_changes(journal, job)])
    if not lines:
        raise InputError(f"{journal.path}: tells nothing of job {job}")
    return lines


def _notes(journal: Journal, job: int) -> list[Line]:
    rows = journal.rows("SELECT at_s, id, text, cycle FROM note WHERE job = ?", job)
    return [Line(at_s, 0, f"{text}  [cycle {cycle}]") for at_s, _, text, cycle in rows]


def _changes(journal: Journal, job: int) -> list[Line]:
    rows = journal.rows(
        "SELECT change.at_s, change.id, kind, value, before, undo, advised, outcome.at_s, error "
        "FROM change LEFT JOIN outcome ON outcome.change = change.id WHERE job = ?",
        job,
    )
    return [Line(row[0], 1, _change(*row[2:])) for row in rows]


def _change(
    kind: str, value: str, before: str, undo: int, advised: int, done_s: float | None, error: str | None
) -> str:
    what = f"{kind} given back: {_shown(value)}" if undo else f"{kind} {_shown(before)} -> {_shown(value)}"
    if advised:
        return f"advised: {what}"
    if done_s is None:
        return f"{what}: nobody knows whether it was made"
    return f"{what}: {error or 'done'}"


def _shown(value: str) -> str:
    plain = json.loads(value)
    return (",".join(plain) or "none") if isinstance(plain, list) else str(plain)

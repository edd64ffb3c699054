"""A job's whole story: what was seen, decided, changed, and how it ended."""

from __future__ import annotations

import datetime as dt
import json
import math
from dataclasses import dataclass

from rltune.errors import InputError
from rltune.live.journal.packing import unpack_snapshot
from rltune.live.journal.store import Journal
from rltune.live.see.snapshot import LiveJob


@dataclass(frozen=True, order=True)
class Line:
    """Something that happened at a time; what was decided in a moment comes before what was done."""

    at_s: float
    step: int
    text: str

    def __str__(self) -> str:
        when = dt.datetime.fromtimestamp(self.at_s, dt.UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        return f"{when}  {self.text}"


def story(journal: Journal, job: int, life: LiveJob | None = None) -> list[Line]:
    """Return everything about a job, in order; of several that had its number, about the newest, or about `life`."""
    told = last_seen(journal, job) if life is None else life
    lines = [] if told is None else _lines(journal, told)
    if not lines:
        raise InputError(f"{journal.path}: tells nothing of job {job}")
    return lines


def last_seen(journal: Journal, job: int) -> LiveJob | None:
    """Return the newest job of a number as the journal last had something to tell of it; None if it never had."""
    newest = journal.rows("SELECT max(cycle) FROM note WHERE job = ?", job)[0][0]
    if newest is None:
        return None
    return unpack_snapshot(journal.cycle(newest).snapshot).job_by_id.get(job)


def _lines(journal: Journal, life: LiveJob) -> list[Line]:
    """Return what was told since this job came and before the next one that had its number.

    Numbers come again, after Slurm's highest and in a Slurm that was set up anew: what was told before belongs to
    another job, and often to another user.
    """
    after = [math.inf if math.isnan(life.end_s) else life.end_s]
    later = journal.rows("SELECT min(submit_s) FROM ended WHERE job = ? AND submit_s > ?", life.id, *after)[0][0]
    span = (life.id, _came_s(journal, life), math.inf if later is None else later)
    return sorted([*_notes(journal, *span), *_changes(journal, *span)])


def _came_s(journal: Journal, life: LiveJob) -> float:
    """Return when this job was submitted first: a requeue is a new submission to Slurm, but the same job.

    Once a job has ended, only its spells in the journal tell.
    """
    if not life.restarts or not journal.keeps_spells:
        return life.came_s
    first = journal.rows(
        "SELECT min(submit_s) FROM spell WHERE job = ? AND restarts < ? AND start_s < ? AND start_s > "
        "coalesce((SELECT max(end_s) FROM ended WHERE job = ? AND submit_s < ?), 0.0)",
        *(life.id, life.restarts, life.submit_s, life.id, life.submit_s),
    )[0][0]
    return life.came_s if first is None else min(life.came_s, first)


def _notes(journal: Journal, job: int, since_s: float, until_s: float) -> list[Line]:
    rows = journal.rows(
        "SELECT note.at_s, text, cycle FROM note JOIN cycle ON cycle.id = note.cycle "
        "WHERE job = ? AND taken_s >= ? AND taken_s < ?",
        job,
        since_s,
        until_s,
    )
    return [Line(at_s, 0, f"{text}  [cycle {cycle}]") for at_s, text, cycle in rows]


def _changes(journal: Journal, job: int, since_s: float, until_s: float) -> list[Line]:
    rows = journal.rows(
        "SELECT change.at_s, kind, value, before, undo, advised, outcome.at_s, error "
        "FROM change LEFT JOIN outcome ON outcome.change = change.id WHERE job = ? AND submit_s >= ? AND submit_s < ?",
        job,
        since_s,
        until_s,
    )
    return [Line(row[0], 1, _change(*row[1:])) for row in rows]


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

"""What a caller who may see one user's jobs is told of the others: that they are there, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rltune.errors import InputError
from rltune.live.journal.ended import COLUMNS, Ended
from rltune.live.journal.store import Journal
from rltune.live.journal.story import Line, last_seen, story
from rltune.live.see.snapshot import LiveJob
from rltune.serve.job_rows import JobPage, JobQuery, JobRow, SearchedRows, page_of
from rltune.serve.sight import Sight
from rltune.serve.tokens import Caller
from rltune.whatif import WhatIf

_JOBS = re.compile(r"\bjobs? \d[\w\[\]%,:-]*(?:, \d[\w\[\]%:-]*)*")
_PEOPLE = frozenset({"user", "account"})
OTHERS = "a job of another user"


def find_row(sight: Sight, job: int, caller: Caller) -> JobRow | None:
    """Return the row of a job that waits or runs, if there is one and the caller may see it."""
    row = sight.row_by_id.get(job)
    return row_for(row, caller) if row is not None and caller.may_see(row.user) else None


def visible_rows(sight: Sight, caller: Caller) -> Sequence[JobRow]:
    """Return the rows that a caller may see, as it may see them."""
    if not caller.user:
        return sight.rows
    return [row_for(row, caller) for row in sight.rows if caller.may_see(row.user)]


def find_jobs(sight: Sight, caller: Caller, query: JobQuery) -> JobPage:
    """Return the page of jobs that a caller asks for, of those that it may see."""
    rows = sight.in_order(query.sort)
    if not caller.user:
        return page_of(sight, rows, query, sight.searched)
    own = [row_for(row, caller) for row in rows if caller.may_see(row.user)]
    return page_of(sight, own, query, SearchedRows(own))  # of what it is shown: else a search would tell the rest


def row_for(row: JobRow, caller: Caller) -> JobRow:
    """Return a row without the names of other people's jobs."""
    if not caller.user or not _JOBS.search(row.reason):
        return row
    return row.model_copy(update={"reason": without_jobs(row.reason)})


def without_jobs(text: str) -> str:
    """Write of jobs that they are somebody's, in place of their numbers."""
    return _JOBS.sub(OTHERS, text)


def find_job(journal: Journal, sight: Sight, job: int, caller: Caller) -> LiveJob | None:
    """Return the newest job of a number, also one that is gone, if the journal knows it and the caller may see it."""
    found = sight.snapshot.job_by_id.get(job) or _gone(journal, job)
    return found if found is not None and caller.may_see(found.user) else None


def _gone(journal: Journal, job: int) -> LiveJob | None:
    """Return a job that Slurm shows no more; as it ended, unless another one had its number after that."""
    seen, ended = last_seen(journal, job), last_ended(journal, job)
    if seen is None or ended is None:
        return seen or ended
    if ended.submit_s == seen.submit_s:  # how it ended does not tell how often it had been requeued
        return replace(ended, restarts=seen.restarts, first_submit_s=seen.first_submit_s)
    return ended if ended.submit_s >= seen.came_s else seen


def last_ended(journal: Journal, job: int) -> LiveJob | None:
    """Return the newest job of a number that ran and has ended."""
    names = ", ".join(COLUMNS)
    rows = journal.rows(f"SELECT {names} FROM ended WHERE job = ? ORDER BY id DESC LIMIT 1", job)  # noqa: S608  ours
    return Ended.of_row(rows[0]).job if rows else None


def story_of(journal: Journal, life: LiveJob, caller: Caller) -> list[Line]:
    """Return what the journal tells of a job that the caller may see, oldest first; nothing if it tells nothing."""
    try:
        lines = story(journal, life.id, life)
    except InputError:
        return []
    return [Line(line.at_s, line.step, without_jobs(line.text)) for line in lines] if caller.user else lines


def shown_to(made: WhatIf, caller: Caller) -> WhatIf:
    """Return what-if's answer without what single users and accounts gain and lose, to whom those are not shown."""
    if not caller.user:
        return made
    shares = tuple(share for share in made.shares if share.kind not in _PEOPLE)
    return replace(made, shares=shares, small=tuple(group for group in made.small if group.kind not in _PEOPLE))

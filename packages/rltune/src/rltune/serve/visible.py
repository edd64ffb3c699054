"""What a caller who may see one user's jobs is told of the others: that they are there, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rltune.errors import InputError
from rltune.live.journal.store import Journal
from rltune.live.journal.story import Line, story
from rltune.serve.job_rows import JobPage, JobQuery, JobRow, page_of
from rltune.serve.sight import Sight
from rltune.serve.tokens import Caller
from rltune.whatif import WhatIf

_JOBS = re.compile(r"\bjobs? \d[\w\[\]%,:-]*(?:, \d[\w\[\]%:-]*)*")
_PEOPLE = frozenset({"user", "account"})
OTHERS = "a job of another user"


def find_row(sight: Sight, job: int, caller: Caller) -> JobRow | None:
    """Return a job's row if there is one and the caller may see it."""
    row = sight.row_by_id.get(job)
    return row_for(row, caller) if row is not None and caller.may_see(row.user) else None


def visible_rows(sight: Sight, caller: Caller) -> Sequence[JobRow]:
    """Return the rows that a caller may see, as it may see them."""
    if not caller.user:
        return sight.rows
    return [row_for(row, caller) for row in sight.rows if caller.may_see(row.user)]


def find_jobs(sight: Sight, caller: Caller, query: JobQuery) -> JobPage:
    """Return the page of jobs that a caller asks for, of those that it may see."""
    return page_of(sight, visible_rows(sight, caller), query)


def row_for(row: JobRow, caller: Caller) -> JobRow:
    """Return a row without the names of other people's jobs."""
    if not caller.user or not _JOBS.search(row.reason):
        return row
    return row.model_copy(update={"reason": without_jobs(row.reason)})


def without_jobs(text: str) -> str:
    """Write of jobs that they are somebody's, in place of their numbers."""
    return _JOBS.sub(OTHERS, text)


def story_of(journal: Journal, sight: Sight, job: int, caller: Caller) -> list[Line]:
    """Return what the journal tells of a job, oldest first; nothing if it tells nothing, or nothing to this caller."""
    if not caller.may_see(_owner(journal, sight, job)):
        return []
    try:
        lines = story(journal, job)
    except InputError:
        return []
    return [Line(line.at_s, line.step, without_jobs(line.text)) for line in lines] if caller.user else lines


def _owner(journal: Journal, sight: Sight, job: int) -> str:
    """Return whose job it is, or last was; "" if nobody knows."""
    row = sight.row_by_id.get(job)
    if row is not None:
        return row.user
    ended = journal.rows("SELECT user FROM ended WHERE job = ? ORDER BY id DESC LIMIT 1", job)
    return str(ended[0][0]) if ended else ""


def shown_to(made: WhatIf, caller: Caller) -> WhatIf:
    """Return what-if's answer without what single users and accounts gain and lose, to whom those are not shown."""
    if not caller.user:
        return made
    return replace(made, shares=tuple(share for share in made.shares if share.kind not in _PEOPLE))

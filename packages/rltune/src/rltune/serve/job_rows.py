"""Jobs as rows that can be searched, sorted and cut into pages: the same for pages and for programs."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field

from rltune.live.see.snapshot import LiveJob
from rltune.present import Why

if TYPE_CHECKING:
    from rltune.serve.sight import Sight

SortKey = Literal["place", "rank", "id", "user", "partition", "gpus", "wait", "submit"]


class JobRow(BaseModel):
    """One job that waits or runs. Times are seconds since the epoch by the cluster's clock; null = not known."""

    id: int
    name: str
    user: str
    account: str
    partition: str
    qos: str
    state: str
    gpus: int
    gpu_types: list[str]
    nodes: list[str] = Field(description="Where it runs or ran.")
    submit_s: float
    start_s: float | None
    end_s: float | None = Field(description="When it ended; null if it has not.")
    limit_s: float | None
    estimate_s: float | None = Field(description="What is known of its run time.")
    wait_s: float | None = Field(
        description="Since it was submitted, until it started or was cancelled; null if it is gone and nobody saw how."
    )
    place: int | None = Field(description="Its place in the order that is in force, from 1; null if it has none.")
    rank: int | None = Field(description="Its place in the policy's order, from 1; null if it does not compete.")
    slurm_rank: int | None = Field(description="Its place in Slurm's own order, from 1.")
    why: Why | None = Field(description="The kind of reason that it waits for; null if it does not wait.")
    reason: str = Field(description="Why it waits, in words; empty if it does not.")
    expected_s: float | None = Field(description="When the core has reserved its start, in the order in force.")


class JobPage(BaseModel):
    """Some rows of a longer list."""

    cycle: int
    taken_s: float
    total: int = Field(description="Rows that match, on all pages.")
    offset: int
    jobs: list[JobRow]


@dataclass(frozen=True)
class JobQuery:
    """Which rows are asked for, and in which order."""

    search: str = ""
    state: str = ""
    user: str = ""
    partition: str = ""
    reason: Why | Literal[""] = ""
    sort: SortKey = "place"
    descending: bool = False
    offset: int = 0
    limit: int = 100


@dataclass(frozen=True)
class RowChoices:
    """What rows can be chosen by."""

    states: list[str]
    partitions: list[str]
    reasons: list[str]

    @classmethod
    def of(cls, rows: Iterable[JobRow]) -> RowChoices:
        """Gather them."""
        kinds = {(row.state, row.partition, row.why) for row in rows}
        partitions = {name for _, partition, _ in kinds for name in partition.split(",")}
        reasons = {why.value for _, _, why in kinds if why}
        return cls(sorted({state for state, _, _ in kinds}), sorted(partitions), sorted(reasons))


def job_row(sight: Sight, job: LiveJob) -> JobRow:
    """Make the row of one job."""
    part = sight.part(job.id)
    ranks = [at + 1 if at >= 0 else None for at in ((part.rank, part.slurm_rank) if part else (-1, -1))]
    told = sight.explained.reasons.get(job.id)
    seen_s = sight.taken_s if job.id in sight.snapshot.job_by_id else math.nan  # who is gone waits no longer
    until_s = next((t for t in (job.start_s, job.end_s if job.ended else math.nan) if t > 0), seen_s)
    return JobRow(
        id=job.id,
        name=job.name,
        user=job.user,
        account=job.account,
        partition=",".join(job.partitions),
        qos=job.qos,
        state=job.state,
        gpus=job.gpus,
        gpu_types=list(job.gpu_types),
        nodes=list(job.node_names),
        submit_s=job.came_s,
        start_s=known(job.start_s),
        end_s=known(job.end_s) if job.ended else None,
        limit_s=known(job.limit_s),
        estimate_s=known(sight.estimates.get(job.id, math.nan)),
        wait_s=max(0.0, until_s - job.came_s) if math.isfinite(until_s) else None,
        place=ranks[0 if sight.cycle.acting else 1],
        rank=ranks[0],
        slurm_rank=ranks[1],
        why=told.why if told else None,
        reason=told.text if told else "",
        expected_s=sight.explained.planned_s.get(job.id),
    )


def known(value: float) -> float | None:
    """Return a number, or None where there is none: JSON has no NaN and no infinity."""
    return float(value) if math.isfinite(value) else None


_SORTS: dict[str, Callable[[JobRow], Any]] = {
    "place": lambda row: (row.place is None, row.place or 0, row.id),
    "rank": lambda row: (row.rank is None, row.rank or 0, row.id),
    "id": lambda row: row.id,
    "user": lambda row: (row.user, row.id),
    "partition": lambda row: (row.partition, row.id),
    "gpus": lambda row: (row.gpus, row.id),
    "wait": lambda row: (row.wait_s, row.id),
    "submit": lambda row: (row.submit_s, row.id),
}


def in_order(rows: Iterable[JobRow], sort: SortKey) -> tuple[JobRow, ...]:
    """Sort rows; no two are equal, so that the order turned round is the other order."""
    return tuple(sorted(rows, key=_SORTS[sort]))


def page_of(sight: Sight, rows: Sequence[JobRow], query: JobQuery, searched: SearchedRows) -> JobPage:
    """Search in rows that are in order, and cut."""
    found = _matching(rows, query, searched)
    begin, end = query.offset, query.offset + query.limit
    part = found[::-1][begin:end] if query.descending else found[begin:end]
    return JobPage(cycle=sight.cycle.id, taken_s=sight.taken_s, total=len(found), offset=query.offset, jobs=list(part))


def _matching(rows: Sequence[JobRow], query: JobQuery, searched: SearchedRows) -> Sequence[JobRow]:
    words = query.search.casefold().split()
    if words:
        ids = searched.ids_with(words)
        rows = [row for row in rows if row.id in ids]
    if not (query.state or query.user or query.partition or query.reason):
        return rows
    state = query.state.upper()
    return [
        row
        for row in rows
        if (not state or row.state == state)
        and (not query.user or row.user == query.user)
        and (not query.partition or query.partition in row.partition.split(","))
        and (not query.reason or query.reason == row.why)
    ]


class SearchedRows:
    """The text of many rows as one, so that a word is looked for once and not once a row."""

    def __init__(self, rows: Iterable[JobRow]) -> None:
        self._ids: list[int] = []
        self._ends: list[int] = []  # where each row's text ends in the whole
        texts, end = [], -1
        for row in rows:
            texts.append(text_of_row(row))
            end += len(texts[-1]) + 1
            self._ids.append(row.id)
            self._ends.append(end)
        self._text = "\n".join(texts)  # no word has a line's end in it

    def ids_with(self, words: Sequence[str]) -> set[int]:
        """Return the rows that have every word, anywhere; words are folded, without spaces."""
        return set.intersection(*(self._ids_with(word) for word in words))

    def _ids_with(self, word: str) -> set[int]:
        ids, at = set(), self._text.find(word)
        while at >= 0:
            row = bisect_right(self._ends, at)
            ids.add(self._ids[row])
            at = self._text.find(word, self._ends[row])
        return ids


def text_of_row(row: JobRow) -> str:
    """Return what a search looks at."""
    words = (row.id, row.name, row.user, row.account, row.partition, row.qos, row.why or "", row.reason)
    return " ".join(map(str, words)).casefold()

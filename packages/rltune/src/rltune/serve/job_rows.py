"""Jobs as rows that can be searched, sorted and cut into pages: the same for pages and for programs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field

from rltune.live.see.snapshot import LiveJob

if TYPE_CHECKING:
    from rltune.serve.sight import Sight

_NAMED = re.compile(r"\b(?:a )?(job|constraint|reservation) (?:of another user|\S+)")
STARTS_NOW = "should start now"
SortKey = Literal["rank", "id", "user", "partition", "gpus", "wait", "submit"]


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
    nodes: list[str] = Field(description="Where it runs, or where it should start now.")
    submit_s: float
    start_s: float | None
    limit_s: float | None
    estimate_s: float | None = Field(description="What is known of its run time.")
    wait_s: float = Field(description="Since it was submitted; of a running job until it started.")
    rank: int | None = Field(description="Its place in the policy's order, from 1; null if it does not compete.")
    slurm_rank: int | None = Field(description="Its place in Slurm's own order, from 1.")
    reason: str = Field(description="Why it waits; empty if it runs.")
    expected_s: float | None = Field(description="When the core has reserved its start.")
    starts_now: bool


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
    reason: str = ""
    sort: SortKey = "rank"
    descending: bool = False
    offset: int = 0
    limit: int = 100


def job_row(sight: Sight, job: LiveJob) -> JobRow:
    """Make the row of one job."""
    part = sight.part(job.id)
    waits = part is not None
    until_s = job.start_s if not math.isnan(job.start_s) else sight.taken_s
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
        nodes=list(job.node_names if job.on_nodes else part.nodes if part else ()),
        submit_s=job.came_s,
        start_s=known(job.start_s),
        limit_s=known(job.limit_s),
        estimate_s=known(sight.estimates.get(job.id, math.nan)),
        wait_s=max(0.0, until_s - job.came_s),
        rank=part.rank + 1 if part and part.rank >= 0 else None,
        slurm_rank=part.slurm_rank + 1 if part and part.slurm_rank >= 0 else None,
        reason=(part.reason or STARTS_NOW) if part else job.reason if job.pending else "",
        expected_s=known(part.reserved_s) if part else None,
        starts_now=bool(waits and part and part.starts),
    )


def reason_class(reason: str) -> str:
    """Return what is the same for many jobs of a reason, without numbers and names."""
    return _NAMED.sub(r"\1", reason).partition(":")[0].partition(",")[0].strip()


def known(value: float) -> float | None:
    """Return a number, or None where there is none: JSON has no NaN and no infinity."""
    return float(value) if math.isfinite(value) else None


_SORTS: dict[str, Callable[[JobRow], Any]] = {
    "rank": lambda row: (row.rank is None, row.rank or 0, row.id),
    "id": lambda row: row.id,
    "user": lambda row: (row.user, row.id),
    "partition": lambda row: (row.partition, row.id),
    "gpus": lambda row: (row.gpus, row.id),
    "wait": lambda row: (row.wait_s, row.id),
    "submit": lambda row: (row.submit_s, row.id),
}


def page_of(sight: Sight, rows: Sequence[JobRow], query: JobQuery) -> JobPage:
    """Search, sort and cut."""
    found = sorted(_matching(rows, query), key=_SORTS[query.sort], reverse=query.descending)
    part = found[query.offset : query.offset + query.limit]
    return JobPage(cycle=sight.cycle.id, taken_s=sight.taken_s, total=len(found), offset=query.offset, jobs=part)


def _matching(rows: Iterable[JobRow], query: JobQuery) -> Iterable[JobRow]:
    words = query.search.casefold().split()
    for row in rows:
        fits = (
            (not query.state or row.state == query.state.upper())
            and (not query.user or row.user == query.user)
            and (not query.partition or query.partition in row.partition.split(","))
            and (not query.reason or query.reason in {row.reason, reason_class(row.reason)})
        )
        if fits and all(word in _text(row) for word in words):
            yield row


def _text(row: JobRow) -> str:
    return f"{row.id} {row.name} {row.user} {row.account} {row.partition} {row.qos} {row.reason}".casefold()

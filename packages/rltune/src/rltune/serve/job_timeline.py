"""Jobs over time: when those that ended waited and ran, how long the running ones are expected to, who is next."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rltune.live.journal.store import Journal
from rltune.serve.sight import Sight
from rltune.serve.tokens import Caller

_ENDED, _RUNNING, _WAITING = 40, 60, 60  # the most of each
_HOUR_S = 3600.0


@dataclass(frozen=True)
class Bar:
    """One job, in percent of the width."""

    job: int
    text: str
    kind: str  # ended, running or waiting
    wait: tuple[float, float] | None  # from, width
    run: tuple[float, float] | None
    expected: tuple[float, float] | None


@dataclass(frozen=True)
class JobTimeline:
    """Bars between two times, and where now is."""

    from_s: float
    until_s: float
    now: float  # in percent of the width
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class _Job:
    job: int
    text: str
    kind: str
    submit_s: float
    start_s: float  # NaN = not known
    end_s: float  # NaN = not known
    sure_until_s: float  # from here on it is expected, not seen


def timeline(journal: Journal, sight: Sight, caller: Caller) -> JobTimeline:
    """Draw the newest ended jobs, the running and the first waiting ones."""
    now = sight.taken_s
    jobs = [*_ended(journal, caller), *_alive(sight, caller)]
    ends = [job.end_s for job in jobs if not math.isnan(job.end_s)]
    first = min((job.submit_s for job in jobs if job.kind == "ended"), default=now - _HOUR_S)
    first = max(first, now - 24 * _HOUR_S)
    last = min(max([now + _HOUR_S, *ends]), now + 24 * _HOUR_S)
    scale = 100.0 / (last - first)
    bars = tuple(_bar(job, first, last, scale, now) for job in jobs)
    return JobTimeline(first, last, (now - first) * scale, bars)


def _ended(journal: Journal, caller: Caller) -> list[_Job]:
    newest = [one.job for one in journal.ended(_ENDED * (10 if caller.user else 1)) if caller.may_see(one.job.user)]
    return [
        _Job(j.id, f"{j.name or j.id}, {j.gpus} GPUs", "ended", j.came_s, j.start_s, j.end_s, j.end_s)
        for j in reversed(newest[:_ENDED])
    ]


def _alive(sight: Sight, caller: Caller) -> list[_Job]:
    now, made = sight.taken_s, []
    running = [row for row in sight.rows if row.start_s is not None and caller.may_see(row.user)][:_RUNNING]
    waiting = [row for row in sight.rows if row.start_s is None and caller.may_see(row.user)][:_WAITING]
    for row in (*running, *waiting):
        start = row.start_s if row.start_s is not None else row.expected_s or math.nan
        if row.starts_now:
            start = now
        end = max(now, start + (row.estimate_s or 0.0)) if not math.isnan(start) else math.nan
        kind = "running" if row.start_s is not None else "waiting"
        made.append(_Job(row.id, f"{row.name or row.id}, {row.gpus} GPUs", kind, row.submit_s, start, end, now))
    return made


def _bar(job: _Job, first: float, last: float, scale: float, now: float) -> Bar:
    def part(from_s: float, until_s: float) -> tuple[float, float] | None:
        begin, end = max(first, from_s), min(last, until_s)
        return (round((begin - first) * scale, 3), round((end - begin) * scale, 3)) if end > begin else None

    started = not math.isnan(job.start_s) and job.start_s <= now
    return Bar(
        job=job.job,
        text=job.text,
        kind=job.kind,
        wait=part(job.submit_s, job.start_s if started else now),
        run=part(job.start_s, min(job.end_s, job.sure_until_s)) if started else None,
        expected=None if math.isnan(job.end_s) else part(max(job.start_s, job.sure_until_s), job.end_s),
    )

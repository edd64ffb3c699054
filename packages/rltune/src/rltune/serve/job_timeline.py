"""Jobs over time: when those that ended waited and ran, how long the running ones are expected to, who is next."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rltune.forecast import Forecast
from rltune.live.journal.store import Journal
from rltune.present import Why
from rltune.serve.job_rows import JobRow
from rltune.serve.sight import Sight
from rltune.serve.tokens import Caller
from rltune.text import counted

_ENDED, _RUNNING, _WAITING = 20, 25, 30  # the most of each
_HOUR_S, _DAY_S = 3600.0, 86_400.0
_STEPS_S = (600.0, 1800.0, _HOUR_S, 2 * _HOUR_S, 4 * _HOUR_S, 6 * _HOUR_S, 12 * _HOUR_S)
_MOST_TICKS = 7
_PAST = 1 / 3  # of the time to come, at least: or what runs would have no beginning


@dataclass(frozen=True)
class Bar:
    """One job, in percent of the width."""

    job: int
    name: str
    gpus: str  # how many it asks for
    kind: str  # ended, running or waiting
    wait: tuple[float, float] | None  # from, width
    run: tuple[float, float] | None
    expected: tuple[float, float] | None
    may_start: tuple[float, float] | None  # from p10 to p90 of the forecast


@dataclass(frozen=True)
class Tick:
    """A time on the axis, and where it is in percent of the width."""

    at_s: float
    x: float
    minor: bool = False  # left out where there is little room; midnight, which is written as its day, never is


@dataclass(frozen=True)
class JobTimeline:
    """Bars between two times, and where now is."""

    from_s: float
    until_s: float
    now: float  # in percent of the width
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]

    def of(self, kind: str) -> list[Bar]:
        """Return the bars of one kind."""
        return [bar for bar in self.bars if bar.kind == kind]


@dataclass(frozen=True)
class _Job:
    job: int
    name: str
    gpus: str
    kind: str
    submit_s: float
    start_s: float  # NaN = not known
    end_s: float  # NaN = not known
    sure_until_s: float  # from here on it is expected, not seen
    may_start_s: tuple[float, float] = (math.nan, math.nan)


def timeline(journal: Journal, sight: Sight, caller: Caller, forecast: Forecast | None = None) -> JobTimeline:
    """Draw the newest ended jobs, the running ones and those of the waiting that start first."""
    now = sight.taken_s
    jobs = [*_ended(journal, caller, now), *_running(sight, caller), *_waiting(sight, caller, forecast)]
    ends = [job.end_s for job in jobs if not math.isnan(job.end_s)]
    first = min((job.submit_s for job in jobs if job.kind == "ended"), default=now - _HOUR_S)
    last = min(max([now + _HOUR_S, *ends]), now + 24 * _HOUR_S)
    first = max(min(first, now - _PAST * (last - now)), now - 24 * _HOUR_S)
    scale = 100.0 / (last - first)
    bars = tuple(_bar(job, first, last, scale, now) for job in jobs)
    return JobTimeline(first, last, (now - first) * scale, bars, tuple(_ticks(first, last)))


def _ticks(first: float, last: float) -> Iterator[Tick]:
    """Yield round times, about six."""
    step = next((step for step in _STEPS_S if (last - first) / step <= _MOST_TICKS), _STEPS_S[-1])
    numbers = range(math.ceil(first / step), math.floor(last / step) + 1)
    day = next((number for number in numbers if number * step % _DAY_S == 0), numbers.start)
    for number in numbers:
        at_s = number * step
        yield Tick(at_s, round(100 * (at_s - first) / (last - first), 3), (number - day) % 2 == 1)


def _ended(journal: Journal, caller: Caller, now: float) -> list[_Job]:
    """Return the newest that had ended by now: the journal may have gone on since."""
    known = [one.job for one in journal.ended(_ENDED * (10 if caller.user else 2)) if caller.may_see(one.job.user)]
    newest = [job for job in known if job.end_s <= now]
    return [
        _Job(j.id, j.name, counted(j.gpus, "GPU"), "ended", j.came_s, j.start_s, j.end_s, j.end_s)
        for j in reversed(newest[:_ENDED])
    ]


def _running(sight: Sight, caller: Caller) -> list[_Job]:
    rows = [row for row in sight.rows if row.start_s is not None and caller.may_see(row.user)]
    newest = sorted(rows, key=lambda row: -(row.start_s or 0.0))[:_RUNNING]
    return [_alive(row, "running", row.start_s or 0.0, sight.taken_s) for row in reversed(newest)]


def _waiting(sight: Sight, caller: Caller, forecast: Forecast | None) -> list[_Job]:
    """Return the jobs that wait, by the forecast where there is one, else by what the core has reserved."""
    now, made = sight.taken_s, []
    for row in sight.rows:
        if row.start_s is not None or not caller.may_see(row.user):
            continue
        told = forecast.by_job.get(sight.snapshot.job_by_id[row.id].command_name) if forecast else None
        if told is not None and math.isfinite(told.p50_s):
            made.append(
                replace(_alive(row, "waiting", max(now, told.p50_s), now), may_start_s=(told.p10_s, told.p90_s))
            )
        else:
            start = now if row.why is Why.STARTS else row.expected_s if row.expected_s is not None else math.nan
            made.append(_alive(row, "waiting", start, now))
    return sorted(made, key=lambda job: (math.isnan(job.start_s), job.start_s, job.job))[:_WAITING]


def _alive(row: JobRow, kind: str, start_s: float, now: float) -> _Job:
    end = max(now, start_s + (row.estimate_s or 0.0)) if not math.isnan(start_s) else math.nan
    return _Job(row.id, row.name, counted(row.gpus, "GPU"), kind, row.submit_s, start_s, end, now)


def _bar(job: _Job, first: float, last: float, scale: float, now: float) -> Bar:
    def part(from_s: float, until_s: float) -> tuple[float, float] | None:
        begin, end = max(first, from_s), min(last, until_s)
        return (round((begin - first) * scale, 3), round((end - begin) * scale, 3)) if end > begin else None

    started = job.kind != "waiting" and job.start_s <= now
    return Bar(
        job=job.job,
        name=job.name,
        gpus=job.gpus,
        kind=job.kind,
        wait=part(job.submit_s, job.start_s if started else now),
        run=part(job.start_s, min(job.end_s, job.sure_until_s)) if started else None,
        expected=None if math.isnan(job.end_s) else part(max(job.start_s, job.sure_until_s), job.end_s),
        may_start=None if math.isnan(job.may_start_s[0]) else part(*job.may_start_s),
    )

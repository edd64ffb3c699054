"""A cluster at one moment: what runs where, what waits, in which order, and what is known of run times.

A live Slurm, a cycle of the controller's journal, a history replayed to a time and a running simulation all become this
value. Whoever asks why, when or what if asks it of a Present, and the answer is made by the core.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from rltune.cluster import Cluster
from rltune.engine.filled_moment import Seats
from rltune.engine.pipeline import Pipeline
from rltune.errors import InputError, shown
from rltune.jobs import Floats, Jobs
from rltune.kernel.state.arrays import B1, I8
from rltune.present.told_date import date_and_time
from rltune.text import counted, elapsed, seconds

_EPOCH_SINCE_S = 5e8  # a time above is a date; one below counts from the beginning of a trace
_MOST_NAMED = 10  # waiting jobs


class Why(StrEnum):
    """Why a job waits; one word of each kind."""

    STARTS = "starts now"  # nothing holds it: it starts in this very pass
    NO_FIT = "no fit"  # GPUs would do, but CPUs or memory of their nodes do not
    FRAGMENTED = "fragmented"  # enough GPUs are free, but not on as few nodes as it asks
    FULL = "full"  # the GPUs of its type, or of its partition, are in use
    DOWN = "nodes down"  # too few of the nodes that it may use are up, whoever ends
    RESERVED = "reserved for"  # it would fit, but would delay a job that has its place reserved, or nodes are set aside
    MAINTENANCE = "maintenance"
    PRIORITY = "lower priority"  # others are before it
    GUARD = "guard"  # others are before it because they are owed their start, or have an agreement
    DEPENDENCY = "dependency"
    HOLD = "hold"
    LIMIT = "limit"
    OUT_OF_VIEW = "out of view"
    NEVER = "never fits"
    NOT_YET = "not yet"  # asked to begin later
    LEFT = "left to Slurm"  # what the core does not decide


THROTTLE_STEP = (
    "wait until other tasks of its array have ended, or let more run at once: "
    "scontrol update JobId={job} ArrayTaskThrottle=N"
)


@dataclass(frozen=True)
class Aside:
    """Why a job that waits takes no part in the core's queue."""

    why: Why
    text: str
    step: str = ""  # what its user can do, if that is not the same for all of the kind; {job} is its number


@dataclass(frozen=True)
class SetAside:
    """Nodes set aside from start to end."""

    name: str
    start_s: float
    end_s: float
    nodes: frozenset[int]
    maintenance: bool = True
    who: str = ""  # for whom, if for somebody


@dataclass(frozen=True)
class Replayed:
    """What became of a history's jobs in a replay up to a moment, and what was recorded of them."""

    row_of: Mapping[str, int] = field(repr=False)  # by job, as its user knows it
    now_s: float
    submit_s: Floats = field(repr=False)
    start_s: Floats = field(repr=False)  # in the replay; NaN = not started up to now
    over: B1 = field(repr=False)
    recorded_start_s: Floats = field(repr=False)  # NaN = not told
    origin_s: float | None = None  # the date, in seconds since 1970, of time 0

    def why_not_waiting(self, job: str) -> str:
        """Say what a job of the history does, if it does not wait; nothing of one that is not in it."""
        row = self.row_of.get(job)
        if row is None:
            return ""
        if self.submit_s[row] > self.now_s:
            return f"is submitted at {told_moment(self.submit_s[row], self.origin_s)}, after the time asked for"
        if np.isnan(self.start_s[row]):
            return ""
        since = f"started at {told_moment(self.start_s[row], self.origin_s)} in the replay"
        return f"{since} and {'is over' if self.over[row] else 'runs'}"

    def recorded_of(self, job: str) -> str:
        """Say when a job started in truth; nothing where the history tells no starts."""
        row = self.row_of.get(job)
        if row is None or np.isnan(self.recorded_start_s).all():
            return ""
        start_s = float(self.recorded_start_s[row])
        if np.isnan(start_s):
            return "no start"
        began = f"started {told_moment(start_s, self.origin_s)}"
        return (
            f"{began}, after the time asked for" if start_s > self.now_s else f"{began}; it waits in the replay alone"
        )


def told_moment(time_s: float, origin_s: float | None) -> str:
    """Write a time of a history: its date, or the seconds of one without dates."""
    return f"{time_s:g} s" if origin_s is None else date_and_time(origin_s + time_s)


@dataclass(frozen=True)
class Present:
    """One moment. Rows of `jobs` are in order of submission; a job may have several rows (pieces, tasks)."""

    now_s: float
    cluster: Cluster
    jobs: Jobs = field(repr=False)  # what runs and what waits; `duration_s` means nothing here
    names: tuple[str, ...] = field(repr=False)  # of each row's job, as its user knows it
    estimate_s: Floats = field(repr=False)  # of each row's whole run time
    seats: Seats = field(repr=False)
    waiting: I8 = field(repr=False)  # rows in the core's queue, or held by a dependency or a limit that it knows
    pipeline: Pipeline  # the order in force
    source: str = ""  # where this comes from, for the reader
    node_names: tuple[str, ...] = field(default=(), repr=False)
    down: tuple[int, ...] = field(default=(), repr=False)
    asides: Mapping[str, Aside] = field(default_factory=dict, repr=False)  # by job, of those not in the queue
    windows: tuple[SetAside, ...] = field(default=(), repr=False)
    history: Jobs | None = field(default=None, repr=False)  # jobs that have ended, with their recorded starts
    history_estimate_s: Floats | None = field(default=None, repr=False)  # what those were taken to run, by row
    alike: Jobs | None = field(default=None, repr=False)  # rows as history would record their jobs, if `jobs` does not
    admission: Mapping[str, str] = field(default_factory=dict, repr=False)  # history's partitions in its words
    offered: Pipeline | None = None  # in shadow: what would order the queue if it were let
    replayed: Replayed | None = field(default=None, repr=False)  # of a history, its jobs
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.names) == len(self.jobs) == len(self.estimate_s):
            raise InputError("a present needs one name and one estimate for each job")

    @cached_property
    def rows_of(self) -> dict[str, list[int]]:
        """Return the rows of each job by its name."""
        found: dict[str, list[int]] = {}
        for row, name in enumerate(self.names):
            found.setdefault(name, []).append(row)
        return found

    @cached_property
    def waiting_names(self) -> tuple[str, ...]:
        """Name the waiting jobs of the queue, each once, oldest first."""
        return tuple(self.waiting_rows)

    @cached_property
    def running_names(self) -> tuple[str, ...]:
        """Name the running jobs, each once, in order of start."""
        return tuple(dict.fromkeys(self.names[row] for row in self.seats.rows.tolist()))

    @cached_property
    def waiting_rows(self) -> dict[str, int]:
        """Return the row of each waiting job, the first of several tasks, oldest first."""
        found: dict[str, int] = {}
        for row in np.sort(self.waiting).tolist():
            found.setdefault(self.names[row], row)
        return found

    def waiting_row(self, job: str) -> int:
        """Return the row of a waiting job, the first of several tasks; InputError if it does not wait."""
        if job in self.waiting_rows:
            return self.waiting_rows[job]
        if self.replayed is not None and (told := self.replayed.why_not_waiting(job)):
            raise InputError(f"job {job} {told}; only a job that waits can be explained")
        if job in self.rows_of:
            raise InputError(f"job {job} runs; only a job that waits can be explained")
        raise InputError(f"no waiting job {shown(job)}; {self._told_waiting()}")

    def _told_waiting(self) -> str:
        """Name who waits, the oldest first: the nearest number would be another job."""
        some = self.waiting_names[:_MOST_NAMED]
        more = len(self.waiting_names) - len(some)
        return f"there are: {', '.join(some)}{f' and {more:,} more' if more else ''}" if some else "there is none"

    @property
    def recorded(self) -> Jobs:
        """Return the rows as history would record their jobs: whole, under the partition that they were sent to."""
        return self.jobs if self.alike is None else self.alike

    def node_name(self, node: int) -> str:
        """Name a node."""
        return self.node_names[node] if self.node_names else f"node {node}"

    def told_time(self, time_s: float) -> str:
        """Write a time for the reader: a date, or the time from now where a trace has no dates."""
        return told_time(time_s, self.now_s)

    def with_row(self, row: int, **columns: Any) -> Present:
        """Return the same moment with some cells of one waiting row changed; see `Jobs` for the columns."""
        jobs, estimate_s = self.jobs, self.estimate_s
        changed: dict[str, Any] = {}
        for name, value in columns.items():
            if name == "estimate_s":
                estimate_s = estimate_s.copy()
                estimate_s[row] = value
                continue
            column = getattr(jobs, name)
            changed[name] = column.with_name(row, value) if hasattr(column, "codes") else _with_cell(column, row, value)
        return replace(self, jobs=jobs.with_columns(**changed), estimate_s=estimate_s)

    def __str__(self) -> str:
        running, waiting = counted(len(self.running_names), "job"), counted(len(self.waiting_names), "job")
        aside = f", {counted(len(self.asides), 'job')} held or left out" if self.asides else ""
        return f"{self.source or 'a moment'}: {running} run, {waiting} wait{aside}; {self.pipeline.label}"

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON keeps: the moment in short."""
        return {
            "source": self.source,
            "now_s": self.now_s,
            "pipeline": self.pipeline.label,
            "nodes": self.cluster.node_count,
            "gpus": self.cluster.gpu_count,
            "running": len(self.running_names),
            "waiting": len(self.waiting_names),
            "aside": len(self.asides),
            "notes": list(self.notes),
        }


def told_time(time_s: float, now_s: float) -> str:
    """Write a time for the reader: 14:20 UTC, with the date on another day; from now in a trace without dates."""
    if not np.isfinite(time_s):
        return "no time that is known"
    if now_s < _EPOCH_SINCE_S:
        return f"in {seconds(time_s - now_s)}" if time_s > now_s else "now"
    when, now = (datetime.fromtimestamp(t, UTC) for t in (time_s, now_s))
    return when.strftime("%H:%M UTC" if when.date() == now.date() else "%Y-%m-%d %H:%M UTC")


def told_times(times_s: Iterable[float], now_s: float, unknown: str) -> list[str]:
    """Write the times of a table alike: with the date if one is on another day; from now in a trace without dates."""
    times = list(times_s)
    if now_s < _EPOCH_SINCE_S:
        return [elapsed(t - now_s) if np.isfinite(t) else unknown for t in times]
    dates = [datetime.fromtimestamp(t, UTC) if np.isfinite(t) else None for t in times]
    today = datetime.fromtimestamp(now_s, UTC).date()
    form = "%H:%M UTC" if all(date is None or date.date() == today for date in dates) else "%Y-%m-%d %H:%M UTC"
    return [unknown if date is None else date.strftime(form) for date in dates]


def told_unit(now_s: float) -> str:
    """Return what stands beside such a table."""
    return ", d-hh:mm from now" if now_s < _EPOCH_SINCE_S else ""


def _with_cell(column: Any, row: int, value: Any) -> Any:
    changed = column.copy()
    changed[row] = value
    return changed

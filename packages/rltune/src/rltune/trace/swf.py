"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, -1 for what is not known.

Processors stand for GPUs. https://www.cs.huji.ac.il/labs/parallel/workload/swf.html
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from rltune.trace.columns import MAX_COUNT, MAX_TIME_S
from rltune.trace.quality import Ledger
from rltune.trace.read_result import ToldMachine, Trace, build, note_run_times
from rltune.trace.trace_file import DEDUPE

if TYPE_CHECKING:
    from rltune.errors import InputError
    from rltune.trace.trace_file import Source

Floats = NDArray[np.float64]

COLUMNS = (
    "job",
    "submit",
    "wait",
    "run",
    "processors used",
    "CPU time",
    "memory used",
    "processors asked",
    "time asked",
    "memory asked",
    "status",
    "user",
    "group",
    "application",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
STATES = {0: "failed", 1: "completed", 3: "completed", 4: "failed", 5: "killed"}
_PARTIAL = (2, 3, 4)  # bursts of a job, which should have a line for the whole too
_CONTINUED, _CANCELLED = 2, 5
_KIB_PER_GIB = 1024**2
_MACHINE = re.compile(r"^;\s*(MaxNodes|MaxProcs):\s*(\d{1,15})\b", re.MULTILINE)
_HEADER = re.compile(r"^;\s*(UnixStartTime|TimeZoneString|TimeZone):\s*(\S+)", re.MULTILINE)


def looks_like(head: list[str]) -> bool:
    """Return whether lines are SWF: a header of `;` lines, or 18 numbers."""
    body = [line.split() for line in head if not line.startswith(";")]
    if not body:
        return any(line.startswith(";") for line in head)
    with_header = head[0].startswith(";") and _is_number(body[0][0])
    return (with_header or len(body[0]) == len(COLUMNS)) and "," not in head[-1]


def read(source: Source) -> Trace:
    """Read an SWF log; the rules for -1 are in docs/reference/traces.md."""
    lines, table = _numbers(source)
    column = {name: table[:, i] for i, name in enumerate(COLUMNS)}
    ledger = Ledger(source, lines)
    _join_bursts(ledger, column)
    ledger.drop("no-submit-time", column["submit"] == -1)
    _check(source, lines, column, ledger.alive)
    gpus = _processors(ledger, column)
    run, wait = column["run"], column["wait"]
    limit = np.where(column["time asked"] > 0, column["time asked"], np.nan)
    cancelled = (column["status"] == _CANCELLED) & (column["processors used"] <= 0)
    ledger.drop("never-started", cancelled & (run <= 0))
    ledger.drop("no-run-time", run < 0)
    ledger.drop("no-gpu-no-cpu", gpus <= 0)
    ledger.mark("submit-after-start", (wait < 0) & (wait != -1))
    note_run_times(ledger, run, limit)
    _require_unique(source, lines, column["job"], ledger.alive)
    return build(
        ledger,
        "swf",
        machine=told_machine(source.text),
        id=column["job"].astype(np.int64),
        submit_s=column["submit"],
        duration_s=run,
        gpus=gpus,
        mem_gib=np.where(column["memory asked"] > 0, column["memory asked"] * gpus / _KIB_PER_GIB, np.nan),
        limit_s=limit,
        user=_labels(column["user"]),
        account=_labels(column["group"]),
        name=_labels(column["application"]),
        qos=_labels(column["queue"]),
        vc=_labels(column["partition"]),
        state=[STATES.get(int(s)) for s in column["status"]],
        recorded_start_s=np.where(wait >= 0, column["submit"] + wait, np.nan),
        after=_dependencies(ledger, column),
        origin_s=_origin_s(source),
    )


def told_machine(text: str) -> ToldMachine | None:
    """Return the machine of an SWF header; None if it tells no number of processors."""
    told = {name: int(number) for name, number in _MACHINE.findall(text)}
    processors = told.get("MaxProcs") or told.get("MaxNodes") or 0
    return ToldMachine(told.get("MaxNodes") or processors, processors) if processors else None


def _processors(ledger: Ledger, column: dict[str, Floats]) -> Floats:
    """Return what a job held: the processors asked, or those used where more were or none are told to be asked."""
    asked, used = column["processors asked"], column["processors used"]
    ledger.mark("processors-used", (asked <= 0) & (used > 0))
    ledger.mark("more-used-than-asked", (asked > 0) & (used > asked))
    return np.maximum(asked, used)


def _join_bursts(ledger: Ledger, column: dict[str, Floats]) -> None:
    """Leave out the bursts of jobs that have a line for the whole; add up those of jobs that have none.

    Only the first burst of a job has a submit time; the wait of a later one is time since the burst before.
    """
    job, status, run = column["job"], column["status"], column["run"]
    burst = np.isin(status, _PARTIAL)
    whole = np.isin(job, job[~burst])
    ledger.drop("partial-execution", burst & whole)
    alone = np.flatnonzero(burst & ~whole)
    if not len(alone):
        return
    _, first, of = np.unique(job[alone], return_index=True, return_inverse=True)
    total = np.bincount(of, weights=np.maximum(run[alone], 0))
    last = np.zeros(len(first), dtype=np.int64)
    np.maximum.at(last, of, np.arange(len(alone)))
    kept, end = alone[first], alone[last]
    known = np.bincount(of, weights=run[alone] >= 0) > 0
    run[kept], status[kept] = np.where(known, total, -1), status[end]
    rest = np.isin(np.arange(len(job)), alone) & ~np.isin(np.arange(len(job)), kept)
    ledger.drop("earlier-spell", rest)
    several = np.bincount(of) > 1
    ledger.mark("several-spells", np.isin(np.arange(len(job)), kept[several]))
    ledger.mark("cut-off-spell", np.isin(np.arange(len(job)), kept[status[kept] == _CONTINUED]))


def _origin_s(source: Source) -> float | None:
    """Return the site's own clock at time 0, in seconds since 1970, as the header tells it; None if it does not."""
    told = dict(_HEADER.findall(source.text))
    try:
        begin_s = float(told["UnixStartTime"])
        zone = told.get("TimeZoneString", "")
        if zone and begin_s > 0:
            away = datetime.fromtimestamp(begin_s, ZoneInfo(zone)).utcoffset()
            return begin_s + (away.total_seconds() if away is not None else 0.0)
        return begin_s + float(told.get("TimeZone", 0)) if begin_s > 0 else None
    except (KeyError, ValueError, OSError, OverflowError):
        return None


def _numbers(source: Source) -> tuple[NDArray[np.int64], Floats]:
    rows = [(i, line) for i, line in enumerate(source.text.split("\n"), start=1) if line.strip()]
    rows = [(i, line) for i, line in rows if not line.lstrip().startswith(";")]
    if not rows:
        raise source.error("holds a header and no jobs")
    try:
        values = np.loadtxt([line for _, line in rows], comments=None, ndmin=2)
    except ValueError:
        raise _first_problem(source, rows) from None
    if values.shape[1] != len(COLUMNS) or not np.isfinite(values).all():
        raise _first_problem(source, rows)
    return np.array([i for i, _ in rows], dtype=np.int64), values


def _first_problem(source: Source, rows: list[tuple[int, str]]) -> InputError:
    """Find the first line that is not 18 numbers."""
    for i, line in rows:
        fields = line.split()
        if len(fields) != len(COLUMNS):
            return source.error(f"has {len(fields)} fields; a line of SWF has {len(COLUMNS)}", line=i)
        for name, field in zip(COLUMNS, fields, strict=True):
            if not _is_number(field):
                return source.error(f"{field!r} is not a number", i, name)
    return source.error("is not in SWF, the Standard Workload Format")


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text))) and "_" not in text
    except ValueError:
        return False


def _check(source: Source, lines: NDArray[np.int64], column: dict[str, Floats], alive: NDArray[np.bool_]) -> None:
    for name in ("submit", "run"):
        _refuse(source, lines, column, name, alive & (column[name] < -1), "is negative (-1 means not known)")
    most = {"submit": MAX_TIME_S, "wait": MAX_TIME_S, "run": MAX_TIME_S}
    most |= {"processors used": MAX_COUNT, "processors asked": MAX_COUNT}
    for name, high in most.items():
        _refuse(source, lines, column, name, alive & (column[name] > high), f"is more than {high:,.0f}")
    for name in ("job", "processors used", "processors asked"):
        broken = alive & (column[name] != np.floor(column[name]))
        _refuse(source, lines, column, name, broken, "is not a whole number")


def _refuse(
    source: Source,
    lines: NDArray[np.int64],
    column: dict[str, Floats],
    name: str,
    bad: NDArray[np.bool_],
    problem: str,
) -> None:
    if bad.any():
        told = f"{column[name][int(np.argmax(bad))]:g} {problem}"
        raise source.error(told, column=name, lines=lines[bad].tolist())


def _require_unique(source: Source, lines: NDArray[np.int64], ids: Floats, alive: NDArray[np.bool_]) -> None:
    rows = np.flatnonzero(alive)
    order = rows[np.argsort(ids[rows], kind="stable")]
    again = np.flatnonzero(np.diff(ids[order]) == 0)
    if len(again):
        pair = again[np.argmin(lines[order[again + 1]])]
        first, second = int(order[pair]), int(order[pair + 1])
        problem = f"job id {ids[second]:.0f} was used before, in line {lines[first]}"
        raise source.error(f"{problem}; {DEDUPE}", column="job", lines=sorted(lines[order[again + 1]].tolist()))


def _labels(values: Floats) -> list[str | None] | None:
    """Spell numbers as names; a column of nothing but -1 is no column."""
    if (values < 0).all():
        return None
    return [str(v) if v >= 0 else None for v in values.astype(np.int64).tolist()]


def _dependencies(ledger: Ledger, column: dict[str, Floats]) -> Any:
    """List for every row the kept rows it waits for, in terms of kept rows."""
    preceding = column["preceding job"]
    depends = preceding > 0
    if not depends.any():
        return None
    kept = np.flatnonzero(ledger.alive)
    row_of = {int(column["job"][i]): n for n, i in enumerate(kept)}
    before = np.array([row_of.get(int(p), -1) if d else -1 for p, d in zip(preceding, depends, strict=True)])
    # a job that is submitted after the one that waits for it would hold it for ever
    submit = column["submit"]
    comes_first = (before >= 0) & (submit[kept[before]] <= submit) & (column["job"][kept[before]] != column["job"])
    ledger.mark("unknown-dependency", depends & ~comes_first)
    return [[int(b)] if good else [] for b, good in zip(before, comes_first, strict=True)]

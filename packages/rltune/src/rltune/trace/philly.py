"""Microsoft Philly: `cluster_job_log`, the JSON of msr-fiddle/philly-traces (Jeon et al., USENIX ATC'19)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.hostlist import is_hostlist
from rltune.trace.columns import NOTHING
from rltune.trace.quality import Ledger
from rltune.trace.read_result import Trace, build, note_run_times

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rltune.trace.trace_file import Source

STATES = {"Pass": "completed", "Killed": "killed", "Failed": "failed"}
KEYS = ("status", "vc", "jobid", "attempts", "submitted_time", "user")
_NAN = float("nan")


def looks_like(head: list[str]) -> bool:
    """Return whether the file is a JSON list of jobs with attempts."""
    text = "\n".join(head)
    return text.lstrip().startswith(("[", "{")) and '"jobid"' in text


def read(source: Source) -> Trace:
    """Read the job log: GPUs are those of the attempts, run time is their sum."""
    entries = _entries(source)
    lines = _lines(source, len(entries))
    jobs = [_job(source, entry, int(line)) for entry, line in zip(entries, lines, strict=True)]
    ledger = Ledger(source, lines)
    submit, start, duration, gpus, ran = (
        np.array([getattr(job, name) for job in jobs], dtype=np.float64)
        for name in ("submit_s", "start_s", "duration_s", "gpus", "attempts")
    )
    ledger.drop("never-started", ran == 0)
    ledger.drop("still-running", np.array([job.running for job in jobs]))
    ledger.drop("end-before-start", np.array([job.reversed for job in jobs]) & np.isnan(duration))
    ledger.drop("no-run-time", np.isnan(duration))
    ledger.drop("no-gpu-no-cpu", gpus == 0)
    ledger.mark("several-attempts", ran > 1)
    ledger.mark("attempt-without-times", np.array([job.left_out for job in jobs]))
    ledger.mark("attempts-differ", np.array([job.differ for job in jobs]))
    ledger.mark("submit-is-start", np.isnan(submit))
    submit = np.where(np.isnan(submit), start, submit)
    early = start < submit
    ledger.mark("submit-after-start", early)
    note_run_times(ledger, duration)
    return build(
        ledger,
        "philly",
        clock=True,
        id=_unique(source, lines, [job.id for job in jobs]),
        submit_s=submit,
        duration_s=duration,
        gpus=gpus,
        vc=[job.vc for job in jobs],
        user=[job.user for job in jobs],
        state=[STATES.get(job.status) for job in jobs],
        recorded_start_s=np.where(early, np.nan, start),
        recorded_nodes=[job.nodes for job in jobs],
    )


@dataclass(frozen=True)
class _Job:
    id: str
    vc: str | None
    user: str | None
    status: str
    submit_s: float  # NaN = not told
    start_s: float  # of the first attempt with times
    duration_s: float  # over all attempts with times; NaN if there is none
    gpus: int
    nodes: str | None  # of the attempt of start_s
    attempts: int
    running: bool  # the last attempt has not ended
    reversed: bool  # some attempt ends before it starts
    left_out: bool  # some attempt could not be counted
    differ: bool  # attempts had different numbers of GPUs


def _entries(source: Source) -> list[Any]:
    try:
        entries = json.loads(source.text)
    except json.JSONDecodeError as error:
        problem = f"is not valid JSON ({error.msg} at character {error.colno}); is the file complete?"
        raise source.error(problem, line=error.lineno) from None
    except RecursionError:
        raise source.error("is not a list of jobs (brackets nested too deep)") from None
    if not isinstance(entries, list):
        raise source.error("is not a list of jobs", line=1)
    if not entries:
        raise source.error("holds an empty list, no jobs")
    return entries


def _lines(source: Source, count: int) -> NDArray[np.int64]:
    """Find the line of every job's id, in the order of the jobs."""
    found = [m.start() for m in re.finditer(rb'"jobid"\s*:', source.data)]
    if len(found) != count:  # ids missing somewhere: the entry is named instead
        return np.ones(count, dtype=np.int64)
    return np.searchsorted(source.newlines, np.array(found)).astype(np.int64) + 1


def _job(source: Source, entry: Any, line: int) -> _Job:
    if not isinstance(entry, dict):
        raise source.error(f"a job should be an object with {', '.join(KEYS)}, not {entry!r:.40}", line=line)
    for key in KEYS:
        if key not in entry:
            raise source.error(f"key {key} is missing in job {entry.get('jobid', '?')}", line=line)
    attempts = entry["attempts"]
    if not isinstance(attempts, list) or not all(isinstance(a, dict) for a in attempts):
        raise source.error("is not a list of attempts", line, "attempts")
    spans = [
        (_time(source, a.get("start_time"), line, "start_time"), _time(source, a.get("end_time"), line, "end_time"))
        for a in attempts
    ]
    good = [(start, end) for start, end in spans if end >= start]
    sizes = {size for a in attempts if (size := _gpus(source, a, line))}
    return _Job(
        id=str(entry["jobid"]),
        vc=_name(entry["vc"]),
        user=_name(entry["user"]),
        status=str(entry["status"]),
        submit_s=_time(source, entry["submitted_time"], line, "submitted_time"),
        start_s=good[0][0] if good else _NAN,
        duration_s=sum(end - start for start, end in good) if good else _NAN,
        gpus=max(sizes, default=0),
        nodes=next((_machines(a) for a, (start, end) in zip(attempts, spans, strict=True) if end >= start), None),
        attempts=len(attempts),
        running=bool(spans) and not np.isnan(spans[-1][0]) and np.isnan(spans[-1][1]),
        reversed=any(end < start for start, end in spans),
        left_out=len(good) < len(spans),
        differ=len(sizes) > 1,
    )


def _time(source: Source, value: object, line: int, key: str) -> float:
    if value is None or (isinstance(value, str) and value.strip().lower() in NOTHING):
        return _NAN
    try:
        return datetime.fromisoformat(str(value)).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise source.error(f"{value!r} is not a time like 2017-10-07 01:11:39", line, key) from None


def _gpus(source: Source, attempt: dict[str, Any], line: int) -> int:
    detail = attempt.get("detail") or []
    if not isinstance(detail, list) or not all(isinstance(machine, dict) for machine in detail):
        raise source.error("is not a list of machines", line, "detail")
    gpus = [machine.get("gpus") or [] for machine in detail]
    if not all(isinstance(names, list) for names in gpus):
        raise source.error("is not a list of GPUs", line, "gpus")
    return sum(len(names) for names in gpus)


def _machines(attempt: dict[str, Any]) -> str | None:
    """Name the machines of an attempt whose detail was looked at."""
    names = [_name(machine.get("ip")) for machine in attempt.get("detail") or []]
    text = ",".join(name for name in names if name)
    return text if text and is_hostlist(text) else None


def _name(value: object) -> str | None:
    return None if value is None or str(value).lower() in NOTHING else str(value)


def _unique(source: Source, lines: NDArray[np.int64], ids: list[str]) -> NDArray[np.str_]:
    first: dict[str, int] = {}
    for row, job_id in enumerate(ids):
        if first.setdefault(job_id, row) != row:
            problem = f"job id {job_id!r} was used before, in line {lines[first[job_id]]}"
            raise source.error(problem, int(lines[row]), "jobid")
    return np.array(ids)

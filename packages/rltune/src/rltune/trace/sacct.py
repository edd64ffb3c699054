"""Slurm's accounting: the output of `sacct --parsable2` (or `--parsable`), with its header line.

    SLURM_TIME_FORMAT=%s sacct -a -X -D -P -S 2026-01-01 -E now -o JobIDRaw,JobID,JobName,User,Account,Partition,QOS,\
State,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,ReqTRES,AllocTRES,NNodes,\
NodeList

`rltune trace import-slurm` asks in the same way, with a separator that no job's name has (--delimiter).
Fields are found by name; only JobID (or JobIDRaw), State, Submit, Start, End and one of ReqTRES and
AllocTRES must be there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rltune.hostlist import NO_NODES, is_hostlist
from rltune.trace.columns import Columns
from rltune.trace.quality import MISSING_COLUMNS, Ledger
from rltune.trace.read_result import Trace, build, note_run_times, whole_nodes
from rltune.trace.sacct_fields import separator_of, split_fields
from rltune.trace.sacct_spells import Records, join_spells
from rltune.trace.trace_file import DEDUPE
from rltune.trace.tres import Tres, parse_duration, parse_tres

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rltune.trace.trace_file import Source

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

REQUIRED = ("State", "Submit", "Start", "End")
STATES: dict[str, str | None] = {
    "COMPLETED": "completed",
    "FAILED": "failed",
    "NODE_FAIL": "failed",
    "BOOT_FAIL": "failed",
    "LAUNCH_FAILED": "failed",
    "RECONFIG_FAIL": "failed",
    "OUT_OF_MEMORY": "failed",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "CANCELLED": "killed",
    "PREEMPTED": "killed",
    "REVOKED": "killed",
    "REQUEUED": "killed",
    "SPECIAL_EXIT": "failed",
}
WAITING = ("PENDING", "CONFIGURING", "REQUEUE_FED", "REQUEUE_HOLD")
RUNNING = ("RUNNING", "SUSPENDED", "COMPLETING", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
KNOWN_STATES = (*STATES, *WAITING, *RUNNING)
HOUR_S = 3600.0  # by which clocks are changed
_ROUNDING_S = 2.0  # of two times that sacct tells in whole seconds
_NO_LIMIT = ("unlimited", "partition_limit", "infinite", "invalid")
_THROTTLE = re.compile(r"(?:^|\s)(?:--array[=\s]|-a\s?)\S*?%(?P<limit>\d+)")
_ARRAY = re.compile(r"(?P<array>\d+)_(?:(?P<task>\d+)|\[[^%\]]*(?:%(?P<limit>\d+))?\])")


def looks_like(head: list[str]) -> bool:
    """Return whether the first line is a header of sacct's."""
    names = head[0].split(separator_of(head[0]))
    told = sum(name in names for name in REQUIRED)
    return told >= len(REQUIRED) - 1 and ("JobID" in names or "JobIDRaw" in names)


def read(source: Source) -> Trace:
    """Read finished jobs; what never ran, has not ended or is half written is counted and left out."""
    fields = split_fields(source)
    columns, short = fields.columns, fields.short
    _require(columns)
    ledger = Ledger(source, columns.lines)
    ids = columns.text("JobID" if "JobID" in columns else "JobIDRaw").fill_null("").to_numpy().astype(np.str_)
    state = _states(columns)
    ledger.drop("delimiter-unclear", fields.unclear)
    columns = columns.emptied(fields.unclear)  # what stands in the wrong column is not looked at
    asked, given = _resources(columns)
    submit, start, end = (columns.clock(name, may_be_empty=True) for name in ("Submit", "Start", "End"))
    elapsed = _elapsed(columns, start, end)
    ledger.drop("job-step", np.char.find(ids, ".") >= 0)
    bare = np.array([s in WAITING for s in state]) & np.array([a == Tres() for a in asked])
    ledger.drop("half-written", short | (ids == "") | np.isnan(submit) | bare)
    ledger.drop("unknown-state", ~np.array([s in KNOWN_STATES for s in state], dtype=np.bool_))
    ledger.mark("delimiter-in-name", fields.in_name)
    ledger.mark("delimiter-in-field", fields.in_other)
    ended = np.array([s in STATES for s in state])
    unused = np.array([g == Tres() for g in given]) if "AllocTRES" in columns else start == end
    ran = ended & ~np.isnan(start) & ~(unused & ~(elapsed > 0))
    _require_one_cluster(ledger, ids, columns.labels("User"))
    _drop_copies(ledger, ids, state, start)
    waits, runs = (np.array([s in states for s in state]) for states in (WAITING, RUNNING))
    records = Records(ids, state, submit, start, elapsed, ran, waits | runs)
    submit, elapsed, first, spells = join_spells(ledger, records)
    ledger.drop("still-running", runs)
    ledger.drop("never-started", ~ran)
    over_an_hour = np.abs(np.abs(end - records.start - records.elapsed) - HOUR_S) <= _ROUNDING_S
    ledger.drop("end-before-start", ((end < records.start) & ~over_an_hour) | (elapsed < 0))
    ledger.mark("clock-change", over_an_hour)
    ledger.drop("no-run-time", np.isnan(elapsed))
    limit = _limit(columns) * spells  # Slurm's clock starts anew with every spell
    return _trace(columns, ledger, ids, state, asked, given, submit, start[first], elapsed, limit, first)


def _trace(
    columns: Columns,
    ledger: Ledger,
    ids: NDArray[np.str_],
    state: list[str],
    asked: list[Tres],
    given: list[Tres],
    submit: Floats,
    start: Floats,
    elapsed: Floats,
    limit: Floats,
    first: NDArray[np.intp],
) -> Trace:
    took = [a if a.gpus or a.shards or not g.gpus else g for a, g in zip(asked, given, strict=True)]
    gpus, shards, cpus, mem, nodes = (
        np.array([getattr(t, name) for t in took]) for name in ("gpus", "shards", "cpus", "mem_gib", "nodes")
    )
    mem = _counted_memory(columns, ledger, mem, given)
    ledger.drop("no-gpu-no-cpu", (gpus == 0) & (shards == 0) & (cpus == 0))
    ledger.mark("gpu-share-rounded-up", (gpus == 0) & (shards > 0))
    gpus = np.where((gpus == 0) & (shards > 0), 1.0, gpus)
    ledger.mark("mixed-gpu-types", np.array([len(a.types) > 1 for a in asked]))
    ledger.mark("het-part", np.char.find(ids, "+") >= 0)
    eligible = columns.clock("Eligible", may_be_empty=True)[first] if "Eligible" in columns else None
    if eligible is not None:
        ledger.mark("eligible-later", eligible > submit)
    ledger.mark("submit-after-start", start < submit)
    _note_missing(columns, ledger)
    note_run_times(ledger, elapsed, limit if _tells_limits(columns) else None)
    asked_by = columns.text("SubmitLine").to_list() if "SubmitLine" in columns else [None] * len(ids)
    array, throttle = _arrays(ids, asked_by)
    return build(
        ledger,
        "sacct",
        clock=True,
        id=ids,
        submit_s=submit,
        duration_s=elapsed,
        gpus=gpus,
        nodes=whole_nodes(ledger, nodes, gpus),
        cpus=np.where(cpus > 0, cpus, np.nan),
        mem_gib=np.where(mem > 0, mem, np.nan),
        limit_s=limit,
        user=columns.labels("User"),
        account=columns.labels("Account"),
        vc=columns.labels("Partition"),
        qos=columns.labels("QOS"),
        name=columns.labels("JobName"),
        gpu_types=["|".join(a.types) or None for a in asked],
        state=[STATES.get(s) for s in state],
        recorded_start_s=np.where(start < submit, np.nan, start),
        recorded_eligible_s=eligible,
        recorded_nodes=_nodes(columns, ledger, first) if "NodeList" in columns else None,
        array=array,
        array_limit=throttle,
    )


def _note_missing(columns: Columns, ledger: Ledger) -> None:
    """Count for every job what the file cannot tell of any."""
    for rule, name in MISSING_COLUMNS.items():
        there = _tells_limits(columns) if name == "TimelimitRaw" else name in columns
        ledger.mark(rule, np.full(len(columns), not there))


def _tells_limits(columns: Columns) -> bool:
    return "TimelimitRaw" in columns or "Timelimit" in columns


def _nodes(columns: Columns, ledger: Ledger, first: NDArray[np.intp]) -> list[str | None]:
    """Return where jobs ran; a list that sacct cut short is left out."""
    told = columns.text("NodeList").to_list()
    texts = [None if told[row] in {None, *NO_NODES} else told[row] for row in first.tolist()]
    good = [is_hostlist(text) for text in texts]
    ledger.mark("node-list-unreadable", ~np.array(good))
    return [text if g else None for text, g in zip(texts, good, strict=True)]


def _counted_memory(columns: Columns, ledger: Ledger, mem: Floats, given: list[Tres]) -> Floats:
    """Leave memory out where Slurm does not count it: a job then "asks" for all that its nodes have."""
    if "ReqTRES" not in columns or "AllocTRES" not in columns:
        return mem
    ignored = (mem > 0) & np.array([g.mem_gib == 0 and g != Tres() for g in given])
    ledger.mark("memory-not-counted", ignored)
    return np.where(ignored, 0.0, mem)


def _require(columns: Columns) -> None:
    """Refuse a file that lacks a column that must be there."""
    columns.require(*REQUIRED, "JobIDRaw" if "JobIDRaw" in columns else "JobID")
    if "ReqTRES" not in columns and "AllocTRES" not in columns:
        columns.require("ReqTRES")


def _states(columns: Columns) -> list[str]:
    """Return the first word of the state ("CANCELLED by 0"), and in full where sacct has cut it ("OUT_OF_ME+")."""
    words = [(text or "").split(" ")[0] for text in columns.text("State").to_list()]
    cut = {word for word in words if word.endswith("+")}
    whole = {word: [state for state in KNOWN_STATES if state.startswith(word[:-1])] for word in cut}
    return [whole[word][0] if len(whole.get(word, ())) == 1 else word.rstrip("+") for word in words]


def _resources(columns: Columns) -> tuple[list[Tres], list[Tres]]:
    """Return what was asked and what was given; where only one is recorded it stands for both."""
    names = [name for name in ("ReqTRES", "AllocTRES") if name in columns]
    found = [_parsed(columns, name, parse_tres, Tres()) for name in names]
    return found[0], found[-1]


def _parsed(columns: Columns, name: str, parse: Callable[[str], Any], empty: Any) -> list[Any]:
    values: list[Any] = []
    bad: list[tuple[int, str]] = []
    for row, text in enumerate(columns.text(name).to_list()):
        try:
            values.append(empty if text is None or text.lower() in _NO_LIMIT else parse(text))
        except ValueError:
            bad.append((int(columns.lines[row]), text))
    if bad:
        raise columns.source.error(f"{bad[0][1]!r} cannot be read", column=name, lines=[line for line, _ in bad])
    return values


def _elapsed(columns: Columns, start: Floats, end: Floats) -> Floats:
    if "ElapsedRaw" in columns:
        told = columns.number("ElapsedRaw", empty=np.nan)
    elif "Elapsed" in columns:
        told = np.array(_parsed(columns, "Elapsed", parse_duration, np.nan), dtype=np.float64)
    else:
        told = np.full(len(columns), np.nan)
    return np.where(np.isnan(told), end - start, told)


def _limit(columns: Columns) -> Floats:
    """Return the time asked, NaN where there is no limit."""
    if "TimelimitRaw" in columns:
        return 60 * np.array(_parsed(columns, "TimelimitRaw", _minutes, np.nan), dtype=np.float64)
    if "Timelimit" in columns:
        return np.array(_parsed(columns, "Timelimit", parse_duration, np.nan), dtype=np.float64)
    return np.full(len(columns), np.nan)


def _minutes(text: str) -> float:
    minutes = float(text)
    if not minutes >= 0:
        raise ValueError(text)
    return minutes


def _arrays(ids: NDArray[np.str_], asked_by: list[str | None]) -> tuple[Floats, Floats]:
    """Return the numbers of the tasks' arrays; the throttle is known if some record of the array tells it.

    A task that still waits has it in its id, and `sbatch` may have been given it: SubmitLine.
    """
    parts = [_ARRAY.fullmatch(job_id) for job_id in ids.tolist()]
    array = np.array([-1.0 if p is None else float(p["array"]) for p in parts])
    throttle_of = {float(p["array"]): float(p["limit"]) for p in parts if p is not None and p["limit"]}
    for part, line in zip(parts, asked_by, strict=True):
        if part is not None and (found := _THROTTLE.search(line or "")):
            throttle_of.setdefault(float(part["array"]), float(found["limit"]))
    return array, np.array([throttle_of.get(a, 0.0) for a in array.tolist()])


def _require_one_cluster(ledger: Ledger, ids: NDArray[np.str_], user: Sequence[str | None] | None) -> None:
    """Refuse records of which one number stands for jobs of two users: they would be taken for requeues of one job."""
    if user is None:
        return
    seen: dict[str, int] = {}
    named = [row for row in np.flatnonzero(ledger.alive).tolist() if user[row]]
    pairs = [(seen.setdefault(str(ids[row]), row), row) for row in named]
    other = [(before, row) for before, row in pairs if user[before] != user[row]]
    if other:
        before, row = other[0]
        problem = f"job id {str(ids[row])!r} is a job of {user[before]!r} in line {ledger.lines[before]}"
        why = "were exports of several clusters joined, or did job numbers begin anew? Give each by itself"
        lines = ledger.lines[[row for _, row in other]].tolist()
        raise ledger.source.error(f"{problem}, here of {user[row]!r}; {why}", column="JobID", lines=lines)


def _drop_copies(ledger: Ledger, ids: NDArray[np.str_], state: list[str], start: Floats) -> None:
    """Keep requeues, which start anew; refuse the same record twice, unless --dedupe is given."""
    seen: dict[tuple[str, str, float], int] = {}
    copies = np.zeros(len(ids), dtype=np.bool_)
    first = -1
    for row in np.flatnonzero(ledger.alive).tolist():
        if np.isnan(start[row]):
            continue
        before = seen.setdefault((str(ids[row]), state[row], float(start[row])), row)
        if before != row:
            copies[row] = True
            first = before if first < 0 else first
    if copies.any() and not ledger.source.dedupe:
        row = int(np.argmax(copies))
        problem = f"job id {str(ids[row])!r} was used before with the same start, in line {ledger.lines[first]}"
        raise ledger.source.error(f"{problem}; {DEDUPE}", column="JobID", lines=ledger.lines[copies].tolist())
    ledger.drop("same-record-twice", copies)

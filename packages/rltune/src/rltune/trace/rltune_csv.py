"""The csv files of the published RLTune code: SWF-like, 19 or 20 fields, no header, -1 for what is not known.

Fields as its GPU_Traces/README.md lists them. Files of 20 fields (Philly and Helios in its `*_v2` programs) keep SWF's
think time as field 17, so that VC and GPU type move one to the right, and their codes of GPU types differ per file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rltune.trace.columns import Columns
from rltune.trace.quality import Ledger
from rltune.trace.read_result import Trace, build, note_run_times

if TYPE_CHECKING:
    from rltune.trace.trace_file import Source

_COMMON = (
    "job_id",
    "submit_time",
    "wait_time",
    "run_time",
    "num_gpus",
    "cpu_time",
    "used_memory",
    "request_cpus",
    "request_time",
    "request_memory",
    "status",
    "user_id",
    "group_id",
    "executable_number",
    "queue_number",
    "partition_number",
    "proceeding_job_number",
)
COLUMNS_19 = (*_COMMON, "vc_id", "gpu_type")
COLUMNS_20 = (*_COMMON, "think_time", "vc_id", "gpu_type")
GPU_TYPES = {0: "T4", 1: "MISC", 2: "P100", 3: "V100", 4: "V100M32"}  # of the 19-field files only
STATES = {0: "failed", 1: "completed", 5: "killed"}  # as in SWF


def looks_like(head: list[str]) -> bool:
    """Return whether the first line has 19 or 20 fields, the second of them a number."""
    fields = head[0].split(",")
    return len(fields) in {19, 20} and fields[1].strip().lstrip("-").replace(".", "", 1).isdigit()


def read(source: Source) -> Trace:
    """Read an RLTune csv; its requested time is kept apart from the true run time."""
    width = source.head(1)[0].count(",") + 1
    columns = Columns.read(source, names=COLUMNS_19 if width == len(COLUMNS_19) else COLUMNS_20)
    columns.require("job_id")
    ledger = Ledger(source, columns.lines)
    submit, gpus = columns.number("submit_time"), columns.count("num_gpus", low=-1)
    told = ("run_time", "wait_time", "request_time", "request_cpus", "request_memory")
    duration, wait, limit, cpus, memory = (columns.number(name, low=-1) for name in told)
    ledger.drop("no-run-time", duration < 0)
    ledger.drop("no-gpu-no-cpu", (gpus <= 0) & (cpus <= 0))
    limit = np.where(limit > 0, limit, np.nan)
    note_run_times(ledger, duration, limit)
    return build(
        ledger,
        "rltune-csv",
        id=columns.unique("job_id"),
        submit_s=submit,
        duration_s=duration,
        gpus=np.maximum(gpus, 0),
        cpus=np.where(cpus > 0, cpus, np.nan),
        mem_gib=np.where(memory > 0, memory, np.nan),
        limit_s=limit,
        user=_names(columns, "user_id"),
        account=_names(columns, "group_id"),
        name=_names(columns, "executable_number"),
        qos=_names(columns, "queue_number"),
        vc=_vcs(columns),
        gpu_types=_gpu_types(columns, ledger),
        state=[STATES.get(int(s)) for s in columns.count("status", low=-1)],
        recorded_start_s=np.where(wait >= 0, submit + wait, np.nan),
    )


def _names(columns: Columns, name: str) -> list[str | None]:
    return [None if v == "-1" else v for v in columns.text(name)]


def _vcs(columns: Columns) -> list[str | None]:
    """Name VC 0 vc1 and so on, as the preset helios-slice does."""
    return [None if v < 0 else f"vc{int(v) + 1}" for v in columns.count("vc_id", low=-1)]


def _gpu_types(columns: Columns, ledger: Ledger) -> list[str | None]:
    code = columns.count("gpu_type", low=-1)
    known = np.isin(code, list(GPU_TYPES)) & ("think_time" not in columns)
    ledger.mark("gpu-type-unknown", (code >= 0) & ~known)
    return [GPU_TYPES[int(c)] if k else None for c, k in zip(code, known, strict=True)]

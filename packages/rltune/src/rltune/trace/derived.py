"""Derived copies of public traces that go around as small csv files: a few columns, no quirks left.

- `philly-csv`: job_id, submit_time, submit_s, run_time_s, num_gpus, vc, passed, source.
- `arrival-csv`: job_id, arrival_s, service_sec, gpu_count (Helios and PAI in github.com/mystous/gpu_scheduler).
- `gaia`: arrival_time, length, cpus (PAI in github.com/umassos/GAIA), in hours or seconds.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from rltune.trace.columns import Columns
from rltune.trace.quality import Ledger
from rltune.trace.read_result import Trace, build, note_run_times

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rltune.trace.trace_file import Source

PHILLY = ("job_id", "submit_s", "run_time_s", "num_gpus", "vc")
_PAI_ID = re.compile(r"ali-[0-9a-f]+-(?P<task>.+)#\d+")
ARRIVAL = ("job_id", "arrival_s", "service_sec", "gpu_count")
GAIA = ("arrival_time", "length", "cpus")
_LONGEST_GAIA_JOB_H = 72.0  # GAIA keeps jobs of 5 minutes to 3 days, so 72 and less must be hours


def read_philly(source: Source) -> Trace:
    """Read Philly as one line a job; jobs that did not pass were killed or failed, which is not told."""
    columns = Columns.read(source)
    columns.require(*PHILLY)
    ledger = Ledger(source, columns.lines)
    duration, gpus = columns.number("run_time_s"), columns.count("num_gpus")
    ledger.drop("no-gpu-no-cpu", gpus == 0)
    note_run_times(ledger, duration)
    passed = columns.labels("passed")
    return build(
        ledger,
        "philly-csv",
        id=columns.unique("job_id"),
        submit_s=columns.number("submit_s"),
        duration_s=duration,
        gpus=gpus,
        vc=columns.labels("vc"),
        state=None if passed is None else ["completed" if p == "1" else None for p in passed],
    )


def read_arrivals(source: Source) -> Trace:
    """Read the least a scheduler needs: arrival, run time, GPUs."""
    columns = Columns.read(source)
    columns.require(*ARRIVAL)
    ledger = Ledger(source, columns.lines)
    duration, gpus = columns.number("service_sec"), columns.count("gpu_count")
    ledger.drop("no-gpu-no-cpu", gpus == 0)
    note_run_times(ledger, duration)
    ids = columns.unique("job_id")
    return build(
        ledger,
        "arrival-csv",
        id=ids,
        submit_s=columns.number("arrival_s"),
        duration_s=duration,
        gpus=gpus,
        name=_task_words(ids),
    )


def _task_words(ids: Iterable[object]) -> list[str | None] | None:
    """Return the task's word inside each of PAI's ids, such as `worker` of `ali-e292c9c6-worker#384494`."""
    found = [_PAI_ID.fullmatch(str(id_)) for id_ in ids]
    return [m and m["task"] for m in found] if any(found) else None


def read_gaia(source: Source) -> Trace:
    """Read GAIA's copy of PAI: jobs of CPUs, without ids."""
    columns = Columns.read(source)
    columns.require(*GAIA)
    ledger = Ledger(source, columns.lines)
    submit, duration, cpus = (columns.number(name) for name in GAIA)
    hours = bool(duration.max() <= _LONGEST_GAIA_JOB_H)
    ledger.mark("hours-to-seconds", np.full(len(columns), hours))
    unit = 3600.0 if hours else 1.0
    ledger.drop("no-gpu-no-cpu", cpus == 0)
    note_run_times(ledger, duration)
    return build(
        ledger,
        "gaia",
        id=np.arange(len(columns)),
        submit_s=submit * unit,
        duration_s=duration * unit,
        gpus=np.zeros(len(columns)),
        cpus=cpus,
    )

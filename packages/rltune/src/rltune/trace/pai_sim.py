"""The workloads of PAI's own simulator, `pai_job_*_100K.csv`: one line a job, resources per instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rltune.trace.columns import MAX_TIME_S, Columns, Floats
from rltune.trace.quality import Ledger
from rltune.trace.read_result import Trace, build, note_run_times

if TYPE_CHECKING:
    from rltune.trace.trace_file import Source

COLUMNS = ("job_id", "num_inst", "submit_time", "num_cpu", "num_gpu", "duration")


def read(source: Source) -> Trace:
    """Read a workload of the simulator; every instance of a job asks `num_gpu` GPUs, which may be a share of one."""
    columns = Columns.read(source)
    columns.require(*COLUMNS)
    ledger = Ledger(source, columns.lines)
    instances = columns.count("num_inst", empty=np.nan)
    each = np.where(np.isnan(instances), 1.0, instances)
    share, duration = columns.number("num_gpu", empty=0.0), columns.number("duration")
    gpus, cpus = each * np.ceil(share), each * columns.number("num_cpu", empty=0.0)
    ledger.drop("no-gpu-no-cpu", (gpus == 0) & (cpus == 0))
    ledger.mark("gpu-share-rounded-up", share != np.ceil(share))
    ledger.mark("instances-not-told", np.isnan(instances))
    note_run_times(ledger, duration)
    submit = columns.number("submit_time")
    types = columns.labels("gpu_type")
    return build(
        ledger,
        "pai-sim",
        id=columns.unique("job_id"),
        submit_s=submit,
        duration_s=duration,
        gpus=gpus,
        cpus=np.where(cpus > 0, cpus, np.nan),
        user=columns.labels("user"),
        name=columns.labels("group"),
        gpu_types=None if types is None else [None if t == "CPU" else t for t in types],
        recorded_start_s=_starts(columns, ledger, submit),
    )


def _starts(columns: Columns, ledger: Ledger, submit: Floats) -> Floats | None:
    """Take recorded waits where there are some; some copies of the file have none."""
    if "wait_time" not in columns:
        return None
    wait = columns.number("wait_time", empty=np.nan, low=-MAX_TIME_S)
    ledger.mark("submit-after-start", wait < 0)
    return np.where(wait < 0, np.nan, submit + wait)

"""SenseTime Helios: `cluster_log.csv` of HeliosData (Hu et al., SC'21), one line a Slurm job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rltune.trace.columns import Columns
from rltune.trace.quality import Ledger
from rltune.trace.read_result import Trace, build, note_run_times, whole_nodes

if TYPE_CHECKING:
    from rltune.trace.trace_file import Source

COLUMNS = (
    "job_id",
    "user",
    "vc",
    "gpu_num",
    "cpu_num",
    "node_num",
    "state",
    "submit_time",
    "start_time",
    "end_time",
    "duration",
)
STATES = {  # TIMEOUT and NODE_FAIL are very rare in Helios
    "COMPLETED": "completed",
    "CANCELLED": "killed",
    "FAILED": "failed",
    "NODE_FAIL": "failed",
    "TIMEOUT": "timeout",
}


def read(source: Source) -> Trace:
    """Read a Helios job log; jobs without GPUs are kept as such."""
    columns = Columns.read(source)
    columns.require(*COLUMNS)
    ledger = Ledger(source, columns.lines)
    submit = columns.clock("submit_time")
    start, end = (columns.clock(name, may_be_empty=True) for name in ("start_time", "end_time"))
    gpus, cpus, nodes = (columns.count(name) for name in ("gpu_num", "cpu_num", "node_num"))
    told = columns.number("duration", empty=np.nan)
    duration = np.where(np.isnan(told), end - start, told)
    ledger.drop("never-started", np.isnan(start))
    ledger.drop("still-running", np.isnan(end) & np.isnan(told))
    ledger.drop("end-before-start", duration < 0)
    ledger.drop("no-gpu-no-cpu", (gpus == 0) & (cpus == 0))
    note_run_times(ledger, duration)
    return build(
        ledger,
        "helios",
        clock=True,
        id=columns.unique("job_id"),
        submit_s=submit,
        duration_s=duration,
        gpus=gpus,
        nodes=whole_nodes(ledger, nodes, gpus),
        cpus=cpus,
        vc=columns.labels("vc"),
        user=columns.labels("user"),
        name=columns.labels("jobname"),
        state=[STATES.get(s or "") for s in columns.text("state")],
        recorded_start_s=start,
    )

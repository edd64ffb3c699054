"""Alibaba openb: the pod lists of cluster-trace-gpu-v2023 (Weng et al., USENIX ATC'23)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rltune.trace.columns import Columns
from rltune.trace.quality import Ledger
from rltune.trace.read_result import Trace, build, note_run_times

if TYPE_CHECKING:
    from rltune.trace.trace_file import Source

COLUMNS = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)
STATES = {
    "Succeeded": "completed",
    "Failed": "failed",
}  # of a running one it is not told how it ended


def read(source: Source) -> Trace:
    """Read a pod list; a pod runs from when it was scheduled until it was deleted."""
    columns = Columns.read(source)
    columns.require(*COLUMNS)
    ledger = Ledger(source, columns.lines)
    submit = columns.number("creation_time")
    start, end = (columns.number(name, empty=np.nan) for name in ("scheduled_time", "deletion_time"))
    gpus, milli, cpus = (columns.count(name) for name in ("num_gpu", "gpu_milli", "cpu_milli"))
    ledger.drop("never-started", np.isnan(start))
    ledger.drop("still-running", np.isnan(end))
    ledger.drop("end-before-start", end < start)
    ledger.drop("no-gpu-no-cpu", (gpus == 0) & (cpus == 0))
    ledger.mark("gpu-share-rounded-up", (gpus > 0) & (milli % 1000 != 0))
    early = start < submit
    ledger.mark("submit-after-start", early)
    note_run_times(ledger, end - start)
    return build(
        ledger,
        "openb",
        id=columns.unique("name"),
        submit_s=submit,
        duration_s=end - start,
        gpus=gpus,
        cpus=cpus / 1000,
        mem_gib=columns.number("memory_mib") / 1024,
        gpu_types=columns.labels("gpu_spec"),
        qos=columns.labels("qos"),
        state=None if "pod_phase" not in columns else [STATES.get(s or "") for s in columns.text("pod_phase")],
        recorded_start_s=np.where(early, np.nan, start),
    )

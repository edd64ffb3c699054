"""A step: what a trace looks like, and how long its jobs wait: as recorded, or simulated under FIFO with EASY."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import run_pipeline
from rltune.estimate import get_estimator
from rltune.reproduce.step import Result, Step, Workbench
from rltune.reproduce.workloads import GPU_TRACES, STEADY
from rltune.trace.describe import describe

MONTH_S = 30 * 86_400.0
BATCHES, BATCH = 100, 256


@dataclass(frozen=True)
class TraceSummary(Step):
    """The figures of Tables 2 and 4 and of Figs. 5 and 6."""

    kind: ClassVar[str] = "summary"

    workload: str

    @property
    def told(self) -> str:
        """Return what is summed up."""
        return f"sum up {self.workload}"

    @property
    def workloads(self) -> tuple[str, ...]:
        """Name the trace, and its form in which a slice can do the work."""
        return (self.workload, self.workload + STEADY) if self.workload in GPU_TRACES else (self.workload,)

    def make(self, bench: Workbench) -> Result:
        """Count, and wait."""
        jobs = bench.workload(self.workload).jobs
        span = float(jobs.submit_s[-1] - jobs.submit_s[0])
        about = describe(jobs)
        wait, recorded = self._waits(bench)
        return {
            "jobs": len(jobs),
            "span_days": span / 86_400,
            "jobs_a_month": len(jobs) * MONTH_S / span,
            "arrivals": len(jobs) / span,
            "mean_run_s": about.mean_run_s,
            "longest_run_s": float(jobs.duration_s.max()),
            "allocated_a_month": float(jobs.gpus.sum()) * MONTH_S / span,
            "users": about.users,
            "mean_wait_s": float(wait.mean()),
            "recorded": recorded,
            **_batches(wait),
        }

    def _waits(self, bench: Workbench) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float64]], bool]:
        """Return the waits that the trace records, or those of FIFO with EASY on a slice with a load of 0.9."""
        jobs = bench.workload(self.workload).jobs
        recorded = jobs.recorded_start_s - jobs.submit_s
        if np.isfinite(recorded).mean() > 0.5:
            return recorded[np.isfinite(recorded)], True
        work = bench.workload(self.workload + STEADY if self.workload in GPU_TRACES else self.workload)
        made = run_pipeline(work.jobs, work.cluster, parse_pipeline("fcfs", "easy"), get_estimator("history"))
        return made.wait_s[made.ran], False


def _batches(wait: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Result:
    """Return, for consecutive batches, how many jobs wait longer than the median of all, and their total wait."""
    first = max(0, (len(wait) - BATCHES * BATCH) // 2)  # of the middle: the beginning fills an empty machine
    whole = wait[first : first + BATCHES * BATCH]
    whole = whole[: len(whole) // BATCH * BATCH].reshape(-1, BATCH)
    above = (whole > np.median(wait)).sum(axis=1)
    return {"above_median": above.tolist(), "total_wait_h": (whole.sum(axis=1) / 3600).tolist()}

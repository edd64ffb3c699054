"""Whether jobs of a window queue: FCFS without backfilling, by best fit, makes them wait long on average.

This is a property of the jobs and the cluster alone. Whatever is compared, trained or evolved, under whatever settings,
the same windows count.
"""

from __future__ import annotations

import numpy as np

from rltune.cluster import Cluster
from rltune.engine.pipeline import Pipeline
from rltune.engine.run import run_pipeline
from rltune.estimate import Oracle
from rltune.jobs import Jobs
from rltune.schedule import Schedule

CONTENDED_S = 600.0  # mean wait from which on a window counts, unless told


def fcfs_schedule(jobs: Jobs, cluster: Cluster) -> Schedule:
    """Run FCFS without backfilling: it asks for no estimate, so none has to be made."""
    return run_pipeline(jobs, cluster, Pipeline(), Oracle())


def fcfs_wait_s(jobs: Jobs, cluster: Cluster) -> float:
    """Return the mean wait under FCFS without backfilling; 0 if no job ran."""
    return mean_wait_s(fcfs_schedule(jobs, cluster))


def mean_wait_s(schedule: Schedule) -> float:
    """Return the mean wait of the jobs that ran; 0 if none did."""
    return float(schedule.wait_s[schedule.ran].mean()) if schedule.ran.any() else 0.0


def thresholds_s(wanted_s: float) -> tuple[float, ...]:
    """Return the waits from which on windows count, one after the other if there are none: the usual one is no must."""
    return (wanted_s, 0.0) if wanted_s == CONTENDED_S else (wanted_s,)


def is_contended(wait_s: float, threshold_s: float) -> bool:
    """Return whether a window counts whose jobs wait so long under FCFS."""
    return bool(np.isfinite(wait_s) and wait_s > threshold_s)

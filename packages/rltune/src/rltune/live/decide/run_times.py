"""What is expected of the run times of a snapshot's jobs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rltune.cluster import Cluster
from rltune.estimate.blended import Blend
from rltune.estimate.estimators import Estimates, Estimator, History, estimated
from rltune.estimate.last_two import LastTwo
from rltune.estimate.predicted import Predicted
from rltune.jobs import Floats, Jobs
from rltune.kernel.build.prepare import Likeness, prepare
from rltune.kernel.state.handles import state_handle, world_handle
from rltune.kernel.state.online_means import FOR_ESTIMATE, predicted_run_time
from rltune.live.see.snapshot import LiveJob, Snapshot
from rltune.policy.base import no_factors

LEARNS = (History, Predicted, LastTwo, Blend)  # from jobs that have ended
UNTOLD_S = 86_400.0  # nobody set a limit: neither a user nor the partition


def estimate(snapshot: Snapshot, estimator: Estimator, history: Jobs | None) -> dict[int, float]:
    """Return an estimate for every job that waits or runs. None is above the job's limit, at which it is killed."""
    jobs = sorted((job for job in snapshot.jobs if not job.ended), key=lambda job: (job.submit_s, job.id))
    if not jobs:
        return {}
    limit = np.array([limit_of(job, snapshot) for job in jobs])
    values = _values(like_history(jobs, limit, snapshot.taken_s), estimator, history)
    return {job.id: float(value) for job, value in zip(jobs, np.minimum(values, limit), strict=True)}


def limit_of(job: LiveJob, snapshot: Snapshot) -> float:
    """Return the longest that a job may run: its own limit, or its partitions', or a day."""
    told = told_limit_s(job, snapshot)
    return UNTOLD_S if math.isnan(told) else told


def told_limit_s(job: LiveJob, snapshot: Snapshot) -> float:
    """Return the longest that a job may run, by its own limit or its partitions'; NaN if nobody set one."""
    if not math.isnan(job.limit_s):
        return job.limit_s
    known = [
        snapshot.partition_by_name[name].max_time_s for name in job.partitions if name in snapshot.partition_by_name
    ]
    return max((value for value in known if not math.isnan(value)), default=math.nan)


def _values(jobs: Jobs, estimator: Estimator, history: Jobs | None) -> Floats:
    if isinstance(estimator, LEARNS) and history is not None and len(history):
        estimator = estimator.after(history)
    estimates = estimated(estimator, jobs, 0)
    return estimates.values_s if estimates.likeness is None else _predicted(jobs, estimates)


def _predicted(jobs: Jobs, estimates: Estimates) -> Floats:
    """Ask the core's own predictor; the nodes do not matter to it."""
    assert estimates.likeness is not None
    likeness = (estimates.likeness, Likeness.none(len(jobs)))
    anywhere = Cluster.uniform(1, max(1, int(jobs.gpus.max())))
    world, state = prepare(jobs, anywhere, estimates.values_s, no_factors(jobs), likeness, sorts=False)
    w, s = world_handle(world), state_handle(state)
    return np.array([predicted_run_time(w, s, FOR_ESTIMATE, row) for row in range(len(jobs))])


def like_history(jobs: Sequence[LiveJob], limit: Floats, now_s: float) -> Jobs:
    """Return the jobs as recorded history has them, so that like is compared with like.

    They are all said to be submitted now, so that everything that has ended is known.
    """
    return Jobs.from_arrays(
        submit_s=np.full(len(jobs), now_s),
        duration_s=np.zeros(len(jobs)),
        id=[str(job.id) for job in jobs],
        gpus=[job.gpus for job in jobs],
        limit_s=limit,
        vc=[",".join(job.partitions) for job in jobs],
        user=[job.user for job in jobs],
        account=[job.account for job in jobs],
        qos=[job.qos for job in jobs],
        name=[job.name for job in jobs],
    )

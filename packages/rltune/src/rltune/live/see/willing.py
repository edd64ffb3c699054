"""Who has agreed to give way: by QOS, partition or a word of its comment. That Slurm may requeue it is no consent."""

from __future__ import annotations

from rltune.live.control_settings import PreemptSettings
from rltune.live.see.snapshot import RUNNING, LiveJob


def unwilling(job: LiveJob, preempt: PreemptSettings) -> str:
    """Return why a job is not made to give way; "" if it has opted in and Slurm may requeue it."""
    said = (
        job.qos in preempt.qos
        or bool(set(job.partitions) & set(preempt.partitions))
        or (bool(preempt.comment) and preempt.comment in job.comment.split())
    )
    if not said:
        return "has not opted in to give way"
    if not job.requeue:
        return "was submitted with --no-requeue"
    if job.het_id:
        return "is part of a heterogeneous job"
    return ""


def may_give_way(job: LiveJob, preempt: PreemptSettings) -> bool:
    """Return whether a job runs, has opted in and has turns left."""
    return (
        job.state == RUNNING
        and not unwilling(job, preempt)
        and job.displaced < preempt.max_preemptions
        and job.displaced_today < preempt.max_a_day
    )

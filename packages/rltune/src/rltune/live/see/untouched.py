"""A snapshot as it would be had the controller never touched anything."""

from __future__ import annotations

from dataclasses import replace

from rltune.live.see.backend import ChangeKind
from rltune.live.see.holdings import Hold, Holdings
from rltune.live.see.snapshot import LOWEST, LiveJob, Snapshot


def untouched(snapshot: Snapshot, holdings: Holdings) -> Snapshot:
    """Put back, on paper, what the waiting jobs had before."""
    if not len(holdings):
        return snapshot
    return replace(snapshot, jobs=tuple(_untouched_job(job, holdings) for job in snapshot.jobs))


def _untouched_job(job: LiveJob, holdings: Holdings) -> LiveJob:
    if job.id not in holdings.by_job or not job.pending:
        return job
    for hold in holdings.of(job).values():
        job = _without(job, hold)
    return job


def _without(job: LiveJob, hold: Hold) -> LiveJob:
    before = hold.before
    if isinstance(before, tuple):
        return (
            replace(job, excluded_nodes=before)
            if hold.kind is ChangeKind.EXCLUDE_NODES
            else replace(job, required_nodes=before)
        )
    if hold.kind is ChangeKind.SITE_FACTOR:
        if job.site_factor is None:  # not told: what was set here is the best that is known
            assert isinstance(hold.value, int)
            job = replace(job, site_factor=hold.value)
        priority = job.priority if job.held else max(LOWEST, job.own_priority + before)
        return replace(job, priority=priority, site_factor=before)
    return replace(job, priority=0 if job.held else before, priority_by_hand=False)

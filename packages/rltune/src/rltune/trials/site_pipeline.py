"""What a site has now, told or taken for likely: the one answer of calibrate and tune."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltune.engine.parse_pipeline import parse_pipeline

if TYPE_CHECKING:
    from rltune.cluster import Cluster
    from rltune.engine.pipeline import Pipeline
    from rltune.jobs import Jobs


def site_pipeline(jobs: Jobs, cluster: Cluster) -> tuple[Pipeline, str]:
    """Return what the cluster's file says that the site has, or else what it most likely has, and why it is taken.

    That is Slurm's multifactor with backfilling, or FCFS where there are no users.
    """
    named = cluster.scheduler
    if named is not None:
        return parse_pipeline(named.policy, named.backfill), "by the cluster's file"
    if (jobs.user.codes >= 0).any():
        return parse_pipeline("multifactor", "easy"), "not told; taken because users are recorded"
    return parse_pipeline("fcfs", "easy"), "not told; taken because no users are recorded"

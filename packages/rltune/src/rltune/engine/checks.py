"""What does not go together, and which jobs can never start: found before a run begins, with the reason."""

from __future__ import annotations

import numpy as np

from rltune.cluster import Cluster
from rltune.engine.pipeline import Pipeline
from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.kernel.fit.allocate import find
from rltune.kernel.score.rules import INSPECTED
from rltune.kernel.state import arrays as core
from rltune.kernel.state.handles import Arrays, world_handle
from rltune.placement.placers import Placer


def require_possible(jobs: Jobs, cluster: Cluster, pipeline: Pipeline, placer: Placer) -> None:
    """Refuse a pipeline that does not go with these jobs on this cluster."""
    if pipeline.commit and placer.solves:
        raise InputError(f"commit mode places jobs one at a time: placement '{pipeline.placement}' needs commit=False")
    unknown = cluster.limits or cluster.outages or cluster.maintenance or len(jobs.after)
    if pipeline.commit and (unknown or (jobs.array_limit > 0).any()):
        raise InputError("commit mode knows no limits, outages, maintenance, dependencies or array throttles")
    if pipeline.policy.code == INSPECTED and placer.solves:
        several = f"placement '{pipeline.placement}' places several"
        raise InputError(f"policy {pipeline.policy.name} inspects one job at a time: {several}")


def rejections(jobs: Jobs, cluster: Cluster, arrays: Arrays, rule: int) -> dict[int, str]:
    """Return the jobs that can never start, each with the reason."""
    world = arrays.world
    misfits = _misfits(cluster, arrays, rule)
    reasons: dict[int, str] = {}
    if misfits:
        reasons = {job: misfits[shape] for job, shape in enumerate(world.job.asks.tolist()) if shape in misfits}
    if world.has_limits:
        _add_limited(jobs, world, arrays.state, reasons)
    return _with_dependants(jobs, reasons)


def _misfits(cluster: Cluster, arrays: Arrays, rule: int) -> dict[int, str]:
    """Find the shapes that do not fit the empty, healthy cluster, and say why."""
    world = arrays.world
    healthy = world_handle(world._replace(has_pauses=False)) if world.has_pauses else arrays.w
    too_large = (i for i in range(len(world.shape)) if not find(healthy, arrays.s, i, 0.0, rule))
    return {i: _misfit(cluster, world, i) for i in too_large}


def _misfit(cluster: Cluster, world: core.World, shape: int) -> str:
    if not world.mask_has[world.shape.mask[shape]].any():
        return "no node group has an accepted GPU type and admits its VC"
    chunks = zip(world.chunk.n[shape], world.chunk.gpus[shape], strict=True)
    wanted = " + ".join(f"{n} x {g}" for n, g in chunks if n > 0)
    return f"larger than the cluster of {cluster.gpu_count} GPUs: needs nodes with {wanted} GPUs, their CPUs and memory"


def _add_limited(jobs: Jobs, world: core.World, state: core.State, reasons: dict[int, str]) -> None:
    for job in np.flatnonzero((world.counters >= 0).any(axis=1)):
        for c in world.counters[job][world.counters[job] >= 0]:
            if jobs.gpus[job] > state.limit.max_gpus[c]:
                reasons.setdefault(int(job), f"asks for more than its limit of {state.limit.max_gpus[c]} GPUs")
            if state.limit.max_running[c] == 0 or state.limit.max_submitted[c] == 0:
                reasons.setdefault(int(job), "its limit allows no job at all")


def _with_dependants(jobs: Jobs, reasons: dict[int, str]) -> dict[int, str]:
    """Reject what depends on a rejected job, and so on."""
    if len(jobs.after) == 0:
        return reasons
    waiter = np.repeat(np.arange(len(jobs)), np.diff(jobs.after_ptr))
    rejected = np.zeros(len(jobs), dtype=np.bool_)
    rejected[list(reasons)] = True
    while True:
        more = np.setdiff1d(waiter[rejected[jobs.after]], np.flatnonzero(rejected))
        if len(more) == 0:
            return reasons
        reasons.update(dict.fromkeys(more.tolist(), "depends on a job that was rejected"))
        rejected[more] = True

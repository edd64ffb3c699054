"""Limits per user, account, VC, QOS and array: counters that a job's start or submission must not exceed."""

from __future__ import annotations

from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import SCOPES, State, World


@kernel
def start_is_allowed(w: World, s: State, job: int) -> bool:
    """Return whether starting the job keeps every limit on GPUs in use and running jobs."""
    for scope in range(SCOPES):
        c = w.counters[job, scope]
        if c >= 0 and (
            s.limit[c].used_running >= s.limit[c].max_running
            or s.limit[c].used_gpus + w.job[job].gpus > s.limit[c].max_gpus
        ):
            return False
    return True


@kernel
def submit_is_allowed(w: World, s: State, job: int) -> bool:
    """Return whether one more waiting or running job keeps every limit on submitted jobs."""
    for scope in range(SCOPES):
        c = w.counters[job, scope]
        if c >= 0 and s.limit[c].used_submitted >= s.limit[c].max_submitted:
            return False
    return True


@kernel
def count_running(w: World, s: State, job: int, sign: int) -> None:
    """Count a job in (+1) or out (-1) of what is running."""
    for scope in range(SCOPES):
        c = w.counters[job, scope]
        if c >= 0:
            s.limit[c].used_running += sign
            s.limit[c].used_gpus += sign * w.job[job].gpus


@kernel
def count_submitted(w: World, s: State, job: int, sign: int) -> None:
    """Count a job in (+1) or out (-1) of what is submitted."""
    for scope in range(SCOPES):
        c = w.counters[job, scope]
        if c >= 0:
            s.limit[c].used_submitted += sign

"""Limits per user, account, VC, QOS and array: counters that a job's start or submission must not exceed."""

from __future__ import annotations

from rltune.core.jit import kernel
from rltune.core.state import SCOPES, State, World


@kernel
def start_is_allowed(w: World, s: State, job: int) -> bool:
    """Tell whether starting the job keeps every limit on GPUs in use and running jobs."""
    for scope in range(SCOPES):
        c = w.counters[job, scope]
        if c >= 0 and (s.used_running[c] >= w.max_running[c] or s.used_gpus[c] + w.gpus[job] > w.max_gpus[c]):
            return False
    return True


@kernel
def submit_is_allowed(w: World, s: State, job: int) -> bool:
    """Tell whether one more waiting or running job keeps every limit on submitted jobs."""
    for scope in range(SCOPES):
        c = w.counters[job, scope]
        if c >= 0 and s.used_submitted[c] >= w.max_submitted[c]:
            return False
    return True


@kernel
def count_running(w: World, s: State, job: int, sign: int) -> None:
    """Count a job in (+1) or out (-1) of what is running."""
    for scope in range(SCOPES):
        c = w.counters[job, scope]
        if c >= 0:
            s.used_running[c] += sign
            s.used_gpus[c] += sign * w.gpus[job]


@kernel
def count_submitted(w: World, s: State, job: int, sign: int) -> None:
    """Count a job in (+1) or out (-1) of what is submitted."""
    for scope in range(SCOPES):
        c = w.counters[job, scope]
        if c >= 0:
            s.used_submitted[c] += sign

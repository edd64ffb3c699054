"""A slow, plain reference of the semantics (docs/reference/semantics.md), written without sight of the core.

Nothing here is quick or clever: every pass works everything out again from what is running and what is waiting.
"""

from reference.commit import run_committed
from reference.guard import Guard
from reference.loop import run_events
from reference.machine import Machine, Result, Settings
from reference.network import Network
from reference.turns import Turns


def simulate(
    jobs,
    cluster,
    policy: str | Network = "fcfs",
    backfill: str = "none",
    placement: str = "best-fit",
    estimate_s=None,
    head: str = "pool",
    commit: bool = False,
    view: int = 0,
    guard: Guard | None = None,
    cycle_s: float = 0.0,
    turns: Turns | None = None,
    remaining: str = "ends-now",
    trust: float = 16.0,
) -> Result:
    """Run the jobs on the cluster; without estimates the true durations are known.

    `remaining`: what running jobs have left: by "estimate" they go on past it, by "history" as those did who had ended.
    """
    estimates = jobs.duration_s if estimate_s is None else estimate_s
    settings = Settings(policy, backfill, placement, head, view, guard, cycle_s, turns, remaining, trust)
    machine = Machine(jobs, cluster, estimates, settings)
    (run_committed if commit else run_events)(machine)
    return machine.result()


__all__ = ["Guard", "Network", "Result", "Turns", "simulate"]

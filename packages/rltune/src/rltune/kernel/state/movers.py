"""Running jobs that are willing to give way, side by side: every pass looks at all of them."""

from __future__ import annotations

from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import FIRST_NEW_MOVER, MOVERS_N, PASSES, State

INF = float("inf")


@kernel
def enter_mover(s: State, job: int) -> None:
    """Add a willing job that starts now."""
    i = s.n[MOVERS_N]
    s.n[MOVERS_N] += 1
    s.turn[job].mover_at = i
    mover = s.mover[i]
    mover.job = job
    mover.start = s.life[job].start
    mover.hold = s.turn[job].restart / s.life[job].speed
    mover.until = -INF
    mover.barred = -1
    mover.started_in = s.n[PASSES]
    s.mark[FIRST_NEW_MOVER] = min(s.mark[FIRST_NEW_MOVER], mover.start + mover.hold)


@kernel
def leave_mover(s: State, job: int) -> None:
    """Take away a willing job that runs no more."""
    s.n[MOVERS_N] -= 1
    last, i = s.n[MOVERS_N], s.turn[job].mover_at
    s.mover[i] = s.mover[last]
    s.turn[s.mover[i].job].mover_at = i

"""When a pass need not ask again who could claim nodes of running jobs.

A pass has found that nobody can claim, whoever is displaced. That stays so until nodes become free, a running job may
be displaced that might not before or stands lower than it did, or somebody comes who could claim more than those who
waited then.
"""

from __future__ import annotations

from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import (
    ACTIVE_N,
    EDITION,
    ENTERED,
    FIRST_NEW_MOVER,
    FREED,
    PASSES,
    RESCORE_AT,
    VAIN_BEST,
    VAIN_EDITION,
    VAIN_ENTERED,
    VAIN_FREED,
    VAIN_PASS,
    VAIN_UNTIL,
    Options,
    State,
)

INF = float("inf")
ROUNDING_S = 1e-3  # before a moment in which something changes it is asked anew


@kernel
def note_vain(s: State, best: float) -> None:
    """Note that nobody can claim whose score is not lower than this."""
    s.n[VAIN_FREED] = s.n[FREED] + 1
    s.n[VAIN_EDITION] = s.n[EDITION]
    s.n[VAIN_ENTERED] = s.n[ENTERED]
    s.n[VAIN_PASS] = -1
    s.mark[VAIN_BEST] = best
    s.mark[FIRST_NEW_MOVER] = INF


@kernel
def note_vain_shapes(s: State) -> None:
    """Note that nobody can claim of a shape that waits, unless his score is lower than all of that shape."""
    note_vain(s, INF)
    s.n[VAIN_PASS] = s.n[PASSES]
    for i in range(s.n[ACTIVE_N]):
        demand = s.demand[s.active[i]]
        demand.vain_in = s.n[PASSES]
        demand.vain_best = demand.best


@kernel
def forget_vain(s: State) -> None:
    """Let what was noted hold no longer."""
    s.n[VAIN_FREED] = 0


@kernel
def stays_vain(s: State, o: Options) -> bool:
    """Return whether nothing has changed since, but for newcomers."""
    now = s.now[0]
    return (
        s.n[VAIN_FREED] == s.n[FREED] + 1
        and s.n[VAIN_EDITION] == s.n[EDITION]
        and now < s.mark[VAIN_UNTIL]
        and now < s.mark[RESCORE_AT]
        and now < s.mark[FIRST_NEW_MOVER] + o.min_run_s - ROUNDING_S
    )


@kernel
def look_at_newcomer(s: State, row: int) -> None:
    """Forget what was noted, if the job in this place of the queue, which has just come, could claim."""
    demand = s.demand[s.queue[row].asks]
    score = s.queue[row].score
    known = demand.vain_in == s.n[VAIN_PASS] and score >= demand.vain_best
    if not known and not score >= s.mark[VAIN_BEST]:
        forget_vain(s)

"""Orders for jobs that take turns: one score for waiting and running jobs alike; lower runs first.

The policy's own score parts equals. With `policy` it is the score, on the work that is left.
"""

from __future__ import annotations

from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import BY_LAS, State, World
from rltune.kernel.state.spells import attained_service, left_by_estimate, work_done

LOW_GPU_S, HIGH_GPU_S = 3600.0, 36000.0


@kernel
def turn_score(w: World, s: State, order: int, job: int) -> float:
    """Score a job by what it has attained, or by what it is believed to have left."""
    n = w.job[job].rank_n
    if order == BY_LAS:
        gpu_time = n * attained_service(s, job)
        return float(gpu_time >= LOW_GPU_S) + float(gpu_time >= HIGH_GPU_S)
    return n * left_by_estimate(s.turn[job].estimate, work_done(s, job))

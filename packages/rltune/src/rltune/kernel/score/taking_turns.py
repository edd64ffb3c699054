"""Orders for jobs that take turns: one score for waiting and running jobs alike, by what they have attained; low first.

Formulas and their sources stand in docs/explanation/taking-turns.md.
"""

from __future__ import annotations

from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import BY_GITTINS, BY_LAS, State, World
from rltune.kernel.state.attained import attained_service, whole_estimate, work_done
from rltune.kernel.state.online_survival import index_by_history, mean_left

LAST_LEVEL = 2.0


@kernel
def las_cuts(s: State) -> tuple[float, float]:
    """Return where the levels of attained service part, in GPU-seconds, as of the last edition."""
    return s.cuts[0], s.cuts[1]


@kernel
def las_score(w: World, job: int, attained: float, cuts: tuple[float, float]) -> float:
    """Return the level of a job's attained service (GPUs times work): 0, 1 or 2; within one the oldest is first."""
    gpu_time = w.job[job].rank_n * attained
    if gpu_time < cuts[0]:
        return 0.0
    return 1.0 if gpu_time < cuts[1] else LAST_LEVEL


@kernel
def gittins_score(w: World, s: State, job: int, attained: float) -> float:
    """Return GPUs over Gittins' index: the least GPU-seconds, per job that ends, at which one could go on with it."""
    return w.job[job].rank_n / index_by_history(w, s, job, attained)


@kernel
def srsf_score(w: World, s: State, job: int, attained: float) -> float:
    """Return GPUs times the work that is believed to be left: the smallest remaining area first."""
    return w.job[job].rank_n * mean_left(w, s, job, attained)


@kernel
def turn_score(w: World, s: State, order: int, job: int, attained: float, cuts: tuple[float, float]) -> float:
    """Score a job, waiting or running, that has done so much work; `cuts` are those of `las_cuts` as of this pass."""
    if order == BY_LAS:
        return las_score(w, job, attained, cuts)
    if order == BY_GITTINS:
        return gittins_score(w, s, job, attained)
    return srsf_score(w, s, job, attained)


@kernel
def attained_for(w: World, s: State, order: int, job: int) -> float:
    """Return the work that an order counts as done: for `las` all service, else what is not lost.

    Who may not be displaced will have all its service once it starts, so `las` counts its estimate.
    """
    if order != BY_LAS:
        return work_done(w, s, job)
    return attained_service(s, job) if w.yields[job].willing else whole_estimate(w, s, job)

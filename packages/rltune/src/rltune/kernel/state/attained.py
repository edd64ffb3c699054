"""What a job has done up to now: work that counts, and all service that it had.

All times of a job (work, checkpoints, restarts) are seconds on nodes of speed 1; a spell on faster ones is shorter.
"""

from __future__ import annotations

from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import RUNNING, State, World


@kernel
def whole_estimate(w: World, s: State, job: int) -> float:
    """Return the estimate of all of a job's work, whatever of it is done."""
    return s.turn[job].estimate if w.takes_turns else s.life[job].estimate


@kernel
def spell_work(s: State, job: int) -> float:
    """Return the work done in the spell that runs: nothing during its restart."""
    return max(0.0, (s.now[0] - s.life[job].start) * s.life[job].speed - s.turn[job].restart)


@kernel
def restart_left(w: World, s: State, job: int) -> float:
    """Return what a running job still has to hold its nodes for before it works."""
    if not w.takes_turns:
        return 0.0
    return max(0.0, s.turn[job].restart - (s.now[0] - s.life[job].start) * s.life[job].speed)


@kernel
def work_done(w: World, s: State, job: int) -> float:
    """Return the work of a job, waiting or running, that is done as of now and not lost."""
    running = s.life[job].status == RUNNING
    if not w.takes_turns:
        return (s.now[0] - s.life[job].start) * s.life[job].speed if running else 0.0
    return s.turn[job].saved + (spell_work(s, job) if running else 0.0)


@kernel
def attained_service(s: State, job: int) -> float:
    """Return all the work that a job has done as of now, lost or not, where jobs take turns."""
    return s.turn[job].service + (spell_work(s, job) if s.life[job].status == RUNNING else 0.0)


@kernel
def work_at_end(w: World, s: State, job: int) -> float:
    """Return all the work of a job that has ended, as it can be seen from outside."""
    held = (s.life[job].end - s.life[job].start) * s.life[job].speed
    return held + (s.turn[job].saved - s.turn[job].restart) if w.takes_turns else held

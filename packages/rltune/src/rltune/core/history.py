"""Run times predicted online from jobs that have ended in this very run: nothing of the future is known."""

from __future__ import annotations

from rltune.core.jit import kernel
from rltune.core.state import State, World

# The two predictors of a run: one for estimates, one for a policy that ranks by a prediction of its own (QSSF).
FOR_ESTIMATE, FOR_RANK = range(2)

# Places in World.history_par.
TRUST, DECAY = range(2)


@kernel
def predict(w: World, s: State, which: int, job: int) -> float:
    """Blend the mean run time of ended jobs like this one, from the coarsest likeness to the finest.

    Each level's mean counts as much as it has jobs, against `trust` jobs' worth of the level above it.
    """
    estimate = w.job[job].prior
    trust = w.history_par[which, TRUST]
    for level in range(w.history_key.shape[2]):
        key = int(w.history_key[which, job, level])
        if key >= 0 and s.seen[which, key].n > 0.0:
            estimate = (s.seen[which, key].total + trust * estimate) / (s.seen[which, key].n + trust)
    return estimate


@kernel
def _finest(w: World, which: int, job: int) -> int:
    """Give the last likeness that a job has."""
    level = w.history_key.shape[2] - 1
    while level > 0 and w.history_key[which, job, level] < 0:
        level -= 1
    return level


@kernel
def learn(w: World, s: State, which: int, job: int) -> None:
    """Add an ended job's run time to every likeness it has; in the finest, older ones fade."""
    run = (s.life[job].end - s.life[job].start) * s.life[job].speed
    finest = _finest(w, which, job)
    for level in range(finest + 1):
        key = int(w.history_key[which, job, level])
        if key >= 0:
            keep = w.history_par[which, DECAY] if level == finest else 1.0
            s.seen[which, key].n = s.seen[which, key].n * keep + 1.0
            s.seen[which, key].total = s.seen[which, key].total * keep + run

"""Run times predicted online from jobs that have ended in this very run: nothing of the future is known."""

from __future__ import annotations

from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import F8, I4, State, World
from rltune.kernel.state.attained import work_at_end

# The two predictors of a run: one for estimates, one for a policy that ranks by a prediction of its own (QSSF).
FOR_ESTIMATE, FOR_RANK = range(2)

# Places in World.history_par.
TRUST, DECAY = range(2)


@kernel
def predicted_run_time(w: World, s: State, which: int, job: int) -> float:
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
def learn(w: World, s: State, which: int, job: int) -> None:
    """Add an ended job's run time to every likeness it has; in the finest, older ones fade."""
    run = work_at_end(w, s, job)
    finest = w.history_key.shape[2] - 1
    while finest > 0 and w.history_key[which, job, finest] < 0:
        finest -= 1
    for level in range(finest + 1):
        key = int(w.history_key[which, job, level])
        if key >= 0:
            keep = w.history_par[which, DECAY] if level == finest else 1.0
            s.seen[which, key].n = s.seen[which, key].n * keep + 1.0
            s.seen[which, key].total = s.seen[which, key].total * keep + run


@kernel
def learn_all(keys: I4, run: F8, decay: float, known: F8) -> None:
    """Learn from jobs that ended before a run, in order, as `learn` does; `known` is by key their number and sum."""
    for job in range(len(run)):
        finest = keys.shape[1] - 1
        while finest > 0 and keys[job, finest] < 0:
            finest -= 1
        for level in range(finest + 1):
            key = int(keys[job, level])
            if key >= 0:
                keep = decay if level == finest else 1.0
                known[key, 0] = known[key, 0] * keep + 1.0
                known[key, 1] = known[key, 1] * keep + run[job]

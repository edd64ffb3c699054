"""The learned score: a small network over a job's features, evaluated in the core so that no head node needs torch."""

from __future__ import annotations

import math

from rltune.kernel.jit import kernel
from rltune.kernel.score.features import (
    DRIFT,
    DRIFT_OFF,
    FIRST_INPUT,
    HIDDEN_1,
    HIDDEN_2,
    HIDDEN_3,
    HIGH,
    INPUTS,
    LOW,
    SCALE,
    SHIFT,
    feature_of_job,
    raw_input,
)
from rltune.kernel.state.arrays import F8, State, World

MOST = 600.0  # of an exponent: a score is less than infinite, with any margin


@kernel
def fill_inputs(w: World, s: State, row: int, x: F8) -> bool:
    """Enter a job's normalised inputs; tell whether all were within the range of training."""
    inside = True
    watch = w.net_plan[DRIFT] != DRIFT_OFF
    for i in range(w.net_plan[INPUTS]):
        raw = raw_input(w, s, row, i)
        if watch and not w.net_norm[i, LOW] <= raw <= w.net_norm[i, HIGH]:
            inside = False
        x[i] = (raw - w.net_norm[i, SHIFT]) * w.net_norm[i, SCALE]
    return inside


@kernel
def _layer(net: F8, at: int, x: F8, n_in: int, y: F8, n_out: int) -> int:
    """Return y = max(0, x W + b), W by rows of inputs; give where the next layer's weights begin."""
    bias = at + n_in * n_out
    for o in range(n_out):
        y[o] = net[bias + o]
    for i in range(n_in):
        value = x[i]
        row = at + i * n_out
        for o in range(n_out):
            y[o] += value * net[row + o]
    for o in range(n_out):
        y[o] = max(y[o], 0.0)
    return bias + n_out


@kernel
def logit(w: World, s: State, x: F8) -> float:
    """Return how much the network wants the job with these inputs to be next."""
    plan = w.net_plan
    at = _layer(w.net, 0, x, plan[INPUTS], s.hidden[0], plan[HIDDEN_1])
    at = _layer(w.net, at, s.hidden[0], plan[HIDDEN_1], s.hidden[1], plan[HIDDEN_2])
    last, n = s.hidden[1], plan[HIDDEN_2]
    if plan[HIDDEN_3] > 0:
        at = _layer(w.net, at, s.hidden[1], n, s.hidden[0], plan[HIDDEN_3])
        last, n = s.hidden[0], plan[HIDDEN_3]
    value = w.net[at + n]
    for i in range(n):
        value += w.net[at + i] * last[i]
    return value if math.isfinite(value) else -1e300


@kernel
def score_in_turns(w: World, s: State, job: int, rank: float, x: F8) -> float:
    """Return a job's score, waiting or running, as GPU-seconds: e to the power of minus its logit.

    Nothing is outside the range of training here: scores of those that wait and those that run must compare.
    """
    for i in range(w.net_plan[INPUTS]):
        raw = feature_of_job(w, s, job, rank, w.net_plan[FIRST_INPUT + i])
        x[i] = (raw - w.net_norm[i, SHIFT]) * w.net_norm[i, SCALE]
    return math.exp(min(-logit(w, s, x), MOST))

"""Whether a model gives answers that a scheduler can use."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rltune.errors import InputError
from rltune.model.learned_model import Model

Floats = NDArray[np.float64]
_LOOKS = 256


def logits(model: Model, rows: Floats) -> Floats:
    """Return the network's answers to rows of normalised inputs, as the core computes them."""
    at, values = 0, rows
    for inputs, outputs in zip(model.sizes[:-1], model.sizes[1:], strict=True):
        weights = model.weights[at : at + inputs * outputs].reshape(inputs, outputs)
        values = values @ weights + model.weights[at + inputs * outputs : at + (inputs + 1) * outputs]
        at += (inputs + 1) * outputs
        if at < len(model.weights):
            values = np.maximum(values, 0.0)
    return values[:, 0]


def require_sound(model: Model, name: str) -> None:
    """Refuse a model with an empty range, or one that gives no answer, or the same, to all that it was trained for."""
    shift, scale, low, high = model.norm.T
    if not (np.isfinite(model.norm).all() and (low < high).all() and (scale > 0).all()):
        wrong = model.recipe.inputs[int(np.argmax(~((low < high) & (scale > 0) & np.isfinite(model.norm).all(axis=1))))]
        raise InputError(f"model {name} has no range or scale for its input {wrong}")
    raw = np.random.default_rng(0).uniform(low, high, (_LOOKS, len(low)))
    answers = logits(model, (raw - shift) * scale)
    if not np.isfinite(answers).all():
        raise InputError(f"model {name} gives answers that are no numbers")
    if np.ptp(answers) == 0:
        raise InputError(f"model {name} gives every job the same score: it orders nothing")

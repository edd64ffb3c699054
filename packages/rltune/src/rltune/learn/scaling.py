"""How a network's inputs are brought to one scale, and the range they had, measured under the base policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rltune.core import state as core
from rltune.core.decide import decide
from rltune.core.features import feature, look_around
from rltune.core.loop import advance
from rltune.core.network import fill_inputs
from rltune.learn.model import BASES, Model, n_weights
from rltune.learn.recipe import Recipe, critic_codes
from rltune.learn.windows import Window
from rltune.policy.learned import Learned
from rltune.sim import Machine

Floats = NDArray[np.float64]
MARGIN = 0.1  # of the range seen, added at both ends
_EVERY = 5  # moments with a queue between two that are looked at


@dataclass(frozen=True)
class Scaling:
    """Shift, scale, low and high for every input of the actor; shift and scale for every input of the critic."""

    norm: Floats  # [input, 4]
    critic: Floats  # [input, 2]

    def seen_through(self, norm: Floats) -> Scaling:
        """Keep the shift and scale that a trained actor knows; its range grows by what was seen here."""
        low, high = np.minimum(norm[:, 2], self.norm[:, 2]), np.maximum(norm[:, 3], self.norm[:, 3])
        return Scaling(np.column_stack([norm[:, :2], low, high]), self.critic)


def measure(windows: Sequence[Window], recipe: Recipe, base: str) -> Scaling:
    """Look at the queues of some windows under the base policy."""
    seen = [pair for window in windows for pair in _queue_rows(window, _blank(recipe, base))]
    rows, critic = (np.concatenate(part) for part in zip(*seen, strict=True))
    low, high = rows.min(axis=0), rows.max(axis=0)
    room = MARGIN * (high - low) + 1e-9
    norm = np.column_stack([*_shift_and_scale(rows), low - room, high + room])
    return Scaling(norm, np.column_stack(_shift_and_scale(critic)))


def _shift_and_scale(rows: Floats) -> tuple[Floats, Floats]:
    deviation = rows.std(axis=0)
    return rows.mean(axis=0), 1 / np.where(deviation > 1e-6, deviation, 1.0)


def _blank(recipe: Recipe, base: str) -> Model:
    """Give a model that leaves its inputs as they are."""
    inputs = len(recipe.inputs)
    plain = np.tile([0.0, 1.0, -np.inf, np.inf], (inputs, 1))
    return Model(recipe, (1, 1), np.zeros(n_weights(inputs, (1, 1))), plain, base)


def _queue_rows(window: Window, model: Model) -> Iterator[tuple[Floats, Floats]]:
    """Run a window under the base policy and give what actor and critic would see of the queue, now and then."""
    machine = window.machine(Learned(model))
    options = machine.options._replace(policy=BASES[model.base], relook=False)
    moments = 0
    while advance(machine.w, machine.s, options):
        head, tail = (int(machine.state.n[i]) for i in (core.Q_HEAD, core.Q_TAIL))
        if tail - head > 1:
            moments += 1
            if moments % _EVERY == 0:
                look_around(machine.w, machine.s, options, tail)
                yield _rows(machine, head, tail, len(model.recipe.inputs))
        decide(machine.w, machine.s, options)


def _rows(machine: Machine, head: int, tail: int, inputs: int) -> tuple[Floats, Floats]:
    rows = np.empty((tail - head, inputs))
    for row in range(head, tail):
        fill_inputs(machine.w, machine.s, row, rows[row - head])
    codes = critic_codes().tolist()
    critic = [[feature(machine.w, machine.s, row, code) for code in codes] for row in range(head, tail)]
    return rows, np.array(critic)

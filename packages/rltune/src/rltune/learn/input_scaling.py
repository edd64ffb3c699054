"""Queues as they are under the base policy: the scale and range of what a network sees, and who is taken first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rltune.engine.lookahead import PassMaker
from rltune.engine.run import Machine
from rltune.errors import InputError
from rltune.kernel.rollout.event_loop import advance
from rltune.kernel.rollout.stepwise import observe
from rltune.kernel.score.features import look_around
from rltune.kernel.score.rules import score_queue
from rltune.kernel.state import arrays as core
from rltune.learn.training_windows import TrainingWindow
from rltune.model.feature_sets import Recipe, critic_codes
from rltune.model.learned_model import BASES, Model, n_weights
from rltune.policy.learned import Learned
from rltune.text import counted

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MARGIN = 0.5  # of the range seen, added at both ends: with 0.1 the base policy stood in for one job in three on Philly
_EVERY = 5  # moments with a queue between two that are looked at


@dataclass(frozen=True)
class Queues:
    """What actor and critic would see of some queues, and which job the base policy takes first from each."""

    rows: Floats  # [row, input], not normalised
    critic: Floats  # [row, 5]
    first: Ints  # [queue + 1] the jobs of queue i are rows first[i] to first[i + 1]
    taken: Ints  # [queue]

    @classmethod
    def under_base(cls, windows: Sequence[TrainingWindow], recipe: Recipe, base: str) -> Queues:
        """Run windows under the base policy and look at every fifth queue of two jobs or more."""
        model = _blank(recipe, base)
        seen = [one for window in windows for one in _look(window, model)]
        if not seen:
            where = f"in none of {counted(len(windows), 'window')} do two jobs wait at a time for long under {base}"
            raise InputError(f"{where}, so there is no order to learn; give a history that waits more")
        rows, critic, taken = zip(*seen, strict=True)
        first = np.cumsum([0, *map(len, rows)])
        return cls(np.concatenate(rows), np.concatenate(critic), first, np.array(taken))


@dataclass(frozen=True)
class Scaling:
    """Shift, scale, low and high for every input of the actor; shift and scale for every input of the critic."""

    norm: Floats  # [input, 4]
    critic: Floats  # [input, 2]

    @classmethod
    def of(cls, queues: Queues) -> Scaling:
        """Measure the inputs of some queues."""
        low, high = queues.rows.min(axis=0), queues.rows.max(axis=0)
        room = MARGIN * (high - low) + 1e-9
        norm = np.column_stack([*_shift_and_scale(queues.rows), low - room, high + room])
        return cls(norm, np.column_stack(_shift_and_scale(queues.critic)))

    def seen_through(self, norm: Floats) -> Scaling:
        """Keep the shift and scale that a trained actor knows; its range grows by what was seen here."""
        low, high = np.minimum(norm[:, 2], self.norm[:, 2]), np.maximum(norm[:, 3], self.norm[:, 3])
        return Scaling(np.column_stack([norm[:, :2], low, high]), self.critic)

    def normalised(self, rows: Floats) -> Floats:
        """Bring rows of the actor's inputs to one scale."""
        return (rows - self.norm[:, 0]) * self.norm[:, 1]


def measure(windows: Sequence[TrainingWindow], recipe: Recipe, base: str) -> Scaling:
    """Measure the inputs on some windows under the base policy."""
    return Scaling.of(Queues.under_base(windows, recipe, base))


def _shift_and_scale(rows: Floats) -> tuple[Floats, Floats]:
    deviation = rows.std(axis=0)
    return rows.mean(axis=0), 1 / np.where(deviation > 1e-6, deviation, 1.0)


def _blank(recipe: Recipe, base: str) -> Model:
    """Return a model that leaves its inputs as they are."""
    inputs = len(recipe.inputs)
    plain = np.tile([0.0, 1.0, -np.inf, np.inf], (inputs, 1))
    return Model(recipe, (1, 1), np.zeros(n_weights(inputs, (1, 1))), plain, base)


def _look(window: TrainingWindow, model: Model) -> Iterator[tuple[Floats, Floats, int]]:
    """Run a window under the model's base policy; look at the queue now and then, before anything starts."""
    machine = window.machine(Learned(model))
    options = machine.options._replace(policy=BASES[model.base], relook=False)
    moments = 0
    maker = PassMaker(machine.arrays, options, machine.placer)
    while advance(machine.w, machine.s, options):
        head, tail = (int(machine.state.n[i]) for i in (core.Q_HEAD, core.Q_TAIL))
        moments += tail - head > 1
        if tail - head > 1 and moments % _EVERY == 0:
            look_around(machine.w, machine.s, options, tail)
            score_queue(machine.w, machine.s, options, tail, False)
            yield *_rows(machine, head, tail), int(np.argmin(machine.state.queue.score[head:tail]))
        maker.make_pass()
        machine.take_spells()


def _rows(machine: Machine, head: int, tail: int) -> tuple[Floats, Floats]:
    codes = critic_codes()
    rows, critic = (np.empty((tail - head, n)) for n in (len(machine.world.net_norm), len(codes)))
    mask = np.empty(tail - head, np.int64)
    observe(machine.w, machine.s, machine.options._replace(in_view=tail - head), codes, rows, critic, mask)
    return rows, critic


def verdicts(picked: Floats) -> tuple[Floats, Ints, Ints]:
    """Return an inspector's choices about picked jobs: candidates, where they begin, which is taken.

    Nine of ten are accepted: who begins so neither stops the cluster nor never finds out what refusing is good for.
    """
    rows = np.zeros((2 * len(picked), picked.shape[1]))
    rows[0::2] = picked
    rows[0::2, -1] = 1.0
    return rows, np.arange(0, len(rows) + 1, 2), (np.arange(len(picked)) % 10 == 9).astype(np.int64)

"""Evolution of the same network: no gradients, any backfilling, the objective itself.

Natural evolution in the manner of Salimans et al. (2017): pairs of mirrored steps, ranked, Adam on what they tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rltune.learn.arena import Stage, costs, mean_wait

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rltune.sim import Machine

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EvolveSettings:
    """How to evolve."""

    generations: int = 100  # steps
    pairs: int = 16  # mirrored pairs tried in each
    windows: int = 16  # windows that all of a generation are tried on
    sigma: float = 0.05  # size of the steps tried
    rate: float = 0.02  # of Adam
    every: int = 5  # generations between two validations
    patience: int = 8  # validations without a better one before it stops
    threads: int = 2
    seed: int = 0


@dataclass
class Adam:
    """Kingma and Ba (2015)."""

    rate: float
    m: Floats
    v: Floats
    t: int = 0

    def step(self, gradient: Floats) -> Floats:
        """Give the step to take against a gradient."""
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.99 * self.v + 0.01 * gradient * gradient
        m, v = self.m / (1 - 0.9**self.t), self.v / (1 - 0.99**self.t)
        return -self.rate * m / (np.sqrt(v) + 1e-8)


def ranks(values: Floats) -> Floats:
    """Give values by rank, from -0.5 to 0.5."""
    order = np.empty(len(values))
    order[np.argsort(values, kind="stable")] = np.arange(len(values))
    return order / (len(values) - 1) - 0.5


@dataclass(frozen=True)
class Told:
    """What a validation found."""

    generation: int
    train: float  # cost against the base policy's, on the windows of the generation
    validation: float
    best: bool


def evolve(
    start: Floats,
    stages: Sequence[Stage],
    base: Floats,
    validation: Sequence[Stage],
    validation_base: Floats,
    settings: EvolveSettings,
    cost: Callable[[Machine], float] = mean_wait,
    tell: Callable[[Told], None] = lambda _: None,
) -> Floats:
    """Improve weights on windows whose cost under the base policy is known; give those best in validation."""
    rng = np.random.default_rng(settings.seed)
    theta = start.copy()
    adam = Adam(settings.rate, np.zeros_like(theta), np.zeros_like(theta))
    best, best_score, stale = theta.copy(), np.inf, 0
    for generation in range(settings.generations + 1):
        if generation % settings.every == 0:
            told = _validate(theta, validation, validation_base, settings, cost, generation, best_score)
            tell(told)
            stale = 0 if told.best else stale + 1
            if told.best:
                best, best_score = theta.copy(), told.validation
            if stale > settings.patience:
                break
        step = rng.normal(size=(settings.pairs, len(theta)))
        tried = [theta + settings.sigma * sign * row for row in step for sign in (1.0, -1.0)]
        chosen = rng.choice(len(stages), min(settings.windows, len(stages)), replace=False)
        found = costs([stages[i] for i in chosen], tried, cost, settings.threads)
        score = ranks(found.sum(axis=1) / base[chosen].sum() + np.log(found / base[chosen]).mean(axis=1))
        gradient = (score[0::2] - score[1::2]) @ step / (settings.pairs * settings.sigma)
        theta = theta + adam.step(gradient + 0.001 * theta)
    return best


def _validate(
    theta: Floats,
    validation: Sequence[Stage],
    base: Floats,
    settings: EvolveSettings,
    cost: Callable[[Machine], float],
    generation: int,
    best: float,
) -> Told:
    kept = theta.astype(np.float32).astype(np.float64)  # as it would be written
    found = costs(validation, [kept], cost, settings.threads)[0]
    score = float(found.sum() / base.sum())
    return Told(generation, float(np.exp(np.log(found / base).mean())), score, score < best)

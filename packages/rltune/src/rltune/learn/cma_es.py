"""Evolution of the network: no gradients, any backfilling, the objective itself.

Two linear scores of a job's inputs, one for every job and one more for those that fit now (or run, where jobs take
turns by the network's order), are the directions in which the network's weights are moved, by CMA-ES (Hansen, "The CMA
evolution strategy: a tutorial", 2016). So few numbers need few windows and do not overfit as a whole network does;
`rltune train` can go on from what comes out. What is the same for all jobs (how long the queue is) changes nothing in a
sum; bends let it change what counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rltune.learn.replayed_windows import Stage, costs, mean_wait
from rltune.model.learned_model import n_weights
from rltune.trials.even_ratio import even_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rltune.engine.run import Machine
    from rltune.model.feature_sets import Recipe

Floats = NDArray[np.float64]
SHUT = 30.0  # closes the second score for jobs that do not fit
PLAIN = 3  # units of a layer that the two scores need


@dataclass(frozen=True)
class EvolveSettings:
    """How to evolve."""

    generations: int = 40  # steps
    tried: int = 14  # candidates of each
    windows: int = 12  # windows that all candidates of a generation are tried on
    sigma: float = 0.3  # size of the first steps
    every: int = 2  # generations between two validations
    patience: int = 8  # validations without a better one before it stops
    threads: int = 2
    seed: int = 0


def two_scores(
    recipe: Recipe, hidden: tuple[int, ...], norm: Floats, rng: np.random.Generator, bends: int = 0
) -> tuple[Floats, Floats]:
    """Return weights and a matrix: weights + matrix @ (a, b) score a job by a x + [it fits] max(0, b x + 1).

    Where a network scores running jobs, too, it is [it runs] in place of [it fits].

    Each bend adds max(0, c x + d), or takes it away, by turns; its numbers (c, d) stand behind those of a and b.
    What the scores do not use of the network is small and at random, and adds nothing to the logit yet.
    """
    k, (h1, h2) = len(recipe.inputs), hidden
    first, second, last = rng.normal(size=(k, h1)) * 0.3, rng.normal(size=(h1, h2)) * 0.3, np.zeros(h2)
    used = np.arange(PLAIN + bends)
    first[:, used] = 0.0
    second[used] = 0.0
    second[:, used] = 0.0
    second[used, used] = 1.0
    last[:PLAIN] = 1.0, -1.0, 1.0
    last[PLAIN : PLAIN + bends] = np.resize([1.0, -1.0], bends)
    shift_1 = np.zeros(h1)
    matrix = np.zeros((n_weights(k, hidden), 2 * k + 1 + bends * (k + 1)))
    for i in range(k):
        matrix[i * h1, i], matrix[i * h1 + 1, i] = 1.0, -1.0
        matrix[i * h1 + 2, k + i] = 1.0
    matrix[k * h1 + 2, 2 * k] = 1.0
    for bend in range(bends):
        rows = np.arange(k + 1) * h1 + PLAIN + bend  # the inputs' weights, and behind them the shift
        matrix[rows, 2 * k + 1 + bend * (k + 1) + np.arange(k + 1)] = 1.0
    fits = recipe.inputs.index(gate_of(recipe))
    # it is normalised: SHUT x (raw - 1) = SHUT x (x / scale + shift - 1)
    first[fits, 2] = SHUT / norm[fits, 1]
    shift_1[2] = SHUT * (norm[fits, 0] - 1.0)
    weights = np.concatenate([first.ravel(), shift_1, second.ravel(), np.zeros(h2), last, [0.0]])
    return weights, matrix


def gate_of(recipe: Recipe) -> str:
    """Return the input, 0 or 1, by which the second score counts."""
    return "runs" if "runs" in recipe.inputs else "can_schedule_now"


@dataclass
class Cma:
    """Covariance matrix adaptation: asks for candidates, is told how they rank."""

    mean: Floats
    sigma: float
    tried: int
    rng: np.random.Generator
    t: int = 0
    c: Floats = field(init=False)
    path_s: Floats = field(init=False)
    path_c: Floats = field(init=False)

    def __post_init__(self) -> None:
        n, half = len(self.mean), self.tried // 2
        raw = np.log(half + 0.5) - np.log(np.arange(1, half + 1))
        self.w = raw / raw.sum()
        self.mu = 1.0 / (self.w**2).sum()
        self.c_s = (self.mu + 2) / (n + self.mu + 5)
        self.c_c = (4 + self.mu / n) / (n + 4 + 2 * self.mu / n)
        self.c_1 = 2 / ((n + 1.3) ** 2 + self.mu)
        self.c_mu = min(1 - self.c_1, 2 * (self.mu - 2 + 1 / self.mu) / ((n + 2) ** 2 + self.mu))
        self.damp = 1 + 2 * max(0.0, np.sqrt((self.mu - 1) / (n + 1)) - 1) + self.c_s
        self.chi = np.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
        self.c, self.path_s, self.path_c = np.eye(n), np.zeros(n), np.zeros(n)

    def ask(self) -> Floats:
        """Return candidates, one a row."""
        values, self._basis = np.linalg.eigh(self.c)
        self._spread = np.sqrt(np.maximum(values, 1e-20))
        self._y = (self.rng.normal(size=(self.tried, len(self.mean))) * self._spread) @ self._basis.T
        candidates: Floats = self.mean + self.sigma * self._y
        return candidates

    def tell(self, score: Floats) -> None:
        """Move towards the better half, lower first."""
        self.t += 1
        y = self._y[np.argsort(score, kind="stable")[: len(self.w)]]
        step = self.w @ y
        self.mean = self.mean + self.sigma * step
        white = self._basis @ ((self._basis.T @ step) / self._spread)
        self.path_s = (1 - self.c_s) * self.path_s + np.sqrt(self.c_s * (2 - self.c_s) * self.mu) * white
        length = np.linalg.norm(self.path_s) / np.sqrt(1 - (1 - self.c_s) ** (2 * self.t)) / self.chi
        small = length < 1.4 + 2 / (len(self.mean) + 1)
        self.path_c = (1 - self.c_c) * self.path_c + small * np.sqrt(self.c_c * (2 - self.c_c) * self.mu) * step
        rank_one = np.outer(self.path_c, self.path_c) + (not small) * self.c_c * (2 - self.c_c) * self.c
        self.c = (1 - self.c_1 - self.c_mu) * self.c + self.c_1 * rank_one + self.c_mu * (self.w * y.T) @ y
        self.sigma *= float(np.exp(self.c_s / self.damp * (np.linalg.norm(self.path_s) / self.chi - 1)))


@dataclass(frozen=True)
class Told:
    """What a validation found: costs against the base policy's."""

    generation: int
    train: float
    validation: float
    best: bool


@dataclass
class Evolution:
    """Where an evolution stands: all that its next generation depends on."""

    cma: Cma
    best: Floats  # of those validated
    best_score: float = np.inf
    stale: int = 0  # validations since the best
    at_train: float = np.nan
    generation: int = 0  # that comes next
    told: list[Told] = field(default_factory=list)

    @classmethod
    def begin(cls, start: Floats, settings: EvolveSettings) -> Evolution:
        """Stand at the start."""
        rng = np.random.default_rng(settings.seed)
        return cls(Cma(start.copy(), settings.sigma, settings.tried, rng), start)

    def note(self, score: float) -> Told:
        """Take a validation of the mean into account."""
        self.stale = 0 if score < self.best_score else self.stale + 1
        if self.stale == 0:
            self.best, self.best_score = self.cma.mean, score
        self.told.append(Told(self.generation, self.at_train, score, best=self.stale == 0))
        return self.told[-1]


def evolve(
    weights: Floats,
    matrix: Floats,
    start: Floats | Evolution,
    train: tuple[Sequence[Stage], Floats],
    validation: tuple[Sequence[Stage], Floats],
    settings: EvolveSettings,
    cost: Callable[[Machine], float] = mean_wait,
    tell: Callable[[Told], None] = lambda _: None,
    keep: Callable[[Evolution], None] = lambda _: None,
) -> tuple[Floats, bool]:
    """Improve weights on windows, each with what the base policy costs there.

    Return those best in validation, and whether it came to its end: Ctrl-C gives the best so far, if there is one.
    `keep` is called after every generation with where it stands; given as `start`, that goes on as if never broken off.
    """
    at = start if isinstance(start, Evolution) else Evolution.begin(start, settings)
    whole = False
    try:
        for generation in range(at.generation, settings.generations + 1):
            if generation % settings.every == 0:
                found = costs(validation[0], [as_written(weights + matrix @ at.cma.mean)], cost, settings.threads)[0]
                tell(at.note(float(against(found, validation[1]))))
            if at.stale > settings.patience:
                break
            _make_generation(at, weights, matrix, train, settings, cost)
            at.generation = generation + 1
            keep(at)
        whole = True
    except KeyboardInterrupt:
        if at.best_score == np.inf:
            raise
    return as_written(weights + matrix @ at.best), whole


def _make_generation(
    at: Evolution,
    weights: Floats,
    matrix: Floats,
    train: tuple[Sequence[Stage], Floats],
    settings: EvolveSettings,
    cost: Callable[[Machine], float],
) -> None:
    stages, base = train
    chosen = at.cma.rng.choice(len(stages), min(settings.windows, len(stages)), replace=False)
    tried = [weights + matrix @ p for p in at.cma.ask()]
    found = costs([stages[i] for i in chosen], tried, cost, settings.threads)
    ratio = against(found, base[chosen])
    at.at_train = float(np.median(ratio))
    at.cma.tell(ratio)


def against(found: Floats, base: Floats) -> Floats:
    """Return costs over the base policy's: half the ratio of the sums, half the windows' mean ratio, both geometric.

    So neither one bad window nor many easy ones decide.
    """
    return even_ratio(found.sum(axis=-1) / base.sum(), found, base)


def as_written(weights: Floats) -> Floats:
    """Return weights as a model file keeps them."""
    return weights.astype(np.float32).astype(np.float64)

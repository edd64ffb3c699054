"""What training sends to where the work is done: one window run under a network, to learn from it or to judge it.

Nothing here needs torch, so nor does a machine that only runs windows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rltune.learn.objective import Objective, Times
from rltune.learn.rollouts import Episode, roll
from rltune.learn.training_windows import TrainingWindow
from rltune.model.learned_model import Model
from rltune.policy.learned import Learned

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Trajectory:
    """The choices of one window, in order, with their rewards."""

    rows: Singles  # [row, input] of every candidate of every choice
    critic: Singles  # [row, 5]
    first: Ints  # [choice + 1] the candidates of choice i are rows first[i] to first[i + 1]
    taken: Ints  # [choice] which of them
    reward: Floats  # [choice]
    advantage: Floats | None = None  # [choice] where it was found by another run and not by a critic

    def __len__(self) -> int:
        return len(self.taken)


@dataclass(frozen=True)
class Rolled:
    """One window under the network as it was: its choices, and how it came out."""

    trajectory: Trajectory
    gap: float  # to the base policy, above 0 is better
    excess: float  # of the p99 wait over its bound, below 0 if it keeps it


@dataclass(frozen=True)
class Roller:
    """Runs a window with choices drawn from the network, and pays for them."""

    model: Model
    objective: Objective
    dense: bool
    price: float  # of what exceeds the bound on the p99 wait

    def __call__(self, item: tuple[TrainingWindow, int]) -> Rolled:
        """Run a window; the seed decides what is drawn."""
        window, seed = item
        episode = roll(window.machine(Learned(self.model)), seed)
        ours, base = _times(episode), window.under_base
        reward = self.objective.rewards(episode.when_s, ours, base, dense=self.dense)
        excess = self.objective.excess(ours, base)
        if len(reward):
            reward[-1] -= self.price * max(0.0, excess)
        return Rolled(_trajectory(episode, reward), self.objective.gap(ours, base), excess)


def _times(episode: Episode) -> Times:
    return Times.of(episode.submit_s, episode.start_s, episode.end_s, np.isfinite(episode.end_s))


def _trajectory(episode: Episode, reward: Floats) -> Trajectory:
    """Copy what is learnt from out of arrays that have room for more."""
    rows, critic = episode.rows.astype(np.float32), episode.critic.astype(np.float32)
    return Trajectory(rows, critic, episode.first.copy(), episode.taken.copy(), reward)


@dataclass(frozen=True)
class Judged:
    """What a window costs by each measure, and its p99 wait with the longest that is allowed."""

    ours: Floats
    base: Floats
    p99_s: float
    allowed_s: float


@dataclass(frozen=True)
class Judge:
    """Runs a window as the model would be used."""

    model: Model
    objective: Objective

    def __call__(self, window: TrainingWindow) -> Judged:
        """Run a held-out window."""
        ours, base = window.times(Learned(self.model)), window.under_base
        costs = self.objective.costs
        return Judged(costs(ours), costs(base), ours.p99_wait_s, self.objective.allowed_s(base))


@dataclass(frozen=True)
class Held:
    """How a network did on all held-out windows."""

    score: float  # its mean cost over the base policy's, mixed by the weights: below 1 is better
    excess: float  # share by which its p99 wait, mean over windows, is above what is allowed

    @classmethod
    def of(cls, judged: list[Judged], objective: Objective) -> Held:
        """Divide mean costs by mean costs."""
        ours, base = (np.array([getattr(j, side) for j in judged]).mean(axis=0) for side in ("ours", "base"))
        ratio = np.where(base > 0, ours / np.where(base > 0, base, 1.0), 1.0)
        weights = np.array([weight for _, weight in objective.weights])
        p99, allowed = (float(np.mean([getattr(j, side) for j in judged])) for side in ("p99_s", "allowed_s"))
        return cls(float(weights @ ratio), max(0.0, p99 / allowed - 1) if allowed > 0 else 0.0)

    def beats(self, other: Held | None) -> bool:
        """Return whether it is the better one: that which keeps the bound, or comes nearer to it; then the score."""
        return other is None or (self.excess, self.score) < (other.excess, other.score)

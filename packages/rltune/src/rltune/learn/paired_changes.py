"""What one choice is worth: the window as the network would run it, and once more with that choice changed.

Both runs share all else (common random numbers; the "vine" of Schulman et al., Trust region policy optimization, 2015),
so that what they differ by is the choice's own doing, and no critic has to tell it from the rest of the window.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rltune.learn.objective import Objective, Times
from rltune.learn.rollouts import Episode, as_used, logits, with_change
from rltune.learn.training_windows import TrainingWindow, times_of
from rltune.learn.window_worker import Rolled, Trajectory
from rltune.model.learned_model import Model
from rltune.policy.learned import Learned

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ChangedChoice:
    """Another candidate for one choice."""

    choice: int
    candidate: int
    chance: float  # of the softmax taking any other than the best one there


def drawn_changes(episode: Episode, logit: Floats, count: int, rng: np.random.Generator) -> list[ChangedChoice]:
    """Draw choices of an episode, and for each another candidate than the one taken, by the softmax of the others.

    Weighted by `chance`, what changes gain has the expectation that the policy's gradient asks for.
    """
    found = []
    for choice in np.sort(rng.permutation(len(episode))[:count]).tolist():
        of_choice = logit[episode.first[choice] : episode.first[choice + 1]]
        others = np.exp(of_choice - of_choice.max())
        usual = others[episode.taken[choice]]
        others[episode.taken[choice]] = 0.0
        if others.sum() > 0:
            candidate = int(rng.choice(len(others), p=others / others.sum()))
            found.append(ChangedChoice(choice, candidate, float(others.sum() / (others.sum() + usual))))
    return found


@dataclass(frozen=True)
class PairedRoller:
    """Runs a window as the network would, then again with one choice changed at a time: what each change gains."""

    model: Model
    objective: Objective
    changes: int  # choices of a window that are tried otherwise
    price: float  # of what exceeds the bound on the p99 wait

    def __call__(self, item: tuple[TrainingWindow, int]) -> Rolled:
        """Run a window; the seed decides what is changed."""
        window, seed = item
        machine = window.machine(Learned(self.model))
        usual, base = as_used(machine), window.under_base
        times = Times.of(usual.submit_s, usual.start_s, usual.end_s, np.isfinite(usual.end_s))
        rng = np.random.default_rng(seed)
        changes = drawn_changes(usual, logits(machine, usual.rows), self.changes, rng)
        worth = self._worth(times, base)
        gained = [self._worth(times_of(with_change(machine, c.choice, c.candidate)), base) - worth for c in changes]
        advantage = np.array([c.chance * gain for c, gain in zip(changes, gained, strict=True)])
        return Rolled(_of_changes(usual, changes, advantage), *self._told(times, base))

    def _worth(self, ours: Times, base: Times) -> float:
        gap, excess = self._told(ours, base)
        return gap - self.price * max(0.0, excess)

    def _told(self, ours: Times, base: Times) -> tuple[float, float]:
        return self.objective.gap(ours, base), self.objective.excess(ours, base)


def _of_changes(episode: Episode, changes: list[ChangedChoice], advantage: Floats) -> Trajectory:
    """Return the choices that were changed, as if the other candidate had been taken."""
    parts = [slice(episode.first[c.choice], episode.first[c.choice + 1]) for c in changes]
    rows = np.concatenate([np.arange(p.start, p.stop) for p in parts]) if parts else np.zeros(0, dtype=np.int64)
    first = np.cumsum([0, *(p.stop - p.start for p in parts)])
    taken = np.array([c.candidate for c in changes], dtype=np.int64)
    actor, critic = episode.rows[rows].astype(np.float32), episode.critic[rows].astype(np.float32)
    return Trajectory(actor, critic, first, taken, np.zeros(len(changes)), advantage)

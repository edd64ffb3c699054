"""Small problems for PPO."""

import numpy as np
import torch

from rltune.learn.ppo import Choices
from rltune.learn.window_worker import Trajectory


def one_window(rng: np.random.Generator, counts: tuple[int, ...]) -> Trajectory:
    """Make a window with choices among so many candidates, at random throughout."""
    first = np.concatenate([[0], np.cumsum(np.array(counts, dtype=np.int64))])
    rows = rng.normal(size=(int(first[-1]), 2)).astype(np.float32)
    taken = np.array([rng.integers(n) for n in counts], dtype=np.int64)
    return Trajectory(rows, rows, first, taken, rng.normal(size=len(counts)))


def choose_the_largest(actor: torch.nn.Module, rng: np.random.Generator, steps: int = 8) -> Trajectory:
    """Play a window in which taking a candidate pays its first input; of four, each time."""
    rows = rng.normal(size=(4 * steps, 2)).astype(np.float32)
    first = np.arange(0, 4 * steps + 1, 4)
    choices = Choices(torch.from_numpy(rows), first, np.zeros(steps, dtype=np.int64))
    with torch.no_grad():
        chance = choices.log_probabilities(actor)[0].exp().reshape(steps, 4).double().numpy()
    taken = np.array([rng.choice(4, p=p / p.sum()) for p in chance])
    return Trajectory(rows, rows, first, taken, rows[first[:-1] + taken, 0].astype(np.float64))

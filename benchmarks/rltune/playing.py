"""Windows played choice by choice by a torch actor that the core does not know; many side by side, asked in one go."""

from dataclasses import dataclass, field

import numpy as np
import torch

from rltune.kernel.backfill.candidates import take
from rltune.kernel.rollout.stepwise import observe, to_next_choice
from rltune.kernel.state import arrays as core
from rltune.learn.objective import Times
from rltune.learn.ppo import Choices
from rltune.learn.training_windows import TrainingWindow, times_of
from rltune.learn.window_worker import Trajectory
from rltune.model.feature_sets import critic_codes
from rltune.model.learned_model import Model, n_weights
from rltune.policy.learned import Learned


@dataclass(frozen=True)
class Seen:
    """The candidates of one choice, oldest first: their inputs, the critic's features, their places in the queue."""

    rows: np.ndarray
    critic: np.ndarray
    place: np.ndarray
    when_s: float


@dataclass
class Game:
    """A window on its way, with the choices made so far; `Seen` is dropped if nobody is to learn from it."""

    window: TrainingWindow
    policy: Learned
    keeps: bool
    seen: list[Seen] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)

    def __post_init__(self):
        self.machine = self.window.machine(self.policy)
        self.goes_on = self._to_next(started=False)

    def look(self) -> Seen:
        m = self.machine
        head, tail = int(m.state.n[core.Q_HEAD]), int(m.state.n[core.Q_TAIL])
        rows, critic = np.zeros((tail - head, len(m.world.net_norm))), np.zeros((tail - head, core.N_CRITIC))
        mask = np.zeros(tail - head, dtype=np.int64)
        observe(m.w, m.s, m.options, critic_codes(), rows, critic, mask)
        may = np.flatnonzero(mask)
        return Seen(rows[may].astype(np.float32), critic[may].astype(np.float32), head + may, float(m.state.now[0]))

    def play(self, seen: Seen, which: int) -> None:
        """Let one of the candidates be next, and go on to where there is a choice again."""
        if self.keeps:
            self.seen.append(seen)
            self.taken.append(which)
        m = self.machine
        self.goes_on = self._to_next(started=take(m.w, m.s, m.options, int(seen.place[which])))

    @property
    def times(self) -> Times:
        return times_of(self.machine)

    def trajectory(self, objective) -> Trajectory:
        """Return the choices with their rewards, told as the gap to the base policy grows."""
        when_s = np.array([s.when_s for s in self.seen])
        reward = objective.rewards(when_s, self.times, self.window.under_base, dense=True)
        rows, critic = (np.concatenate([getattr(s, name) for s in self.seen]) for name in ("rows", "critic"))
        first = np.cumsum([0, *(len(s.rows) for s in self.seen)])
        return Trajectory(rows, critic, first, np.array(self.taken), reward)

    def _to_next(self, *, started: bool) -> bool:
        m = self.machine
        return bool(to_next_choice(m.w, m.s, m.options, started))


def play(windows, actor, eyes: Learned, rng: np.random.Generator | None = None) -> list[Game]:
    """Play windows to their ends; with `rng` choices are drawn and kept, without the best candidate is taken."""
    games = [Game(window, eyes, keeps=rng is not None) for window in windows]
    while going := [game for game in games if game.goes_on]:
        looks = [game.look() for game in going]
        for game, seen, which in zip(going, looks, _chosen(actor, looks, rng), strict=True):
            game.play(seen, which)
    return games


def eyes_of(recipe, norm, base) -> Learned:
    """Return a policy whose network is never asked, for the inputs that the core makes for it."""
    return Learned(Model(recipe, (1, 1), np.zeros(n_weights(len(recipe.inputs), (1, 1))), norm, base))


def _chosen(actor, looks, rng) -> list[int]:
    """Choose for all windows at once; the largest logit with Gumbel noise is a draw from the softmax."""
    first = np.cumsum([0, *(len(seen.rows) for seen in looks)])
    rows = torch.from_numpy(np.concatenate([seen.rows for seen in looks]))
    with torch.no_grad():
        logs = Choices(rows, first, np.zeros(len(looks), dtype=np.int64)).log_probabilities(actor)[0].numpy()
    if rng is not None:
        logs = logs + rng.gumbel(size=len(logs))
    return [int(np.argmax(part)) for part in np.split(logs, first[1:-1])]

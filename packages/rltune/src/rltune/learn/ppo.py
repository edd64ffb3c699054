"""Proximal policy optimisation (Schulman et al. 2017) over choices with any number of candidates, top to bottom.

A choice is one of several waiting jobs; the actor scores each by itself and the softmax is over those that are there,
so nothing is padded for it. The critic sees the queue at a fixed size, oldest first, zero-padded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rltune.learn.worker import Trajectory

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]

CRITIC_JOBS = 256  # the oldest candidates, which the critic sees
SHARDS = 4  # parts of a minibatch whose gradients are made apart: fixed, so that threads change no result


@dataclass(frozen=True)
class PpoSettings:
    """How the networks are updated; the names and meanings are those of the paper and of CleanRL."""

    gamma: float = 1.0  # discount
    gae_lambda: float = 0.97  # how far an advantage looks ahead
    clip: float = 0.2  # how far a probability may move before its gradient stops
    actor_rate: float = 3e-3  # learning rate
    critic_rate: float = 1e-3
    passes: int = 6  # over the choices of an epoch
    minibatches: int = 8  # in each pass
    entropy: float = 0.0  # what indecision is worth
    value: float = 0.5  # weight of the critic's loss
    max_norm: float = 0.5  # gradients are shortened to this
    target_kl: float = 0.03  # an epoch's updates end once the policy has moved this far; 0 = never


class Actor(nn.Module):
    """One small network for all jobs: a logit from a job's inputs."""

    def __init__(self, inputs: int, hidden: tuple[int, int]) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(inputs, hidden[0]), nn.ReLU(), nn.Linear(hidden[0], hidden[1]), nn.ReLU(), nn.Linear(hidden[1], 1)
        )
        _initialise(self.layers, last=0.01)

    def forward(self, rows: Tensor) -> Tensor:
        """Give a logit a row."""
        return self.layers(rows).squeeze(-1)  # type: ignore[no-any-return]

    def to_flat(self) -> Floats:
        """Give the weights as a model file and the core have them: by rows of inputs, then biases, layer by layer."""
        parts = [part for layer in self._linear() for part in (layer.weight.T.reshape(-1), layer.bias)]
        return torch.cat(parts).detach().numpy().astype(np.float64)

    def from_flat(self, weights: Floats) -> None:
        """Take the weights of a model file."""
        at = 0
        with torch.no_grad():
            for layer in self._linear():
                outputs, inputs = layer.weight.shape
                matrix = weights[at : at + inputs * outputs].reshape(inputs, outputs)
                at += inputs * outputs
                layer.weight.copy_(torch.from_numpy(matrix.T.copy()))
                layer.bias.copy_(torch.from_numpy(weights[at : at + outputs].copy()))
                at += outputs

    def _linear(self) -> list[nn.Linear]:
        return [layer for layer in self.layers if isinstance(layer, nn.Linear)]


class Critic(nn.Module):
    """What is still to be won, from the queue as a whole."""

    def __init__(self, scale: Floats, hidden: tuple[int, int] = (64, 32), jobs: int = CRITIC_JOBS) -> None:
        super().__init__()
        self.jobs = jobs
        self.scale = scale.astype(np.float32)  # [input, 2]: shift, scale
        self.layers = nn.Sequential(
            nn.Linear(jobs * len(scale), hidden[0]),
            nn.Tanh(),
            nn.Linear(hidden[0], hidden[1]),
            nn.Tanh(),
            nn.Linear(hidden[1], 1),
        )
        _initialise(self.layers, last=1.0)

    def forward(self, queues: Tensor) -> Tensor:
        """Give a value a queue."""
        return self.layers(queues).squeeze(-1)  # type: ignore[no-any-return]

    def pad(self, rows: Singles, first: Ints) -> Tensor:
        """Put the oldest candidates of every choice side by side, zeros where there are fewer."""
        width = rows.shape[1]
        queues = np.zeros((len(first) - 1, self.jobs, width), dtype=np.float32)
        choice = np.repeat(np.arange(len(first) - 1), np.diff(first))
        place = np.arange(len(rows)) - first[choice]
        seen = place < self.jobs
        queues[choice[seen], place[seen]] = (rows[seen] - self.scale[:, 0]) * self.scale[:, 1]
        return torch.from_numpy(queues.reshape(len(queues), self.jobs * width))


def _initialise(layers: nn.Sequential, last: float) -> None:
    """Begin with orthogonal weights and, in the end, nearly equal answers for all."""
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    for layer in linear:
        nn.init.orthogonal_(layer.weight, last if layer is linear[-1] else 2**0.5)
        nn.init.zeros_(layer.bias)


def log_softmax(logits: Tensor, choice: Tensor, choices: int) -> Tensor:
    """Give the logarithm of each candidate's probability among those of its own choice."""
    top = torch.full((choices,), -torch.inf).scatter_reduce(0, choice, logits.detach(), "amax")
    moved = logits - top[choice]
    total = torch.zeros(choices).index_add(0, choice, moved.exp())
    return moved - total.log()[choice]


def advantages(
    rewards: Sequence[Floats], values: Sequence[Floats], gamma: float, gae_lambda: float
) -> tuple[Floats, Floats]:
    """Give advantage (generalised advantage estimation, Schulman et al. 2016) and return of every choice of windows."""
    longest = max(map(len, rewards))
    reward, value, there = (np.zeros((len(rewards), longest + 1)) for _ in range(3))
    for i, (r, v) in enumerate(zip(rewards, values, strict=True)):
        reward[i, : len(r)], value[i, : len(r)], there[i, : len(r)] = r, v, 1.0
    made = np.zeros_like(reward)
    for t in range(longest - 1, -1, -1):
        delta = reward[:, t] + gamma * value[:, t + 1] - value[:, t]
        made[:, t] = there[:, t] * (delta + gamma * gae_lambda * made[:, t + 1])
    kept = there > 0
    return made[kept], (made + value)[kept]


def policy_loss(new: Tensor, old: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """Give the clipped loss of every choice, from the logarithms of its probability now and when it was made."""
    ratio = (new - old).exp()
    return -torch.min(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)


@dataclass(frozen=True)
class Batch:
    """Choices, their candidates, and what is to be learnt of them."""

    rows: Tensor
    choice: Tensor  # [row] whose candidate it is
    taken: Tensor  # [choice] row of the candidate taken
    queues: Tensor  # [choice, ...] what the critic sees
    old: Tensor  # [choice] log probability when it was made
    advantage: Tensor
    returns: Tensor

    def __len__(self) -> int:
        return len(self.taken)

    def parts(self, count: int) -> Iterator[Batch]:
        """Cut into parts of nearly equally many choices."""
        first_row = torch.searchsorted(self.choice, torch.arange(len(self) + 1))
        for part in np.array_split(np.arange(len(self)), count):
            if len(part):
                lo, hi = int(part[0]), int(part[-1]) + 1
                rows = slice(int(first_row[lo]), int(first_row[hi]))
                yield Batch(
                    self.rows[rows],
                    self.choice[rows] - lo,
                    self.taken[lo:hi] - rows.start,
                    self.queues[lo:hi],
                    self.old[lo:hi],
                    self.advantage[lo:hi],
                    self.returns[lo:hi],
                )


@dataclass
class Tally:
    """Sums over choices, to be told as means."""

    choices: int = 0
    sums: dict[str, float] = field(default_factory=dict)

    def add(self, choices: int, **values: float) -> None:
        """Count some choices with their sums."""
        self.choices += choices
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def means(self) -> dict[str, float]:
        """Give the means."""
        return {name: value / max(self.choices, 1) for name, value in self.sums.items()}


class Ppo:
    """Actor, critic and their optimiser."""

    def __init__(self, actor: Actor, critic: Critic, settings: PpoSettings) -> None:
        self.actor, self.critic, self.settings = actor, critic, settings
        self.optimiser = torch.optim.Adam(
            [
                {"params": list(actor.parameters()), "lr": settings.actor_rate},
                {"params": list(critic.parameters()), "lr": settings.critic_rate},
            ],
            eps=1e-5,
        )

    def update(
        self, trajectories: Sequence[Trajectory], rng: np.random.Generator, pool: Executor | None = None
    ) -> dict[str, float]:
        """Learn from the choices of some windows; give the means of what CleanRL logs."""
        windows = [t for t in trajectories if len(t)]
        if not windows:
            return {}
        batch = self._batch(windows)
        values = batch.returns - batch.advantage
        told = Tally()
        for _ in range(self.settings.passes):
            tally = Tally()
            for part in self._minibatches(batch, rng):
                self._step(part, tally, pool)
            told = tally
            if 0 < self.settings.target_kl < tally.means()["approx_kl"]:
                break
        explained = 1 - float((batch.returns - values).var()) / max(float(batch.returns.var()), 1e-12)
        return {**told.means(), "explained_variance": explained}

    def state_dict(self) -> dict[str, Any]:
        """Give all that the next update depends on."""
        return {
            "actor": self.actor.state_dict(),
            "critic": self.critic.state_dict(),
            "optimiser": self.optimiser.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Be as when the state was taken."""
        self.actor.load_state_dict(state["actor"])
        self.critic.load_state_dict(state["critic"])
        self.optimiser.load_state_dict(state["optimiser"])

    def _batch(self, windows: Sequence[Trajectory]) -> Batch:
        rows = np.concatenate([t.rows for t in windows])
        before = np.cumsum([0, *(len(t.rows) for t in windows)])
        first = np.concatenate([t.first[:-1] + at for t, at in zip(windows, before[:-1], strict=True)])
        ends = np.append(first, len(rows))
        choice = torch.from_numpy(np.repeat(np.arange(len(first)), np.diff(ends)))
        taken = torch.from_numpy(first + np.concatenate([t.taken for t in windows]))
        queues = self.critic.pad(np.concatenate([t.critic for t in windows]), ends)
        candidates = torch.from_numpy(rows)
        with torch.no_grad():
            old = log_softmax(self.actor(candidates), choice, len(first))[taken]
            values = self.critic(queues).numpy().astype(np.float64)
        cuts = np.cumsum([len(t) for t in windows])[:-1]
        made = advantages(
            [t.reward for t in windows], np.split(values, cuts), self.settings.gamma, self.settings.gae_lambda
        )
        advantage, returns = (torch.from_numpy(x.astype(np.float32)) for x in made)
        return Batch(candidates, choice, taken, queues, old, advantage, returns)

    def _minibatches(self, batch: Batch, rng: np.random.Generator) -> Iterator[Batch]:
        first = torch.searchsorted(batch.choice, torch.arange(len(batch) + 1)).numpy()
        for some in np.array_split(rng.permutation(len(batch)), self.settings.minibatches):
            if len(some):
                yield self._picked(batch, first, np.sort(some))

    def _picked(self, batch: Batch, first: Ints, some: Ints) -> Batch:
        counts = first[some + 1] - first[some]
        starts = np.cumsum(counts) - counts
        rows = np.repeat(first[some] - starts, counts) + np.arange(counts.sum())
        of = torch.from_numpy(some)
        advantage = batch.advantage[of]
        return Batch(
            batch.rows[torch.from_numpy(rows)],
            torch.from_numpy(np.repeat(np.arange(len(some)), counts)),
            batch.taken[of] - torch.from_numpy(first[some] - starts),
            batch.queues[of],
            batch.old[of],
            (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8),
            batch.returns[of],
        )

    def _step(self, batch: Batch, tally: Tally, pool: Executor | None) -> None:
        """Make one step; the gradients of its shards are summed in a fixed order."""
        work = partial(self._gradient, whole=len(batch))
        made = list((pool.map if pool else map)(work, batch.parts(SHARDS)))
        parameters = [*self.actor.parameters(), *self.critic.parameters()]
        for i, parameter in enumerate(parameters):
            parameter.grad = torch.stack([gradient[i] for gradient, _ in made]).sum(dim=0)
        nn.utils.clip_grad_norm_(self.actor.parameters(), self.settings.max_norm)
        nn.utils.clip_grad_norm_(self.critic.parameters(), self.settings.max_norm)
        self.optimiser.step()
        for _, sums in made:
            tally.add(**sums)  # type: ignore[arg-type]

    def _gradient(self, part: Batch, whole: int) -> tuple[tuple[Tensor, ...], dict[str, float]]:
        logs = log_softmax(self.actor(part.rows), part.choice, len(part))
        new = logs[part.taken]
        policy = policy_loss(new, part.old, part.advantage, self.settings.clip).sum()
        entropy = -(logs.exp() * logs).sum()
        value = ((self.critic(part.queues) - part.returns) ** 2).sum()
        loss = (policy - self.settings.entropy * entropy + self.settings.value * value) / whole
        gradient = torch.autograd.grad(loss, [*self.actor.parameters(), *self.critic.parameters()])
        with torch.no_grad():
            moved = new - part.old
            sums = {
                "choices": len(part),
                "policy_loss": float(policy),
                "value_loss": float(value),
                "entropy": float(entropy),
                "approx_kl": float((moved.exp() - 1 - moved).sum()),
                "clipfrac": float(((moved.exp() - 1).abs() > self.settings.clip).sum()),
            }
        return gradient, sums

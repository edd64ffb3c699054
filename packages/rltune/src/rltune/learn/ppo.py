"""Proximal policy optimisation (Schulman et al. 2017) over choices with any number of candidates, top to bottom.

A choice is one of several waiting jobs; the actor scores each by itself and the softmax is over those that are there,
so nothing is padded for it. An actor that compares them is told, too, where the candidates of each choice begin. The
critic sees the queue at a fixed size, oldest first, zero-padded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rltune.learn.window_worker import Trajectory

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]

CRITIC_JOBS = 256  # the oldest candidates, which the critic sees
_IMITATED = 64  # choices in a minibatch of imitation
SHARDS = 2  # parts of a minibatch whose gradients are made apart: fixed, so that threads change no result


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

    def __init__(self, inputs: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        layers = [layer for a, b in pairwise((inputs, *hidden)) for layer in (nn.Linear(a, b), nn.ReLU())]
        self.layers = nn.Sequential(*layers, nn.Linear(hidden[-1], 1))
        _initialise(self.layers, last=0.01)

    def forward(self, rows: Tensor, first: Ints | None = None) -> Tensor:  # noqa: ARG002  a job is scored by itself
        """Return a logit a row."""
        return self.layers(rows).squeeze(-1)  # type: ignore[no-any-return]

    def to_flat(self) -> Floats:
        """Return the weights as a model file and the core have them: by rows of inputs, then biases, layer by layer."""
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
        """Return a value a queue; jobs that are left out at its end are zeros."""
        first, rest = self.layers[0], self.layers[1:]
        assert isinstance(first, nn.Linear)
        flat = queues.flatten(1)
        hidden = nn.functional.linear(flat, first.weight[:, : flat.shape[1]], first.bias)
        return rest(hidden).squeeze(-1)  # type: ignore[no-any-return]

    def pad(self, rows: Singles, first: Ints) -> Tensor:
        """Put the oldest candidates of every choice side by side, zeros where there are fewer than in the longest."""
        width = rows.shape[1]
        longest = min(self.jobs, int(np.diff(first).max(initial=1)))
        queues = np.zeros((len(first) - 1, longest, width), dtype=np.float32)
        choice = np.repeat(np.arange(len(first) - 1), np.diff(first))
        place = np.arange(len(rows)) - first[choice]
        seen = place < self.jobs
        queues[choice[seen], place[seen]] = (rows[seen] - self.scale[:, 0]) * self.scale[:, 1]
        return torch.from_numpy(queues)


def _initialise(layers: nn.Sequential, last: float) -> None:
    """Begin with orthogonal weights and, in the end, nearly equal answers for all."""
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    for layer in linear:
        nn.init.orthogonal_(layer.weight, last if layer is linear[-1] else 2**0.5)
        nn.init.zeros_(layer.bias)


def log_softmax(logits: Tensor, choice: Tensor, choices: int) -> Tensor:
    """Return the logarithm of each candidate's probability among those of its own choice."""
    top = torch.full((choices,), -torch.inf).scatter_reduce(0, choice, logits.detach(), "amax")
    moved = logits - top[choice]
    total = torch.zeros(choices).index_add(0, choice, moved.exp())
    return moved - total.log()[choice]


@dataclass(frozen=True)
class Choices:
    """Choices among any number of candidates each."""

    rows: Tensor  # [row, input]
    first: Ints  # [choice + 1] the candidates of choice i are rows first[i] to first[i + 1]
    taken: Ints  # [choice] which of them

    def __len__(self) -> int:
        return len(self.taken)

    @property
    def counts(self) -> Ints:
        """Return the number of candidates of each choice."""
        return np.diff(self.first)

    def some(self, which: Ints) -> Choices:
        """Keep these choices, in this order."""
        counts = self.counts[which]
        first = np.concatenate([[0], np.cumsum(counts)])
        rows = np.repeat(self.first[which] - first[:-1], counts) + np.arange(first[-1])
        return Choices(self.rows[torch.from_numpy(rows)], first, self.taken[which])

    def part(self, lo: int, hi: int) -> Choices:
        """Keep the choices from lo up to hi."""
        rows = self.rows[self.first[lo] : self.first[hi]]
        return Choices(rows, self.first[lo : hi + 1] - self.first[lo], self.taken[lo:hi])

    def log_probabilities(self, actor: nn.Module) -> tuple[Tensor, Tensor]:
        """Return the logarithms of the probability of every candidate, and of those taken."""
        choice = torch.from_numpy(np.repeat(np.arange(len(self)), np.diff(self.first)))
        logs = log_softmax(actor(self.rows, self.first), choice, len(self))
        return logs, logs[torch.from_numpy(self.first[:-1] + self.taken)]


def imitate(actor: nn.Module, choices: Choices, passes: int, rng: np.random.Generator) -> None:
    """Teach an actor, before PPO, to take what somebody else took, by cross-entropy."""
    optimiser = torch.optim.Adam(actor.parameters(), 3e-3)
    for _ in range(passes):
        for which in np.array_split(rng.permutation(len(choices)), max(1, len(choices) // _IMITATED)):
            _, taken = choices.some(which).log_probabilities(actor)
            optimiser.zero_grad()
            (-taken.mean()).backward()  # type: ignore[no-untyped-call]
            optimiser.step()


def advantages(
    rewards: Sequence[Floats], values: Sequence[Floats], gamma: float, gae_lambda: float
) -> tuple[Floats, Floats]:
    """Return the advantage (generalised estimation, Schulman et al. 2016) and return of every choice of windows."""
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
    """Return the clipped loss of every choice, from the logarithms of its probability now and when it was made."""
    ratio = (new - old).exp()
    return -torch.min(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)


@dataclass(frozen=True)
class Batch:
    """Choices, and what is to be learnt of each."""

    choices: Choices
    queues: Tensor  # [choice, job, input] what the critic sees
    old: Tensor  # log probability of the one taken when it was made
    advantage: Tensor
    returns: Tensor
    by_critic: bool = True  # advantages are known but for a constant; those of pairs have a true 0

    def __len__(self) -> int:
        return len(self.choices)

    def some(self, which: Ints) -> Batch:
        """Keep these choices, their advantages brought to mean 0 if a critic told them, and to size 1."""
        of = torch.from_numpy(which)
        advantage = self.advantage[of]
        if self.by_critic:
            level = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8)
        else:
            level = advantage / (advantage.square().mean().sqrt() + 1e-8)
        return Batch(self.choices.some(which), self.queues[of], self.old[of], level, self.returns[of], self.by_critic)

    def by_length(self, which: Ints) -> Ints:
        """Put these choices in order of their candidates, so that a shard of short ones has short queues."""
        return which[np.lexsort((which, self.choices.counts[which]))]

    def shards(self, count: int) -> Iterator[Batch]:
        """Cut into parts with nearly equally many candidates, queues only as long as the longest of each."""
        first = self.choices.first
        cuts = [0, *np.searchsorted(first, first[-1] * np.arange(1, count) / count).tolist(), len(self)]
        for lo, hi in pairwise(cuts):
            if lo < hi:
                choices = self.choices.part(lo, hi)
                queues = self.queues[lo:hi, : choices.counts.max()]
                old, advantage, returns = (tensor[lo:hi] for tensor in (self.old, self.advantage, self.returns))
                yield Batch(choices, queues, old, advantage, returns, self.by_critic)


class Ppo:
    """Actor, critic and their optimiser."""

    def __init__(self, actor: nn.Module, critic: Critic, settings: PpoSettings) -> None:
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
        """Learn from the choices of some windows; give the means of what CleanRL logs, over the last pass."""
        windows = [t for t in trajectories if len(t)]
        if not windows:
            return {}
        batch = self._batch(windows)
        told: dict[str, float] = {}
        for _ in range(self.settings.passes):
            told = self._pass(batch, rng, pool)
            if 0 < self.settings.target_kl < told["approx_kl"]:
                break
        if not batch.by_critic:
            return told
        unexplained = float(batch.advantage.var(correction=0)) / max(float(batch.returns.var(correction=0)), 1e-12)
        return {**told, "explained_variance": 1 - unexplained}

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next update depends on."""
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
        """Put the choices of all windows together, with advantages by the critic as it is if they have none."""
        before = np.cumsum([0, *(len(t.rows) for t in windows)])
        first = [t.first[:-1] + at for t, at in zip(windows, before[:-1], strict=True)]
        rows = torch.from_numpy(np.concatenate([t.rows for t in windows]))
        taken = np.concatenate([t.taken for t in windows])
        choices = Choices(rows, np.concatenate([*first, before[-1:]]), taken)
        with torch.no_grad():
            _, old = choices.log_probabilities(self.actor)
        paired = [t.advantage for t in windows if t.advantage is not None]
        if len(paired) == len(windows):
            advantage = torch.from_numpy(np.concatenate(paired).astype(np.float32))
            nothing = torch.zeros(len(choices), 0)
            return Batch(choices, nothing, old, advantage, torch.zeros(len(choices)), by_critic=False)
        queues = self.critic.pad(np.concatenate([t.critic for t in windows]), choices.first)
        with torch.no_grad():
            values = self.critic(queues).numpy().astype(np.float64)
        values = np.split(values, np.cumsum([len(t) for t in windows])[:-1])
        made = advantages([t.reward for t in windows], values, self.settings.gamma, self.settings.gae_lambda)
        advantage, returns = (torch.from_numpy(x.astype(np.float32)) for x in made)
        return Batch(choices, queues, old, advantage, returns)

    def _pass(self, batch: Batch, rng: np.random.Generator, pool: Executor | None) -> dict[str, float]:
        """Make one step a minibatch; give means over all choices."""
        sums: Counter[str] = Counter()
        for which in np.array_split(rng.permutation(len(batch)), min(self.settings.minibatches, len(batch))):
            for shard in self._step(batch.some(batch.by_length(which)), pool):
                sums.update(shard)
        return {name: value / len(batch) for name, value in sums.items()}

    def _step(self, batch: Batch, pool: Executor | None) -> list[dict[str, float]]:
        """Make one step; the gradients of its shards are summed in a fixed order."""
        work = partial(self._gradient, whole=len(batch))
        gradients, sums = zip(*(pool.map if pool else map)(work, batch.shards(SHARDS)), strict=True)
        for i, parameter in enumerate(self._parameters(batch)):
            parameter.grad = torch.stack([gradient[i] for gradient in gradients]).sum(dim=0)
        nn.utils.clip_grad_norm_(self.actor.parameters(), self.settings.max_norm)
        nn.utils.clip_grad_norm_(self.critic.parameters(), self.settings.max_norm)
        self.optimiser.step()
        return list(sums)

    def _gradient(self, part: Batch, whole: int) -> tuple[tuple[Tensor, ...], dict[str, float]]:
        """Return a shard's part of the gradient of the mean loss, and sums to be told."""
        logs, new = part.choices.log_probabilities(self.actor)
        policy = policy_loss(new, part.old, part.advantage, self.settings.clip).sum()
        entropy = -(logs.exp() * logs).sum()
        value = ((self.critic(part.queues) - part.returns) ** 2).sum() if part.by_critic else torch.zeros(())
        loss = (policy - self.settings.entropy * entropy + self.settings.value * value) / whole
        gradient = torch.autograd.grad(loss, self._parameters(part))
        with torch.no_grad():
            moved = new - part.old
            kl, far = moved.exp() - 1 - moved, (moved.exp() - 1).abs() > self.settings.clip
        told = {"policy_loss": policy, "value_loss": value, "entropy": entropy, "approx_kl": kl, "clipfrac": far}
        return gradient, {name: float(tensor.detach().sum()) for name, tensor in told.items()}

    def _parameters(self, batch: Batch) -> list[nn.Parameter]:
        """Return what learns from a batch: a critic only from what it was asked."""
        return [*self.actor.parameters(), *(self.critic.parameters() if batch.by_critic else ())]

"""PPO against Stable-Baselines3's: the same advantages, the same losses and steps, as much learnt on a toy problem."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from learn.toys import choose_the_largest, one_window
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer

from rltune.learn.ppo import Actor, Critic, Ppo, PpoSettings, advantages

PLAIN = np.tile([0.0, 1.0], (2, 1))


@pytest.mark.parametrize(("gamma", "gae_lambda"), [(1.0, 0.97), (0.9, 0.5), (1.0, 1.0)])
def test_advantages_are_those_of_stable_baselines(gamma, gae_lambda):
    """On windows one after the other, as its buffer keeps them."""
    rng = np.random.default_rng(0)
    rewards, values = ([rng.normal(size=n) for n in (3, 6, 1, 4)] for _ in range(2))
    made, returns = advantages(rewards, values, gamma, gae_lambda)
    box = gym.spaces.Box(-1, 1, (1,))
    buffer = RolloutBuffer(14, box, gym.spaces.Discrete(2), "cpu", gae_lambda, gamma)
    starts = np.concatenate([[True] + [False] * (len(r) - 1) for r in rewards])
    for reward, value, begins in zip(np.concatenate(rewards), np.concatenate(values), starts, strict=True):
        nothing = np.zeros((1, 1))
        buffer.add(nothing, nothing, np.array([reward]), np.array([begins]), torch.tensor([value]), torch.zeros(1))
    buffer.compute_returns_and_advantage(torch.zeros(1), np.array([True]))
    assert made.tolist() == pytest.approx(buffer.advantages[:, 0].tolist(), abs=1e-5)
    assert returns.tolist() == pytest.approx(buffer.returns[:, 0].tolist(), abs=1e-5)


class Largest(gym.Env):
    """Taking one of four candidates pays its first input; a window is eight such choices."""

    observation_space = gym.spaces.Box(-9, 9, (8,))
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        self.left = 8
        return self._shown(), {}

    def step(self, action):
        paid = float(self.rows[action, 0])
        self.left -= 1
        return self._shown(), paid, self.left == 0, False, {}

    def _shown(self):
        self.rows = self.np_random.normal(size=(4, 2)).astype(np.float32)
        return self.rows.ravel()


class Shared(torch.nn.Module):
    """The same network for each of four candidates, as a policy of Stable-Baselines3."""

    def __init__(self, actor: Actor, critic: Critic) -> None:
        super().__init__()
        self.actor, self.critic = actor, critic

    def evaluate_actions(self, seen, actions):
        queues = seen.reshape(len(seen), 4, 2)
        chance = torch.distributions.Categorical(logits=self.actor(queues))
        return self.critic(seen)[:, None], chance.log_prob(actions.flatten()), chance.entropy()


def by_stable_baselines(policy: Shared, batch, settings: PpoSettings) -> None:
    """Let the published code make one step on a batch, with our networks in place of its own."""
    sb3 = PPO("MlpPolicy", Largest(), n_steps=64, batch_size=64, device="cpu")
    policy.set_training_mode = lambda _: None
    policy.optimizer = torch.optim.Adam(
        [
            {"params": list(policy.actor.parameters()), "lr": settings.actor_rate},
            {"params": list(policy.critic.parameters()), "lr": settings.critic_rate},
        ],
        eps=1e-5,
    )
    sb3.policy = policy
    sb3.n_epochs, sb3.batch_size, sb3.clip_range = 1, len(batch), lambda _: settings.clip
    sb3.ent_coef, sb3.vf_coef, sb3.max_grad_norm = settings.entropy, settings.value, settings.max_norm
    sb3._update_learning_rate = lambda _: None
    sb3._logger = type("Quiet", (), {"record": lambda *_, **__: None})()
    seen = batch.choices.rows.reshape(len(batch), 8).numpy()
    sb3.rollout_buffer = buffer = RolloutBuffer(len(batch), sb3.observation_space, sb3.action_space)
    for i in range(len(batch)):
        buffer.add(seen[i], batch.choices.taken[i : i + 1], np.zeros(1), np.zeros(1), torch.zeros(1), batch.old[i])
    buffer.advantages[:, 0], buffer.returns[:, 0] = batch.advantage.numpy(), batch.returns.numpy()
    sb3.train()


def test_a_step_is_that_of_stable_baselines():
    """The same networks on the same choices are the same after one step: losses, clipping, entropy."""
    settings = PpoSettings(entropy=0.01, max_norm=1e9, passes=1, minibatches=1, target_kl=0.0)
    torch.manual_seed(0)
    made = [(Actor(2, (8, 8)), Critic(PLAIN, (8, 8), jobs=4)) for _ in range(2)]
    for ours, theirs in zip(*made, strict=True):
        theirs.load_state_dict(ours.state_dict())
    ppo = Ppo(*made[0], settings)
    batch = ppo._batch([one_window(np.random.default_rng(0), (4,) * 32)])
    moved = batch.old + 0.3 * torch.randn(32)  # as if the policy had moved since, so that clipping matters
    batch = type(batch)(batch.choices, batch.queues, moved, batch.advantage, batch.returns)
    by_stable_baselines(Shared(*made[1]), batch, settings)
    some = batch.some(np.arange(32))
    # Stable-Baselines3 divides by the deviation with n - 1.
    ppo._step(type(batch)(some.choices, some.queues, some.old, some.advantage * (31 / 32) ** 0.5, some.returns), None)
    for ours, theirs in zip(*made, strict=True):
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert a.flatten().tolist() == pytest.approx(b.flatten().tolist(), abs=2e-5)


@pytest.mark.slow
def test_as_much_is_learnt_as_by_stable_baselines():
    """On the toy problem, after as many choices: most of what is best, the mean largest of four, 1.029 a choice."""
    choices, seed = 4096, 0
    torch.manual_seed(seed)
    ppo = Ppo(Actor(2, (16, 16)), Critic(PLAIN, (16, 16), jobs=4), PpoSettings(target_kl=0.0, passes=10))
    rng = np.random.default_rng(seed)
    for _ in range(choices // 512):
        ppo.update([choose_the_largest(ppo.actor, rng) for _ in range(64)], rng)
    ours = np.mean([choose_the_largest(ppo.actor, rng).reward.mean() for _ in range(200)])

    sb3 = PPO(
        "MlpPolicy", Largest(), n_steps=512, seed=seed, learning_rate=3e-3, gamma=1.0, gae_lambda=0.97, device="cpu"
    )
    sb3.learn(choices)
    env, paid = Largest(), []
    seen, _ = env.reset(seed=1)
    for _ in range(1600):
        action, _ = sb3.predict(seen)
        seen, reward, done, *_ = env.step(int(action))
        paid.append(reward)
        if done:
            seen, _ = env.reset()
    assert ours > 0.85
    assert ours > np.mean(paid) - 0.05

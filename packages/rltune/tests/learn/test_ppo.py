"""PPO against numbers worked out by hand."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from learn.toys import choose_the_largest, one_window

from rltune.learn.ppo import (
    Actor,
    Choices,
    Critic,
    Ppo,
    PpoSettings,
    advantages,
    imitate,
    log_softmax,
    policy_loss,
)
from rltune.learn.window_worker import Trajectory
from rltune.model.feature_sets import get_recipe
from rltune.model.learned_model import Model
from rltune.model.probe import logits

PLAIN = np.tile([0.0, 1.0], (2, 1))


def networks(seed: int = 0, **settings) -> Ppo:
    """Make small networks for two inputs each."""
    torch.manual_seed(seed)
    return Ppo(Actor(2, (8, 8)), Critic(PLAIN, (8, 8), jobs=4), PpoSettings(**settings))


def test_the_advantage_is_the_one_worked_out_by_hand():
    """Rewards 1, 0, 2 and values 0.5, 1, 1.5: deltas are 1 + 1 - 0.5, 1.5 - 1 and 2 - 1.5, each worth lambda later."""
    made, returns = advantages([np.array([1.0, 0.0, 2.0])], [np.array([0.5, 1.0, 1.5])], 1.0, 0.5)
    assert made.tolist() == pytest.approx([1.5 + 0.5 * (0.5 + 0.5 * 0.5), 0.5 + 0.5 * 0.5, 0.5])
    assert returns.tolist() == pytest.approx([0.5 + 1.875, 1.0 + 0.75, 1.5 + 0.5])


def test_a_discount_shrinks_what_comes_later():
    """With gamma 0.9 and lambda 1 the return of the first of two choices is r0 + 0.9 r1."""
    _, returns = advantages([np.array([1.0, 2.0])], [np.zeros(2)], 0.9, 1.0)
    assert returns.tolist() == pytest.approx([2.8, 2.0])


def test_windows_of_any_length_do_not_leak_into_each_other():
    """Together they give what each gives alone."""
    rng = np.random.default_rng(0)
    rewards, values = ([rng.normal(size=n) for n in (1, 5, 3)] for _ in range(2))
    together, _ = advantages(rewards, values, 1.0, 0.97)
    alone = [advantages([r], [v], 1.0, 0.97)[0] for r, v in zip(rewards, values, strict=True)]
    assert together.tolist() == pytest.approx(np.concatenate(alone).tolist())


def test_the_softmax_is_over_the_candidates_of_one_choice():
    """Logits ln 1, ln 3 of one choice and ln 2, ln 2, ln 4 of another; a large shift changes nothing."""
    raw = torch.log(torch.tensor([1.0, 3.0, 2.0, 2.0, 4.0])) + torch.tensor([0.0, 0.0, 500.0, 500.0, 500.0])
    made = log_softmax(raw, torch.tensor([0, 0, 1, 1, 1]), 2).exp()
    assert made.tolist() == pytest.approx([0.25, 0.75, 0.25, 0.25, 0.5], abs=1e-6)


def test_the_clipped_loss_is_the_one_worked_out_by_hand():
    """A ratio of 1.5 counts as 1.2 for a good choice and fully for a bad one; 0.5 the other way round."""
    ratio = torch.tensor([1.5, 1.5, 0.5, 0.5, 1.1])
    advantage = torch.tensor([2.0, -2.0, 2.0, -2.0, 1.0])
    loss = policy_loss(ratio.log(), torch.zeros(5), advantage, 0.2)
    assert loss.tolist() == pytest.approx([-2.4, 3.0, -1.0, 1.6, -1.1])


@pytest.mark.parametrize(("ratio", "advantage", "moves"), [(1.5, 1.0, False), (1.5, -1.0, True), (0.5, -1.0, False)])
def test_a_probability_that_has_moved_enough_has_no_gradient(ratio, advantage, moves):
    """Clipping stops the step, not only the loss."""
    new = torch.tensor([math.log(ratio)], requires_grad=True)
    policy_loss(new, torch.zeros(1), torch.tensor([advantage]), 0.2).sum().backward()
    assert (new.grad.item() != 0) is moves


def test_the_critic_sees_the_oldest_jobs_scaled_and_zeros_where_there_is_none():
    """A queue of one, and one of five of which four are seen."""
    critic = Critic(np.array([[1.0, 2.0], [0.0, 1.0]]), (4, 4), jobs=4)
    rows = np.arange(12, dtype=np.float32).reshape(6, 2)
    seen = critic.pad(rows, np.array([0, 1, 6])).reshape(2, 4, 2)
    assert seen[0].tolist() == [[-2.0, 1.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    assert seen[1].tolist() == [[2.0, 3.0], [6.0, 5.0], [10.0, 7.0], [14.0, 9.0]]


def test_candidates_that_are_not_there_have_no_part():
    """The gradient of a choice does not depend on the candidates of another: the mask that raggedness is."""
    ppo = networks()
    rng = np.random.default_rng(1)
    near, far = one_window(rng, (3,)), one_window(rng, (7,))
    both = ppo._batch([near, far])
    alone = ppo._batch([near])
    together = both.choices.log_probabilities(ppo.actor)[0][:3]
    assert together.tolist() == pytest.approx(alone.choices.log_probabilities(ppo.actor)[0].tolist(), abs=1e-6)
    assert both.choices.log_probabilities(ppo.actor)[0].exp()[3:].sum().item() == pytest.approx(1.0, abs=1e-6)


def test_some_choices_are_the_same_choices():
    """Picking, and cutting into shards, keeps rows, candidates and what is to be learnt together."""
    ppo = networks()
    batch = ppo._batch([one_window(np.random.default_rng(2), (3, 2, 5, 4, 2))])
    logs = batch.choices.log_probabilities(ppo.actor)[1]
    which = np.array([4, 1, 2])
    assert batch.some(which).choices.log_probabilities(ppo.actor)[1].tolist() == pytest.approx(logs[which].tolist())
    shards = list(batch.shards(3))
    assert sum(map(len, shards)) == len(batch)
    cut = torch.cat([shard.choices.log_probabilities(ppo.actor)[1] for shard in shards])
    assert cut.tolist() == pytest.approx(logs.tolist())
    assert torch.cat([shard.returns for shard in shards]).tolist() == batch.returns.tolist()


def test_a_step_is_the_step_of_the_whole_minibatch():
    """Summed over shards, the gradient is that of the mean loss over all choices."""
    ppo = networks(entropy=0.01)
    batch = ppo._batch([one_window(np.random.default_rng(3), (3, 2, 5, 4, 2, 6, 3))]).some(np.arange(7))
    whole, _ = ppo._gradient(batch, len(batch))
    parts = [ppo._gradient(shard, len(batch))[0] for shard in batch.shards(4)]
    for i, gradient in enumerate(whole):
        assert sum(part[i] for part in parts).flatten().tolist() == pytest.approx(gradient.flatten().tolist(), abs=1e-6)


def test_threads_change_no_bit():
    """Shards are fixed and summed in order, so that two threads learn what one does."""
    windows = [one_window(np.random.default_rng(seed), (3, 2, 5, 4, 2, 6, 3)) for seed in range(4)]
    made = []
    for workers in (1, 3):
        ppo = networks()
        with ThreadPoolExecutor(workers) as pool:
            ppo.update(windows, np.random.default_rng(0), pool)
        made.append(ppo.actor.to_flat().tolist())
    assert made[0] == made[1]


def test_an_update_moves_towards_what_paid():
    """Of two candidates the one that was rewarded becomes likelier, the one that was punished less likely."""
    ppo = networks(actor_rate=1e-2, minibatches=1, target_kl=0.0)
    rows = np.array([[1.0, 0.0], [0.0, 1.0]] * 2, dtype=np.float32)
    window = Trajectory(rows, rows, np.array([0, 2, 4]), np.array([0, 1]), np.array([1.0, -1.0]))
    choices = Choices(torch.from_numpy(rows), window.first, window.taken)
    before = choices.log_probabilities(ppo.actor)[1].detach()
    ppo.update([window], np.random.default_rng(0))
    after = choices.log_probabilities(ppo.actor)[1].detach()
    assert after[0] > before[0]
    assert after[1] < before[1]


def test_updates_end_once_the_policy_has_moved_far():
    """With a tiny target of KL one pass is made, with none all of them."""
    windows = [one_window(np.random.default_rng(seed), (3, 2, 5, 4)) for seed in range(4)]
    moved = {}
    for target in (1e-9, 0.0):
        ppo = networks(actor_rate=1e-2, passes=8, target_kl=target)
        before = ppo.actor.to_flat()
        ppo.update(windows, np.random.default_rng(0))
        moved[target] = np.abs(ppo.actor.to_flat() - before).max()
    assert moved[1e-9] < moved[0.0] / 2


def test_entropy_is_kept_where_it_is_worth_something():
    """With a bonus the policy stays less certain."""
    told = {}
    for bonus in (0.0, 1.0):
        ppo = networks(actor_rate=3e-2, entropy=bonus, passes=2, minibatches=2, target_kl=0.0)
        rng = np.random.default_rng(0)
        for _ in range(10):
            told[bonus] = ppo.update([choose_the_largest(ppo.actor, rng) for _ in range(8)], rng)["entropy"]
    assert told[1.0] > told[0.0] + 0.1


def test_windows_without_a_choice_teach_nothing():
    """And break nothing."""
    ppo = networks()
    before = ppo.actor.to_flat().tolist()
    nothing = one_window(np.random.default_rng(0), ())
    assert ppo.update([nothing], np.random.default_rng(0)) == {}
    assert ppo.actor.to_flat().tolist() == before


def test_imitation_takes_what_was_taken():
    """After a few passes the actor prefers the candidate with the larger first input, as its model did."""
    rng = np.random.default_rng(4)
    actor = networks().actor
    window = one_window(rng, (4,) * 300)
    best = np.array([int(np.argmax(window.rows[i : i + 4, 0])) for i in range(0, 1200, 4)])
    choices = Choices(torch.from_numpy(window.rows), window.first, best)
    imitate(actor, choices, 60, rng)
    logs, _ = choices.log_probabilities(actor)
    assert (logs.reshape(300, 4).argmax(dim=1).numpy() == best).mean() > 0.95


def test_weights_go_to_a_model_and_back():
    """What torch computes is what a model file's weights give, in the order the core reads them."""
    torch.manual_seed(5)
    recipe = get_recipe("gpus+requested_time")
    actor = Actor(2, (6, 4))
    model = Model(recipe, (6, 4), actor.to_flat(), np.array([[0.0, 1.0, -9.0, 9.0]] * 2))
    rows = np.random.default_rng(0).normal(size=(20, 2))
    answers = actor(torch.from_numpy(rows.astype(np.float32))).detach().numpy()
    assert logits(model, rows).tolist() == pytest.approx(answers.tolist(), abs=1e-6)
    other = Actor(2, (6, 4))
    other.from_flat(model.weights)
    assert other.to_flat().tolist() == actor.to_flat().tolist()

"""What one choice is worth: the same window with that choice changed, and nothing else."""

import numpy as np
import pytest
import torch
from learn.looking import a_model, machine
from learn.small_training import settings, trained
from learn.test_rollouts import BUSY, SMALL
from learn.test_training_windows import drawn, windows

from rltune import simulate
from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.learn.objective import Objective, Times
from rltune.learn.paired_changes import PairedRoller, drawn_changes
from rltune.learn.ppo import Actor, Critic, Ppo, PpoSettings
from rltune.learn.rollouts import Episode, as_used, logits, roll, with_change
from rltune.learn.training_windows import times_of
from rltune.learn.window_worker import Trajectory
from rltune.policy.learned import Learned

BACKFILLS = ("none", "fit-first", "easy")
MODEL = a_model("sampled", drift="off")


@pytest.mark.parametrize("backfill", BACKFILLS)
def test_a_quiet_rollout_is_the_model_in_use(backfill):
    """Nothing is drawn, so the schedule is that of a simulation with the model."""
    episode = as_used(machine(BUSY, SMALL, MODEL, backfill=backfill))
    used = simulate(BUSY, SMALL, Learned(MODEL), estimator="oracle", backfill=backfill)
    assert episode.start_s.tolist() == used.start_s.tolist()
    assert len(episode) > 10


@pytest.mark.parametrize("backfill", BACKFILLS)
def test_a_change_to_what_was_taken_changes_nothing_and_another_changes_what_comes_after(backfill):
    """Up to the choice both runs are one; there the other candidate is taken."""
    ready = machine(BUSY, SMALL, MODEL, backfill=backfill)
    usual = as_used(ready)
    moved = 0
    for choice in range(0, len(usual), 5):
        same = with_change(ready, choice, int(usual.taken[choice]))
        assert same.state.life.start.tolist() == usual.start_s.tolist()
        count = int(usual.first[choice + 1] - usual.first[choice])
        other = with_change(ready, choice, (int(usual.taken[choice]) + 1) % count).state.life.start
        before = usual.start_s < usual.when_s[choice]
        assert other[before].tolist() == usual.start_s[before].tolist()
        moved += other.tolist() != usual.start_s.tolist()
    assert moved > 0


def test_logits_are_those_that_decide():
    """The candidate that was taken has the highest."""
    ready = machine(BUSY, SMALL, MODEL)
    usual = as_used(ready)
    logit = logits(ready, usual.rows)
    for choice in range(len(usual)):
        of_choice = logit[usual.first[choice] : usual.first[choice + 1]]
        assert of_choice[usual.taken[choice]] == of_choice.max()


def _choice_of(count: int) -> Episode:
    """Make one choice among some, the first of which was taken."""
    nothing = np.zeros(0)
    rows, first = np.zeros((count, 1)), np.array([0, count])
    return Episode(rows, rows, first, np.array([0]), np.zeros(1), nothing, nothing, nothing, 1)


def test_others_are_drawn_by_the_softmax_and_weighted_by_how_likely_any_is():
    """Of logits 0, -1, -2 the others have 0.731 and 0.269 among themselves, and 0.335 in all."""
    rng = np.random.default_rng(0)
    drawn = [drawn_changes(_choice_of(3), np.array([0.0, -1.0, -2.0]), 1, rng)[0] for _ in range(4000)]
    assert np.mean([change.candidate == 1 for change in drawn]) == pytest.approx(0.731, abs=0.02)
    assert {change.candidate for change in drawn} == {1, 2}
    assert drawn[0].chance == pytest.approx((np.exp(-1) + np.exp(-2)) / (1 + np.exp(-1) + np.exp(-2)))


def test_the_mean_of_weighted_gains_is_the_policys_gradient():
    """By enumeration: sum of p(a) (gain of a) d log p(a) / d logit, for three candidates of known worth."""
    logit, worth = np.array([0.0, -0.5, -1.5]), np.array([1.0, 3.0, -2.0])
    p = np.exp(logit) / np.exp(logit).sum()
    asked = p * (worth - p @ worth)
    rng = np.random.default_rng(1)
    found = np.zeros(3)
    n = 40_000
    for _ in range(n):
        change = drawn_changes(_choice_of(3), logit, 1, rng)[0]
        found += change.chance * (worth[change.candidate] - worth[0]) * (np.eye(3)[change.candidate] - p) / n
    assert found.tolist() == pytest.approx(asked.tolist(), abs=0.02)


def test_a_gain_is_what_the_window_wins_by_the_change():
    """By hand: one GPU, a long job first, then a middling one; the short one before it wins 90 s of 3 x 90 s."""
    jobs = Jobs.from_arrays(submit_s=[0.0, 1.0, 1.0], duration_s=[10.0, 100.0, 10.0], gpus=[1, 1, 1])
    longest_first = a_model("requested_time", (2, 2), weights=np.array([1.0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1.0, 0, 0]))
    ready = machine(jobs, Cluster.uniform(1, 1), longest_first)
    usual = as_used(ready)
    assert usual.start_s.tolist() == [0.0, 10.0, 110.0]
    assert len(usual) == 1
    changed = times_of(with_change(ready, 0, 1 - int(usual.taken[0])))
    assert changed.start_s.tolist() == [0.0, 20.0, 10.0]
    ours = Times(usual.submit_s, usual.start_s, usual.end_s)
    gain = Objective().gap(changed, ours) - Objective().gap(ours, ours)
    assert gain == pytest.approx((118 - 28) / 118)  # waits of 9 + 109 s become 19 + 9 s


@pytest.fixture(scope="module")
def some():
    return drawn(windows(), 4)


def test_a_paired_rollout_pays_every_change_by_what_it_gains(some):
    """An advantage is the difference of two gaps to the base policy, weighted; the gap told is that without changes."""
    roller, gap = PairedRoller(MODEL, Objective(), changes=6, price=1.0), Objective().gap
    for window in some:
        made = roller((window, 3))
        ready, base = window.machine(Learned(MODEL)), window.under_base
        assert made.gap == gap(window.times(Learned(MODEL)), base)
        usual = as_used(ready)
        changes = drawn_changes(usual, logits(ready, usual.rows), 6, np.random.default_rng(3))
        gained = [gap(times_of(with_change(ready, c.choice, c.candidate)), base) - made.gap for c in changes]
        paid = [c.chance * gain for c, gain in zip(changes, gained, strict=True)]
        assert made.trajectory.advantage.tolist() == pytest.approx(paid, abs=1e-12)
        assert made.trajectory.taken.tolist() == [c.candidate for c in changes]
        for i, change in enumerate(changes):
            seen = made.trajectory.rows[made.trajectory.first[i] : made.trajectory.first[i + 1]]
            told = usual.rows[usual.first[change.choice] : usual.first[change.choice + 1]]
            assert seen.tolist() == told.astype(np.float32).tolist()


def test_exceeding_the_bound_costs_its_price_in_both_runs(some):
    """A change that lengthens the p99 wait gains less where that has a price."""
    bound = Objective.parse("wait", "1")
    free, dear = (PairedRoller(MODEL, bound, changes=50, price=p)((some[0], 1)).trajectory for p in (0.0, 5.0))
    assert free.taken.tolist() == dear.taken.tolist()
    assert free.advantage.tolist() != dear.advantage.tolist()


def _one_choice(taken: int, advantage: float) -> Trajectory:
    rows = np.eye(2, dtype=np.float32)
    return Trajectory(
        rows,
        np.zeros((2, 5), dtype=np.float32),
        np.array([0, 2]),
        np.array([taken]),
        np.zeros(1),
        np.array([advantage]),
    )


def _updated(advantages: list[float]) -> tuple[float, bool]:
    """Return how likely the second candidate is after updates by advantages of taking it, and if a critic learnt."""
    torch.manual_seed(0)
    actor, critic = Actor(2, (4, 4)), Critic(np.array([[0.0, 1.0]] * 5))
    before = [p.detach().clone() for p in critic.parameters()]
    ppo = Ppo(actor, critic, PpoSettings(minibatches=1, target_kl=0.0))
    told = ppo.update([_one_choice(1, a) for a in advantages], np.random.default_rng(0))
    assert "explained_variance" not in told
    logit = actor(torch.eye(2))
    same = all(torch.equal(a, b) for a, b in zip(before, critic.parameters(), strict=True))
    return float(torch.softmax(logit, 0)[1].detach()), not same


def test_paired_advantages_keep_their_sign():
    """Of changes that all lose, none is learnt, not even that which loses least; the critic is not asked."""
    down, learnt = _updated([-0.1, -0.2, -0.3])
    up, _ = _updated([0.1, 0.2, 0.3])
    assert down < 0.5 < up
    assert not learnt


def test_a_training_by_pairs_learns_and_stays_the_same():
    """Two trainings of the same settings give the same weights."""
    one, two = (trained(reward="paired", changes=4, epochs=2) for _ in range(2))
    assert one.actor.to_flat().tolist() == two.actor.to_flat().tolist()
    assert one.progress.log[-1]["choices"] <= 4 * 4
    other = trained(reward="paired", changes=3, epochs=2)
    assert one.actor.to_flat().tolist() != other.actor.to_flat().tolist()


@pytest.mark.parametrize("change", [{"placement": "milp:4"}, {"commit": True}, {"features": "schedinspector"}])
def test_pairs_are_refused_where_choices_are_not_single_jobs(change):
    """Not run as something else without a word."""
    with pytest.raises(InputError, match="paired"):
        settings(reward="paired", **change)


def test_no_change_at_all_is_refused():
    """It would teach nothing."""
    with pytest.raises(InputError, match="at least one"):
        settings(changes=0)


def test_drawn_rollouts_are_as_ever():
    """A seed still draws, and a quiet run is none of its draws."""
    ready = machine(BUSY, SMALL, MODEL)
    assert roll(ready, 3).start_s.tolist() != as_used(ready).start_s.tolist()

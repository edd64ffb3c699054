"""Rollouts: whole windows in compiled code, drawn by the network, with all that was seen and chosen written down."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel.test_network import by_numpy
from learn.looking import a_model, machine
from strategies import cases

from rltune import simulate
from rltune.cluster import Cluster
from rltune.jobs import Jobs
from rltune.learn.rollouts import roll
from rltune.policy.learned import Learned

BACKFILLS = ("none", "fit-first", "easy")
CERTAIN = 1e7  # weights so large that the noise of drawing decides nothing
ORDERED = ("unsorted",)  # a machine takes jobs in order of submit

BUSY = Jobs.from_arrays(
    submit_s=np.arange(60.0) * 5,
    duration_s=np.random.default_rng(1).uniform(10.0, 900.0, 60),
    gpus=np.random.default_rng(2).choice([1, 1, 2, 4], 60),
)
SMALL = Cluster.uniform(2, 4)


def certain(recipe: str, seed: int):
    """Make a model whose softmax has one answer."""
    model = a_model(recipe, seed=seed, drift="off")
    return replace(model, weights=model.weights * CERTAIN)


@given(case=cases(without=ORDERED), backfill=st.sampled_from(BACKFILLS), seed=st.integers(0, 99))
def test_a_rollout_without_noise_is_the_simulation(case, backfill, seed):
    """Training and use are one machine: the same choices give the same schedule."""
    model = certain("sampled", seed)
    rolled = roll(machine(case.jobs, case.cluster, model, case.estimate_s, backfill=backfill), seed)
    used = simulate(case.jobs, case.cluster, Learned(model), backfill=backfill, estimator=case.estimate_s)
    ran = ~used.rejected
    assert rolled.start_s[ran].tolist() == used.start_s[ran].tolist()


@pytest.mark.parametrize("backfill", BACKFILLS)
def test_the_same_seed_gives_the_same_episode_and_another_another(backfill):
    """Randomness comes from the seed alone."""
    ready = machine(BUSY, SMALL, a_model("sampled"), backfill=backfill)
    first, again, other = roll(ready, 3), roll(ready, 3), roll(ready, 4)
    assert first.taken.tolist() == again.taken.tolist()
    assert first.rows.tolist() == again.rows.tolist()
    assert first.start_s.tolist() != other.start_s.tolist()


def test_choices_are_drawn_from_the_softmax_of_the_logits():
    """Over many rollouts the first choice is each candidate as often as its probability says."""
    ready = machine(BUSY, SMALL, model := a_model("gpus+requested_time"))
    episodes = [roll(ready, seed) for seed in range(400)]
    first = episodes[0]
    rows = first.rows[: first.first[1]]
    logits = np.array([by_numpy(model, row) for row in rows])
    chance = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    alike = [e for e in episodes if np.array_equal(e.rows[: e.first[1]], rows)]
    drawn = np.bincount([e.taken[0] for e in alike], minlength=len(rows)) / len(alike)
    assert len(alike) > 200
    assert drawn.tolist() == pytest.approx(chance.tolist(), abs=4 * 0.5 / np.sqrt(len(alike)))


def test_every_choice_written_down_had_an_alternative_and_something_to_start():
    """Choices that change nothing teach nothing, so they are not written down."""
    episode = roll(machine(BUSY, SMALL, a_model("can_schedule_now+gpus")), 1)
    counts = np.diff(episode.first)
    assert (counts > 1).all()
    assert (episode.taken < counts).all()
    fits = np.add.reduceat(episode.rows[:, 0], episode.first[:-1])
    assert (fits > 0).all()


def test_under_fit_first_only_jobs_that_fit_can_be_chosen():
    """Every candidate can start, so every choice starts a job."""
    episode = roll(machine(BUSY, SMALL, a_model("can_schedule_now"), backfill="fit-first"), 1)
    assert len(episode) > 0
    assert (episode.rows == 1.0).all()


def test_under_easy_jobs_behind_a_blocked_head_are_chosen_among_those_that_fit():
    """Some choices have candidates that do not fit, as without backfilling; some only such that do, behind a head."""
    episode = roll(machine(BUSY, SMALL, a_model("can_schedule_now"), backfill="easy"), 1)
    whole = np.minimum.reduceat(episode.rows[:, 0], episode.first[:-1])
    assert set(whole.tolist()) == {0.0, 1.0}


def test_more_rows_than_there_was_room_for_are_written_all(monkeypatch):
    """Room is made until a window fits; nothing is cut off."""
    from rltune.learn import rollouts as rollout

    ready = machine(BUSY, SMALL, a_model("sampled"))
    wanted = roll(ready, 1)
    monkeypatch.setattr(rollout, "_ROWS_A_JOB", 1)
    small = roll(ready, 1)
    assert small.rows.tolist() == wanted.rows.tolist()

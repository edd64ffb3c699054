"""Rollouts: whole windows in compiled code, drawn by the network, with all that was seen and chosen written down."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel.test_network import by_numpy
from learn.looking import a_model, machine
from strategies import PLACEMENTS, RULES, TROUBLE, cases

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
    weights = model.weights * CERTAIN
    weights[-1] = CERTAIN**3  # of all jobs alike, so that noise is lost where all units are silent, too
    return replace(model, weights=weights)


def assert_rolled_as_used(case, seed, **settings):
    """Compare the starts of a rollout whose softmax has one answer with those of the same model in use."""
    model = certain("sampled", seed)
    rolled = roll(machine(case.jobs, case.cluster, model, case.estimate_s, **settings), seed)
    used = simulate(case.jobs, case.cluster, Learned(model), estimator=case.estimate_s, **settings)
    ran = ~used.rejected
    assert rolled.start_s[ran].tolist() == used.start_s[ran].tolist()


@given(
    case=cases(without=ORDERED),
    backfill=st.sampled_from(BACKFILLS),
    placement=st.sampled_from(PLACEMENTS),
    seed=st.integers(0, 99),
)
def test_a_rollout_without_noise_is_the_simulation(case, backfill, placement, seed):
    """Training and use are one machine: the same choices give the same schedule."""
    assert_rolled_as_used(case, seed, backfill=backfill, placement=placement)


@settings(max_examples=30)
@given(case=cases(without=ORDERED), backfill=st.sampled_from(BACKFILLS), seed=st.integers(0, 99))
def test_a_rollout_with_the_solver_without_noise_is_the_simulation(case, backfill, seed):
    """The solver is shown the drawn order, and what it leaves is drawn as ever."""
    assert_rolled_as_used(case, seed, backfill=backfill, placement="milp:4")


@settings(max_examples=30)
@given(
    case=cases(without=(*ORDERED, *RULES, *TROUBLE)),
    backfill=st.sampled_from(("none", "shadow")),
    view=st.sampled_from((0, 3)),
    seed=st.integers(0, 99),
)
def test_a_committed_rollout_without_noise_is_the_simulation(case, backfill, view, seed):
    """On RLScheduler's machine, too, training and use are one."""
    assert_rolled_as_used(case, seed, backfill=backfill, view=view, commit=True)


@pytest.mark.parametrize(
    "how", [{"placement": "milp:4"}, {"commit": True, "backfill": "shadow"}], ids=["milp", "commit"]
)
def test_what_is_written_of_a_solved_or_committed_rollout_are_choices(how):
    """The same seed gives the same; every choice had an alternative; what was written is what a network sees."""
    ready = machine(BUSY, SMALL, model := a_model("gpus+requested_time"), **how)
    first, again, other = roll(ready, 3), roll(ready, 3), roll(ready, 4)
    assert first.rows.tolist() == again.rows.tolist()
    assert first.start_s.tolist() == again.start_s.tolist() != other.start_s.tolist()
    counts = np.diff(first.first)
    assert (counts > 1).all()
    assert (first.taken < counts).all()
    assert (np.diff(first.when_s) >= 0).all()
    chance = [_chances(model, first, i)[first.taken[i]] for i in range(len(first))]
    assert 0 < np.mean(chance) < 1


def test_the_order_that_the_solver_sees_is_drawn_place_by_place():
    """Over many rollouts the first place goes to each job as often as the softmax says, and so does the next."""
    jobs = Jobs.from_arrays(
        submit_s=[0.0, 0.0, 1.0, 1.0, 1.0, 5.0],
        duration_s=[10.0, 4.0, 30.0, 20.0, 60.0, 2.0],
        gpus=[2, 2, 3, 4, 2, 1],
    )
    ready = machine(jobs, Cluster.uniform(1, 4), model := a_model("gpus+requested_time", seed=1), placement="milp:4")
    episodes = [roll(ready, seed) for seed in range(600)]
    alike = [e for e in episodes if e.when_s[0] == episodes[0].when_s[0] and e.first[1] == episodes[0].first[1]]
    assert len(alike) > 200
    for i in range(2):
        same = [e for e in alike if np.array_equal(_of_choice(e, i), _of_choice(alike[0], i))]
        drawn = np.bincount([e.taken[i] for e in same], minlength=2) / len(same)
        assert drawn.tolist() == pytest.approx(_chances(model, same[0], i).tolist(), abs=2 / np.sqrt(len(same)))


def _of_choice(episode, i: int) -> np.ndarray:
    return episode.rows[episode.first[i] : episode.first[i + 1]]


def _chances(model, episode, i: int) -> np.ndarray:
    """Give the softmax of the logits of a choice's candidates."""
    logits = np.array([by_numpy(model, row) for row in _of_choice(episode, i)])
    chance = np.exp(logits - logits.max())
    return chance / chance.sum()


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

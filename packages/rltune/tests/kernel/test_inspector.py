"""An inspector refuses what its rule has chosen, for a while, and never forever."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel.test_network import by_numpy
from learn.looking import a_model, machine, row_of, stopped_at
from learn.test_rollouts import BACKFILLS, BUSY, CERTAIN, ORDERED, SMALL
from strategies import cases

from rltune import simulate
from rltune.cluster import Cluster, NodeGroup
from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.kernel.backfill.inspector import MOST_REFUSALS
from rltune.kernel.score.features import feature
from rltune.learn.rollouts import roll
from rltune.model.feature_sets import KNOWN, get_recipe
from rltune.model.learned_model import n_weights
from rltune.policy.learned import Learned

INPUTS = get_recipe("schedinspector").inputs
BASES = ("fcfs", "sjf", "srf", "saf", "wfp3", "unicep", "f1", "multifactor")


def inspector(seed: int = 0, *, certain: bool = False, **changes):
    """Make an inspector with random weights."""
    model = a_model("schedinspector", seed=seed, **changes)
    return replace(model, weights=model.weights * CERTAIN) if certain else model


def stubborn(accept: float, **changes):
    """Make an inspector whose logit is this for every job it might accept, and 0 for refusing."""
    weights = np.zeros(n_weights(len(INPUTS), (1, 1)))
    weights[INPUTS.index("accept")] = 1.0  # first layer: x = accept
    weights[len(INPUTS) + 1] = 1.0  # second layer: the same
    weights[len(INPUTS) + 3] = accept
    return a_model("schedinspector", (1, 1), weights=weights, **changes)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_who_refuses_nothing_is_the_base_policy(base, backfill):
    """With every choice accepted the schedule is the rule's own."""
    ours = simulate(BUSY, SMALL, Learned(stubborn(1.0, base=base)), backfill=backfill, estimator="oracle")
    assert ours.start_s.tolist() == simulate(BUSY, SMALL, base, backfill=backfill, estimator="oracle").start_s.tolist()
    assert ours.work["refusals"] == 0


@given(case=cases(without=ORDERED), backfill=st.sampled_from(BACKFILLS))
def test_who_accepts_all_is_the_base_policy_on_any_cluster(case, backfill):
    """The pass that asks is the pass that does not, if the answer is always yes."""
    ours = simulate(case.jobs, case.cluster, Learned(stubborn(1.0)), backfill=backfill, estimator=case.estimate_s)
    rule = simulate(case.jobs, case.cluster, "saf", backfill=backfill, estimator=case.estimate_s)
    assert ours.start_s[ours.ran].tolist() == rule.start_s[rule.ran].tolist()


def test_a_refused_job_waits_until_something_happens():
    """By hand: job 1 could start at 10 s, is refused then and when job 2 comes, and starts when nothing runs."""
    jobs = Jobs.from_arrays(submit_s=[0.0, 10.0, 20.0], duration_s=[50.0, 5.0, 30.0], gpus=[1, 1, 1])
    ours = simulate(jobs, Cluster.uniform(1, 4), Learned(stubborn(-1.0, base="fcfs")), estimator="oracle")
    assert ours.start_s.tolist() == [0.0, 50.0, 55.0]
    assert ours.work["refusals"] == 3  # job 1 at 10 and 20 s; job 2 at 50 s, once job 1 had started


@given(case=cases(without=ORDERED), backfill=st.sampled_from(BACKFILLS))
def test_who_refuses_all_still_runs_every_job(case, backfill):
    """Where nothing runs, nothing is refused: no job is kept forever."""
    ours = simulate(case.jobs, case.cluster, Learned(stubborn(-1.0)), backfill=backfill, estimator=case.estimate_s)
    rule = simulate(case.jobs, case.cluster, "saf", backfill=backfill, estimator=case.estimate_s)
    assert ours.rejected.tolist() == rule.rejected.tolist()


def test_a_job_is_refused_a_bounded_number_of_times():
    """A long job runs while a hundred arrive, each an occasion to refuse the first of them."""
    n = 120
    jobs = Jobs.from_arrays(
        submit_s=[0.0, 1.0, *(2.0 + np.arange(n))], duration_s=[10_000.0, 5.0, *[5.0] * n], gpus=[1, 1, *[4] * n]
    )
    ours = simulate(jobs, Cluster.uniform(1, 4), Learned(stubborn(-1.0, base="fcfs")), estimator="oracle")
    assert ours.start_s[1] == 1.0 + MOST_REFUSALS


def test_a_refusal_shuts_its_pool_and_no_other():
    """At 10 s the large job is refused: the small one behind it waits too, the one of another VC starts."""
    weights = np.zeros(n_weights(len(INPUTS), (1, 1)))
    weights[INPUTS.index("gpus")] = 1.0
    weights[len(INPUTS)] = -np.log1p(2.5)  # what is left above 2.5 GPUs speaks against accepting
    weights[len(INPUTS) + 1], weights[len(INPUTS) + 3] = 1.0, -1.0
    picky = a_model("schedinspector", (1, 1), weights=weights, base="fcfs")
    groups = tuple(NodeGroup(count=1, gpus=4, vc=(vc,)) for vc in ("red", "blue"))
    jobs = Jobs.from_arrays(
        submit_s=[0.0, 10.0, 10.0, 10.0],
        duration_s=[100.0, 50.0, 50.0, 50.0],
        gpus=[1, 3, 1, 1],
        vc=["red", "red", "red", "blue"],
    )
    ours = simulate(jobs, Cluster(groups), Learned(picky), backfill="fit-first", estimator="oracle")
    assert ours.start_s.tolist() == [0.0, 100.0, 100.0, 10.0]
    assert ours.work["refusals"] == 2  # at 10 s, and when the blue job ends at 60 s


@given(case=cases(without=ORDERED), backfill=st.sampled_from(BACKFILLS), seed=st.integers(0, 99))
def test_a_rollout_without_noise_is_the_simulation(case, backfill, seed):
    """Training and use are one machine."""
    model = inspector(seed, certain=True, drift="off")
    rolled = roll(machine(case.jobs, case.cluster, model, case.estimate_s, backfill=backfill), seed)
    used = simulate(case.jobs, case.cluster, Learned(model), backfill=backfill, estimator=case.estimate_s)
    assert rolled.start_s[used.ran].tolist() == used.start_s[used.ran].tolist()


def test_a_choice_is_between_accepting_and_refusing():
    """Two rows each: the job's inputs with a 1 at the end, and zeros."""
    episode = roll(machine(BUSY, SMALL, inspector()), 1)
    assert len(episode) > 10
    assert np.diff(episode.first).tolist() == [2] * len(episode)
    assert (episode.rows[0::2, -1] == 1.0).all()
    assert (episode.rows[1::2] == 0.0).all()
    assert set(episode.taken.tolist()) == {0, 1}


def test_verdicts_are_drawn_from_the_softmax_of_the_two():
    """Over many rollouts the first verdict is a refusal as often as its probability says."""
    ready = machine(BUSY, SMALL, model := inspector())
    episodes = [roll(ready, seed) for seed in range(400)]
    row = episodes[0].rows[0]
    chance = 1 / (1 + np.exp(by_numpy(model, row) - by_numpy(model, 0 * row)))
    assert all(np.array_equal(e.rows[0], row) for e in episodes)
    assert np.mean([e.taken[0] for e in episodes]) == pytest.approx(chance, abs=4 * 0.5 / 20)


def test_what_an_inspector_sees_by_hand():
    """At 20 s one job runs (expected to end at 100 s), two wait, one of the two fits."""
    jobs = Jobs.from_arrays(submit_s=[0.0, 5.0, 20.0], duration_s=[100.0, 50.0, 7.0], gpus=[3, 4, 1])
    m = stopped_at(20.0, machine(jobs, Cluster.uniform(1, 4), stubborn(1.0, base="fcfs")))
    m.state.life.refusals[2] = 6

    def seen(name):
        return feature(m.w, m.s, row_of(m, 2), KNOWN.index(name))

    assert seen("refusals") == pytest.approx(np.log1p(6))
    assert seen("queue_delay") == pytest.approx(np.log1p(2 * 80))
    assert seen("fitting") == 1 / 2
    assert seen("accept") == 1.0


def test_outside_its_training_it_accepts():
    """An inspector who does not know such jobs lets its rule decide, and that is counted."""
    model = stubborn(-1.0)
    norm = model.norm.copy()
    norm[INPUTS.index("gpus"), 2:] = 0.0, np.log1p(0.5)
    lost = simulate(BUSY, SMALL, Learned(replace(model, norm=norm)), estimator="oracle")
    assert lost.start_s.tolist() == simulate(BUSY, SMALL, "saf", estimator="oracle").start_s.tolist()
    assert lost.work["scores_outside_training"] > 0
    assert lost.work["refusals"] == 0


def test_its_own_refusals_are_never_outside_its_training():
    """Under the rule alone nothing is ever refused, so the range measured there says nothing."""
    model = stubborn(-1.0)
    norm = model.norm.copy()
    norm[INPUTS.index("refusals"), 2:] = 0.0
    known = simulate(BUSY, SMALL, Learned(replace(model, norm=norm)), estimator="oracle")
    assert known.work["scores_outside_training"] == 0
    assert known.work["refusals"] > 0


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"backfill": "conservative"}, "backfill 'conservative' is not for it; there are: none, fit-first, easy"),
        ({"backfill": "shadow"}, "backfill 'shadow' is not for it"),
        ({"commit": True}, "commit mode is not for it"),
        ({"placement": "milp"}, "placement 'milp' places several"),
    ],
)
def test_what_does_not_go_with_it_is_said(settings, why):
    """One sentence, and no schedule that only looks inspected."""
    with pytest.raises(InputError, match=why):
        simulate(BUSY, SMALL, Learned(inspector(), name="mine"), **settings)

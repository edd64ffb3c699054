"""What is sent to where windows are run: the same machine for both pipelines, and rewards that say which was better."""

import pickle

import numpy as np
import pytest
from learn.looking import a_model
from learn.test_training_windows import JOBS, SMALL, drawn, windows

from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.simulate import simulate
from rltune.learn.objective import Objective
from rltune.learn.window_worker import Held, Judge, Judged, Roller
from rltune.policy import get_policy

MODEL = a_model("sampled", drift="off")


@pytest.fixture(scope="module")
def some():
    return drawn(windows(), 4)


def test_a_rollout_pays_what_it_gained(some):
    """The rewards of a window sum to its gap, whenever they are told."""
    for dense in (True, False):
        roller = Roller(MODEL, Objective(), dense=dense, price=1.0)
        for window in some:
            rolled = roller((window, 1))
            assert len(rolled.trajectory) > 0
            assert rolled.trajectory.reward.sum() == pytest.approx(rolled.gap, abs=1e-9)


def test_the_same_seed_gives_the_same_rollout(some):
    """Wherever it is run."""
    roller = Roller(MODEL, Objective(), dense=True, price=1.0)
    away = pickle.loads(pickle.dumps(roller))
    here, there = roller((some[0], 5)), away(pickle.loads(pickle.dumps((some[0], 5))))
    assert here.trajectory.rows.tolist() == there.trajectory.rows.tolist()
    assert here.trajectory.reward.tolist() == there.trajectory.reward.tolist()
    assert roller((some[0], 6)).trajectory.taken.tolist() != here.trajectory.taken.tolist()


def test_exceeding_the_bound_costs_its_price(some):
    """The last reward is lower by the price of the excess; where the bound is kept nothing is paid."""
    free, dear = (Roller(MODEL, Objective.parse("wait", "1"), dense=True, price=p)((some[0], 1)) for p in (0.0, 2.0))
    assert free.excess > 0
    assert dear.trajectory.reward[-1] == pytest.approx(free.trajectory.reward[-1] - 2.0 * free.excess)
    wide = [Roller(MODEL, Objective.parse("wait", "90d"), dense=True, price=p)((some[0], 1)) for p in (0.0, 2.0)]
    assert wide[0].trajectory.reward.tolist() == wide[1].trajectory.reward.tolist()


def test_a_window_is_light_enough_to_be_sent(some):
    """A window takes its jobs with it, not the names of the whole trace."""
    assert len(pickle.dumps(some[0])) < 20_000


@pytest.mark.parametrize("base", ["fcfs", "sjf", "f1", "wfp3", "unicep", "qssf", "multifactor", "saf"])
def test_with_the_base_policys_own_order_the_gain_is_exactly_0(base):
    """Both pipelines are the same machine, for every base policy."""
    window = drawn(windows(pipeline=parse_pipeline(base)), 1)[0]
    again = window.times(get_policy(base)) if base != "qssf" else window.under_base
    assert Objective.parse("wait+jct+slowdown+utilisation").gap(again, window.under_base) == 0.0


def test_a_model_is_judged_as_it_would_be_used(some):
    """Its costs are those of a simulation with it."""
    from rltune.policy.learned import Learned

    judged = Judge(MODEL, Objective())(some[0])
    used = simulate(some[0].jobs, SMALL, Learned(MODEL), estimator="oracle")
    assert judged.ours.tolist() == pytest.approx([used.wait_s.mean()])
    assert judged.base.tolist() == pytest.approx(
        [simulate(some[0].jobs, SMALL, "saf", estimator="oracle").wait_s.mean()]
    )
    assert judged.p99_s == pytest.approx(np.percentile(used.wait_s, 99))


def test_the_held_out_score_is_the_ratio_of_mean_costs():
    """Windows of 10 and 30 s against 20 and 60 s are a half, whatever the single ratios."""
    judged = [Judged(np.array([c]), np.array([2 * c]), 5.0, 10.0) for c in (10.0, 30.0)]
    assert Held.of(judged, Objective()) == Held(0.5, 0.0)


def test_a_network_that_keeps_the_bound_beats_one_that_does_not():
    """Then the score decides."""
    assert Held(0.9, 0.0).beats(Held(0.5, 0.1))
    assert Held(0.8, 0.0).beats(Held(0.9, 0.0))
    assert not Held(0.9, 0.0).beats(Held(0.9, 0.0))
    assert Held(2.0, 0.5).beats(None)


def test_the_trace_of_these_tests_is_the_one_of_the_windows(some):
    """Rows are those of the table."""
    assert some[0].jobs.gpus.tolist() == JOBS.gpus[some[0].first : some[0].first + 20].tolist()

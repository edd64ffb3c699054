"""Scaling: what the queues under the base policy look like."""

import numpy as np
import pytest
from learn.test_training_windows import JOBS, SMALL, drawn, windows

from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.simulate import simulate
from rltune.errors import InputError
from rltune.learn.input_scaling import MARGIN, Queues, Scaling, measure
from rltune.model.feature_sets import get_recipe

RECIPE = get_recipe("gpus+requested_time+submit_time+busy")


@pytest.fixture(scope="module")
def queues() -> Queues:
    return Queues.under_base(drawn(windows(), 6), RECIPE, "saf")


def test_normalised_inputs_have_mean_0_and_deviation_1(queues):
    """On what they were measured on."""
    rows = Scaling.of(queues).normalised(queues.rows)
    assert rows.mean(axis=0).tolist() == pytest.approx([0.0] * 4, abs=1e-9)
    varied = queues.rows.std(axis=0) > 1e-6
    assert rows.std(axis=0)[varied].tolist() == pytest.approx([1.0] * int(varied.sum()))


def test_the_range_is_what_was_seen_and_a_margin(queues):
    """Half of it at both ends."""
    low, high = Scaling.of(queues).norm[:, 2], Scaling.of(queues).norm[:, 3]
    span = np.ptp(queues.rows, axis=0)
    assert low.tolist() == pytest.approx((queues.rows.min(axis=0) - MARGIN * span).tolist(), abs=1e-6)
    assert high.tolist() == pytest.approx((queues.rows.max(axis=0) + MARGIN * span).tolist(), abs=1e-6)


def test_an_input_that_never_changes_is_left_as_it_is():
    """No division by 0: a cluster of one type has one GPU type."""
    made = measure(drawn(windows(), 2), get_recipe("gpu_type+gpus"), "saf")
    assert made.norm[0, 1] == 1.0
    assert np.isfinite(made.norm).all()


@pytest.mark.parametrize("base", ["fcfs", "sjf", "saf", "wfp3"])
def test_the_base_policy_is_followed(base):
    """Looking at the queues changes nothing: the job said to be first is the base policy's, by its own formula."""
    made = Queues.under_base(
        drawn(windows(pipeline=parse_pipeline(base)), 2), get_recipe("gpus+requested_time+submit_time"), base
    )
    for lo, hi, taken in zip(made.first[:-1], made.first[1:], made.taken, strict=True):
        gpus, run, wait = np.expm1(made.rows[lo:hi]).T
        score = {"fcfs": -wait, "sjf": run, "saf": gpus * run, "wfp3": -((wait / run) ** 3) * gpus}[base]
        assert score[taken] <= score.min() + 1e-6 * abs(score.min())


def test_a_window_is_still_that_of_the_base_policy():
    """The run that is looked at ends as the simulation does."""
    window = drawn(windows(), 1)[0]
    Queues.under_base([window], RECIPE, "saf")
    assert (
        window.under_base.start_s.tolist() == simulate(window.jobs, SMALL, "saf", estimator="oracle").start_s.tolist()
    )


def test_a_model_that_is_trained_further_keeps_its_scale_and_widens_its_range():
    """What it has seen and what is seen now are both within."""
    here = measure(drawn(windows(), 2), RECIPE, "saf")
    old = np.array([[5.0, 2.0, -1e6, -1e5]] * 4)
    made = here.seen_through(old)
    assert made.norm[:, :2].tolist() == old[:, :2].tolist()
    assert (made.norm[:, 2] == -1e6).all()
    assert made.norm[:, 3].tolist() == here.norm[:, 3].tolist()


def test_where_no_queue_can_be_looked_at_there_is_nothing_to_learn_and_that_is_said(monkeypatch):
    """One sentence in place of a traceback, whoever asks: train, evolve, tune, an environment."""
    monkeypatch.setattr("rltune.learn.input_scaling._EVERY", 10**6)  # moments with two waiting jobs: none has so many
    with pytest.raises(InputError, match="no order to learn"):
        measure(drawn(windows(), 2), RECIPE, "fcfs")


def test_the_jobs_of_this_file_queue():
    """The helper's trace is one that teaches something."""
    assert simulate(JOBS, SMALL, "fcfs", estimator="oracle").wait_s.max() > 1000

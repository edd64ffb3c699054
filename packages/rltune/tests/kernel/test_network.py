"""The network in the core is the network that was trained."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel.test_features import CLUSTER, JOBS
from learn.looking import a_model, inputs, machine, row_of, stopped_at

from rltune import simulate
from rltune.jobs import Jobs
from rltune.kernel.score.network import logit
from rltune.kernel.score.rules import score_queue
from rltune.kernel.state import arrays as core
from rltune.model.learned_model import Model
from rltune.policy.learned import Learned

WAITING = (2, 3, 4, 5)


def by_numpy(model: Model, x: np.ndarray) -> float:
    """Evaluate the actor as anyone would: two layers or three with relu, one without."""
    at = 0
    for n_in, n_out in zip(model.sizes[:-1], model.sizes[1:], strict=True):
        weight = model.weights[at : at + n_in * n_out].reshape(n_in, n_out)
        bias = model.weights[at + n_in * n_out : at + (n_in + 1) * n_out]
        at += (n_in + 1) * n_out
        x = x @ weight + bias
        if n_out > 1:
            x = np.maximum(x, 0.0)
    return float(x[0])


@given(seed=st.integers(0, 1000), hidden=st.sampled_from([(2, 2), (32, 16), (5, 9), (32, 16, 8), (3, 4, 9), (9, 2, 5)]))
def test_the_compiled_network_is_a_plain_mlp(seed, hidden):
    """Kernel and numpy agree for any weights and widths."""
    model = a_model("paper-17", hidden, seed)
    m = machine(JOBS, CLUSTER, model)
    x = np.random.default_rng(seed).normal(0.0, 3.0, len(model.recipe.inputs))
    assert logit(m.w, m.s, x) == pytest.approx(by_numpy(model, x), rel=1e-9, abs=1e-9)


def test_the_queue_is_scored_by_the_network_higher_logit_first():
    """A job's score is minus its logit, so that lower runs first."""
    model = a_model("sampled")
    m = stopped_at(100.0, machine(JOBS, CLUSTER, model))
    score_queue(m.w, m.s, m.options, m.state.n[core.Q_TAIL], False)
    for job in WAITING:
        x, _ = inputs(m, job)
        assert m.state.queue.score[row_of(m, job)] == pytest.approx(-by_numpy(model, x))


@pytest.mark.filterwarnings("ignore:overflow")  # numpy says so where the kernel runs as plain Python
def test_a_score_that_overflows_comes_last_and_is_no_nan():
    """Weights beyond reason must not make an order that depends on how NaN compares."""
    model = a_model("gpus", (2, 2), weights=np.full(13, 1e200))
    m = stopped_at(100.0, machine(JOBS, CLUSTER, model))
    x, _ = inputs(m, 2)
    assert logit(m.w, m.s, x) == -1e300


@pytest.mark.parametrize("head", ["pool", "global"])
@pytest.mark.parametrize(
    ("backfill", "commit"),
    [("none", False), ("fit-first", False), ("easy", False), ("conservative", False), ("none", True), ("shadow", True)],
)
def test_an_input_that_a_network_does_not_use_changes_nothing(backfill, commit, head):
    """Looking for those whom a job may spare joins groups to pools; heads, reservations and starts stay the same."""
    plain = a_model("wide", (4, 3), seed=2)
    inputs_n, first = len(plain.recipe.inputs), plain.hidden[0]
    at = inputs_n * first
    weights = np.concatenate([plain.weights[:at], np.zeros(first), plain.weights[at:]])
    ahead = a_model("ahead", (4, 3), weights=weights)
    rng = np.random.default_rng(4)
    kinds = rng.choice(3, 150, p=[0.48, 0.48, 0.04])
    jobs = Jobs.from_arrays(
        np.sort(rng.uniform(0, 500, 150)),
        rng.uniform(1, 90, 150),
        np.where(kinds == 1, rng.integers(1, 3, 150), rng.integers(1, 9, 150)),
        gpu_types=[(["V100"], ["T4"], ["V100", "T4"])[k] for k in kinds],
    )
    runs = [
        simulate(jobs, CLUSTER, Learned(m), backfill, head=head, commit=commit, estimator="oracle")
        for m in (plain, ahead)
    ]
    np.testing.assert_array_equal(runs[0].start_s, runs[1].start_s)
    assert runs[0].wait_s.max() > 100

"""The network in the core is the network that was trained."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from learn.looking import a_model, inputs, machine, row_of, stopped_at
from learn.test_features import CLUSTER, JOBS

from rltune.core import state as core
from rltune.core.network import logit
from rltune.core.scores import score_queue
from rltune.learn.model import Model

WAITING = (2, 3, 4, 5)


def by_numpy(model: Model, x: np.ndarray) -> float:
    """Evaluate the actor as anyone would: two layers with relu, one without."""
    at = 0
    for n_in, n_out in zip(model.sizes[:-1], model.sizes[1:], strict=True):
        weight = model.weights[at : at + n_in * n_out].reshape(n_in, n_out)
        bias = model.weights[at + n_in * n_out : at + (n_in + 1) * n_out]
        at += (n_in + 1) * n_out
        x = x @ weight + bias
        if n_out > 1:
            x = np.maximum(x, 0.0)
    return float(x[0])


@given(seed=st.integers(0, 1000), hidden=st.sampled_from([(2, 2), (32, 16), (5, 9)]))
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

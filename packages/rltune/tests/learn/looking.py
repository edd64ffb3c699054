"""Snapshots by hand: a run stopped at a moment, before anything starts, and what a network would see there."""

import numpy as np

from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import Machine
from rltune.estimate import get_estimator
from rltune.kernel.backfill.scheduling_pass import make_pass
from rltune.kernel.rollout.event_loop import advance
from rltune.kernel.score.features import feature, look_around, sample
from rltune.kernel.score.network import fill_inputs
from rltune.kernel.state import arrays as core
from rltune.model.feature_sets import KNOWN, SLOTS, get_recipe
from rltune.model.learned_model import Model, n_weights
from rltune.policy.learned import Learned

WIDE = (0.0, 1.0, -1e9, 1e9)  # a norm that changes nothing and has seen everything


def random_weights(inputs: int, hidden: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Give weights as a file holds them, in single precision."""
    drawn = np.random.default_rng(seed).normal(0.0, 0.5, n_weights(inputs, hidden))
    return drawn.astype(np.float32).astype(np.float64)


def a_model(recipe: str = "all", hidden: tuple[int, ...] = (6, 4), seed: int = 0, **changes) -> Model:
    """Make a model with random weights that trusts every input."""
    made = get_recipe(recipe)
    n = len(made.inputs)
    return Model(
        **{
            "recipe": made,
            "hidden": hidden,
            "weights": random_weights(n, hidden, seed),
            "norm": np.array([WIDE] * n),
            **changes,
        }
    )


def machine(jobs, cluster, model=None, estimator="oracle", **settings) -> Machine:
    """Prepare a run of a learned policy; jobs are in order of submit time."""
    pipeline = parse_pipeline(Learned(model or a_model()), **settings)
    return Machine.of(jobs, cluster, pipeline, get_estimator(estimator))


def stopped_at(time_s: float, m: Machine) -> Machine:
    """Run until something has happened at that time, before the pass, and look around there."""
    while advance(m.w, m.s, m.options):
        if m.state.now[0] == time_s:
            look_around(m.w, m.s, m.options, m.state.n[core.Q_TAIL])
            return m
        make_pass(m.w, m.s, m.options)
    raise AssertionError(f"nothing happens at {time_s}")


def row_of(m: Machine, job: int) -> int:
    """Find a waiting job's place in the queue."""
    head, tail = m.state.n[core.Q_HEAD], m.state.n[core.Q_TAIL]
    return int(head + np.flatnonzero(m.state.queue.job[head:tail] == job)[0])


def seen(m: Machine, job: int, name: str) -> float:
    """Give a feature of a waiting job."""
    return float(feature(m.w, m.s, row_of(m, job), KNOWN.index(name)))


def sampled(m: Machine, job: int, slot: str) -> float:
    """Give what the sampler puts into a slot for a waiting job."""
    return float(sample(m.w, m.s, row_of(m, job), SLOTS.index(slot)))


def inputs(m: Machine, job: int) -> tuple[np.ndarray, bool]:
    """Give a waiting job's normalised inputs, and whether all were within the range of training."""
    x = np.zeros(len(m.world.net_norm))
    inside = fill_inputs(m.w, m.s, row_of(m, job), x)
    return x, bool(inside)

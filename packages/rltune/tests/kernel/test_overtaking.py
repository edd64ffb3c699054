"""The guard's rule, asked for the queue as it stands; and the order of the queue, which a pass follows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltune import Cluster, Jobs
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import Machine
from rltune.estimate import Given
from rltune.kernel.backfill.scheduling_pass import make_pass
from rltune.kernel.rollout.event_loop import arrive
from rltune.kernel.score.overtaking import fill_claims
from rltune.kernel.state import arrays as core
from rltune.kernel.state.score_heap import fill_order

HOUR = 3600.0


def waiting(guard="1h:2x:sla=gold", backfill="none", gpus=(1, 1, 1, 1)):
    """Let four jobs wait at 3 h, submitted at 0, 1, 1.5 and 2.5 h; the third is of an SLA."""
    jobs = Jobs.from_arrays(
        submit_s=[0, HOUR, 1.5 * HOUR, 2.5 * HOUR],
        duration_s=np.ones(4),
        gpus=gpus,
        qos=["", "", "gold", ""],
    )
    pipeline = parse_pipeline(lambda queue: queue.gpus, backfill, guard=guard)
    m = Machine.of(jobs, Cluster.uniform(1, 4), pipeline, Given(np.array([HOUR, 4 * HOUR, HOUR, HOUR / 4])))
    m.state.now[0] = 3 * HOUR
    for row in range(4):
        arrive(m.w, m.s, m.options, row)
    return m


def test_claims_are_sla_jobs_and_those_past_their_grace():
    """The first since 2 h, twice its estimate; the second may be overtaken for eight hours, the last for one."""
    m, since = waiting(), np.empty(4)
    fill_claims(m.w, m.s, m.options, 4, since)
    np.testing.assert_array_equal(since, [2 * HOUR, np.nan, -np.inf, np.nan])


@pytest.mark.parametrize(("orders", "started"), [(True, [0, 2]), (False, [1])])
def test_an_order_that_is_given_is_kept(orders, started):
    """By scores a job without a claim is first; the guard has SLA and owed jobs before it."""
    m = waiting(gpus=(2, 4, 2, 4))
    m.state.queue.score[:4] = [3.0, 0.0, 2.0, 1.0]
    make_pass(m.w, m.s, m.options._replace(guard_orders=orders))
    assert np.flatnonzero(m.state.life.status == core.RUNNING).tolist() == started


@pytest.mark.parametrize(("guard", "started"), [("off", [3, 1]), ("1h:2x", [3])])
def test_an_owed_head_is_protected_in_an_order_that_is_given(guard, started):
    """Whatever fits may start under fit-first, but not what delays an owed job that blocks, though it is second."""
    m = waiting(guard, "fit-first", gpus=(4, 1, 4, 1))
    m.state.queue.score[:4] = [1.0, 2.0, 3.0, 0.0]
    make_pass(m.w, m.s, m.options._replace(guard_orders=False))
    assert sorted(np.flatnonzero(m.state.life.status == core.RUNNING).tolist()) == sorted(started)


@given(st.lists(st.sampled_from([-1.5, 0.0, 2.0, np.inf]), min_size=4, max_size=4))
def test_the_order_is_by_score_then_age(scores):
    """The one that a pass follows."""
    m, rows = waiting(), np.empty(4, dtype=np.int64)
    m.state.queue.score[:4] = scores
    fill_order(m.s, 4, rows)
    assert rows.tolist() == sorted(range(4), key=lambda row: (scores[row], row))

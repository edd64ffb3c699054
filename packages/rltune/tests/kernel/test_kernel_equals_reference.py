"""The compiled core and the plain reference give the same schedule, whatever the cluster and the workload."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    BACKFILLS,
    FEATURES,
    HEADS,
    PLACEMENTS,
    POLICIES,
    RULES,
    SLOW,
    TROUBLE,
    Case,
    cases,
    guards,
    joined_cases,
)

import rltune
from rltune.engine.guard import Guard
from rltune.estimate import History
from rltune.labels import Labels

VIEWS = (0, 0, 0, 1, 3, 8)


def assert_equal(case: Case, guard: Guard | None = None, **settings) -> None:
    """Compare start, end, rejection, placement and requeues, exactly."""
    core = rltune.simulate(case.jobs, case.cluster, estimator=case.estimate_s, guard=guard, **settings)
    same = None if guard is None else reference.Guard(guard.hours, guard.times, guard.sla)
    plain = reference.simulate(case.jobs, case.cluster, estimate_s=case.estimate_s, guard=same, **settings)
    assert_same(core, plain)


def assert_same(core: rltune.Schedule, plain: reference.Result) -> None:
    """Compare two schedules."""
    assert np.asarray(core.rejected).tolist() == plain.rejected
    np.testing.assert_array_equal(core.start_s, plain.start_s)
    np.testing.assert_array_equal(core.end_s, plain.end_s)
    np.testing.assert_array_equal(core.requeues, plain.requeues)
    assert [sorted(p) for p in core.placements] == [sorted(p) for p in plain.placements]


def settings(**fixed):
    """Draw the ways to run, but for those that are fixed."""
    free = {
        "policy": st.sampled_from(POLICIES),
        "backfill": st.sampled_from(BACKFILLS),
        "placement": st.sampled_from(PLACEMENTS),
        "head": st.sampled_from(HEADS),
        "view": st.sampled_from(VIEWS),
    }
    return st.fixed_dictionaries(free | {name: st.just(value) for name, value in fixed.items()})


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("backfill", BACKFILLS)
@given(data=st.data())
def test_every_backfill(backfill: str, head: str, data) -> None:
    """Each backfill rule under each rule for heads, with any features."""
    case = data.draw(cases())
    assert_equal(case, **data.draw(settings(backfill=backfill, head=head)))


@pytest.mark.parametrize("policy", POLICIES)
@given(data=st.data())
def test_every_policy(policy: str, data) -> None:
    """Each score orders the queue alike in both."""
    case = data.draw(cases())
    assert_equal(case, **data.draw(settings(policy=policy)))


@pytest.mark.parametrize("feature", [*FEATURES, *SLOW])
@given(data=st.data())
def test_every_feature(feature: str, data) -> None:
    """Each feature of machine, workload and rules, with any others."""
    case = data.draw(cases(always=(feature,)))
    assert_equal(case, **data.draw(settings()))


@pytest.mark.parametrize("backfill", BACKFILLS)
@given(data=st.data())
def test_racks_and_slowdowns(backfill: str, data) -> None:
    """Gangs are kept in racks, and distance and sharing cost the same, in both."""
    case = data.draw(cases(always=("racks", "shapes", "slowdown", "cpus", "memory"), without=(*RULES, *TROUBLE)))
    assert_equal(case, **data.draw(settings(backfill=backfill, placement="hierarchical")))


@pytest.mark.parametrize("backfill", BACKFILLS)
@given(data=st.data())
def test_nodes_as_slurm_takes_them(backfill: str, data) -> None:
    """The node with the busiest CPUs is the same one in both, now and in reservations."""
    case = data.draw(cases(always=("cpus", "shapes"), without=RULES))
    assert_equal(case, **data.draw(settings(backfill=backfill, placement="slurm")))


@pytest.mark.parametrize("backfill", BACKFILLS)
@given(data=st.data())
def test_pools_of_what_still_waits(backfill: str, data) -> None:
    """Jobs that may use several types join them while they wait, and a start splits the pools alike in both."""
    assert_equal(data.draw(joined_cases()), **data.draw(settings(backfill=backfill, head="pool", view=0)))


@pytest.mark.parametrize("backfill", BACKFILLS)
@given(data=st.data())
def test_wrong_estimates(backfill: str, data) -> None:
    """Jobs that end early and jobs that overrun change what backfilling expects, alike in both."""
    case = data.draw(cases(always=("wrong-estimates", "mixed"), without=(*RULES, *TROUBLE)))
    assert_equal(case, **data.draw(settings(backfill=backfill)))


@pytest.mark.parametrize("backfill", BACKFILLS)
@given(data=st.data())
def test_guards(backfill: str, data) -> None:
    """Owed and SLA jobs come first, and behind them nothing starts that would delay them, alike in both."""
    case = data.draw(cases(always=("qos",)))
    assert_equal(case, data.draw(guards()), **data.draw(settings(backfill=backfill)))


@pytest.mark.parametrize("backfill", BACKFILLS)
@given(data=st.data())
def test_cycles(backfill: str, data) -> None:
    """A policy that is asked only now and then orders those it was asked about, and nobody before them, in both."""
    case = data.draw(cases())
    cycle_s = data.draw(st.sampled_from((0.5, 3.0, 7.0, 50.0, 1e6)))
    guard = data.draw(st.none() | guards())
    assert_equal(case, guard, cycle_s=cycle_s, **data.draw(settings(backfill=backfill)))


@pytest.mark.parametrize("backfill", BACKFILLS)
@given(data=st.data())
def test_estimates_that_are_outlived(backfill: str, data) -> None:
    """With remainders, a job past its estimate is believed to run on, alike in both."""
    case = data.draw(cases(always=("wrong-estimates",)))
    how = data.draw(settings(backfill=backfill))
    core = rltune.simulate(case.jobs, case.cluster, estimator=case.estimate_s, remaining="history", **how)
    plain = reference.simulate(case.jobs, case.cluster, estimate_s=case.estimate_s, remaining="estimate", **how)
    assert_same(core, plain)


@pytest.mark.parametrize("backfill", BACKFILLS)
@given(data=st.data())
def test_remainders_from_history(backfill: str, data) -> None:
    """What those had left who had run as long, of each likeness, and what follows from it, are alike in both."""
    case = data.draw(cases())
    n = len(case.jobs)
    limits = data.draw(st.lists(st.sampled_from((np.nan, 5.0, 20.0, 90.0)), min_size=n, max_size=n))
    names = data.draw(st.lists(st.sampled_from((None, "a", "b")), min_size=n, max_size=n))
    jobs = case.jobs.with_columns(limit_s=np.array(limits), name=Labels.of(names, n))
    trust = data.draw(st.sampled_from((0.25, 2.0, 16.0)))
    how = data.draw(settings(backfill=backfill))
    core = rltune.simulate(jobs, case.cluster, estimator=History(trust=trust), remaining="history", **how)
    plain = reference.simulate(jobs, case.cluster, estimate_s=core.estimate_s, remaining="history", trust=trust, **how)
    assert_same(core, plain)


@pytest.mark.parametrize("backfill", ["none", "shadow"])
@given(data=st.data())
def test_commit_mode(backfill: str, data) -> None:
    """RLScheduler's machine, with gangs, types, VCs, CPUs and memory."""
    case = data.draw(cases(without=(*RULES, *TROUBLE)))
    assert_equal(case, commit=True, **data.draw(settings(backfill=backfill, head="pool")))

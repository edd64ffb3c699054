"""Jobs that take turns: the compiled core and the plain reference agree, and what is promised holds."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from strategies import FEATURES, HEADS, PLACEMENTS, POLICIES, SLOW, Case, cases, guards, turns

import rltune
from rltune.engine.guard import Guard
from rltune.engine.pipeline import TURN_BACKFILLS
from rltune.engine.turns import Turns


def by_core(case: Case, taken: Turns, guard: Guard | None = None, **settings):
    return rltune.simulate(case.jobs, case.cluster, estimator=case.estimate_s, preempt=taken, guard=guard, **settings)


def by_reference(case: Case, taken: Turns, guard: Guard | None = None, **settings):
    same = None if guard is None else reference.Guard(guard.hours, guard.times, guard.sla)
    how = reference.Turns(taken.order, taken.min_run_s, taken.max_preemptions, taken.turn_s)
    return reference.simulate(case.jobs, case.cluster, estimate_s=case.estimate_s, guard=same, turns=how, **settings)


def listed(spells) -> list[tuple]:
    rows = zip(spells.job.tolist(), spells.start_s.tolist(), spells.end_s.tolist(), spells.placements, strict=True)
    return [(job, start, end, tuple(sorted(where))) for job, start, end, where in rows]


def assert_equal(case: Case, taken: Turns, guard: Guard | None = None, **settings) -> None:
    """Compare every spell, and what it cost, exactly."""
    core, plain = (run(case, taken, guard, **settings) for run in (by_core, by_reference))
    assert np.asarray(core.rejected).tolist() == plain.rejected
    spells = [(job, start, end, tuple(sorted(where))) for job, start, end, where in plain.spells]
    assert listed(core.spells) == spells
    np.testing.assert_array_equal(core.start_s, plain.start_s)
    np.testing.assert_array_equal(core.end_s, plain.end_s)
    np.testing.assert_array_equal(core.requeues, plain.requeues)
    ran = ~np.asarray(core.rejected)
    np.testing.assert_array_equal(core.preemptions[ran], np.array(plain.preemptions)[ran])
    np.testing.assert_array_equal(core.lost_s, plain.lost_s)


def settings(**fixed):
    """Draw the ways to run, but for those that are fixed."""
    free = {
        "policy": st.sampled_from(POLICIES),
        "backfill": st.sampled_from(TURN_BACKFILLS),
        "placement": st.sampled_from(PLACEMENTS),
        "head": st.sampled_from(HEADS),
        "view": st.sampled_from((0, 0, 0, 3)),
    }
    return st.fixed_dictionaries(free | {name: st.just(value) for name, value in fixed.items()})


@pytest.mark.parametrize("backfill", TURN_BACKFILLS)
@given(data=st.data())
def test_every_backfill(backfill: str, data) -> None:
    """Each backfill rule, with any features."""
    case = data.draw(cases(always=("willing",)))
    assert_equal(case, data.draw(turns()), **data.draw(settings(backfill=backfill)))


@pytest.mark.parametrize("feature", [*FEATURES, *SLOW])
@given(data=st.data())
def test_every_feature(feature: str, data) -> None:
    """Each feature of machine, workload and rules, with any others."""
    case = data.draw(cases(always=("willing", feature)))
    assert_equal(case, data.draw(turns()), **data.draw(settings()))


@given(data=st.data())
def test_guards(data) -> None:
    """Owed and SLA jobs come first among running jobs, too."""
    case = data.draw(cases(always=("willing", "qos")))
    assert_equal(case, data.draw(turns()), data.draw(guards()), **data.draw(settings()))

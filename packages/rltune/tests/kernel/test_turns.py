"""Jobs that take turns: the compiled core and the plain reference agree, and what is promised holds."""

from dataclasses import replace

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from learn.looking import a_model
from reference.check_turns import toll_problems, turn_problems
from strategies import FEATURES, HEADS, PLACEMENTS, POLICIES, SLOW, Case, cases, guards, joined_cases, turns

import rltune
from rltune.cluster import Cluster, Limit
from rltune.engine.guard import Guard
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.pipeline import TURN_BACKFILLS
from rltune.engine.run import Machine, run_pipeline
from rltune.engine.turns import Turns, get_turns
from rltune.errors import InputError
from rltune.estimate import History
from rltune.explain.reasons_while_waiting import reasons_while_waiting
from rltune.jobs import Jobs
from rltune.labels import Labels
from rltune.model.feature_sets import get_recipe
from rltune.policy.learned import Learned

SEEDS = st.integers(0, 1000)
ORDERS = ["las", "gittins", "srsf", "policy"]


def by_core(case: Case, taken: Turns, guard: Guard | None = None, **settings):
    return rltune.simulate(case.jobs, case.cluster, estimator=case.estimate_s, preempt=taken, guard=guard, **settings)


def by_reference(case: Case, taken: Turns, guard: Guard | None = None, **settings):
    same = None if guard is None else reference.Guard(guard.hours, guard.times, guard.sla)
    how = reference.Turns(
        taken.order,
        taken.min_run_s,
        taken.max_preemptions,
        taken.turn_s,
        taken.margin,
        taken.cost_once,
        taken.cost_each,
        taken.max_a_day,
        taken.late_s,
        taken.late_times,
        taken.cover,
        taken.gain,
        by_network=isinstance(settings.get("policy"), Learned),
    )
    if how.by_network:
        settings = {**settings, "policy": reference.Network.of(settings["policy"].model)}
    return reference.simulate(case.jobs, case.cluster, estimate_s=case.estimate_s, guard=same, turns=how, **settings)


def listed(spells) -> list[tuple]:
    rows = zip(spells.job.tolist(), spells.start_s.tolist(), spells.end_s.tolist(), spells.placements, strict=True)
    return [(job, start, end, tuple(sorted(where))) for job, start, end, where in rows]


def assert_equal(case: Case, taken: Turns, guard: Guard | None = None, **settings) -> None:
    """Compare every spell, and what it cost, exactly."""
    assert_same(*(run(case, taken, guard, **settings) for run in (by_core, by_reference)))


def assert_same(core: rltune.Schedule, plain: reference.Result) -> None:
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


def network(data, recipe: str = "giving-way+queue_length") -> Learned:
    """Draw a network that sees of a job what a running one has, too."""
    norm = np.array([(2.0, 0.3, -9.0, 9.0)] * len(get_recipe(recipe).inputs))
    return Learned(a_model(recipe, data.draw(st.sampled_from(((3, 2), (4, 3, 2)))), data.draw(SEEDS), norm=norm))


@pytest.mark.parametrize("backfill", TURN_BACKFILLS)
@given(data=st.data())
def test_networks(backfill: str, data) -> None:
    """A network scores those that wait and those that run by what jobs have had, and by what is left of them."""
    case = data.draw(cases(always=("willing",)))
    guard = data.draw(st.sampled_from((None, Guard(hours=10 / 3600))))
    policy = network(data, "gpus+requested_time+job_size+submit_time+urgency+queue_length+attained+displaced+runs")
    assert_equal(
        case, data.draw(turns(("policy",))), guard, **data.draw(settings(backfill=backfill)) | {"policy": policy}
    )


@given(data=st.data())
def test_networks_and_what_history_tells(data) -> None:
    """What is left, and Gittins' index among the inputs, rest on how long those lasted that have ended."""
    case = data.draw(cases(always=("willing",), max_jobs=16))
    how = data.draw(settings()) | {"policy": network(data)}
    assert_history_equal(case.jobs, case.cluster, data.draw(turns(("policy",))), data, **how)


def test_a_network_that_sees_the_index_alone_is_gittins_order() -> None:
    """Its score is e to the power of the logarithm, and margin and cost are taken as with `gittins`.

    Where some may not be displaced, those keep the policy's order under `gittins`, and the network's here.
    """
    rng, n = np.random.default_rng(3), 120
    jobs = Jobs.from_arrays(
        np.sort(rng.uniform(0, 4e4, n)),
        rng.exponential(6000, n),
        rng.integers(1, 5, n),
        preemptible=True,
    )
    case = Case(jobs, Cluster.uniform(nodes=2, gpus=4), jobs.duration_s.copy())
    by_network = by_core(case, get_turns("policy:margin=4:each=0.05"), policy=by_index_alone(), backfill="fit-first")
    by_rule = by_core(case, get_turns("gittins"), backfill="fit-first")
    assert by_rule.preemptions.sum() > 10
    np.testing.assert_array_equal(by_network.start_s, by_rule.start_s)
    np.testing.assert_array_equal(by_network.end_s, by_rule.end_s)


def assert_history_equal(jobs: Jobs, cluster: Cluster, taken: Turns, data, **how) -> None:
    """Compare where estimates and remainders are history's."""
    trust = data.draw(st.sampled_from((0.25, 2.0, 16.0)))
    core = rltune.simulate(jobs, cluster, estimator=History(trust=trust), preempt=taken, **how)
    told = Case(jobs, cluster, core.estimate_s)
    assert_same(core, by_reference(told, taken, remaining="history", trust=trust, **how))


@pytest.mark.parametrize("order", ["srsf", "policy"])
@given(data=st.data())
def test_what_history_tells(order: str, data) -> None:
    """Orders, estimates of what is left, costs and reservations rest on how long those lasted that have ended."""
    case = data.draw(cases(always=("willing",), max_jobs=16))
    n = len(case.jobs)
    limits = data.draw(st.lists(st.sampled_from((np.nan, 5.0, 20.0, 90.0)), min_size=n, max_size=n))
    names = data.draw(st.lists(st.sampled_from((None, "a", "b")), min_size=n, max_size=n))
    jobs = case.jobs.with_columns(limit_s=np.array(limits), name=Labels.of(names, n))
    assert_history_equal(jobs, case.cluster, data.draw(turns((order,))), data, **data.draw(settings()))


@given(data=st.data())
def test_gittins(data) -> None:
    """Most jobs are short and some are long, so that the best rate is not that of going on to the end."""
    n = 12
    rows = st.tuples(st.sampled_from((0.0, 1.0, 2.0)), st.sampled_from((1.0, 1.5, 2.0, 40.0, 60.0)), st.integers(1, 2))
    gaps, lasts, gpus = zip(*data.draw(st.lists(rows, min_size=n, max_size=n)), strict=True)
    willing = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    columns = {
        "preemptible": [not x for x in willing],
        "checkpoint_s": data.draw(st.sampled_from((0.0, 2.0))),
        "limit_s": [90.0] * n,
    }
    jobs = Jobs.from_arrays(np.cumsum(gaps), lasts, gpus, **columns)
    taken = Turns("gittins", 0.0, turn_s=5.0, margin=data.draw(st.sampled_from((1.0, 2.0))), cost_each=0.0)
    backfill = data.draw(st.sampled_from(TURN_BACKFILLS))
    assert_history_equal(jobs, Cluster.uniform(nodes=1, gpus=2), taken, data, policy="saf", backfill=backfill)


@pytest.mark.parametrize("order", ORDERS)
@given(data=st.data())
def test_promises(order: str, data) -> None:
    """Work is conserved, nobody unwilling is touched, every stop makes room at once, and losses are bounded."""
    case = data.draw(cases(always=("willing",), without=("outages",)))
    taken = data.draw(turns((order,)))
    schedule = by_core(case, taken, **data.draw(settings()))
    assert turn_problems(case.jobs, case.cluster, schedule, taken) == []


def bounded(taken: Turns, data) -> Turns:
    """Add a bound on what turns cost, and on turns a day."""
    late = data.draw(st.sampled_from(((5.0, np.inf), (20.0, 2.0), (np.inf, 1.5), (60.0, np.inf), (np.inf, 4.0))))
    cover, day = data.draw(st.tuples(st.sampled_from((0, 1)), st.sampled_from((0, 1, 2))))
    return replace(taken, late_s=late[0], late_times=late[1], cover=cover, max_a_day=day)


@pytest.mark.parametrize("backfill", TURN_BACKFILLS)
@given(data=st.data())
def test_tolls(backfill: str, data) -> None:
    """What turns cost a job is counted, and who has been away for long comes first: core and reference agree."""
    case = data.draw(cases(always=("willing",)))
    guard = data.draw(st.sampled_from((None, Guard(hours=10 / 3600))))
    how = data.draw(settings(backfill=backfill))
    assert_equal(case, bounded(data.draw(turns()), data), guard, **how)


@given(data=st.data())
def test_the_bound_holds(data) -> None:
    """Nobody is displaced whose turns have cost it all they may, and nobody who has been due."""
    case = data.draw(cases(always=("willing",), without=("outages", "slowdown")))
    case = replace(case, estimate_s=case.jobs.duration_s.copy())
    taken = bounded(data.draw(turns()), data)
    schedule = by_core(case, taken, **data.draw(settings()))
    assert turn_problems(case.jobs, case.cluster, schedule, taken) == []
    assert toll_problems(case.jobs, case.cluster, schedule, taken) == []


@given(data=st.data())
def test_pools_of_what_still_waits(data) -> None:
    """Who is displaced joins no pools in the pass in which it is."""
    case = data.draw(joined_cases())
    willing = data.draw(st.lists(st.booleans(), min_size=len(case.jobs), max_size=len(case.jobs)))
    jobs = case.jobs.with_columns(preemptible=np.array(willing), checkpoint_s=np.full(len(case.jobs), 2.0))
    assert_equal(replace(case, jobs=jobs), data.draw(turns()), **data.draw(settings(head="pool", view=0)))


def nobody_willing(jobs: Jobs, checkpoint_s: float) -> Jobs:
    """Return the jobs, none of which may be displaced."""
    n = len(jobs)
    columns = {"checkpoint_s": np.full(n, checkpoint_s), "restart_s": np.zeros(n)}
    return jobs.with_columns(preemptible=np.zeros(n, dtype=bool), **columns)


def assert_same_schedule(one: rltune.Schedule, other: rltune.Schedule) -> None:
    np.testing.assert_array_equal(one.start_s, other.start_s)
    np.testing.assert_array_equal(one.end_s, other.end_s)
    assert [sorted(p) for p in one.placements] == [sorted(p) for p in other.placements]


@pytest.mark.parametrize("order", ORDERS)
@given(data=st.data())
def test_those_who_may_not_be_displaced_keep_the_policys_order(order: str, data) -> None:
    """Where nobody may be, the schedule is that of the policy alone, whatever scores its jobs share out.

    They write checkpoints, so that turns are not left out altogether.
    """
    case = data.draw(cases(always=("willing",), without=("outages",)))
    case = replace(case, jobs=nobody_willing(case.jobs, 2.0))
    how = data.draw(settings())
    assert_same_schedule(*(by_core(case, Turns(name), **how, remaining="history") for name in ("off", order)))


@pytest.mark.parametrize("backfill", TURN_BACKFILLS)
@pytest.mark.parametrize("checkpoint_s", [600.0, np.inf])
def test_a_network_keeps_its_order_where_nobody_may_be_displaced(backfill: str, checkpoint_s: float) -> None:
    """It is asked again after every start, as it is without turns."""
    rng, n = np.random.default_rng(1), 100
    jobs = Jobs.from_arrays(np.sort(rng.uniform(0, 2e4, n)), rng.exponential(3000, n), rng.integers(1, 9, n))
    case = Case(nobody_willing(jobs, checkpoint_s), Cluster.uniform(nodes=3, gpus=4), jobs.duration_s.copy())
    how = {"policy": "learned", "backfill": backfill, "remaining": "history"}
    assert_same_schedule(*(by_core(case, Turns(order), **how) for order in ("off", "gittins")))


@given(case=cases(always=("willing",)), how=settings(), order=st.sampled_from(ORDERS))
def test_where_nobody_takes_turns_there_are_none(case: Case, how: dict, order: str) -> None:
    """If nobody may be displaced nor writes checkpoints, `preempt` changes nothing, nor what is believed to be left."""
    case = replace(case, jobs=nobody_willing(case.jobs, np.inf))
    assert_same_schedule(*(by_core(case, Turns(name), **how) for name in ("off", order)))


def by_index_alone() -> Learned:
    """Return a network that scores jobs by Gittins' index, and by nothing else."""
    return Learned(a_model("index", (1, 1), weights=np.array([1.0, 0.0, 1.0, 0.0, -1.0, 0.0])))


@pytest.mark.parametrize("checkpoint_s", [600.0, np.inf])
def test_a_network_sees_the_index_where_nobody_takes_turns(checkpoint_s: float) -> None:
    """Whether jobs that give no way write checkpoints changes nothing of their order."""
    rng, n = np.random.default_rng(3), 60
    jobs = Jobs.from_arrays(np.sort(rng.uniform(0, 2e4, n)), rng.exponential(6000, n), rng.integers(1, 5, n))
    case = Case(nobody_willing(jobs, checkpoint_s), Cluster.uniform(nodes=2, gpus=4), jobs.duration_s.copy())
    schedule = by_core(case, get_turns("policy"), policy=by_index_alone(), backfill="fit-first")
    assert_same(schedule, by_reference(case, get_turns("policy"), policy=by_index_alone(), backfill="fit-first"))


def test_what_goes_only_with_turns_or_without_is_refused() -> None:
    """The index is nothing where nobody takes turns; and a network that orders all has no base policy beside it."""
    with pytest.raises(InputError, match="sees Gittins' index, which is known only where jobs take turns"):
        parse_pipeline(by_index_alone())
    with pytest.raises(InputError, match="no base policy stands beside it"):
        parse_pipeline(by_index_alone(), preempt="policy", guard="sla-base=gold")
    assert parse_pipeline("learned", preempt="gittins", guard="sla-base=gold").guard.sla_by_base == ("gold",)


def test_a_run_that_is_taken_at_a_moment_is_the_run_that_was_simulated() -> None:
    """Where nobody takes turns there are none for explain, forecast and serve either, nor other remainders."""
    rng, n = np.random.default_rng(0), 60
    lasts = rng.exponential(6000, n)
    times = np.sort(rng.uniform(0, 4e4, n))
    jobs = Jobs.from_arrays(times, lasts, rng.integers(1, 5, n), limit_s=lasts * rng.uniform(1, 5, n))
    cluster, pipeline = Cluster.uniform(nodes=2, gpus=4), parse_pipeline("saf", "easy", preempt="las")
    schedule = run_pipeline(jobs, cluster, pipeline, History())
    machine = Machine.of(jobs, cluster, pipeline, History())
    machine.run()
    assert machine.schedule(jobs, np.arange(n)).start_s.tolist() == schedule.start_s.tolist()
    assert schedule.settings.preempt == machine.settings.preempt == "las"
    told = reasons_while_waiting(schedule, pipeline, 20)
    assert any(told)


def one_node(**columns) -> Case:
    jobs = Jobs.from_arrays(**columns)
    return Case(jobs, Cluster.uniform(nodes=1, gpus=4), jobs.duration_s.copy())


def test_by_hand() -> None:
    """A small job displaces a large one, which loses 100 s of work and 60 s of restart, and goes on after it."""
    case = one_node(
        submit_s=[0, 1000], duration_s=[20000, 500], gpus=[4, 4], preemptible=True, checkpoint_s=300, restart_s=60
    )
    schedule = by_core(case, Turns("las"))
    assert listed(schedule.spells) == [
        (0, 0.0, 1000.0, ((0, 4),)),
        (0, 1500.0, 1500.0 + 60 + 20000 - 900, ((0, 4),)),
        (1, 1000.0, 1500.0, ((0, 4),)),
    ]
    assert schedule.preemptions.tolist() == [1, 0]
    assert schedule.lost_s.tolist() == [160.0, 0.0]
    assert schedule.delay_s.tolist() == [660.0, 0.0]
    assert schedule.wait_s.tolist() == [0.0, 0.0]
    assert schedule.summary().utilisation.busy_gpu_s == 4 * (20000 + 160 + 500)


def test_a_tick_changes_the_order() -> None:
    """Nothing happens, and yet the running job has had its hour of service and gives way to one that waits."""
    case = one_node(submit_s=[0, 10], duration_s=[20000, 5000], gpus=[4, 4], preemptible=True)
    assert by_core(case, Turns("las", turn_s=250.0)).start_s.tolist() == [0.0, 1000.0]


def test_what_was_in_vain_is_asked_again_for_a_newcomer() -> None:
    """One waits that may not claim; then one comes that may, and does at that very moment, not at the next tick."""
    case = one_node(
        submit_s=[0, 2000, 2950, 2960],
        duration_s=[40000, 30000, 30000, 100],
        gpus=[4, 4, 4, 4],
        preemptible=[True, False, False, True],
    )
    schedule = by_core(case, Turns("las"))
    assert schedule.start_s[3] == 2960
    assert schedule.start_s[1:3].min() > 40000


def test_what_was_in_vain_is_asked_again_when_a_spell_is_long_enough() -> None:
    """A job stands lower at 900 s already, and may be displaced from 1,200 s on: by the tick then, not by a later."""
    case = one_node(submit_s=[0, 10], duration_s=[20000, 5000], gpus=[4, 4], preemptible=True)
    assert by_core(case, Turns("las", min_run_s=1200.0)).start_s.tolist() == [0.0, 1200.0]


def test_what_was_in_vain_is_asked_again_when_nodes_become_free() -> None:
    """A gang of two nodes claims one when the other, held by a job that may not be displaced, becomes free.

    Nothing else changes then: forty jobs that ended before keep one end from making an edition.
    """
    jobs = Jobs.from_arrays(
        [0] * 40 + [600, 600, 2600],
        [100] * 40 + [40000, 5010, 100],
        [1] * 40 + [4, 4, 8],
        nodes=[1] * 42 + [2],
        preemptible=[True] * 41 + [False, True],
    )
    case = Case(jobs, Cluster.uniform(nodes=2, gpus=4), jobs.duration_s.copy())
    schedule = by_core(case, Turns("gittins"), backfill="fit-first")
    assert schedule.start_s[40:].tolist() == [600.0, 600.0, 5610.0]
    assert schedule.preemptions[40:].tolist() == [1, 0, 0]


def test_the_least_losing_set() -> None:
    """Two small jobs that lose little give way, not the one that has just missed its checkpoint."""
    case = one_node(
        submit_s=[0, 0, 0, 1000],
        duration_s=[90000] * 3 + [10],
        gpus=[2, 1, 1, 2],
        preemptible=True,
        checkpoint_s=[999.0, 990.0, 995.0, 600.0],
        restart_s=[30.0, 1.0, 1.0, 0.0],
    )
    assert by_core(case, Turns("srsf")).preemptions.tolist() == [0, 1, 1, 0]


def test_a_network_orders_within_levels() -> None:
    """Displaced is who has a higher level; who of a level is next, the network says."""
    rng, n = np.random.default_rng(0), 60
    jobs = Jobs.from_arrays(
        np.sort(rng.uniform(0, 2e4, n)), rng.exponential(6000, n), rng.integers(1, 5, n), preemptible=True
    )
    case = Case(jobs, Cluster.uniform(nodes=2, gpus=4), jobs.duration_s.copy())
    by_network, by_rule = (
        by_core(case, Turns("las"), policy=name, backfill="fit-first") for name in ("learned", "fcfs")
    )
    assert by_network.preemptions.sum() > 0
    assert turn_problems(case.jobs, case.cluster, by_network, Turns("las")) == []
    assert by_network.start_s.tolist() != by_rule.start_s.tolist()


def test_a_displaced_job_comes_back() -> None:
    """It may end an hour later than without turns: short jobs pass it until then less a spell, then it comes first."""
    case = one_node(
        submit_s=[0, *range(1000, 21000, 500)],
        duration_s=[20000] + [500] * 40,
        gpus=4,
        preemptible=True,
        checkpoint_s=0.0,
        restart_s=0.0,
    )
    free, bound = (by_core(case, get_turns(word)) for word in ("las:late=off", "las:late=3600"))
    assert free.end_s[0] > 20000 + 3600
    assert free.preemptions[0] == 1
    assert bound.spells.start_s[:2].tolist() == [0.0, 1000.0 + 3600 - 600]  # as the sixth of them ends
    assert bound.end_s[0] == 20000 + 3000
    assert bound.preemptions[0] == 1


def test_turns_a_day() -> None:
    """A job is displaced once a day, and again when the day that began with that is over."""
    case = one_node(
        submit_s=[0, 1000, 5000, 100000], duration_s=[200000, 10, 10, 10], gpus=4, preemptible=True, restart_s=0.0
    )
    schedule = by_core(case, get_turns("las:day=1"))
    assert schedule.start_s[1] == 1000
    assert schedule.start_s[2] >= 1000 + 86400
    assert schedule.start_s[3] >= schedule.start_s[2] + 86400
    assert schedule.preemptions[0] == 3


def test_a_limit_displaces_nobody() -> None:
    """A job that only a limit holds waits, though it would come before the one that runs."""
    case = one_node(submit_s=[0, 1000], duration_s=[20000, 500], gpus=[2, 2], preemptible=True, user=["a", "a"])
    limited = replace(case, cluster=replace(case.cluster, limits=(Limit(scope="user", name="a", max_running=1),)))
    assert by_core(limited, Turns("srsf")).preemptions.tolist() == [0, 0]


@pytest.mark.parametrize(
    "refused",
    [
        {"backfill": "conservative"},
        {"backfill": "shadow"},
        {"placement": "milp"},
        {"search": 16},
        {"cycle_s": 60.0},
        {"commit": True},
        {"policy": "learned", "preempt": "policy"},
        {"policy": lambda view: view.submit_s},
    ],
)
def test_what_does_not_go_together(refused: dict) -> None:
    """It is refused in a sentence, not ignored."""
    case = one_node(submit_s=[0], duration_s=[10], gpus=[1])
    with pytest.raises(InputError, match=r"preempt (las|policy)"):
        rltune.simulate(case.jobs, case.cluster, estimator="oracle", **{"preempt": "las", **refused})

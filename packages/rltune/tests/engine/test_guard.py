"""The guard: nobody is overtaken for longer than granted, whatever the policy; what it does not touch is as without."""

import itertools

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from learn.looking import a_model
from reference.check import owed_delayed, problems
from strategies import BACKFILLS, HEADS, PLACEMENTS, POLICIES, RULES, TROUBLE, Case, cases, guards

import rltune
from rltune.cluster import Cluster
from rltune.engine.guard import Guard, get_guard
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.policy.learned import Learned

PLAIN = ("cpus", "memory", "no-gpus", *RULES, *TROUBLE, "zero", "speeds", "wrong-estimates", "unsorted")
ONE_KIND = (*PLAIN, "vcs", "types", "shapes", "huge")


def run(case: Case, policy="saf", **settings):
    return rltune.simulate(case.jobs, case.cluster, policy, estimator=case.estimate_s, **settings)


def place_of(case: Case, guard: Guard):
    """Give who comes before all others as of a time, and in which order: by the definition, from submit times alone."""
    jobs = case.jobs
    hours, times = guard.hours, guard.times
    marked = [jobs.qos.name_of(i) in guard.sla for i in range(len(jobs))]

    def place(i: int, t: float):
        if marked[i]:
            return (0, float(jobs.submit_s[i]), i)
        given = [3600 * hours] if hours is not None else []
        given += [times * float(case.estimate_s[i])] if times is not None else []
        owed = bool(given) and t - float(jobs.submit_s[i]) >= max(given)
        return (1, float(jobs.submit_s[i]), i) if owed else None

    return place


def no_rule(kind: str):
    """Give a policy that is no rule: a user's function, a network, or a network that refuses; else the name itself."""
    return {
        "function": lambda queue: -queue.estimate_s,
        "network": Learned(a_model()),
        "inspector": Learned(a_model("schedinspector")),
    }.get(kind, kind)


def assert_same(first, second) -> None:
    np.testing.assert_array_equal(first.start_s, second.start_s)
    assert list(first.placements) == list(second.placements)


# what it promises


@given(case=cases(without=PLAIN, always=("qos",)), policy=st.sampled_from(POLICIES), guard=guards())
def test_without_backfilling_nobody_overtakes_an_owed_job(case, policy, guard):
    """While one that comes before all others waits in the only queue, only such jobs start, and of them older ones."""
    schedule = run(case, policy, head="global", guard=guard)
    place = place_of(case, guard)
    for a, b in itertools.permutations(np.flatnonzero(schedule.ran).tolist(), 2):
        t = schedule.start_s[b]
        if case.jobs.submit_s[a] <= t < schedule.start_s[a] and place(a, t):
            assert place(b, t)
            assert place(b, t) < place(a, t)


@pytest.mark.parametrize("backfill", ["fit-first", "easy"])
@given(
    case=cases(without=PLAIN, always=("qos",)),
    policy=st.sampled_from(POLICIES),
    placement=st.sampled_from(PLACEMENTS),
    guard=guards(),
)
def test_nothing_that_backfills_delays_an_owed_job(backfill, case, policy, placement, guard):
    """Under exact estimates the first of those owed could start as early after the others' starts as before them."""
    schedule = run(case, policy, backfill=backfill, placement=placement, head="global", guard=guard)
    assert owed_delayed(case.jobs, case.cluster, schedule, place_of(case, guard), placement) == []


@pytest.mark.parametrize("backfill", ["none", "fit-first", "easy"])
@given(case=cases(without=ONE_KIND, always=("qos",)), guard=guards())
def test_the_solver_does_not_delay_an_owed_job_either(backfill, case, guard):
    """Joint placement and cutting jobs change nothing of the promise."""
    few = case.jobs.with_columns(gpus=np.minimum(case.jobs.gpus, 2))  # one chunk wherever: what is promised is plain
    small = Case(few, case.cluster, case.estimate_s)
    schedule = run(small, backfill=backfill, placement="milp", head="global", guard=guard)
    assert owed_delayed(few, case.cluster, schedule, place_of(small, guard)) == []


@given(case=cases(without=PLAIN, always=("qos",)), policy=st.sampled_from(POLICIES), guard=guards())
def test_sla_jobs_keep_their_order(case, policy, guard):
    """Of those that come before everybody no younger one starts before an older one, without backfilling."""
    schedule = run(case, policy, head="global", guard=guard)
    marked = guard.sla_jobs(case.jobs) == 1
    rows = np.flatnonzero(schedule.ran & marked)
    starts = schedule.start_s[rows[np.lexsort((rows, case.jobs.submit_s[rows]))]]
    assert (np.diff(starts) >= 0).all()


@pytest.mark.parametrize("backfill", ["none", "fit-first", "easy"])
def test_a_large_job_is_starved_without_it_and_not_with_it(backfill):
    """Small jobs keep coming; the large one that SAF would leave to the end starts an hour and one small job later."""
    small = np.arange(0.0, 40_000.0, 50.0)
    submit = np.concatenate([small, [10.0]])
    length = np.concatenate([np.full(len(small), 300.0), [600.0]])
    gpus = np.concatenate([np.full(len(small), 1), [8]])
    jobs, cluster = Jobs.from_arrays(submit, length, gpus), Cluster.uniform(nodes=1, gpus=8)
    starved, served = (
        rltune.simulate(jobs, cluster, "saf", backfill, guard=guard, estimator="oracle").wait_s[-1]
        for guard in ("off", "1h")
    )
    assert starved > 30_000 or backfill == "easy"
    assert served <= 3600 + 300


# what it leaves alone


@given(
    case=cases(always=("qos",)),
    backfill=st.sampled_from(BACKFILLS),
    policy=st.sampled_from(POLICIES),
    placement=st.sampled_from((*PLACEMENTS, "milp")),
    head=st.sampled_from(HEADS),
)
def test_a_guard_that_never_acts_changes_nothing(case, backfill, policy, placement, head):
    """With a grace longer than any wait the schedule is that without a guard."""
    settings = {"backfill": backfill, "placement": placement, "head": head}
    assert_same(run(case, policy, **settings), run(case, policy, guard="1000000h", **settings))


@pytest.mark.parametrize("backfill", BACKFILLS)
@given(case=cases(), policy=st.sampled_from(POLICIES), placement=st.sampled_from(PLACEMENTS))
def test_without_grace_every_policy_is_first_come_first_served(backfill, case, policy, placement):
    """All are owed at once, so age alone counts; fit-first becomes EASY, since the head may not be delayed."""
    kept = "easy" if backfill == "fit-first" else backfill
    guarded = run(case, policy, backfill=backfill, placement=placement, guard="0h")
    assert_same(guarded, run(case, "fcfs", backfill=kept, placement=placement))


@pytest.mark.parametrize("backfill", ["none", "fit-first", "easy"])
@pytest.mark.parametrize("kind", ["function", "network", "inspector"])
def test_any_policy_can_be_guarded(backfill, kind):
    """A user's function, a network and a network that refuses: without grace each is first come, first served."""
    rng = np.random.default_rng(5)
    jobs = Jobs.from_arrays(np.sort(rng.uniform(0, 300, 60)), rng.uniform(1, 60, 60), rng.integers(1, 9, 60))
    cluster = Cluster.uniform(nodes=2, gpus=4)
    policy = no_rule(kind)
    kept = "easy" if backfill == "fit-first" else backfill
    assert_same(
        rltune.simulate(jobs, cluster, policy, backfill, guard="0h", estimator="oracle"),
        rltune.simulate(jobs, cluster, "fcfs", kept, estimator="oracle"),
    )
    assert not np.array_equal(
        rltune.simulate(jobs, cluster, policy, backfill, estimator="oracle").start_s,
        rltune.simulate(jobs, cluster, "fcfs", kept, estimator="oracle").start_s,
    )


@given(case=cases(always=("qos",)), backfill=st.sampled_from(BACKFILLS), guard=guards())
def test_guarded_schedules_are_sound(case, backfill, guard):
    """Nothing is oversubscribed, lost, too early or over a limit."""
    schedule = run(case, backfill=backfill, guard=guard)
    assert problems(case.jobs, case.cluster, case.estimate_s, schedule) == []


# how it is said


@pytest.mark.parametrize(
    ("text", "guard"),
    [
        ("24h", Guard(24.0)),
        ("0.5h", Guard(0.5)),
        ("4x", Guard(None, 4.0)),
        ("24h:4x", Guard(24.0, 4.0)),
        ("24h:4x:sla=gold|silver", Guard(24.0, 4.0, ("gold", "silver"))),
        ("sla=gold", Guard(sla=("gold",))),
        ("0h", Guard(0.0)),
        ("off", Guard()),
    ],
)
def test_a_guard_is_read_as_it_is_written(text, guard):
    """The text names it in results, too."""
    assert get_guard(text) == guard
    assert str(guard) == text


@pytest.mark.parametrize("text", ["", "24", "h", "-1h", "nanh", "infh", "24h:24h", "sla=", "gold", "24h:"])
def test_what_is_no_guard_is_refused(text):
    """The sentence shows how one is written."""
    with pytest.raises(InputError, match=r"is not understood; write 24h"):
        get_guard(text)


def test_a_policy_may_carry_its_guard_in_its_name():
    """So pipelines with and without stand in one comparison."""
    rng = np.random.default_rng(1)
    jobs = Jobs.from_arrays(np.sort(rng.uniform(0, 500, 80)), rng.uniform(1, 60, 80), rng.integers(1, 5, 80))
    cluster = Cluster.uniform(nodes=1, gpus=4)
    named = rltune.simulate(jobs, cluster, "saf+guard:0.01h", estimator="oracle")
    assert named.settings.guard == "0.01h"
    assert_same(named, rltune.simulate(jobs, cluster, "saf", guard="0.01h", estimator="oracle"))
    assert not np.array_equal(named.start_s, rltune.simulate(jobs, cluster, "saf", estimator="oracle").start_s)


def test_two_guards_are_refused():
    """Which one should hold?"""
    jobs, cluster = Jobs.from_arrays([0], [1], 1), Cluster.uniform(nodes=1, gpus=4)
    with pytest.raises(InputError, match="has a guard already"):
        rltune.simulate(jobs, cluster, "saf+guard:1h", guard="2h", estimator="oracle")
    with pytest.raises(InputError, match="two of one kind"):
        rltune.simulate(jobs, cluster, "saf+guard:1h+guard:2h", estimator="oracle")


def test_commit_mode_knows_no_guard():
    """RLScheduler's machine commits to one job at a time."""
    jobs, cluster = Jobs.from_arrays([0], [1], 1), Cluster.uniform(nodes=1, gpus=4)
    with pytest.raises(InputError, match="commit mode knows no guard"):
        rltune.simulate(jobs, cluster, "saf", commit=True, guard="1h", estimator="oracle")


# SLA jobs that are left to the base policy


def as_smallest_first(base: str):
    """Make a model that orders as `srf` does, with another base policy."""
    return a_model("gpus", (1, 1), weights=np.array([1.0, 0.0, 1.0, 0.0, -1.0, 0.0]), base=base, drift="off")


@pytest.mark.parametrize("backfill", BACKFILLS)
@given(
    case=cases(always=("qos",), without=("no-gpus",)),
    base=st.sampled_from(POLICIES),
    guard=guards(),
    sla=st.sampled_from((("a",), ("b",), ("a", "b"))),
    head=st.sampled_from(HEADS),
)
def test_sla_jobs_are_where_the_base_policy_puts_them(backfill, case, base, guard, sla, head):
    """The base policy says who is before and behind them, the network orders those between, alike in both."""
    around = Guard(guard.hours, guard.times, tuple(set(guard.sla) - set(sla)), sla)
    settings = {"backfill": backfill, "head": head}
    core = run(case, Learned(as_smallest_first(base)), guard=around, **settings)
    plain = reference.simulate(
        case.jobs,
        case.cluster,
        "srf",
        estimate_s=case.estimate_s,
        guard=reference.Guard(around.hours, around.times, around.sla, sla, base),
        **settings,
    )
    np.testing.assert_array_equal(core.start_s, plain.start_s)
    assert [sorted(p) for p in core.placements] == [sorted(p) for p in plain.placements]


def test_the_network_orders_only_between_sla_jobs():
    """By hand: smallest first, but nobody passes the SLA job whom the base policy ranks behind it."""
    jobs = Jobs.from_arrays(
        submit_s=[0, 1, 2, 3, 4, 5],
        duration_s=[10] * 6,
        gpus=[4, 3, 2, 4, 2, 1],
        qos=[None, None, None, "gold", None, None],
    )
    one = Cluster.uniform(nodes=1, gpus=4)
    model = as_smallest_first("fcfs")
    free, left = (
        rltune.simulate(jobs, one, Learned(model), estimator="oracle", guard=guard).start_s.tolist()
        for guard in (None, "sla-base=gold")
    )
    assert np.argsort(free, kind="stable").tolist() == [0, 2, 5, 4, 1, 3]
    assert left == [0.0, 20.0, 10.0, 30.0, 40.0, 40.0]


def test_a_guard_that_leaves_jobs_to_the_base_policy_reads_as_it_is_written():
    """And is refused where there is no base policy beside the order, or a search would move them."""
    assert get_guard("24h:sla=a:sla-base=b|c") == Guard(24.0, None, ("a",), ("b", "c"))
    assert str(get_guard("sla-base=b|c")) == "sla-base=b|c"
    with pytest.raises(InputError, match="name it once"):
        get_guard("sla=a:sla-base=a")
    with pytest.raises(InputError, match="no order beside a base policy"):
        parse_pipeline("saf", guard="sla-base=gold")
    with pytest.raises(InputError, match="leave it out"):
        parse_pipeline("learned", guard="sla-base=gold", search=4)

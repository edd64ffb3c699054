"""Decision-time search: never worse than its policy where rollouts are exact, blind to the truth, and repeatable."""

from itertools import count

import numpy as np
import pytest
from engine.test_guard import PLAIN, assert_same, no_rule, place_of
from hypothesis import given
from hypothesis import strategies as st
from learn.looking import a_model
from reference.check import owed_delayed, problems
from strategies import BACKFILLS, HEADS, PLACEMENTS, POLICIES, TROUBLE, Case, cases, guards

import rltune
from rltune.cluster import Cluster
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import Machine
from rltune.engine.search import Search, Searcher, get_search
from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.jobs import Jobs
from rltune.kernel.backfill.scheduling_pass import make_pass
from rltune.kernel.rollout import order_search as kernels
from rltune.kernel.rollout.believed_world import draw_sketch, make_sketch, restore, room_needed
from rltune.kernel.rollout.event_loop import advance
from rltune.kernel.state import arrays as core
from rltune.kernel.state.handles import state_handle, world_handle
from rltune.policy.learned import Learned

KNOWN = (
    "dependencies",
    "wrong-estimates",
    "limits",
    "arrays",
    *TROUBLE,
)  # what a rollout cannot foresee, or holds back


def run(case: Case, policy="saf", **settings):
    return rltune.simulate(case.jobs, case.cluster, policy, estimator=case.estimate_s, **settings)


def at_once(case: Case) -> Case:
    """Let all jobs be there from the beginning, so that nothing is left to come."""
    return Case(case.jobs.with_columns(submit_s=np.zeros(len(case.jobs))), case.cluster, case.estimate_s)


def busy(seed: int = 0, n: int = 120, gap_s: float = 4.0) -> Jobs:
    """Make a queue of many sizes."""
    rng = np.random.default_rng(seed)
    gpus = rng.choice([1, 2, 4, 8], n, p=[0.5, 0.2, 0.2, 0.1])
    return Jobs.from_arrays(np.sort(rng.uniform(0, gap_s * n, n)), rng.lognormal(3.0, 1.2, n), gpus)


SMALL = Cluster.uniform(nodes=2, gpus=8)


# it is no worse


@pytest.mark.parametrize("backfill", ["none", "fit-first", "easy", "conservative", "shadow"])
@given(
    case=cases(without=KNOWN),
    policy=st.sampled_from(POLICIES),
    placement=st.sampled_from(PLACEMENTS),
    head=st.sampled_from(HEADS),
    guard=st.sampled_from(("off", "off", "0.002h", "1x")),
)
def test_never_worse_than_the_policy_where_rollouts_are_exact(backfill, case, policy, placement, head, guard):
    """With exact estimates and nobody to come every rollout is what will be, so the mean wait can only fall."""
    now = at_once(case)
    settings = {"backfill": backfill, "placement": placement, "head": head, "guard": guard}
    alone, searched = run(now, policy, **settings), run(now, policy, search=8, **settings)
    assert np.nansum(searched.wait_s) <= np.nansum(alone.wait_s) + 1e-6


@pytest.mark.parametrize("backfill", ["none", "easy"])
def test_never_worse_in_slowdown_where_that_is_searched_for(backfill):
    """The same holds of bounded slowdown, and the two goals do not give the same schedule."""
    jobs = busy().with_columns(submit_s=np.zeros(120))
    alone = rltune.simulate(jobs, SMALL, "fcfs", backfill, estimator="oracle")
    by_wait, by_slowdown = (
        rltune.simulate(jobs, SMALL, "fcfs", backfill, search=s, estimator="oracle") for s in ("16", "16:slowdown")
    )
    assert by_slowdown.bounded_slowdown.mean() <= alone.bounded_slowdown.mean()
    assert not np.array_equal(by_wait.start_s, by_slowdown.start_s)


@given(case=cases(without=KNOWN), backfill=st.sampled_from(BACKFILLS), policy=st.sampled_from(POLICIES), data=st.data())
def test_a_sketch_rolled_forward_is_what_happens(case, backfill, policy, data):
    """From any moment after the last submission, under exact estimates, waiting jobs start when the sketch says."""
    m = Machine.of(
        case.jobs.take(np.argsort(case.jobs.submit_s, kind="stable")),
        case.cluster,
        parse_pipeline(policy, backfill, view=len(case.jobs)),
        get_estimator("oracle"),
    )
    while m.state.n[core.ARRIVED] < len(case.jobs) and advance(m.w, m.s, m.options):  # rejected jobs do not arrive
        make_pass(m.w, m.s, m.options)
    for _ in range(data.draw(st.integers(0, 5))):
        if advance(m.w, m.s, m.options):
            make_pass(m.w, m.s, m.options)
    waiting = m.state.queue.job[m.state.n[core.Q_HEAD] : m.state.n[core.Q_TAIL]].tolist()
    if not waiting:
        return
    small, drawn, rolled = make_sketch(m.world, m.state, *room_needed(m.w, m.s))
    w, d, r = world_handle(small), state_handle(drawn), state_handle(rolled)
    draw_sketch(m.w, m.s, w, d)
    for _ in range(2):  # the second time from a state that has been rolled
        restore(w, d, r)
        while advance(w, r, m.options):
            make_pass(w, r, m.options)
    while advance(m.w, m.s, m.options):
        make_pass(m.w, m.s, m.options)
    np.testing.assert_array_equal(rolled.life.start[: len(waiting)], m.state.life.start[waiting])


def test_a_small_job_goes_first_where_that_delays_nobody():
    """SAF's head needs the whole node at 100; the other fits beside what runs until then, and without search waits."""
    jobs = Jobs.from_arrays([0, 1, 1], [100, 10, 99], [3, 4, 1])
    node = Cluster.uniform(nodes=1, gpus=4)
    assert rltune.simulate(jobs, node, "saf", estimator="oracle").start_s.tolist() == [0, 100, 110]
    assert rltune.simulate(jobs, node, "saf", search=4, estimator="oracle").start_s.tolist() == [0, 100, 1]


def test_every_kind_of_order_is_taken_somewhere():
    """None of them is for show."""
    taken = set()
    for seed in range(6):
        work = rltune.simulate(busy(seed), SMALL, "fcfs", "easy", search=48, seed=seed, estimator="oracle").work
        taken |= {name for name in ("promoted", "by_rule", "shuffled") if work[f"search_took_{name}"]}
    assert taken == {"promoted", "by_rule", "shuffled"}


def test_more_orders_are_tried_the_more_are_allowed():
    """The number bounds the work."""
    rolled = []
    for n in (2, 8, 32):
        work = rltune.simulate(busy(), SMALL, "saf", search=n, estimator="oracle").work
        assert work["search_passes"] < work["search_rollouts"] <= n * work["search_passes"]
        rolled.append(work["search_rollouts"])
    assert rolled == sorted(set(rolled))


# it is blind to the truth, and repeatable


@given(case=cases(without=("wrong-estimates", "outages", "zero")), backfill=st.sampled_from(BACKFILLS), data=st.data())
def test_what_starts_first_depends_on_estimates_alone(case, backfill, data):
    """Other true run times under the same estimates change nothing of the first pass."""
    now = at_once(case)
    factors = data.draw(st.lists(st.sampled_from((0.25, 1.0, 4.0)), min_size=len(case.jobs), max_size=len(case.jobs)))
    other = Case(now.jobs.with_columns(duration_s=now.jobs.duration_s * np.array(factors)), now.cluster, now.estimate_s)
    first, second = (run(c, "fcfs", backfill=backfill, search=8) for c in (now, other))
    np.testing.assert_array_equal(first.start_s == 0.0, second.start_s == 0.0)


@given(case=cases(), backfill=st.sampled_from(BACKFILLS), policy=st.sampled_from(POLICIES))
def test_the_same_seed_gives_the_same_schedule(case, backfill, policy):
    """Shuffled orders are drawn by the seed alone."""
    first, second = (run(case, policy, backfill=backfill, search=12, seed=3) for _ in range(2))
    assert_same(first, second)


def test_another_seed_shuffles_otherwise():
    """The seed is not for show."""
    schedules = [
        rltune.simulate(busy(1), SMALL, "fcfs", "easy", search=48, seed=seed, estimator="oracle") for seed in range(4)
    ]
    assert len({tuple(s.start_s.tolist()) for s in schedules}) > 1


@given(case=cases(), backfill=st.sampled_from(BACKFILLS), policy=st.sampled_from(POLICIES))
def test_no_search_is_as_without(case, backfill, policy):
    """One order to try is the policy's own."""
    for search in ("off", 1, 0):
        assert_same(run(case, policy, backfill=backfill), run(case, policy, backfill=backfill, search=search))


# it goes with everything


@given(
    case=cases(always=("qos",)),
    backfill=st.sampled_from(BACKFILLS),
    policy=st.sampled_from(POLICIES),
    placement=st.sampled_from((*PLACEMENTS, "milp")),
    head=st.sampled_from(HEADS),
    view=st.sampled_from((0, 0, 3)),
    guard=guards(),
)
def test_searched_schedules_are_sound(case, backfill, policy, placement, head, view, guard):
    """Nothing is oversubscribed, lost, too early, over a limit, into maintenance or on a down node."""
    settings = {"backfill": backfill, "placement": placement, "head": head, "view": view, "guard": guard}
    schedule = run(case, policy, search=6, **settings)
    if placement != "milp":  # which may cut jobs otherwise than the checker expects
        assert problems(case.jobs, case.cluster, case.estimate_s, schedule) == []
    assert schedule.ran.sum() == run(case, policy, **settings).ran.sum()


@pytest.mark.parametrize("backfill", ["none", "fit-first", "easy"])
@given(case=cases(without=PLAIN, always=("qos",)), policy=st.sampled_from(POLICIES), guard=guards())
def test_a_search_does_not_delay_who_is_owed(backfill, case, policy, guard):
    """The guard's promise is kept whatever order is found."""
    schedule = run(case, policy, backfill=backfill, head="global", guard=guard, search=8)
    assert owed_delayed(case.jobs, case.cluster, schedule, place_of(case, guard)) == []


@pytest.mark.parametrize("backfill", ["none", "fit-first", "easy"])
@pytest.mark.parametrize("kind", ["function", "network", "inspector", "qssf", "multifactor"])
def test_any_policy_can_be_searched_around(backfill, kind):
    """Other orders than its own are found and taken, and all jobs run."""
    schedule = rltune.simulate(busy(), SMALL, no_rule(kind), backfill, search=16, estimator="oracle")
    assert schedule.ran.all()
    assert schedule.work["search_changed"] > 0


def test_a_network_that_is_left_its_way_is_as_without(monkeypatch):
    """If its own action is always found best, the policy makes its own passes, looking again after every start."""
    policy = Learned(a_model())
    alone = rltune.simulate(busy(), SMALL, policy, estimator="oracle")
    monkeypatch.setattr(kernels, "search", kernels.begin_search)
    assert_same(alone, rltune.simulate(busy(), SMALL, policy, search=16, estimator="oracle"))


# how it is said


@pytest.mark.parametrize(
    ("text", "search"),
    [
        ("16", Search(16)),
        ("16:slowdown", Search(16, "slowdown")),
        ("32:2.5ms", Search(32, "wait", 2.5)),
        ("off", Search()),
    ],
)
def test_a_search_is_read_as_it_is_written(text, search):
    """The text names it in results, too."""
    assert get_search(text) == search
    assert str(search) == text


@pytest.mark.parametrize("text", ["", "-1", "x", "16:", "16:jct", "16:0ms", "16:nanms", "99999", "1.5"])
def test_what_is_no_search_is_refused(text):
    """The sentence shows how one is written."""
    with pytest.raises(InputError, match=r"is not understood; write 16"):
        get_search(text)


def test_a_policy_may_carry_search_and_guard_in_its_name():
    """In any order."""
    by_name = rltune.simulate(busy(), SMALL, "saf+guard:0.1h+search:8", estimator="oracle")
    assert (by_name.settings.guard, by_name.settings.search) == ("0.1h", "8")
    assert_same(by_name, rltune.simulate(busy(), SMALL, "saf", guard="0.1h", search=8, estimator="oracle"))
    assert_same(by_name, rltune.simulate(busy(), SMALL, "saf+search:8", guard="0.1h", estimator="oracle"))


def test_a_simulation_does_not_look_at_the_clock():
    """The same inputs must give the same result on any machine."""
    with pytest.raises(InputError, match="by the clock"):
        rltune.simulate(busy(), SMALL, "saf", search="16:5ms", estimator="oracle")


def test_commit_mode_knows_no_search():
    """RLScheduler's machine commits to one job at a time."""
    with pytest.raises(InputError, match="commit mode knows no search"):
        rltune.simulate(busy(), SMALL, "saf", commit=True, search=4, estimator="oracle")


# by the clock, for a running cluster


def _stopped(jobs: Jobs) -> Machine:
    """Stop in the middle of a run, before a pass in which a search tries several orders and changes something."""
    m = Machine.of(jobs, SMALL, parse_pipeline("fcfs", search="64"), get_estimator("oracle"))
    while advance(m.w, m.s, m.options):
        tried = _looked(m, Search(64))
        if tried.taken and tried.rolled > 4:
            return m
        make_pass(m.w, m.s, m.options)
    raise AssertionError("nothing is ever changed")


def _looked(m: Machine, search: Search, rollouts: int = 0, timer=lambda: 0.0) -> Searcher:
    searcher = Searcher(m.arrays, m.options, search, 0, rollouts, timer)
    searcher.look()
    return searcher


@pytest.mark.parametrize("tries", [0, 3, 1000])
def test_what_was_tried_in_time_can_be_tried_again_without_a_clock(tries):
    """The number of rollouts is all that a journal must keep; here the clock runs out after so many looks at it."""
    m = _stopped(busy(2))
    possible = _looked(m, Search(64)).rolled
    ticks = count()
    timed = _looked(m, Search(64, ms=5.0), timer=lambda: 0.0 if next(ticks) <= tries else 1e9)
    order = m.state.queue.score.copy()
    again = _looked(m, Search(64, ms=5.0), timed.rolled)
    assert again.rolled == timed.rolled == min(1 + tries, possible)
    assert again.taken == timed.taken
    np.testing.assert_array_equal(m.state.queue.score, order)

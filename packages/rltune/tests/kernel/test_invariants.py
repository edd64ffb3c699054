"""What must be true of every schedule, whoever made it: the reference and the compiled core."""

import math

import numpy as np
import pytest
import reference
from hypothesis import assume, given
from hypothesis import strategies as st
from reference.check import heads_delayed, one_node_in_order, problems
from strategies import BACKFILLS, HEADS, PLACEMENTS, POLICIES, RULES, TROUBLE, Case, cases

import rltune
from rltune.cluster import Cluster
from rltune.jobs import Jobs

GPUS_ONLY = ("cpus", "memory", "no-gpus", *RULES, "outages")
FLAT = (*GPUS_ONLY, *TROUBLE, "mixed", "types", "vcs", "speeds", "shapes", "zero")


def by_reference(case: Case, **settings):
    return reference.simulate(case.jobs, case.cluster, estimate_s=case.estimate_s, **settings)


def by_core(case: Case, **settings):
    return rltune.simulate(case.jobs, case.cluster, estimator=case.estimate_s, **settings)


@pytest.fixture(params=[by_reference, by_core], ids=["reference", "core"], scope="module")
def simulate(request):
    return request.param


def with_jobs(case: Case, jobs: Jobs, estimate_s: np.ndarray) -> Case:
    return Case(jobs, case.cluster, estimate_s)


@pytest.mark.parametrize("backfill", BACKFILLS)
@given(
    case=cases(),
    policy=st.sampled_from(POLICIES),
    placement=st.sampled_from(PLACEMENTS),
    head=st.sampled_from(HEADS),
    view=st.sampled_from((0, 0, 3)),
)
def test_schedules_are_sound(simulate, case, backfill, policy, placement, head, view):
    """Nothing oversubscribed, lost, run twice, split, too early, over a limit, into maintenance or on a down node."""
    schedule = simulate(case, policy=policy, backfill=backfill, placement=placement, head=head, view=view)
    assert problems(case.jobs, case.cluster, case.estimate_s, schedule) == []


@pytest.mark.parametrize("backfill", ["none", "shadow"])
@given(case=cases(without=(*RULES, *TROUBLE)), policy=st.sampled_from(POLICIES))
def test_committed_schedules_are_sound(simulate, case, backfill, policy):
    """Commit mode oversubscribes and loses nothing either."""
    schedule = simulate(case, policy=policy, backfill=backfill, commit=True)
    assert problems(case.jobs, case.cluster, case.estimate_s, schedule) == []


@pytest.mark.parametrize("placement", PLACEMENTS)
@given(case=cases(without=(*GPUS_ONLY, "zero", "wrong-estimates")))
def test_easy_keeps_its_promise(simulate, case, placement):
    """Under exact estimates no head of the only queue starts later than the reservation it got when it became head."""
    schedule = simulate(case, backfill="easy", placement=placement, head="global")
    assert heads_delayed(case.jobs, case.cluster, schedule, placement) == []


@given(
    case=cases(without=("wrong-estimates", "zero", *GPUS_ONLY, *TROUBLE, "mixed", "types", "vcs", "speeds", "shapes"))
)
def test_conservative_keeps_every_promise(simulate, case):
    """On one node and under exact estimates every job starts at the time it was first promised, whoever comes later."""
    flat = Case(case.jobs, Cluster.uniform(nodes=1, gpus=12), case.estimate_s)
    schedule = simulate(flat, backfill="conservative")
    np.testing.assert_array_equal(schedule.start_s, one_node_in_order(flat.jobs, 12))


@pytest.mark.parametrize("placement", PLACEMENTS)
@given(case=cases(without=("wrong-estimates", "zero", "unsorted", *RULES, "outages")))
def test_conservative_is_not_delayed_by_later_jobs(simulate, case, placement):
    """Under exact estimates and in order of submission, a job starts when it would have if nobody had come after it."""
    whole = simulate(case, backfill="conservative", placement=placement)
    half = np.arange(len(case.jobs) // 2)
    alone = simulate(
        with_jobs(case, case.jobs.take(half), case.estimate_s[half]),
        backfill="conservative",
        placement=placement,
    )
    np.testing.assert_array_equal(np.asarray(whole.start_s)[half], alone.start_s)


@pytest.mark.parametrize("commit", [False, True])
@given(
    case=cases(without=(*RULES, *TROUBLE)),
    policy=st.sampled_from(POLICIES),
    backfill=st.sampled_from(("none", "shadow")),
)
def test_deterministic(simulate, case, policy, backfill, commit):
    """The same input gives the same schedule."""
    first, second = (simulate(case, policy=policy, backfill=backfill, commit=commit) for _ in range(2))
    np.testing.assert_array_equal(first.start_s, second.start_s)
    assert list(first.placements) == list(second.placements)


@given(case=cases(without=(*RULES, "outages")), placement=st.sampled_from(PLACEMENTS))
def test_fcfs_without_backfill_starts_in_submit_order(simulate, case, placement):
    """With one queue nobody overtakes, maintenance or not."""
    schedule = simulate(case, placement=placement, head="global")
    order = sorted(range(len(case.jobs)), key=lambda i: (case.jobs.submit_s[i], i))
    starts = [schedule.start_s[i] for i in order if not schedule.rejected[i]]
    assert starts == sorted(starts)


@given(case=cases(without=(*RULES, "outages", "vcs", "types")), placement=st.sampled_from(PLACEMENTS))
def test_one_pool_is_the_global_queue(simulate, case, placement):
    """If every job with GPUs may run everywhere, the rule for heads cannot matter."""
    assume(all(case.jobs.gpus > 0))
    first, second = (simulate(case, placement=placement, backfill="easy", head=head) for head in HEADS)
    np.testing.assert_array_equal(first.start_s, second.start_s)


@given(
    case=cases(without=(*RULES, *TROUBLE), max_jobs=1),
    backfill=st.sampled_from(BACKFILLS),
    policy=st.sampled_from(POLICIES),
)
def test_a_job_alone_starts_when_submitted(simulate, case, backfill, policy):
    """Nothing is in its way."""
    schedule = simulate(case, policy=policy, backfill=backfill)
    assert schedule.rejected[0] or schedule.start_s[0] == case.jobs.submit_s[0]


@given(case=cases(without=(*RULES, "outages", "unsorted")), data=st.data())
def test_fcfs_without_backfill_ignores_the_future(simulate, case, data):
    """Jobs that come later change nothing for those before them."""
    keep = data.draw(st.integers(1, len(case.jobs)))
    whole = simulate(case, head="global")
    part = simulate(with_jobs(case, case.jobs.window(0, keep), case.estimate_s[:keep]), head="global")
    np.testing.assert_array_equal(np.asarray(whole.start_s)[:keep], part.start_s)


@given(case=cases(without=FLAT))
def test_more_gpus_delay_nobody(simulate, case):
    """On one node, in submit order and without backfill, every job starts as early or earlier on a larger node."""
    small, large = (Case(case.jobs, Cluster.uniform(nodes=1, gpus=gpus), case.estimate_s) for gpus in (12, 15))
    on_small, on_large = simulate(small), simulate(large)
    both = ~np.asarray(on_small.rejected)
    assume(list(on_small.rejected) == list(on_large.rejected))
    assert np.all(np.asarray(on_large.start_s)[both] <= np.asarray(on_small.start_s)[both])


@pytest.mark.parametrize("backfill", BACKFILLS)
@given(case=cases(without=TROUBLE), policy=st.sampled_from([p for p in POLICIES if p != "f1"]))
def test_later_by_a_day_is_the_same_day(simulate, case, backfill, policy):
    """All scores but F1 see differences of times alone, so a shifted workload gives the shifted schedule."""
    day = 65536.0  # a power of two, so that adding it to the small times of a case is exact
    assume(all(speed in {0.5, 1.0, 2.0} for speed in case.cluster.speed.values()))
    moved = with_jobs(case, case.jobs.with_columns(submit_s=case.jobs.submit_s + day), case.estimate_s)
    first, second = (simulate(c, policy=policy, backfill=backfill) for c in (case, moved))
    np.testing.assert_array_equal(np.asarray(first.start_s) + day, second.start_s)


@given(case=cases(without=("vcs", "types", "speeds")), policy=st.sampled_from(POLICIES), data=st.data())
def test_a_view_of_everything_is_no_view(simulate, case, policy, data):
    """A view as long as the workload leaves nobody out."""
    backfill = data.draw(st.sampled_from(BACKFILLS))
    whole, seen = (simulate(case, policy=policy, backfill=backfill, view=v) for v in (0, len(case.jobs)))
    np.testing.assert_array_equal(whole.start_s, seen.start_s)


@given(case=cases(always=("dependencies", "huge")))
def test_who_depends_on_the_rejected_is_rejected(simulate, case):
    """A rejection goes down the whole chain."""
    schedule = simulate(case)
    for i in range(len(case.jobs)):
        if any(schedule.rejected[j] for j in case.jobs.depends_on(i)):
            assert schedule.rejected[i]
            assert math.isnan(schedule.start_s[i])


def test_who_ends_before_a_reservation_takes_nothing_from_it():
    """A short job behind the head starts on a node that is to be the head's; a long one on the same node may not."""
    jobs = Jobs.from_arrays(submit_s=[0.0, 1.0, 1.0, 1.0], duration_s=[10.0, 10.0, 5.0, 100.0], gpus=[2, 4, 1, 1])
    made = rltune.simulate(jobs, Cluster.uniform(2, 2), policy="fcfs", backfill="easy", estimator="oracle")
    assert made.start_s.tolist() == [0.0, 10.0, 1.0, 20.0]


def test_a_shape_is_looked_at_again_when_a_shorter_job_of_it_comes():
    """Jobs of one GPU are known to delay the head; one that would not comes later, and starts at once."""
    jobs = Jobs.from_arrays(
        submit_s=[0.0, 1.0, 1.0, 2.0, 3.0], duration_s=[10.0, 10.0, 100.0, 90.0, 4.0], gpus=[2, 4, 1, 1, 1]
    )
    made = rltune.simulate(jobs, Cluster.uniform(2, 2), policy="fcfs", backfill="easy", estimator="oracle")
    assert made.start_s.tolist() == [0.0, 10.0, 20.0, 20.0, 3.0]

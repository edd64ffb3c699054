"""What jobs have left, from how long others lasted: against the definition, by hand, and at its limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltune.cluster import Cluster
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import Machine
from rltune.estimate import History, Noisy, Oracle
from rltune.jobs import Jobs
from rltune.kernel.backfill.scheduling_pass import make_pass
from rltune.kernel.rollout.event_loop import advance
from rltune.kernel.score.taking_turns import attained_for, las_cuts, turn_score
from rltune.kernel.state.arrays import BY_GITTINS, BY_LAS, BY_SRSF
from rltune.kernel.state.online_means import FOR_ESTIMATE, predicted_run_time
from rltune.kernel.state.online_survival import (
    EDGES,
    edge,
    edge_before,
    index_by_history,
    left_by_estimate,
    mean_left,
    renew_edition,
)

WIDE = Cluster.uniform(nodes=100, gpus=8)
START = 2e9
HOUR = 3600.0
LENGTHS = (0.0, 0.5, 1.0, 3.0, 3.2, 60.0, 100.0, 3600.0, 5000.0, 2e5, 1e9)
LASTED = st.lists(st.sampled_from(LENGTHS), max_size=20)


def ended(lasted, gpus=1) -> Jobs:
    """Return a history of jobs that ended long before START."""
    return Jobs.from_arrays(np.arange(len(lasted)), np.asarray(lasted, dtype=float), gpus)


def core_of(estimator, gpus=1, limit_s=np.nan, lasts=50.0, order="off", willing=True) -> Machine:
    """Return the core as it is before the first of two such jobs comes."""
    jobs = Jobs.from_arrays([START, START + 1], [lasts, lasts], gpus, limit_s=[limit_s] * 2, preemptible=willing)
    m = Machine.of_some(jobs, WIDE, parse_pipeline("fcfs", remaining="history", preempt=order), estimator)
    renew_edition(m.s, m.options)
    return m


def after(lasted, trust: float = 16.0, gpus=1, of=1, limit_s=np.nan, order="off", willing=True) -> Machine:
    """Return the core for jobs of so many GPUs after a history."""
    return core_of(History(trust=trust, before=ended(lasted, gpus)), of, limit_s, order=order, willing=willing)


def left(m: Machine, attained: float) -> float:
    return mean_left(m.w, m.s, 0, attained)


def score(m: Machine, order: int, attained: float) -> float:
    return turn_score(m.w, m.s, order, 0, attained, las_cuts(m.s))


# edges


def test_edges_part_every_doubling_in_four_and_reach_two_years():
    assert [edge(k) for k in range(10)] == [0, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4]
    assert edge(EDGES - 1) == 2.0**26


@given(st.floats(0, 1e12))
def test_every_time_lies_between_two_edges(work):
    k = edge_before(work)
    assert edge(k) <= work
    assert k == EDGES - 1 or work < edge(k + 1)


# the mean that is left


@given(LASTED, st.integers(0, EDGES - 2), st.sampled_from((0.01, 1.0, 16.0)))
def test_at_an_edge_the_mean_left_is_that_of_those_who_ran_longer(lasted, k, trust):
    """By definition: each likeness (all, same size; the finer ones know the same jobs) against the one before."""
    m = after(lasted, trust)
    ran = edge(k)
    longer = [t - ran for t in lasted if t > ran or k == 0]
    believed = HOUR - ran if ran < HOUR else ran / 2
    for _ in range(int((m.world.survival_key[0] >= 0).sum())):
        believed = (sum(longer) + trust * believed) / (len(longer) + trust)
    assert left(m, ran) == pytest.approx(max(believed, 1.0))


@given(LASTED, st.sampled_from((0.5, 16.0)))
def test_before_it_has_run_a_job_has_its_estimate_left(lasted, trust):
    m = after(lasted, trust)
    assert left(m, 0.0) == pytest.approx(max(predicted_run_time(m.w, m.s, FOR_ESTIMATE, 0), 1.0))


def test_between_edges_both_sums_go_on_a_straight_line():
    """Three jobs like it ran longer than 2 s, one of them longer than 2.5 s: halfway two did, for half of the rest."""
    m = after([2.2, 2.4, 10.0], trust=1e-9)
    assert left(m, 2.25) == pytest.approx(((0.2 + 0.4 + 8.0) + 7.5) / 2 / 2)


@given(LASTED, st.floats(0, 1e10), st.sampled_from((np.nan, 0.0, 30.0)))
def test_nobody_who_runs_ends_now(lasted, ran, limit_s):
    assert left(after(lasted, limit_s=limit_s), ran) >= 1.0


def test_beyond_all_that_was_seen_a_job_runs_to_its_limit_and_then_half_as_long_again():
    m = after([100.0] * 50, limit_s=10_000.0)
    assert left(m, 4000.0) == 6000.0
    assert left(m, 20_000.0) == 10_000.0


def test_who_has_outlived_the_short_ones_has_what_the_long_ones_had_left():
    m = after([10.0] * 90 + [10_000.0] * 10, trust=0.01)
    assert left(m, 0.0) == pytest.approx(1009, rel=0.01)
    assert left(m, 64.0) == pytest.approx(9936, rel=0.01)


def test_likeness_counts_as_much_as_it_has_survivors():
    """Jobs of its size end at 100 s; one that has outlived them is believed to be like the larger ones."""
    history = [100.0] * 64 + [5000.0] * 64
    m = after(history, gpus=[1] * 64 + [8] * 64)
    assert left(m, 0.0) < 700
    assert left(m, 112.0) == pytest.approx((64 * 4888 + 16 * (HOUR - 112)) / 80, rel=0.01)


def test_what_ends_in_the_run_is_learnt_and_nothing_before_it_ends():
    """The same jobs, as earlier history and in the run, are known alike; while they run, nothing is."""
    jobs = Jobs.from_arrays([0, 0, 0, 1000], [10, 20, 700, 5], 1)
    m = Machine.of(jobs, WIDE, parse_pipeline("fcfs", remaining="history"), History())
    assert left(m, 0.0) == HOUR
    while advance(m.w, m.s, m.options) and m.state.now[0] < 1000:
        assert left(m, 0.0) == HOUR or m.state.now[0] > 0
        make_pass(m.w, m.s, m.options)
    known = after([10, 20, 700])
    for ran in (0.0, 5.0, 15.0, 300.0, 900.0):
        assert mean_left(m.w, m.s, 3, ran) == left(known, ran)


@pytest.mark.parametrize("estimator", [Oracle(), Noisy(1.0)])
def test_other_estimates_are_believed_until_they_are_outlived(estimator):
    """Then for half as long again; they need no tables."""
    m = core_of(estimator)
    believed = float(m.state.life.estimate[0])
    assert left(m, believed / 4) == pytest.approx(0.75 * believed)
    assert left(m, 2 * believed) == believed
    assert m.state.survival.size == 2


def test_past_its_estimate_a_job_runs_half_as_long_again():
    assert left_by_estimate(100.0, 60.0) == 40.0
    assert left_by_estimate(100.0, 100.0) == 50.0


def test_nothing_is_kept_where_nobody_asks():
    jobs = Jobs.from_arrays([0], [1], 1)
    m = Machine.of(jobs, WIDE, parse_pipeline("fcfs", "easy"), History())
    assert m.state.survival.size == 2


def test_a_likeness_that_nobody_shares_takes_no_room():
    jobs = Jobs.from_arrays(np.arange(50), 10, 1, name=[f"run-{i}" for i in range(50)], user=["anna"] * 50)
    m = Machine.of(jobs, WIDE, parse_pipeline("fcfs", remaining="history"), History())
    assert len(m.state.survival) < 10


# orders


@given(LASTED, st.sampled_from((0.0, 0.7, 2.0, 64.0, 3700.0)))
def test_gittins_is_the_best_rate_of_ends_by_work(lasted, ran):
    """By definition, on the distribution that the likenesses blend to, at the edges ahead and to the end."""
    m = after(lasted, trust=2.0, order="gittins")
    likenesses = int((m.world.survival_key[0] >= 0).sum())
    k = edge_before(ran)
    asked, ran = ran, edge(k)

    def longer(x: float) -> float:
        return sum(t > x or x == 0 for t in lasted)

    def rest(x: float) -> float:
        return sum(t - x for t in lasted if t > x)

    end = ran + (HOUR - ran if ran < HOUR else ran / 2)
    mean, rates = end - ran, []
    for _ in range(likenesses):
        mean = (rest(ran) + 2.0 * mean) / (longer(ran) + 2.0)
    for e in range(k + 1, EDGES):
        still, beyond = float(edge(e) < end), max(end - edge(e), 0.0)
        for _ in range(likenesses):
            still = (longer(edge(e)) + 2.0 * still) / (longer(ran) + 2.0)
            beyond = (rest(edge(e)) + 2.0 * beyond) / (longer(ran) + 2.0)
        rates += [(1 - still) / (mean - beyond)] if mean > beyond else []
    assert index_by_history(m.w, m.s, 0, asked) == pytest.approx(max(1 / max(mean, 1.0), *rates), rel=1e-6)


def test_gittins_puts_off_who_has_outlived_the_short_ones():
    """Nine of ten end within 10 s: a new job is worth trying; one that has run for 16 s has all its work before it."""
    m = after([10.0] * 90 + [10_000.0] * 10, trust=0.01, order="gittins")
    assert score(m, BY_GITTINS, 0.0) == pytest.approx(10 / 0.9, rel=0.1)
    assert score(m, BY_GITTINS, 16.0) == pytest.approx(9984, rel=0.1)
    assert score(m, BY_GITTINS, 9000.0) < score(m, BY_GITTINS, 16.0)


def test_who_may_not_be_displaced_goes_on_to_the_end():
    """Trying such a job is no option: what counts is the mean of all of it, and for las all of its estimate."""
    lasted = [10.0] * 90 + [10_000.0] * 10
    m = after(lasted, trust=0.01, order="gittins", willing=False)
    assert score(m, BY_GITTINS, 0.0) == pytest.approx(np.mean(lasted), rel=0.01)
    core = after([1000.0] * 50, of=8, order="las", willing=False)
    advance(core.w, core.s, core.options)
    assert attained_for(core.w, core.s, BY_LAS, 0) == core.state.turn.estimate[0] > 0


def test_orders_weigh_by_gpus():
    for order, name in ((BY_GITTINS, "gittins"), (BY_SRSF, "srsf")):
        one, four = (score(after([100.0] * 99, gpus=n, of=n, order=name), order, 30.0) for n in (1, 4))
        assert four == pytest.approx(4 * one)


def test_levels_of_attained_service_part_at_quantiles_of_gpu_time():
    """Nine of ten jobs took up to 1,000 GPU-seconds, 99 of 100 up to 10,000."""
    m = after([100.0] * 50 + [250.0] * 40 + [2500.0] * 9 + [1e6], gpus=[1] * 50 + [4] * 50, of=4, order="las")
    low, high = las_cuts(m.s)
    assert 896 <= low <= 1024
    assert 8192 <= high <= 10240
    assert [score(m, BY_LAS, ran) for ran in (0, 220, 260, 2040, 2570, 1e7)] == [0, 0, 1, 1, 2, 2]


def test_without_history_the_levels_part_at_one_and_at_ten_gpu_hours():
    m = after([5.0] * 15, of=2, order="las")
    assert [score(m, BY_LAS, ran) for ran in (0, 1799, 1800, 17_999, 18_000)] == [0, 0, 1, 1, 2]
    assert las_cuts(after([5.0] * 16, order="las").s) != las_cuts(m.s)


def test_srsf_with_the_truth_is_the_area_that_is_left():
    m = core_of(Oracle(), gpus=8, lasts=50.0)
    assert score(m, BY_SRSF, 20.0) == 8 * 30.0

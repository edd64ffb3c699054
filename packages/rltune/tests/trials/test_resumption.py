from dataclasses import replace

import numpy as np
import pytest

from rltune import Cluster, Jobs, simulate
from rltune.cluster import Maintenance, NodeGroup, Outage
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.evaluation import compare
from rltune.trials.resumption import gpus_running, has_starts, resume
from rltune.trials.trial import Trial
from rltune.trials.windows import Steady, Window, choose_windows

CLUSTER = Cluster.uniform(1, 8)


def history(policy="fcfs", backfill="none", n=300, seed=0, **how):
    """Jobs whose recorded starts are those of a policy on one node, where placement cannot differ."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.uniform(0, 40_000, n))
    gpus, duration = rng.integers(1, 9, n), rng.exponential(300, n) + 1
    user = [f"u{i}" for i in rng.integers(0, 5, n)]
    bare = Jobs.from_arrays(submit, duration, gpus, user=user)
    made = simulate(bare, CLUSTER, policy, backfill, **how)
    return bare.with_columns(recorded_start_s=made.start_s), made


@pytest.mark.parametrize(("policy", "backfill"), [("fcfs", "none"), ("saf", "easy"), ("wfp3", "none")])
def test_going_on_under_the_recorded_policy_repeats_what_was_recorded(policy, backfill):
    """Ages included: wfp3 orders by them."""
    jobs, made = history(policy, backfill, estimator="oracle")
    (window,), _ = choose_windows(jobs, Steady(0.5), lambda _: 0.0, CLUSTER.gpu_count)
    assert window.resumes
    waiting = (jobs.submit_s < window.interval_s[0]) & (made.start_s >= window.interval_s[0])
    assert waiting.sum() > 3
    got = Trial(jobs, CLUSTER, "oracle").run_window(parse_pipeline(policy, backfill, "best-fit"), window)
    rows = resume(jobs, window.interval_s[0], CLUSTER).rows
    assert (got.jobs.id == jobs.id[rows]).all()
    np.testing.assert_allclose(got.start_s, made.start_s[rows])
    assert len(got.placements) == len(rows)


def test_what_had_ended_is_known_and_nothing_else():
    """Estimates of the first later job are those of a whole run that learnt as it went."""
    jobs, made = history("fcfs", "easy", estimator="history")
    (window,), _ = choose_windows(jobs, Steady(0.5), lambda _: 0.0)
    got = Trial(jobs, CLUSTER, "history").run_window(parse_pipeline("fcfs", "easy", "best-fit"), window)
    later = jobs.submit_s >= window.interval_s[0]
    np.testing.assert_allclose(got.estimate_s[got.jobs.submit_s >= window.interval_s[0]], made.estimate_s[later])
    np.testing.assert_allclose(got.start_s[got.jobs.submit_s >= window.interval_s[0]], made.start_s[later])


def test_without_recorded_starts_the_warm_up_is_simulated_and_said_to_be():
    jobs, _ = history()
    bare = jobs.with_columns(recorded_start_s=np.full(len(jobs), np.nan))
    assert has_starts(jobs)
    assert not has_starts(bare)
    made = compare(bare, CLUSTER, ["fcfs"], ["none"])
    assert "simulated warm-up" in made.about
    assert any("No starts are recorded" in note for note in made.notes)
    assert "running and waiting then" in compare(jobs, CLUSTER, ["fcfs"], ["none"]).about


def test_a_recorded_state_that_this_cluster_cannot_hold_is_not_begun_with():
    jobs, _ = history()
    now = 0.2 * jobs.submit_s[-1]
    small = Cluster.uniform(1, 1)
    assert gpus_running(jobs, now) > 1
    (window,), notes = choose_windows(jobs, Steady(), lambda _: 0.0, small.gpu_count)
    assert not window.resumes
    assert "this cluster has 1" in notes[0]


def test_only_later_jobs_count():
    jobs, made = history()
    got = compare(jobs, CLUSTER, ["fcfs"], ["none"], estimator="oracle")
    begin = got.windows[0].interval_s[0]
    assert got.standings[0].wait_s.mean == pytest.approx(made.wait_s[jobs.submit_s >= begin].mean())
    assert got.runs[0].summary.jobs == (jobs.submit_s >= begin).sum()


@pytest.mark.parametrize("what", ["maintenance", "outage", "slow"])
@pytest.mark.parametrize("placement", ["best-fit", "first-fit"])
def test_those_that_waited_are_not_held_by_what_had_closed_the_machine(what, placement):
    """Neither a maintenance that lasts, nor an outage, nor a slow node may hold up the gate behind which they wait."""
    bare = Cluster(groups=(NodeGroup(count=2, gpus=8, gpu_type="old"),))
    n = 60
    submit = np.arange(n) * 100.0
    jobs = Jobs.from_arrays(submit, np.full(n, 600.0), np.full(n, 8), limit_s=np.full(n, 600.0))
    closed = {
        "maintenance": replace(bare, maintenance=(Maintenance(start_s=1050.0, end_s=4050.0),)),
        "outage": replace(bare, outages=(Outage(node=0, down_s=2000.0, up_s=2100.0),)),
        "slow": replace(bare, speed={"old": 0.5}),
    }[what]
    made = simulate(jobs, closed, "fcfs", "none", placement, estimator="user")
    jobs = jobs.with_columns(recorded_start_s=made.start_s)
    window = Window(0, n, (3000.0, 1e9), resumes=True)
    got = Trial(jobs, closed, "user").run_window(parse_pipeline("fcfs", "none", placement), window)
    waited = np.flatnonzero((made.start_s >= 3000.0) & (jobs.submit_s < 3000.0))
    starts = got.start_s[np.searchsorted(got.jobs.id, jobs.id[waited])]
    np.testing.assert_allclose(starts, made.start_s[waited], atol=650.0)  # what ran runs anew, for 600 s
    assert got.cluster is closed

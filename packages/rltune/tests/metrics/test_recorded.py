"""Recorded waits stand beside simulated ones, of the same jobs, and a reader is told when they are far apart."""

from dataclasses import replace

import numpy as np
import pytest

import rltune
from rltune.calibration.calibrate import calibrate
from rltune.calibration.closeness import SIZES, Nearness
from rltune.metrics.recorded import FAR, NOTHING_RECORDED, far_apart, recorded_wait, recorded_wait_s
from rltune.text import text_of


def jobs(recorded, **more):
    n = len(recorded)
    return rltune.Jobs.from_arrays(np.zeros(n), 100.0, 1, recorded_start_s=recorded, **more)


def test_only_jobs_that_have_both_waits_are_compared():
    """The second has no recorded start, the third was not simulated, the fourth does not count."""
    told = recorded_wait(
        jobs([10, np.nan, 30, 1000]), np.array([20.0, 999, np.nan, 999]), np.array([True, True, True, False])
    )
    assert (told.of, told.recorded_s.n, told.simulated_s.n) == (3, 1, 1)
    assert (told.recorded_s.mean, told.simulated_s.mean, told.ratio) == (10, 20, 2)


def test_a_start_before_the_submit_is_no_wait():
    assert np.isnan(recorded_wait_s(rltune.Jobs.from_arrays([50], 1.0, 1, recorded_start_s=[40]))).all()


def test_nothing_recorded_is_said():
    assert recorded_wait(jobs([np.nan])).lines() == [NOTHING_RECORDED]


@pytest.mark.parametrize(
    ("one", "other", "far"),
    [(0, 59, False), (0, 61, True), (1000, 1500, False), (1000, 1501, True), (1600, 1000, True)],
)
def test_far_is_by_a_factor_and_by_a_minute(one, other, far):
    assert far_apart(one, other) is far


def test_the_sentence_says_how_many_times_and_which_way():
    told = recorded_wait(jobs([3600.0, 7200.0]), np.array([600.0, 1200.0]))
    assert told.far == "mean"
    assert "Simulated waits are on average 6.0 times shorter than recorded" in told.lines()[-1]
    assert "longer than recorded" in recorded_wait(jobs([600.0]), np.array([3600.0])).lines()[-1]
    assert "far shorter (0.0 s) than recorded" in recorded_wait(jobs([600.0]), np.zeros(1)).lines()[-1]


def test_equal_means_with_another_tail_are_far_apart():
    recorded, simulated = np.full(100, 1000.0), np.full(100, 400.0)
    simulated[:20] = 3400
    told = recorded_wait(jobs(recorded), simulated)
    assert told.ratio == pytest.approx(1)
    assert told.far == "p90"


@pytest.mark.parametrize("part", list(FAR))
@pytest.mark.parametrize("more", [-0.01, 0.01])
def test_calibrate_and_all_others_have_one_rule_for_sizes(part, more):
    """Just below a bar both call the waits near, just above it both call them far."""
    told = recorded_wait(jobs([3600.0] * 3), np.full(3, 3600.0))
    shifted = replace(told.simulated_s, **{part: 3600.0 * (FAR[part] + more)})
    told = replace(told, simulated_s=shifted)
    close = Nearness(told, rank_of_waits=1, rank_of_starts=1, queue=1, use=1, rejected=0, waited=1)
    assert told.far == (part if more > 0 else "")
    assert (close.verdict == SIZES) is (more < 0)


def test_time_in_which_a_job_could_not_start_is_told_apart():
    told = recorded_wait(jobs([1000.0, 1000.0], recorded_eligible_s=[500.0, np.nan]))
    assert (told.held, told.held_s, told.recorded_s.mean) == (1, 250, 750)
    assert told.lines()[0].startswith("Recorded wait of 2 jobs, from when each could start: mean 12.5 min")
    assert "1 of all 2 jobs could not start when submitted" in told.lines()[-1]
    assert "mean of all is 12.5 min so counted, and 16.7 min from submit" in told.lines()[-1]


def test_recorded_waits_are_counted_one_way_whoever_tells_them():
    """Python, the summary of a simulation and the calibration count from when a job could start."""
    given = rltune.Jobs.from_arrays(
        np.arange(40.0) * 100, 50.0, 1, recorded_start_s=np.arange(40.0) * 100 + 900, user=["a"] * 40,
        recorded_eligible_s=np.arange(40.0) * 100 + 600,
    )  # fmt: skip
    cluster = rltune.Cluster.uniform(1, 1)
    simulated = rltune.simulate(given, cluster, estimator="oracle")
    assert simulated.start_s.min() == 600  # nobody runs before it could
    means = [
        recorded_wait(given).recorded_s.mean,
        simulated.summary().recorded.recorded_s.mean,
        calibrate(given, cluster).close.waits.recorded_s.mean,
        rltune.compare(given, cluster, ["fcfs"], windows="whole", estimator="oracle")
        .runs[0]
        .summary.recorded.recorded_s.mean,
    ]
    assert means == [300.0] * 4


def test_a_calibrated_cluster_is_not_sent_to_calibrate_again():
    far = [recorded_wait(jobs([3600.0]), np.array([60.0]), calibrated=known).lines()[-1] for known in (False, True)]
    assert far[0].endswith("`rltune calibrate` tells which.")
    assert far[1].endswith("is in the cluster's file and does not explain all of it.")


def test_a_summary_shows_both_rows_and_the_warning():
    made = rltune.simulate(jobs([5000.0, 9000.0]), rltune.Cluster.uniform(1, 2), estimator="oracle")
    text = text_of(made.summary())
    assert "wait, as recorded" in text
    assert "far shorter (0.0 s) than recorded" in text.replace("\n", " ")
    assert made.summary().to_dict()["recorded"]["recorded_s"]["mean"] == 7000

"""Remainders as an option: by name, in labels, in reservations, and where they are refused."""

import numpy as np
import pytest

import rltune
from rltune.cluster import Cluster
from rltune.engine.parse_pipeline import parse_pipeline, read_pipeline
from rltune.errors import InputError
from rltune.estimate import History
from rltune.jobs import Jobs
from rltune.live.control_settings import ControlSettings, PipelineSettings
from rltune.live.pinned_pipeline import pin_policy

NODE = Cluster.uniform(nodes=1, gpus=4)
GIVEN_S = np.array([10.0, 50.0, 20.0])


def test_a_label_is_read_back():
    made = parse_pipeline("saf", "easy", remaining="history")
    assert made.label == "saf+remaining:history + easy"
    assert read_pipeline(made.label) == made == parse_pipeline("saf+remaining:history", "easy")
    assert made.settings("history").remaining == "history"
    assert parse_pipeline("saf", "easy", remaining="ends-now").label == "saf + easy"


def test_what_is_not_understood_or_said_twice_is_refused():
    with pytest.raises(InputError, match=r"remaining 'histroy'.*did you mean history"):
        parse_pipeline("saf", remaining="histroy")
    with pytest.raises(InputError, match="says what running jobs have left already; history was given too"):
        parse_pipeline("saf+remaining:history", remaining="history")
    with pytest.raises(InputError, match="running jobs to end by their estimates, not by 'history'"):
        parse_pipeline("saf", commit=True, remaining="history")


def test_a_running_cluster_knows_no_remainders():
    settings = ControlSettings(pipeline=PipelineSettings(policy="saf+remaining:history"))
    with pytest.raises(InputError, match="remainders from history are for simulations"):
        pin_policy(settings)


def late(remaining: str, estimator=GIVEN_S) -> list[float]:
    """Run a job of 3 GPUs that outlives its 10 s by far, a head of 4 GPUs, and a job of 20 s that fits beside it."""
    jobs = Jobs.from_arrays([0, 1, 40], [200, 50, 20], [3, 4, 1])
    return rltune.simulate(jobs, NODE, "fcfs", "easy", estimator=estimator, remaining=remaining).start_s.tolist()


def test_who_would_delay_a_head_that_cannot_start_yet_may_pass():
    """At 40 s the first job, past its estimate, is believed to run for 20 s more: a job of 20 s delays nobody."""
    assert late("ends-now") == [0, 200, 250]
    assert late("history") == [0, 200, 40]


def test_remainders_of_history_hold_in_reservations():
    """Earlier jobs of 3 GPUs that outlived 32 s ran for 300 s: that is known, though their mean was 20 s."""
    before = Jobs.from_arrays(np.arange(100) - 1e6, [4.0] * 95 + [300.0] * 5, 3)
    known = History(trust=0.01, before=before)
    assert late("ends-now", known) == [0, 200, 250]
    assert late("history", known) == [0, 200, 40]


@pytest.mark.parametrize("backfill", ["none", "fit-first"])
def test_where_nothing_is_reserved_nothing_changes(backfill):
    jobs = Jobs.from_arrays(np.arange(60), np.arange(60) * 37 % 101 + 1, np.arange(60) % 4 + 1)
    one, other = (
        rltune.simulate(jobs, NODE, "saf", backfill, remaining=rule).start_s for rule in ("ends-now", "history")
    )
    assert one.tolist() == other.tolist()


def test_the_truth_is_expected_as_ever():
    jobs = Jobs.from_arrays(np.arange(60), np.arange(60) * 37 % 101 + 1, np.arange(60) % 4 + 1)
    one, other = (
        rltune.simulate(jobs, NODE, "saf", "conservative", estimator="oracle", remaining=rule).start_s
        for rule in ("ends-now", "history")
    )
    assert one.tolist() == other.tolist()


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_a_promise_is_made_anew_when_nothing_but_time_has_passed(backfill):
    """At 20 s the first job is believed to end at 30 s, at 28 s at 42 s: one of 10 s may pass, and nobody has ended."""
    jobs = Jobs.from_arrays([0, 1, 20, 28], [200, 50, 50, 10], [3, 4, 1, 1])
    estimate_s = np.array([10.0, 50.0, 50.0, 10.0])
    starts = rltune.simulate(jobs, NODE, "fcfs", backfill, estimator=estimate_s, remaining="history").start_s
    assert starts[3] == 28

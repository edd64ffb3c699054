"""A policy that is asked only now and then, as a controller asks it."""

import numpy as np
import pytest

from rltune import Cluster, Jobs, simulate
from rltune.errors import InputError
from rltune.evaluation import compare, evaluate

ONE_GPU = Cluster.uniform(1, 1)


def queue(first_runs_s: float) -> Jobs:
    """One job runs; a long one comes at 10 s, a short one at 70 s."""
    return Jobs.from_arrays([0.0, 10.0, 70.0], [first_runs_s, 50.0, 5.0], [1, 1, 1])


@pytest.mark.parametrize(
    ("first_runs_s", "cycle_s", "started"),
    [
        (100.0, 0.0, [0.0, 105.0, 100.0]),  # asked at 100 s: the short one first
        (100.0, 60.0, [0.0, 100.0, 150.0]),  # asked at 60 s, before the short one came
        (130.0, 60.0, [0.0, 135.0, 130.0]),  # asked at 120 s
        (100.0, 1e9, [0.0, 100.0, 150.0]),  # never asked: by age
    ],
)
def test_by_hand(first_runs_s, cycle_s, started):
    assert (
        simulate(queue(first_runs_s), ONE_GPU, "sjf", cycle_s=cycle_s, estimator="oracle").start_s.tolist() == started
    )


@pytest.mark.parametrize("backfill", ["none", "easy", "conservative"])
def test_scores_are_those_of_the_last_cycle(backfill):
    """By (wait / run time)^3 GPUs: at 60 s 54 against 27, at 100 s, when both could start, 250 against 343."""
    jobs = Jobs.from_arrays([0.0, 0.0, 30.0], [100.0, 20.0, 10.0], [2, 2, 1])
    two = Cluster.uniform(1, 2)
    assert simulate(jobs, two, "wfp3", backfill, cycle_s=60.0, estimator="oracle").start_s.tolist() == [
        0.0,
        100.0,
        120.0,
    ]
    assert simulate(jobs, two, "wfp3", backfill, estimator="oracle").start_s.tolist() == [0.0, 110.0, 100.0]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"commit": True}, "commit mode decides in every pass"),
        ({"search": 4}, "a search decides in every pass"),
        ({"policy": lambda view: view.submit_s}, "decides in every pass: leave out the cycle of 60 s"),
        ({"cycle_s": -1.0}, "a cycle should last some seconds"),
        ({"cycle_s": np.inf}, "a cycle should last some seconds"),
        ({"cycle_s": np.nan}, "a cycle should last some seconds"),
    ],
)
def test_what_does_not_go_with_it(settings, why):
    with pytest.raises(InputError, match=why):
        simulate(queue(100.0), ONE_GPU, **{"policy": "saf", "cycle_s": 60.0} | settings)


def test_comparisons_take_it_too():
    jobs = Jobs.from_arrays(np.arange(400) * 20.0, np.resize([10.0, 200.0, 30.0, 400.0], 400), np.resize([1, 2], 400))
    cluster = Cluster.uniform(2, 4)
    runs = [compare(jobs, cluster, ["sjf"], cycle_s=cycle_s, estimator="oracle").runs[0] for cycle_s in (0.0, 600.0)]
    assert runs[1].schedule.wait_s.mean() > runs[0].schedule.wait_s.mean()
    assert runs[1].schedule.settings.cycle_s == 600.0
    held_out = [
        evaluate(jobs, cluster, ["sjf"], estimator="oracle", size=40, every=20, contended_s=1.0, holdout=0.3, cycle_s=c)
        for c in (0.0, 600.0)
    ]
    assert "Policies are asked every 600 s" in str(held_out[1].to_dict()["notes"])
    asked_often, asked_rarely = (made.test.values[1, :, 0].mean() for made in held_out)
    assert asked_rarely > asked_often

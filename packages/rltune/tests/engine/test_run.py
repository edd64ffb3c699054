"""What `simulate` promises beside the schedule itself: order, rejections with reasons, errors, explanations."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import BACKFILLS, POLICIES, cases

import rltune
from rltune import Cluster, InputError, Jobs
from rltune.cluster import Limit, NodeGroup, Outage
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import Machine
from rltune.estimate import Given
from rltune.kernel.backfill.scheduling_pass import make_pass
from rltune.kernel.rollout.event_loop import advance
from rltune.kernel.state import arrays as core


def test_results_are_in_the_order_of_the_jobs_given():
    jobs = Jobs.from_arrays(submit_s=[20, 0, 10], duration_s=[5, 6, 7], gpus=[1, 1, 2])
    s = rltune.simulate(jobs, Cluster.uniform(nodes=1, gpus=2), estimator="oracle")
    np.testing.assert_array_equal(s.start_s, [20, 0, 10])
    assert list(s.placements) == [((0, 1),), ((0, 1),), ((0, 2),)]


def test_what_can_never_run_is_rejected_with_the_reason():
    groups = (NodeGroup(count=2, gpus=4, gpu_type="A", vc="red"), NodeGroup(count=1, gpus=2, gpu_type="B"))
    limits = (Limit(scope="user", name="ann", max_gpus=2),)
    jobs = Jobs.from_arrays(
        submit_s=np.arange(6),
        duration_s=1,
        gpus=[1, 16, 1, 4, 3, 1],
        gpu_types=[None, None, "C", None, None, None],
        vc=["red", "red", "red", "blue", "red", "red"],
        user=[None, None, None, None, "ann", None],
        after=[[], [], [], [], [], [1]],
    )
    s = rltune.simulate(jobs, Cluster(groups, limits=limits), estimator="oracle")
    reasons = s.reject_reason.to_list()
    assert s.rejected.tolist() == [False, True, True, True, True, True]
    assert reasons[0] is None
    assert reasons[1].startswith("larger than the cluster of 10 GPUs")
    assert reasons[2] == "no node group has an accepted GPU type and admits its VC"
    assert reasons[3].startswith("larger than the cluster")
    assert reasons[4] == "asks for more than its limit of 2 GPUs"
    assert reasons[5] == "depends on a job that was rejected"
    assert np.isnan(s.start_s[1:]).all()
    assert s.placements[1] == ()


def test_a_job_whose_node_never_comes_back_is_reported():
    down = Cluster((NodeGroup(count=1, gpus=1),), outages=(Outage(node=0, down_s=1),))
    s = rltune.simulate(Jobs.from_arrays([0], [5], [1]), down, estimator="oracle")
    assert s.rejected.all()
    assert s.requeues.tolist() == [1]
    assert s.reject_reason.to_list() == ["could not start before the end of the simulation"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"policy": "best"}, "no policy 'best'; there are: fcfs"),
        (
            {"backfill": "eager"},
            "no backfill 'eager'; there are: none, fit-first, easy, conservative, whole-nodes, shadow, easy:fcfs",
        ),
        ({"placement": "anywhere"}, "no placement 'anywhere'; there are: "),
        ({"estimator": "tarot"}, "no estimator 'tarot'; there are: oracle"),
        ({"head": "two"}, "no head 'two'; there are: pool, global"),
        ({"view": -1}, "view should be 0 (all) or more, not -1"),
        ({"commit": True, "backfill": "easy"}, "commit mode backfills by 'none' or 'shadow', not 'easy'"),
        ({"estimator": "user"}, "estimator 'user' needs limit_s"),
        ({"estimator": np.array([1.0, 2.0])}, "2 estimates are given for 1 jobs"),
        ({"estimator": np.array([-1.0])}, "an estimate is negative"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_choices(settings, sentence):
    with pytest.raises(InputError) as error:
        rltune.simulate(Jobs.from_arrays([0], [1], [1]), Cluster.uniform(1, 1), **settings)
    assert sentence in str(error.value)


def test_commit_mode_refuses_what_it_does_not_know():
    jobs = Jobs.from_arrays([0, 1], [1, 1], [1, 1], after=[[], [0]])
    with pytest.raises(InputError, match="knows no limits"):
        rltune.simulate(jobs, Cluster.uniform(1, 1), commit=True, estimator="oracle")


def test_no_jobs_is_a_schedule_too():
    s = rltune.simulate(Jobs.from_arrays([], [], []), Cluster.uniform(1, 1), estimator="oracle")
    assert len(s.start_s) == 0


def test_progress_ends_at_all_jobs():
    told = []
    jobs = Jobs.from_arrays(np.arange(50), 1, 1)
    rltune.simulate(
        jobs, Cluster.uniform(1, 1), progress=lambda done, total: told.append((done, total)), estimator="oracle"
    )
    assert told[-1] == (50, 50)


@given(case=cases(), backfill=st.sampled_from(BACKFILLS), policy=st.sampled_from(POLICIES))
def test_explaining_changes_no_decision_and_gives_every_waiting_job_a_reason(case, backfill, policy):
    pipeline = parse_pipeline(policy, backfill)
    order = np.argsort(case.jobs.submit_s, kind="stable")
    jobs, estimator = case.jobs.take(order), Given(case.estimate_s[order])
    plain = Machine.of(jobs, case.cluster, pipeline, estimator)
    told = Machine.of(jobs, case.cluster, pipeline, estimator)
    explaining = told.options._replace(explain=True)
    while advance(plain.w, plain.s, plain.options):
        assert advance(told.w, told.s, explaining)
        make_pass(plain.w, plain.s, plain.options)
        make_pass(told.w, told.s, explaining)
        np.testing.assert_array_equal(plain.state.life.start, told.state.life.start)
        waiting = told.state.life.status == core.WAITING
        assert (told.state.life.reason[waiting] != core.NO_REASON).all()


def test_kernels_are_plain_python_too():
    """With NUMBA_DISABLE_JIT=1 the same code runs uncompiled and gives the same schedule."""
    code = """
import numpy as np, rltune
rng = np.random.default_rng(5)
jobs = rltune.Jobs.from_arrays(np.sort(rng.integers(0, 50, 40)), rng.integers(1, 30, 40), rng.choice([1, 2, 4, 10], 40))
cluster = rltune.Cluster.uniform(nodes=3, gpus=4)
for backfill in ("none", "fit-first", "easy", "conservative", "shadow"):
    for policy in ("saf", "wfp3"):
        s = rltune.simulate(jobs, cluster, policy=policy, backfill=backfill)
        print(policy, backfill, s.start_s.tolist())
"""
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, env={**os.environ, "NUMBA_DISABLE_JIT": off}
        ).stdout
        for off in ("0", "1")
    ]
    assert outputs[0]
    assert outputs[0] == outputs[1]

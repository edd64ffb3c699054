"""Placers by name, in whole simulations."""

import sys
import warnings
from itertools import pairwise

import highspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.check import problems
from strategies import BACKFILLS, HEADS, POLICIES, cases

import rltune
from rltune.cluster import Cluster, NodeGroup, Slowdown
from rltune.jobs import Jobs
from rltune.placement.adaptive_k import Adaptive, Fixed
from rltune.placement.highs import SolverWarning
from rltune.placement.placers import NAMES, get_placement
from rltune.policy.base import Scored


def contended(n: int = 120, seed: int = 0) -> Jobs:
    rng = np.random.default_rng(seed)
    return Jobs.from_arrays(
        submit_s=np.sort(rng.uniform(0, 2000, n)),
        duration_s=rng.choice([50.0, 200.0, 700.0], n),
        gpus=rng.choice([1, 1, 2, 4, 8, 16], n),
    )


FOUR = Cluster.uniform(nodes=4, gpus=8)


@settings(max_examples=15)
@given(
    case=cases(),
    policy=st.sampled_from(POLICIES),
    backfill=st.sampled_from(BACKFILLS),
    head=st.sampled_from(HEADS),
    view=st.sampled_from((0, 0, 3)),
)
def test_schedules_of_the_solver_are_sound(case, policy, backfill, head, view):
    """Nothing oversubscribed, lost, run twice, split otherwise than asked, over a limit or into maintenance."""
    schedule = rltune.simulate(case.jobs, case.cluster, policy, backfill, "milp:4", case.estimate_s, head, view=view)
    assert problems(case.jobs, case.cluster, case.estimate_s, schedule) == []


@pytest.mark.parametrize("backfill", BACKFILLS)
def test_the_solver_is_deterministic(backfill):
    """The same input gives the same schedule and the same counts."""
    first, second = (rltune.simulate(contended(), FOUR, "sjf", backfill, "milp", estimator="oracle") for _ in range(2))
    np.testing.assert_array_equal(first.start_s, second.start_s)
    counts = [{k: v for k, v in s.work.items() if "_ms" not in k} for s in (first, second)]
    assert counts[0] == counts[1]


def test_the_run_says_what_the_solver_did():
    """Solved, skipped and gained are counted, and every pass is one of them."""
    schedule = rltune.simulate(contended(), FOUR, placement="milp:8", estimator="oracle")
    work = schedule.work
    assert work["milp_solved"] > 0
    assert work["milp_better_than_greedy"] > 0
    assert work["milp_started_by_solver"] >= work["milp_more_starts"] > 0
    assert 0 < work["milp_skip_rate"] < 1
    assert work["milp_solve_ms_p99"] >= work["milp_solve_ms_p50"] > 0


@settings(max_examples=30)
@given(case=cases(without=("zero",)), policy=st.sampled_from(POLICIES), backfill=st.sampled_from(BACKFILLS))
def test_exclusive_nodes_are_not_shared(case, policy, backfill):
    """While a job runs, nobody else is on its nodes, whatever it leaves idle there."""
    schedule = rltune.simulate(case.jobs, case.cluster, policy, backfill, "exclusive", case.estimate_s)
    spells: dict[int, list[tuple[float, float]]] = {}
    for i in np.flatnonzero(~schedule.rejected):
        for node, _ in schedule.placements[i]:
            spells.setdefault(node, []).append((schedule.start_s[i], schedule.end_s[i]))
    for on_node in spells.values():
        on_node.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(on_node))


def test_exclusive_jobs_wait_where_packed_ones_run():
    """Two jobs of one GPU need two nodes, the smaller one first; a third waits for a whole node."""
    jobs = Jobs.from_arrays(submit_s=[0, 0, 0], duration_s=[10, 20, 5], gpus=[1, 1, 1])
    cluster = Cluster(groups=(NodeGroup(count=1, gpus=8), NodeGroup(count=1, gpus=4)))
    packed, alone = (rltune.simulate(jobs, cluster, placement=p, estimator="oracle") for p in ("best-fit", "exclusive"))
    assert packed.start_s.tolist() == [0.0, 0.0, 0.0]
    assert alone.start_s.tolist() == [0.0, 0.0, 10.0]
    assert list(alone.placements) == [((1, 1),), ((0, 1),), ((1, 1),)]


def test_an_exclusive_job_asks_no_less():
    """A node is not enough for a job that asks more CPUs than it has, though the job would have it alone."""
    jobs = Jobs.from_arrays(submit_s=[0, 0], duration_s=[10, 10], gpus=[1, 1], cpus=[8, 9])
    cluster = Cluster(groups=(NodeGroup(count=1, gpus=4, cpus=8),))
    assert rltune.simulate(jobs, cluster, placement="exclusive", estimator="oracle").rejected.tolist() == [False, True]


def test_jobs_are_cut_where_that_starts_them():
    """Two nodes with half their GPUs free take a job that best fit lets wait."""
    jobs = Jobs.from_arrays(submit_s=[0, 0, 1], duration_s=[100, 100, 10], gpus=[4, 4, 4], nodes=[1, 1, 0])
    three = Jobs.from_arrays(
        submit_s=[0, 0, 1, 1], duration_s=[100, 100, 10, 10], gpus=[5, 5, 6, 1], nodes=[1, 1, 0, 0]
    )
    two = Cluster.uniform(nodes=2, gpus=8)
    assert rltune.simulate(jobs, two, placement="milp", estimator="oracle").start_s[2] == 1.0
    packed, cut = (rltune.simulate(three, two, placement=p, estimator="oracle") for p in ("best-fit", "milp"))
    assert packed.start_s[2] == 100.0
    assert cut.start_s[2] == 1.0
    assert cut.placements[2] == ((0, 3), (1, 3))
    assert cut.work["milp_started_wider"] == 1


def test_distance_slows_a_job():
    """A job on one node more than it needs runs longer by the factor, and is expected to."""
    jobs = Jobs.from_arrays(submit_s=[0, 0, 1], duration_s=[100, 100, 10], gpus=[5, 5, 6], nodes=[1, 1, 0])
    slow = Cluster((NodeGroup(count=2, gpus=8),), slowdown=Slowdown(extra_node=1.5))
    schedule = rltune.simulate(jobs, slow, placement="milp", estimator="oracle")
    assert (schedule.start_s[2], schedule.end_s[2]) == (1.0, 16.0)


def test_racks_slow_a_gang():
    """Two nodes of two racks where one rack would have done."""
    groups = (NodeGroup(count=4, gpus=4, nodes_per_rack=2),)
    jobs = Jobs.from_arrays(submit_s=[0, 1], duration_s=[100, 10], gpus=[4, 8], nodes=[1, 2])
    cluster = Cluster(groups, slowdown=Slowdown(extra_rack=2.0))
    far, near, ours = (
        rltune.simulate(jobs, cluster, placement=p, estimator="oracle") for p in ("best-fit", "hierarchical", "milp")
    )
    assert far.end_s[1] - far.start_s[1] == 20.0
    for schedule in (near, ours):
        assert schedule.end_s[1] - schedule.start_s[1] == 10.0
        assert {node // 2 for node, _ in schedule.placements[1]} == {1}


def test_the_solver_knows_racks_that_cost():
    """A cut job takes two holes of one rack rather than those that fit best; where racks are free it takes these."""
    held = (4, 5, 6, 3)  # the holes: 4 and 3 in the first rack, 2 and 5 in the second
    jobs = Jobs.from_arrays(
        submit_s=[0.0] * 8 + [1.0],
        duration_s=[100.0, 0.5] * 4 + [10.0],
        gpus=[gpus for g in held for gpus in (g, 8 - g)] + [6],
        nodes=[1] * 8 + [0],
    )
    groups = (NodeGroup(count=4, gpus=8, nodes_per_rack=2),)
    for extra_rack, nodes in ((1.0, {0, 2}), (2.0, {0, 1})):
        cluster = Cluster(groups, slowdown=Slowdown(extra_rack=extra_rack))
        schedule = rltune.simulate(jobs, cluster, placement="milp", estimator="oracle")
        assert schedule.start_s[8] == 1.0
        assert {node for node, _ in schedule.placements[8]} == nodes


def test_neighbours_slow_a_job():
    """Half of the node's CPUs in use by others cost half of the factor."""
    groups = (NodeGroup(count=1, gpus=4, cpus=8, mem_gib=8),)
    jobs = Jobs.from_arrays(submit_s=[0, 1], duration_s=[100, 10], gpus=[1, 1], cpus=[4, 4], mem_gib=[8, 0])
    for slowdown, length in ((Slowdown(cpu_contention=1.5), 12.5), (Slowdown(mem_contention=1.5), 15.0)):
        schedule = rltune.simulate(jobs, Cluster(groups, slowdown=slowdown), estimator="oracle")
        assert schedule.end_s[0] == 100.0
        assert schedule.end_s[1] - schedule.start_s[1] == pytest.approx(length)


def test_python_policies_keep_their_order():
    """A policy in Python gives the schedule of the same rule in the core."""
    own = Scored("own", lambda view: view.estimate_s)
    ours, rule = (rltune.simulate(contended(), FOUR, p, placement="milp:4", estimator="oracle") for p in (own, "sjf"))
    np.testing.assert_array_equal(ours.start_s, rule.start_s)


@pytest.mark.parametrize("placement", ["milp:0", "milp:-1", "milp:x", "milp:65", "best", "spread:3"])
def test_bad_names(placement):
    """K of 0 and unknown placers are refused, with what is known."""
    with pytest.raises(rltune.InputError, match=r"milp|1 to 64"):
        rltune.simulate(contended(5), FOUR, placement=placement, estimator="oracle")


def test_bad_requests(tmp_path):
    """Impossible jobs are rejected with a reason; nodes without GPUs and without memory are no places."""
    jobs = Jobs.from_arrays(submit_s=[0, 0], duration_s=[1, 1], gpus=[64, 1], mem_gib=[1, 1])
    no_gpus = Cluster((NodeGroup(count=1, gpus=0, cpus=4, mem_gib=4), NodeGroup(count=1, gpus=8)))
    schedule = rltune.simulate(jobs, no_gpus, placement="milp", estimator="oracle")
    assert schedule.rejected.tolist() == [True, False]
    assert "larger than the cluster" in str(schedule.reject_reason.name_of(0))
    with pytest.raises(ValueError, match="greater than 0"):
        NodeGroup(count=1, gpus=8, mem_gib=0)
    for line in ("mem_gib = 0", "gpus = -1", "[slowdown]\nextra_node = 0.5"):
        file = tmp_path / "cluster.toml"
        file.write_text(f"[[group]]\ncount = 1\n{'' if 'gpus' in line else 'gpus = 8'}\n{line}\n")
        with pytest.raises(rltune.InputError, match=r"cluster\.toml: .* should be (more than 0|0 or more|1.0 or)"):
            Cluster.from_toml(file)
    with pytest.raises(rltune.InputError, match="commit"):
        rltune.simulate(jobs, FOUR, placement="milp", commit=True, estimator="oracle")


def test_a_missing_solver_is_said_once(monkeypatch):
    """Greedy goes on, the run says so, and nothing is silent."""
    monkeypatch.setitem(sys.modules, "highspy", None)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        schedule = rltune.simulate(contended(), FOUR, placement="milp", estimator="oracle")
    assert [w.category for w in seen] == [SolverWarning]
    assert "install highspy" in schedule.work["milp_error"]
    assert not schedule.rejected.any()


def test_a_solver_that_fails_in_mid_run_is_said_once(monkeypatch):
    """What it answered before stands, greedy goes on from there."""
    runs = []

    class Failing(highspy.Highs):
        def passModel(self, program):  # noqa: N802  HiGHS's own name
            runs.append(program)
            if len(runs) > 2:
                program.col_upper_ = []  # HiGHS refuses a program whose columns lack bounds
            return super().passModel(program)

    monkeypatch.setattr(highspy, "Highs", Failing)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        schedule = rltune.simulate(contended(), FOUR, placement="milp", estimator="oracle")
    assert [w.category for w in seen] == [SolverWarning]
    assert "HiGHS failed" in schedule.work["milp_error"]
    assert len(runs) == 3
    assert schedule.ran.all()


def test_auto_chooses():
    """Jobs of one GPU need no solver; where it lost, or cutting jobs costs much, it is not used."""
    single = Jobs.from_arrays(submit_s=[0.0] * 4, duration_s=[1.0] * 4, gpus=[1] * 4)
    slow = Cluster((NodeGroup(count=4, gpus=8),), slowdown=Slowdown(extra_node=1.5))
    mixed = Cluster((NodeGroup(count=4, gpus=8, gpu_type="A"), NodeGroup(count=4, gpus=8, gpu_type="B")))
    assert get_placement("auto").placer(contended(), FOUR, "none").name == "milp"
    assert get_placement("auto").placer(contended(), FOUR, "easy").name == "milp"
    assert get_placement("auto").placer(contended(), mixed, "none").name == "milp"
    assert get_placement("auto").placer(contended(), mixed, "easy").name == "best-fit"
    assert get_placement("auto").placer(single, FOUR, "none").name == "best-fit"
    assert get_placement("auto").placer(contended(), slow, "none").name == "best-fit"
    assert rltune.simulate(single, FOUR, placement="auto", estimator="oracle").work["placer"] == "best-fit"
    assert set(NAMES) == {"first-fit", "best-fit", "spread", "hierarchical", "exclusive", "slurm", "milp", "auto"}


def test_k_falls_in_bursts():
    """Calm is 16, a burst is 4, and it recovers; fixed on request."""
    depth = Adaptive()
    assert depth.k(0.0, 1) == 16
    assert depth.k(10.0, 40) == 8
    assert depth.k(20.0, 400) == 4
    assert depth.k(1000.0, 401) == 16
    assert Fixed(8).k(20.0, 10_000) == 8
    depth.observe(16, 10_000.0)
    assert depth.k(2000.0, 402) == 8

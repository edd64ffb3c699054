import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from learn.looking import a_model
from live_cases import NOW, decide_by, job, nodes, running, settings, snapshot

from rltune import Cluster, Jobs, simulate
from rltune.errors import InputError
from rltune.live.decide.decide import Situation
from rltune.live.see.holdings import Holdings
from rltune.live.see.snapshot import Partition, Reservation
from rltune.model.model_file import save_model

SOME_BY_NAME = "asks for some nodes by name and for others besides, which is left to Slurm"


def decided(jobs, on=None, reservations=(), **sections):
    """Decide on a cluster of two 4-GPU nodes."""
    return decide_by(settings(**sections), Situation(snapshot(jobs, on, reservations=reservations)))


def starts(decision):
    return {w.job: w.nodes for w in decision.starts}


def order(decision):
    return [w.job for w in decision.waiting if w.competes]


def test_the_policy_orders_and_the_core_places():
    """The smallest job goes first and fits; the next is the head with a reservation; the last would not fit."""
    d = decided([running(1, "n0", 4), running(2, "n1", 2), job(3, 4, 100), job(4, 2, 500), job(5, 1, 10)])
    assert order(d) == [5, 3, 4]
    assert starts(d) == {5: ("n1",)}
    assert d.by_job[3].reserved_s == NOW - 600 + 3600  # when the jobs that run are expected to end
    assert d.by_job[3].slurm_rank == 0
    assert d.by_job[4].reason == "no room for it now"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"held": True}, "held"),
        ({"dependency": "afterok:1"}, "waits for other jobs"),
        ({"begin_s": NOW + 60}, "is not to begin yet"),
        ({"shares_gpu": True}, "asks for a part of a GPU, which is left to Slurm"),
        ({"het_id": 7}, "is part of a heterogeneous job, which is left to Slurm"),
        ({"reservation": "exam"}, "is for reservation exam, which is left to Slurm"),
        ({"reason": "QOSMaxGRESPerUser"}, "Slurm says QOSMaxGRESPerUser"),
        ({"reason": "AssocGrpGRES"}, "Slurm says AssocGrpGRES"),
        ({"features": "p100*2"}, "has the constraint p100*2, which is left to Slurm"),
        ({"required_nodes": ("n0",), "nodes": 2, "gpus": 2}, SOME_BY_NAME),
    ],
)
def test_who_cannot_start_takes_no_part(change, reason):
    """A job that Slurm holds back blocks nobody, gets no number, and its reason is told."""
    d = decided([job(1, **change), job(2)])
    assert d.by_job[1].reason == reason
    assert d.by_job[1].number is None
    assert starts(d) == {2: ("n0",)}


def test_an_array_starts_as_many_tasks_as_its_throttle_allows():
    """Of five waiting tasks with a throttle of 3 and one running, two start; a full throttle waits."""
    tasks = {"array_id": 9, "array_tasks": "2-6%3", "array_waiting": 5, "array_throttle": 3}
    one_runs = running(8, "n0", 1, array_id=9, array_throttle=3)
    d = decided([one_runs, job(9, **tasks)])
    assert d.by_job[9].tasks == 2
    full = decided([one_runs, job(9, **{**tasks, "array_throttle": 1})])
    assert full.by_job[9].reason == "waits for other tasks of its array"


def test_a_higher_tier_comes_first_whatever_the_policy_says():
    """An SLA job outranks a tiny one of ours, is not numbered, and takes its place first."""
    d = decided([job(1, 1, 5), job(2, 4, 9999, partitions=("sla",))], on=nodes(4))
    assert order(d) == [2, 1]
    assert starts(d) == {2: ("n0",)}
    assert d.by_job[2].number is None
    assert d.by_job[2].kept == "partition sla has not opted in"


def test_a_band_smaller_than_a_qos_difference_leaves_the_qos_in_charge():
    """SiteFactor is added: what administrators weigh more than the band stays decisive; Priority replaces it."""
    queue = [job(1, 1, 5, priority=20_000), job(2, 4, 600, priority=200_000)]
    assert order(decided(queue)) == [2, 1]
    assert order(decided(queue, numbers={"channel": "priority"})) == [1, 2]


def test_a_site_factor_that_the_site_has_set_is_not_touched_and_nobody_is_lifted_over_it():
    d = decided([job(1, 1, 600, priority=29_000, site_factor=9000), job(2, 1, 5)])
    assert order(d) == [1, 2]
    assert d.by_job[1].number is None
    assert d.by_job[1].kept == "it has a SiteFactor that is not ours"
    assert 20_000 + d.by_job[2].number < 29_000


def test_ranks_are_bounded():
    """With a bound of one place, the best job passes only one."""
    queue = [job(i, 1, 100 - i) for i in range(1, 6)]
    assert order(decided(queue, limits={"max_ranks": 1})) == [2, 1, 4, 3, 5]
    assert order(decided(queue)) == [5, 4, 3, 2, 1]
    assert order(decided(queue, limits={"max_ranks_per_cycle": 1})) == [2, 1, 4, 3, 5]


def test_nodes_that_are_down_take_nothing_but_run_on():
    """A draining node starts no job; what runs there still ends there."""
    on = nodes(4, 4)
    d = decided([running(1, "n0", 2), job(2)], on=(replace(on[0], up=False), on[1]))
    assert starts(d) == {2: ("n1",)}


def test_gpus_in_use_by_nobody_we_know_are_in_use():
    """If a node says that its GPUs are taken, they are, whoever took them."""
    on = nodes(4)
    d = decided([job(1)], on=(replace(on[0], gpus_used=4),))
    assert d.by_job[1].reason == "no room for it now"


def test_maintenance_keeps_long_jobs_away():
    """A job that would run into a reservation does not start there; a short one does."""
    window = Reservation(name="m", start_s=NOW + 1800, end_s=NOW + 7200, node_names=("n0",), flags=("MAINT",))
    d = decided([job(1, 1, 60), job(2, 1, 20)], on=nodes(4), reservations=[window])
    assert starts(d) == {2: ("n0",)}


def test_constraints_and_node_lists_narrow_the_choice():
    """Features, exclusions, requirements, GPU types and partitions decide where a job may run."""
    on = (*nodes(4, 4, features=("a",)), replace(nodes(4)[0], name="n9", features=("b",), gpu_type="k80"))
    on = (*on, replace(on[0], name="cpu", partitions=("other",)))
    asked = {
        1: {"features": "b"},
        2: {"excluded_nodes": ("n0", "n9")},
        3: {"required_nodes": ("n1",)},
        4: {"gpu_types": ("k80",)},
        5: {"partitions": ("other",)},
        6: {"features": "c"},
    }
    d = decided([job(i, **ask) for i, ask in asked.items()], on=on, scope={"partitions": ["*"]})
    assert starts(d) == {1: ("n9",), 2: ("n1",), 3: ("n1",), 4: ("n9",), 5: ("cpu",)}
    assert d.by_job[6].reason == "no node group has an accepted GPU type and admits its VC"


def test_whoever_wants_whole_nodes_gets_an_empty_one():
    """An exclusive job does not share a node."""
    d = decided([running(1, "n0", 1), job(2, 1, exclusive=True)])
    assert starts(d) == {2: ("n1",)}


def test_memory_counts_only_where_slurm_counts_it():
    """With memory as a resource, a job that asks for more than is free waits."""
    seen = snapshot([running(1, "n0", 1, mem_gib=100.0), job(2, 1, mem_gib=100.0)], nodes(4))
    assert decide_by(settings(), Situation(seen)).starts
    assert not decide_by(settings(), Situation(replace(seen, mem_counts=True))).starts


def test_a_job_on_several_nodes_is_seen_on_each_as_it_is():
    """Three GPUs here and one there leave one and three."""
    wide = running(1, "n0", 4, node_names=("n0", "n1"), gpus_by_node=(3, 1), nodes=2)
    assert starts(decided([wide, job(2, 3)])) == {2: ("n1",)}


def test_what_can_never_fit_is_said_to_be_too_large():
    """A job larger than the cluster is told so, and ranks nowhere."""
    d = decided([job(1, 9), job(2)])
    assert d.by_job[1].reason.startswith("larger than the cluster of 8 GPUs")
    assert d.by_job[1].rank == -1


def test_our_own_changes_do_not_change_the_decision():
    """A snapshot with our SiteFactors and exclusions in it is decided on as if they were not there."""
    from rltune.live.see.backend import Change, ChangeKind
    from rltune.live.see.holdings import Intent

    plain = [job(1, 2, 60), job(2, 1, 10)]
    changed = [replace(plain[0], priority=17_000, site_factor=-3000, excluded_nodes=("n0",)), plain[1]]
    held = Holdings.after(
        [
            Intent(Change(1, ChangeKind.SITE_FACTOR, value=-3000), plain[0].submit_s, 0),
            Intent(Change(1, ChangeKind.EXCLUDE_NODES, nodes=("n0",)), plain[0].submit_s, ()),
        ]
    )
    first = decide_by(settings(), Situation(snapshot(plain)))
    second = decide_by(settings(), Situation(snapshot(changed), held))
    assert starts(second) == starts(first)
    assert order(second) == order(first)


def test_one_pass_of_the_simulator_and_of_a_live_cluster_are_the_same():
    """Nodes, starts and order are those that the simulator gives in the same situation, for every rule."""
    for policy in ("fcfs", "sjf", "saf", "wfp3", "unicep", "multifactor"):
        for backfill in ("none", "fit-first", "easy"):
            for seed in range(3):
                _compare_with_simulator(seed, policy, backfill, "best-fit")
    for placement in ("first-fit", "spread", "milp"):
        _compare_with_simulator(1, "saf", "easy", placement)


def _compare_with_simulator(seed, policy, backfill, placement):
    random = np.random.default_rng(seed)
    n = 40
    limit = random.integers(5, 60, n) * 60.0
    table = Jobs.from_arrays(
        submit_s=np.sort(random.integers(0, 3600, n)).astype(float),
        duration_s=np.ceil(limit * random.uniform(0.2, 1.0, n)),
        gpus=random.choice([1, 2, 3, 4, 6], n),
        limit_s=limit,
        cpus=np.ones(n),
        user=[f"u{i % 3}" for i in range(n)],
    )
    ran = simulate(table, Cluster.uniform(3, 4), policy, backfill, placement, "user")
    moments = np.unique(np.concatenate([table.submit_s, ran.end_s]))
    for moment in moments[:: max(1, len(moments) // 6)]:
        seen = _seen(table, ran, float(moment))
        expected = {i: {f"n{node}" for node, _ in ran.placements[i]} for i in np.flatnonzero(ran.start_s == moment)}
        pipeline = {"policy": policy, "backfill": backfill, "placement": placement, "estimator": "user"}
        # fair share needs the past: without it, as in the first moment, multifactor orders by age and size
        if policy != "multifactor" or moment == moments[0]:
            made = decide_by(settings(pipeline=pipeline), Situation(seen))
            assert {w.job: set(w.nodes) for w in made.starts} == expected, (policy, backfill, placement, moment)


def _seen(table, ran, moment):
    """Look at the simulated cluster just before the pass of a moment."""
    jobs = []
    for i in range(len(table)):
        asked = replace(
            job(i, int(table.gpus[i])),
            submit_s=float(table.submit_s[i]),
            limit_s=float(table.limit_s[i]),
            cpus=1.0,
            user=table.user.name_of(i),
        )
        if ran.start_s[i] < moment < ran.end_s[i]:
            where = ran.placements[i]
            at = {"node_names": tuple(f"n{node}" for node, _ in where), "gpus_by_node": tuple(g for _, g in where)}
            jobs.append(replace(asked, state="RUNNING", start_s=float(ran.start_s[i]), **at))
        elif table.submit_s[i] <= moment <= ran.start_s[i]:
            jobs.append(asked)
    return snapshot(jobs, nodes(4, 4, 4), at=moment)


@given(st.data())
def test_every_waiting_job_has_exactly_one_place_and_a_reason(data):
    """Nobody is lost: ranks are 0, 1, ..., numbers are distinct in order, and who does not start is told why."""
    jobs = [
        job(
            i,
            data.draw(st.integers(0, 8)),
            data.draw(st.integers(1, 500)),
            priority=data.draw(st.integers(1, 30_000)),
            partitions=data.draw(st.sampled_from([("gpu",), ("sla",), ("gpu", "sla")])),
            held=data.draw(st.booleans()) and data.draw(st.booleans()),
        )
        for i in range(data.draw(st.integers(1, 12)))
    ]
    d = decided(jobs)
    assert sorted(w.job for w in d.waiting) == [j.id for j in jobs]
    ranked = [w for w in d.waiting if w.competes]
    assert [w.rank for w in ranked] == list(range(len(ranked)))
    assert sorted(w.slurm_rank for w in ranked) == list(range(len(ranked)))
    assert all(bool(w.reason) != w.starts for w in d.waiting)
    assert all((w.number is not None) == (w.competes and w.ours) for w in ranked)


def test_a_policy_of_ones_own_is_asked(tmp_path):
    """A function in a file scores a live queue as it scores a simulated one."""
    file = tmp_path / "mine.py"
    file.write_text("def score(queue):\n    return -queue.gpus\n")
    d = decided([job(1, 1), job(2, 3), job(3, 2)], pipeline={"policy": f"{file}:score"})
    assert order(d) == [2, 3, 1]


def test_a_model_orders_a_live_queue_as_a_simulated_one(tmp_path):
    """Its scores are those that the core gives in the same situation; the better of two comes first."""
    path = tmp_path / "m.rltune"
    save_model(a_model(seed=1), path)
    queue = [running(9, "n0", 4), running(8, "n1", 4), *(job(i, i % 4 + 1, 10 * i + 5) for i in range(1, 7))]
    d = decided(queue, pipeline={"policy": str(path)})
    score = [w.score for w in d.waiting]
    assert score == sorted(score)
    assert len(set(score)) > 3
    assert order(d) != order(decided(queue))
    assert order(d) != order(decided(queue, pipeline={"policy": "fcfs"}))


def test_jobs_out_of_view_come_last(tmp_path):
    """With a view of two, only the two oldest are ranked by the policy."""
    d = decided([job(1, 1, 90), job(2, 1, 60), job(3, 1, 30)], pipeline={"view": 2})
    assert order(d) == [2, 1, 3]
    assert d.by_job[3].score == math.inf
    assert d.by_job[3].reason == "is not among the oldest jobs in view"


def test_an_inspector_gives_no_order(tmp_path):
    """It judges choices as they are made, which nobody can do for Slurm."""
    path = tmp_path / "i.rltune"
    save_model(a_model("schedinspector"), path)
    with pytest.raises(InputError, match="gives a queue no order"):
        decided([job(1)], pipeline={"policy": str(path)})


def test_a_broken_policy_is_the_users_mistake(tmp_path):
    """What a user's function raises is told with its name."""
    file = tmp_path / "mine.py"
    file.write_text("def score(queue):\n    return 1 / 0\n")
    with pytest.raises(InputError, match=r"mine:score.*ZeroDivisionError"):
        decided([job(1)], pipeline={"policy": f"{file}:score"})


def test_conservative_reserves_for_all():
    """Every waiting job is told when it is expected to start."""
    d = decided([running(1, "n0", 4), running(2, "n1", 4), job(3, 4), job(4, 4)], pipeline={"backfill": "conservative"})
    assert all(math.isfinite(w.reserved_s) for w in d.waiting)


def test_without_nodes_nothing_is_decided():
    """A cluster without nodes starts nothing, and says so."""
    assert decided([job(1)], on=()).by_job[1].reason == "there are no nodes"


def test_a_partition_that_is_down_admits_nobody():
    """Jobs of a partition that is not up cannot start."""
    seen = replace(snapshot([job(1)]), partitions=(Partition(name="gpu", up=False),))
    assert not decide_by(settings(), Situation(seen)).starts

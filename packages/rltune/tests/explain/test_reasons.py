"""Each kind of reason is the dominant one where it should be, and a proposed change starts the job when made."""

import json
from dataclasses import replace

import numpy as np
import pytest
from live_cases import NOW, job, nodes, running, settings, snapshot

from rltune.cluster import Cluster, Limit, Maintenance, NodeGroup
from rltune.engine.parse_pipeline import read_pipeline
from rltune.engine.run import run_pipeline
from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.explain import Explainer, explain
from rltune.explain.reasons_while_waiting import reasons_while_waiting
from rltune.explain.request_changes import _other_partitions, changed, starts_now
from rltune.jobs import Jobs
from rltune.kernel.state import arrays as core
from rltune.live.decide.decide import Known, Situation
from rltune.live.pinned_pipeline import pin_pipeline
from rltune.live.present_of_slurm import present_of
from rltune.live.see.snapshot import Partition, Reservation
from rltune.present import Why
from rltune.present.moment import machine_at
from rltune.present.of_run import replay

HOUR = 3600.0


def of_slurm(*args, partitions=None, **more):
    """Take the present of a snapshot made by hand, in Slurm's order."""
    shadow = settings(mode="shadow")
    look = snapshot(*args, **more)
    look = look if partitions is None else replace(look, partitions=tuple(partitions))
    return present_of(Situation(look), shadow, pin_pipeline(shadow), Known())


def of_history(columns, pipeline="fcfs + easy", cluster=None, at_s=100.0):
    """Replay a few jobs to 100 s on two nodes of 4 GPUs."""
    jobs = Jobs.from_arrays(**columns)
    on = cluster or Cluster.uniform(2, 4, "V100")
    return replay(jobs, on, read_pipeline(pipeline), get_estimator("oracle"), at_s)


PROMISED = [
    running(1, "n0", 3, minutes=30),
    running(2, "n1", 3),
    job(8, 4, nodes=1, priority=30_000),
    job(9, 1, 600),
    job(10, 1, 600),
]
UPGRADE = Reservation(
    name="upgrade", start_s=NOW + HOUR, end_s=NOW + 9 * HOUR, node_names=("n0", "n1"), flags=("MAINT",)
)
FULL_NODES = [running(1, "n0", 4), running(2, "n1", 4)]
SITUATIONS = {
    Why.STARTS: (lambda: of_slurm([job(9, 2)]), "9", "on n0"),
    Why.FULL: (lambda: of_slurm([*FULL_NODES, job(9, 2)]), "9", "0 of the 8 p100 GPUs"),
    Why.FRAGMENTED: (
        lambda: of_slurm([running(1, "n0", 2), running(2, "n1", 2), job(9, 4, nodes=1)]),
        "9",
        "4 p100 GPUs are free but over 2 nodes, the most on one is 2",
    ),
    Why.DOWN: (
        lambda: of_slurm([running(1, "n0", 1), job(9, 2, nodes=2)], [nodes(4)[0], replace(nodes(4, 4)[1], up=False)]),
        "9",
        "1 node of the 2 it may use would not do; down: n1; it cannot start before a node that is down is back",
    ),
    Why.NO_FIT: (
        lambda: of_slurm([running(1, "n0", 1, cpus=32.0), running(2, "n1", 1, cpus=32.0), job(9, 2, cpus=4.0)]),
        "9",
        "not the CPUs",
    ),
    Why.PRIORITY: (lambda: of_slurm([*FULL_NODES, job(8, 4, priority=30_000), job(9, 4)]), "9", "1 job with 4 GPUs"),
    Why.RESERVED: (lambda: of_slurm(PROMISED), "10", "reserved for"),
    Why.MAINTENANCE: (
        lambda: of_slurm([job(9, 2, minutes=120)], reservations=[UPGRADE]),
        "9",
        "maintenance upgrade begins",
    ),
    Why.HOLD: (lambda: of_slurm([job(9, 2, held=True, reason="JobHeldUser", priority=0)]), "9", "held by its user"),
    Why.DEPENDENCY: (lambda: of_slurm([job(9, 2, dependency="afterok:8")]), "9", "afterok:8"),
    Why.LIMIT: (lambda: of_slurm([job(9, 2, reason="QOSMaxGRESPerUser")]), "9", "QOSMaxGRESPerUser"),
    Why.NOT_YET: (lambda: of_slurm([job(9, 2, begin_s=NOW + 60)]), "9", "not to begin before 22:14 UTC"),
    Why.NEVER: (lambda: of_slurm([job(9, 64)]), "9", "larger than the cluster"),
    Why.LEFT: (lambda: of_slurm([job(9, 1, shares_gpu=True)]), "9", "part of a GPU"),
    Why.GUARD: (
        lambda: of_history(
            {
                "id": [1, 2, 3],
                "submit_s": [0.0, 1.0, 5000.0],
                "duration_s": [9000.0, 900.0, 10.0],
                "gpus": [8, 8, 4],
            },
            "saf+guard:1h + none",
            at_s=5500.0,
        ),
        "3",
        "guard puts first",
    ),
}


def out_of_view():
    """Let the policy see one job."""
    from rltune.engine.parse_pipeline import parse_pipeline

    jobs = Jobs.from_arrays(submit_s=[0.0, 1.0, 2.0], duration_s=900.0, gpus=[8, 8, 1])
    return replay(jobs, Cluster.uniform(2, 4), parse_pipeline("fcfs", "easy", view=1), get_estimator("oracle"), 100.0)


SITUATIONS[Why.OUT_OF_VIEW] = (out_of_view, "2", "1 oldest")


@pytest.mark.parametrize("why", SITUATIONS, ids=str)
def test_the_dominant_reason(why):
    """One situation for each kind of reason: that one is named first, and the sentence has its evidence."""
    make, name, evidence = SITUATIONS[why]
    told = explain(make(), name, changes=False)
    assert told.reason.why is why, str(told)
    assert evidence in told.reason.text
    assert told.next_step or why is Why.STARTS
    assert json.loads(json.dumps(told.to_dict(), allow_nan=False))["reason"]["why"] == why.value
    assert str(told).startswith(f"Job {name}: {why}")


MIXED = [*nodes(8), *(replace(node, name=f"s{i}") for i, node in enumerate(nodes(2, 2, 2, 2)))]


def test_free_gpus_on_nodes_that_are_too_small_are_no_fragments():
    """8 of the 12 free ones lie where no 8 will ever be: it is the large node that is in use."""
    told = explain(of_slurm([running(1, "n0", 4), job(9, 8, nodes=1)], MIXED), "9", changes=False)
    assert told.reason.why is Why.FULL
    assert "4 of the 8 p100 GPUs it may use are free, and 8 on nodes too small for it" in told.reason.text


def test_what_lies_apart_is_told_beside_what_is_free_on_smaller_nodes():
    """4 free GPUs lie apart on the large nodes, 8 more where no 4 will ever be: both are said."""
    large = [replace(node, name=f"n{i}") for i, node in enumerate(nodes(8, 8))]
    small = [replace(node, name=f"s{i}") for i, node in enumerate(nodes(2, 2, 2, 2))]
    told = explain(of_slurm([running(1, "n0", 6), running(2, "n1", 6), job(9, 4, nodes=1)], [*large, *small]), "9")
    assert told.reason.why is Why.FRAGMENTED
    beside = "4 p100 GPUs are free but over 2 nodes, the most on one is 2, and 8 on nodes too small for it"
    assert beside in told.reason.text
    assert told.reason.evidence["free_too_small"] == 8


THREE = {
    "id": ["77", "78", "79", "80"],
    "submit_s": [0.0, 1.0, 2.0, 500.0],
    "duration_s": [50.0, 900.0, 900.0, 900.0],
    "gpus": [8, 8, 8, 8],
}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("77", r"job 77 started at 0 s in the replay and is over; only a job that waits"),
        ("78", r"job 78 started at 50 s in the replay and runs; only a job that waits"),
        ("80", r"job 80 is submitted at 500 s, after the time asked for"),
        ("97", r"no waiting job '97'; there are: 79$"),
    ],
)
def test_a_job_of_a_history_that_does_not_wait_is_told_what_it_does(name, told):
    """Never the number of another job: that one is nobody's mistake."""
    with pytest.raises(InputError, match=told):
        explain(of_history(THREE), name)


@pytest.mark.parametrize(
    ("start_s", "told"),
    [
        (60.0, "started 60 s; it waits in the replay alone"),
        (400.0, "started 400 s, after the time asked for"),
        (np.nan, "no start"),
    ],
)
def test_what_was_recorded_of_a_job_stands_beside_what_the_replay_tells(start_s, told):
    """The replay's queue is not the recorded one: one line says what the job did in truth."""
    answer = explain(of_history({**THREE, "recorded_start_s": [0.0, 50.0, start_s, 600.0]}), "79")
    assert answer.lines()[1] == f"Recorded: {told}"
    assert type(answer).of_plain(json.loads(json.dumps(answer.to_dict()))).recorded == told


def test_a_history_without_starts_has_no_recorded_line():
    assert "Recorded" not in str(explain(of_history(THREE), "79"))


def test_where_those_before_it_take_what_lies_apart_they_are_the_reason():
    """Four GPUs are free on two nodes; a job before it starts on one of them, and two would not do in one place."""
    apart = [running(1, "n0", 2), running(2, "n1", 2)]
    first = job(8, 2, priority=30_000)
    told = explain(of_slurm([*apart, first, job(9, 4, nodes=1)]), "9", changes=False)
    assert told.reason.why is Why.PRIORITY
    assert [one.why for one in told.others] == [Why.FRAGMENTED]
    held = explain(of_slurm([*apart, job(8, 4, nodes=1, priority=30_000), job(9, 4, nodes=1)]), "9", changes=False)
    assert held.reason.why is Why.FRAGMENTED  # who is before it starts nothing: in one place they would do


def test_the_step_at_a_throttle_is_the_throttle():
    """Of a history and of Slurm: no higher limit helps."""
    columns = {"submit_s": [0.0, 1.0], "duration_s": 900.0, "gpus": [1, 1], "array": [7, 7], "array_limit": [1, 1]}
    of_core = explain(of_history(columns), "1", changes=False)
    tasks = [running(50, "n0", 1, array_id=50), job(51, 1, array_id=50, array_throttle=1)]
    of_queue = explain(of_slurm(tasks), "51", changes=False)
    for told, number in ((of_core, "1"), (of_queue, "51")):
        assert told.reason.why is Why.LIMIT
        assert told.next_step.endswith(f"scontrol update JobId={number} ArrayTaskThrottle=N")


def test_no_start_is_planned_for_now_but_of_who_starts():
    """Where running jobs have outlived their time a reservation is for now; it is no time to tell anybody."""
    over = [running(1, "n0", 4, minutes=5, ran_s=600), running(2, "n1", 4, minutes=5, ran_s=600)]
    assert Explainer(of_slurm([*over, job(9, 4)])).planned_starts() == {}
    assert set(Explainer(of_slurm([job(9, 4)])).planned_starts()) <= {"9"}


def test_another_partition_says_which_gpus_it_means():
    """In partition a there are V100s and A100s, in b A100s alone."""
    present = busy(1)
    told = {}
    for name in present.waiting_names:
        row = present.waiting_row(name)
        kind, own = present.jobs.gpu_types.name_of(row), present.jobs.vc.name_of(row)
        told |= {(kind, own, change.columns["vc"]): change.text for change in _other_partitions(present, row)}
    assert told["A100|V100", "a", "b"] == "partition b in place of a, which means A100 GPUs, if its user may"
    assert told["A100|V100", "b", "a"] == "partition a in place of b, which means A100 or V100 GPUs, if its user may"
    assert not any("means" in text for (kind, _, _), text in told.items() if kind == "A100")


def test_every_kind_has_its_situation():
    """No kind of reason is untested."""
    assert set(SITUATIONS) == set(Why)


def test_reservations_for_somebody_are_no_maintenance():
    """A reservation without MAINT says for whom the nodes are kept."""
    kept = Reservation(name="class", start_s=NOW - 60, end_s=NOW + HOUR, node_names=("n0", "n1"), users=("eve",))
    told = explain(of_slurm([job(9, 2)], reservations=[kept]), "9", changes=False)
    assert told.reason.why is Why.RESERVED
    assert "for eve (class)" in told.reason.text


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (Limit(scope="user", max_gpus=4), "user ann has 4 of 4 GPUs in use, and it asks for 2"),
        (Limit(scope="account", name="lab", max_running=1), "account lab has 1 of 1 jobs running"),
    ],
)
def test_limits_of_the_core(limit, text):
    """A job held by a limit that the core knows says which, and how much of it is used."""
    on = Cluster((NodeGroup(count=2, gpus=4),), limits=(limit,))
    columns = {"submit_s": [0.0, 1.0], "duration_s": 900.0, "gpus": [4, 2], "user": ["ann"] * 2, "account": ["lab"] * 2}
    told = explain(of_history(columns, cluster=on), "1", changes=False)
    assert (told.reason.why, told.reason.text) == (Why.LIMIT, text)


def test_dependencies_of_a_history_name_the_job():
    """The parent's own id stands in the sentence."""
    columns = {"id": [70, 71], "submit_s": [0.0, 1.0], "duration_s": 900.0, "gpus": [1, 1], "after": [[], [0]]}
    told = explain(of_history(columns), "71", changes=False)
    assert (told.reason.why, told.reason.text) == (Why.DEPENDENCY, "waits for job 70 to end")


def test_maintenance_of_a_simulated_cluster():
    """A window of the cluster's file is maintenance, too, and its end is told."""
    on = Cluster((NodeGroup(count=2, gpus=4),), maintenance=(Maintenance(start_s=500.0, end_s=5000.0),))
    told = explain(of_history({"submit_s": [50.0], "duration_s": 900.0, "gpus": [4]}, cluster=on), "0")
    assert told.reason.why is Why.MAINTENANCE
    assert [change.columns["limit_s"] for change in told.changes] == [400.0]


def test_the_earliest_start_names_whose_end_makes_room():
    """As by a reservation of the core."""
    present = of_slurm([running(1, "n0", 4, minutes=20), running(2, "n1", 4, minutes=40), job(9, 8, nodes=2)])
    told = explain(present, "9", changes=False)
    assert told.earliest_s == NOW - 600 + 40 * 60
    assert "when job 2 is expected to end" in told.reason.text


@pytest.mark.parametrize("now_s", [1e6, 1.7e9 + 1e6])
def test_where_all_that_runs_has_outlived_its_time_no_time_is_promised(now_s):
    """By estimates room is there now, and it is not: so it is said who overruns, and nothing of now."""
    jobs = Jobs.from_arrays(
        submit_s=np.array([0.0, 1.0, 2.0, 3.0]) + now_s - 1e6,
        duration_s=[2e6, 2e6, 2e6, 100.0],
        gpus=[3, 4, 1, 4],
        limit_s=[86_400.0, 200.0, 2e6, 100.0],
    )
    here = replay(jobs, Cluster.uniform(1, 4), read_pipeline("fcfs + easy"), get_estimator("user"), now_s)
    first = explain(here, "1", changes=False).reason
    assert first.text.endswith("1 running job there has outlived what was believed and may end any moment")
    assert first.evidence["outlived"] == 1
    here = replay(jobs, Cluster.uniform(2, 4), read_pipeline("fcfs + easy"), get_estimator("user"), now_s)
    waits = explain(here, "3", changes=False).reason
    assert "at the earliest now" not in waits.text
    assert "UTC for job" not in waits.text


@pytest.mark.parametrize("gpus", [0, 4, 7])
@pytest.mark.parametrize("acts", [False, True])
def test_a_node_that_drains_makes_no_room_when_its_jobs_end(gpus, acts):
    """No reservation is made on it, however many GPUs its running jobs will give back."""
    drains = nodes(8, gpu_type="p100", up=False, state="DRAINING")
    looked = snapshot((running(1, "n0", 8), job(2, gpus, 30)), on=drains)
    how = settings(mode="shadow")
    here = present_of(Situation(looked), how, pin_pipeline(how), Known(), acting=acts)
    told = explain(here, "2", changes=False)
    assert told.reason.why is Why.DOWN
    assert told.reason.text.endswith("it cannot start before a node that is down is back")
    assert not np.isfinite(told.earliest_s)
    assert Explainer(here).planned_starts() == {}


def test_what_slurm_alone_knows_has_its_kind_and_a_next_step():
    """A QOS that a partition does not take is no limit; licenses are; a reservation that is over never comes."""
    waiting = (
        job(1, 1, 30, reason="QOSNotAllowed", qos="x"),
        job(2, 1, 30, reason="Licenses"),
        job(3, 1, 30, reason="Reservation", reservation="gone"),
    )
    how = settings(mode="shadow")
    here = present_of(Situation(snapshot(waiting)), how, pin_pipeline(how), Known())
    told = {name: explain(here, name) for name in "123"}
    assert [told[name].reason.why for name in "123"] == [Why.NEVER, Why.LIMIT, Why.NEVER]
    assert "does not take its QOS" in told["1"].reason.text
    assert "licenses" in told["2"].reason.text
    assert told["3"].next_step.endswith("scontrol update JobId=3 ReservationName=")


def test_who_overtook_it_and_who_is_before_it():
    """Younger jobs that run where it could run, and waiting jobs before it with why."""
    jobs = [running(12, "n0", 4), running(2, "n1", 4), job(8, 4, priority=30_000), job(9, 4)]
    told = explain(of_slurm(jobs), "9", changes=False)
    assert [one.job for one in told.overtaken_by] == ["12"]
    assert [one.job for one in told.ahead] == ["8"]
    assert (told.place, told.pool) == (2, 2)


def test_what_does_not_wait_is_refused():
    """With the names that do."""
    present = of_slurm([running(1, "n0", 4), job(9, 8)])
    with pytest.raises(InputError, match="job 1 runs"):
        explain(present, "1")
    with pytest.raises(InputError, match="9"):
        explain(present, "77")


def busy(seed, pipeline="saf + easy"):
    """Replay a crowded history on three kinds of nodes."""
    rng = np.random.default_rng(seed)
    n = 60
    on = Cluster(
        (
            NodeGroup(count=2, gpus=4, gpu_type="V100", vc=("a",)),
            NodeGroup(count=2, gpus=4, gpu_type="A100", vc=("b",)),
            NodeGroup(count=1, gpus=8, gpu_type="A100"),
        )
    )
    jobs = Jobs.from_arrays(
        submit_s=np.sort(rng.uniform(0, 4000, n)),
        duration_s=rng.lognormal(7, 1, n),
        gpus=rng.choice([1, 2, 4, 8], n),
        gpu_types=rng.choice(["V100", "A100", "A100|V100"], n).tolist(),
        vc=rng.choice(["a", "b"], n).tolist(),
        user=[f"u{i % 4}" for i in range(n)],
    )
    return replay(jobs, on, read_pipeline(pipeline), get_estimator("oracle"), 3500.0)


@pytest.mark.parametrize("pipeline", ["saf + easy", "fcfs + none", "wfp3+guard:1h + easy"])
@pytest.mark.parametrize("seed", range(3))
def test_a_proposed_change_starts_the_job_when_it_is_made(seed, pipeline):
    """What is said to start it now does, in a pass over the changed moment; nothing is said of the others."""
    present = busy(seed, pipeline)
    explainer = Explainer(present)
    proposed = 0
    for name in present.waiting_names[:6]:
        row = present.waiting_row(name)
        for change in explainer.explain(name).changes:
            if change.starts_now:
                machine = machine_at(present.with_row(row, **change.columns))
                machine.make_pass()
                assert machine.state.life["status"][row] == core.RUNNING, change.text
                proposed += 1
    assert proposed or not any(
        starts_now(present, present.waiting_row(name), _one_gpu(present, name)) for name in present.waiting_names[:6]
    )


def _one_gpu(present, name):
    from rltune.explain.request_changes import RequestChange

    columns = {"gpus": 1, "nodes": 0, "gpus_per_node": 0}
    assert changed(present, present.waiting_row(name), RequestChange("gpus", "", columns)).jobs.gpus.min() == 1
    return RequestChange("gpus", "", columns)


@pytest.mark.parametrize("pipeline", ["saf", "fcfs", "wfp3", "multifactor", "learned"])
def test_what_the_score_is_made_of(pipeline):
    """Terms are named, and put to the queue's median a term moves nothing."""
    present = busy(1, f"{pipeline} + easy")
    told = Explainer(present).explain(present.waiting_names[-1], changes=False)
    assert told.parts
    assert all(np.isfinite(part.moved) for part in told.parts)


def test_reasons_of_all_agree_with_one_by_one():
    """The table of all is what each is told."""
    present = busy(2)
    explainer = Explainer(present)
    every = explainer.all_reasons()
    assert {name: explain(present, name, changes=False).reason.why for name in every} == {
        name: reason.why for name, reason in every.items()
    }


def test_reasons_of_a_whole_run_are_those_of_its_moments():
    """Every job that waited long has a reason; one larger than the cluster never fits; another run tells none."""
    rng = np.random.default_rng(2)
    n = 60
    jobs = Jobs.from_arrays(
        submit_s=np.sort(rng.uniform(0, 6000, n)),
        duration_s=rng.lognormal(7, 1, n),
        gpus=[99, *rng.choice([1, 2, 4], n - 1)],
    )
    pipeline = read_pipeline("fcfs + easy")
    schedule = run_pipeline(jobs, Cluster.uniform(2, 4, "V100"), pipeline, get_estimator("history"))
    told = reasons_while_waiting(schedule, pipeline, 40)
    assert told[0] == "never fits"
    longest = np.argsort(np.nan_to_num(schedule.wait_s))[-20:]
    assert {told[i] for i in longest} <= {"full", "fragmented", "lower priority", "reserved for"}
    other = reasons_while_waiting(schedule, read_pipeline("sjf"), 40)
    assert other == [None] * n


SLURMS_OWN = {
    "AssocGrpGRES": "account (none) has 2 jobs with 3 GPUs running",
    "QOSMaxGRESPerUser": "QOS few on GPUs for each user is reached; user ann in QOS few has 1 job with 1 GPU",
    "QOSGrpJobsLimit": "QOS few on jobs that run at once is reached; QOS few has 2 jobs with 3 GPUs",
    "QOSMaxGRESPerJob": "one job may not have as much",
    "PartitionTimeLimit": "partition gpu allows 30.0 min, and it asks for 60.0 min",
    "PartitionDown": "partition gpu starts no jobs",
    "PartitionConfig": "partition gpu does not take its QOS, its account or what it asks for",
    "InvalidQOS": "names a QOS that it may not use",
    "BadConstraints": "asks for what no node has",
}


@pytest.mark.parametrize("word", SLURMS_OWN)
def test_slurms_own_holds_are_told_in_plain_words_beside_its_own(word):
    """Whose limit it is and who uses how much of it, or what a partition does not allow."""
    jobs = [
        running(1, "n0", 1, qos="few"),
        running(2, "n1", 2, qos="few", user="bob"),
        job(9, 2, qos="few", reason=word),
    ]
    on = [Partition(name="gpu", node_names=("n0", "n1"), max_time_s=1800.0)]
    told = explain(of_slurm(jobs, partitions=on), "9")
    assert SLURMS_OWN[word] in told.reason.text
    assert f"(Slurm says {word})" in told.reason.text


def test_what_will_never_be_is_not_to_be_waited_for():
    """A limit on one job and a dependency that failed: the next step is not to wait."""
    much, never = (
        job(8, 4, reason="QOSMaxGRESPerJob"),
        job(9, 1, dependency="afterok:1(failed)", reason="DependencyNeverSatisfied"),
    )
    present = of_slurm([much, never])
    assert "waiting does not help" in explain(present, "8").next_step
    told = explain(present, "9")
    assert "will never start" in told.reason.text
    assert told.next_step == "cancel it, or remove the dependency: scontrol update JobId=9 Dependency="


def test_fewer_cpus_are_proposed_where_cpus_are_lacking():
    """The GPUs are free and the CPUs are not; with those that are free it starts."""
    holders = [running(1, "n0", 1, cpus=28.0), running(2, "n1", 1, cpus=32.0)]
    present = of_slurm([*holders, job(9, 2, nodes=1, cpus=16.0)])
    change = next(one for one in explain(present, "9").changes if "cpus" in one.columns)
    assert (change.starts_now, change.columns) == (True, {"cpus": 4.0})


def test_who_has_ended_is_not_there_any_more():
    """Also after the last job has started, when nothing is left to decide."""
    columns = {"submit_s": [0.0, 10.0, 20.0], "duration_s": [100.0, 200.0, 300.0], "gpus": [1, 1, 1]}
    there = [of_history(columns, at_s=at_s).names for at_s in (50.0, 150.0, 250.0)]
    assert there == [("0", "1", "2"), ("1", "2"), ("2",)]
    with pytest.raises(InputError, match="is over by 320 s"):
        of_history(columns, at_s=321.0)

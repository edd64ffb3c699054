"""From recorded output to a snapshot's values, for every release of Slurm that is known."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from rltune.live.see.backend import BackendError
from rltune.live.slurm import scontrol_show as show
from rltune.live.slurm.dialect import KNOWN, caution, dialect_for, dialect_of
from rltune.live.slurm.json_records import answer_of, count_tasks, jobs_of, nodes_of
from rltune.live.slurm.sprio import factors_of

DATA = Path(__file__).parent / "data"
WRITTEN = ["23.11", "24.05"]  # from Slurm's documentation, with the values of 22.05's jobs
RECORDED = ["24.11", "26.05"]
AT_ITS_TIME = ("id", "het_id", "submit_s", "eligible_s", "start_s", "end_s", "begin_s", "priority")  # of the recording


def jobs(release, file="squeue.json"):
    return {job.name + job.ref: job for job in jobs_of(read(release, file, "jobs"))}


def read(release, file, key):
    return answer_of((DATA / release / file).read_text(), "squeue", key)


def told(job):
    """Give a job's values so that two can be compared though NaN differs from itself."""
    return {key: str(value) for key, value in asdict(job).items()}


@pytest.fixture(scope="module")
def recorded():
    return jobs("22.05")


def test_a_job_that_waits(recorded):
    """It has no start, whatever Slurm forecasts, and asks for GPUs of a type."""
    job = recorded["wait"]
    assert (job.state, job.reason, job.held) == ("PENDING", "Priority", False)
    assert (job.gpus, job.gpu_types, job.nodes, job.gpus_per_node) == (4, ("p100",), 1, 4)
    assert math.isnan(job.start_s)
    assert job.limit_s == 3600
    assert (job.user, job.account, job.qos, job.partitions) == ("root", "research", "normal", ("gpu",))


def test_a_job_that_runs_on_two_nodes(recorded):
    """Its GPUs are told by node."""
    job = recorded["two nodes"]
    assert (job.state, job.gpus, job.node_names, job.gpus_by_node) == ("RUNNING", 6, ("p100-1", "p100-2"), (3, 3))
    assert job.start_s > 0
    assert math.isnan(job.end_s)


def test_a_job_that_has_ended(recorded):
    """It has an end and is known to have ended."""
    assert recorded["done"].end_s >= recorded["done"].start_s
    assert recorded["done"].ended
    assert recorded["failed"].state == "FAILED"


def test_gpus_in_all_without_a_number_of_nodes(recorded):
    """A job that asked for six GPUs anywhere ran on four nodes."""
    assert recorded["gpus6"].gpus == 6
    assert recorded["gpus6"].nodes == 4


def test_an_unlimited_job_has_no_limit(recorded):
    """And its constraint is kept as given."""
    assert math.isnan(recorded["unlimited"].limit_s)
    assert recorded["unlimited"].features == "p100|k80"


def test_a_held_job(recorded):
    """It is known by its reason."""
    assert recorded["held"].held
    assert recorded["held"].priority == 0


def test_the_parts_of_an_array(recorded):
    """Running tasks, one that was split off, and the rest as one record."""
    assert recorded["array11_1"].state == "RUNNING"
    assert (recorded["array11_4"].array_id, recorded["array11_4"].nice) == (11, 3)
    rest = recorded["array11_[3,5]"]
    assert (rest.array_tasks, rest.array_waiting, rest.array_throttle) == ("3,5%2", 2, 2)
    assert rest.gpus == 2


def test_what_a_job_waits_for(recorded):
    """Dependency, begin, reservation, pins and partitions are as asked."""
    assert recorded["dependent"].dependency == "afterok:8(unfulfilled)"
    assert recorded["later"].begin_s == recorded["later"].eligible_s
    assert recorded["in class"].reservation == "class"
    assert (recorded["pinned"].required_nodes, recorded["pinned"].excluded_nodes) == (("p100-1",), ("k80-2",))
    assert recorded["pinned"].nice == 50
    assert recorded["several partitions"].partitions == ("sla", "gpu")


def test_the_parts_of_a_heterogeneous_job_know_their_leader():
    """Both have its number."""
    parts = [job for job in jobs_of(read("22.05", "squeue.json", "jobs")) if job.het_id]
    assert [(job.id, job.het_id) for job in parts] == [(16, 16), (17, 16)]


def test_memory_and_processors(recorded):
    """Asked for a node, a processor, or not at all."""
    assert (recorded["cpu"].cpus, recorded["cpu"].mem_gib) == (4, 8)
    assert (recorded["mem per cpu"].cpus, recorded["mem per cpu"].mem_gib) == (6, 12)
    assert math.isnan(recorded["wait"].mem_gib)


def test_an_exclusive_job(recorded):
    """It takes its node alone."""
    assert recorded["exclusive"].exclusive
    assert not recorded["wait"].exclusive


def test_without_accounting_gpus_are_counted_all_the_same():
    """Slurm then tells them only a node or a job; the sums are those that it makes itself with accounting."""
    with_it, without = jobs("22.05"), jobs("22.05", "squeue-without-accounting.json")
    ended = {"done", "gpus6"}  # of which Slurm then tells only what was asked
    names = [name for name in with_it if name in without and name not in ended]
    assert len(names) > 15
    assert {name: without[name].gpus for name in names} == {name: with_it[name].gpus for name in names}


def test_nodes():
    """What a node has, what is in use, and whether it takes jobs."""
    nodes = {node.name: node for node in nodes_of(read("22.05", "sinfo.json", "nodes"))}
    assert (nodes["p100-2"].gpu_type, nodes["p100-2"].gpus, nodes["p100-2"].gpus_used) == ("p100", 4, 3)
    assert (nodes["k80-2"].state, nodes["k80-2"].up) == ("MIXED+DRAIN", False)
    assert nodes["m40-1"].cpus_used == 32
    assert nodes["m40-1"].mem_gib == 125
    assert nodes["k80-1"].partitions == ("gpu", "sla")
    assert nodes["k80-1"].features == ("k80",)


def test_a_reservation_that_has_begun_is_seen_at_its_nodes():
    """One that is to come is not."""
    reserved = show.reservations((DATA / "22.05/scontrol.txt").read_text())
    answer = read("22.05", "sinfo.json", "nodes")
    early = {n.name: n.reservation for n in nodes_of(answer, reserved, reserved[0].start_s - 1)}
    begun = {n.name: n.reservation for n in nodes_of(answer, reserved, reserved[0].start_s)}
    assert early["m40-1"] == ""
    assert begun["m40-1"] == "maint"


@pytest.mark.parametrize("release", WRITTEN)
def test_releases_that_were_not_run_give_the_same_jobs(release, recorded):
    """The shapes differ, the values do not."""
    newer = jobs(release)
    assert len(newer) >= 17
    assert {name: told(job) for name, job in newer.items()} == {name: told(recorded[name]) for name in newer}


@pytest.mark.parametrize("release", RECORDED)
def test_newer_releases_were_given_the_same_jobs_and_tell_the_same(release, recorded):
    """All that does not depend on when they were recorded."""
    newer = jobs(release)
    assert newer.keys() - recorded.keys() == {"mem per gpu", "exclusive to a user"}
    assert recorded.keys() <= newer.keys()
    assert {name: lasting(newer[name]) for name in recorded} == {name: lasting(recorded[name]) for name in recorded}


def lasting(job):
    return {key: value for key, value in told(job).items() if key not in AT_ITS_TIME}


@pytest.mark.parametrize("release", RECORDED)
def test_memory_a_gpu_in_newer_releases(release):
    """Three GiB for each of four GPUs, which these releases repeat as if it were the memory of the node."""
    record = next(r for r in read(release, "squeue.json", "jobs")["jobs"] if r["name"] == "mem per gpu")
    assert record["memory_per_node"]["number"] == 3072
    assert jobs(release)["mem per gpu"].mem_gib == 12


@pytest.mark.parametrize("release", RECORDED)
def test_who_is_exclusive_in_newer_releases(release):
    """A job that wants its nodes alone, and not one that shares them with others of its user."""
    assert [name for name, job in jobs(release).items() if job.exclusive] == ["exclusive"]


@pytest.mark.parametrize("release", WRITTEN)
def test_releases_that_were_not_run_give_the_same_nodes(release):
    """Asked by scontrol, whose answer is a list of nodes as sinfo's was in 22.05."""
    answer = read(release, "nodes.json", "nodes")
    assert dialect_of(answer).nodes_command == ("scontrol", "--json=v0.0.40", "show", "nodes")
    assert nodes_of(answer) == nodes_of(read("22.05", "sinfo.json", "nodes"))


@pytest.mark.parametrize("release", RECORDED)
@pytest.mark.parametrize("file", ["nodes.json", "nodes-own-shape.json"])
def test_newer_releases_give_the_same_nodes(release, file):
    """In the shape asked for and in the release's own; they also tell for which nodes backfilling has plans."""
    answer = read(release, file, "nodes")
    assert dialect_of(answer).nodes_command == ("scontrol", "--json=v0.0.42", "show", "nodes")
    unplanned = [replace(node, state=node.state.removesuffix("+PLANNED")) for node in nodes_of(answer)]
    assert unplanned == nodes_of(read("22.05", "sinfo.json", "nodes"))


@pytest.mark.parametrize("release", RECORDED)
def test_what_sprio_and_scontrol_tell_in_newer_releases(release):
    """Site factors, priorities by hand, partitions, reservations and settings."""
    factors = factors_of((DATA / release / "sprio.txt").read_text())
    told = {job.name: job for job in jobs_of(read(release, "squeue.json", "jobs"), factors)}
    assert (told["site"].site_factor, told["site"].priority_by_hand) == (600, False)
    assert (told["by hand"].priority, told["by hand"].priority_by_hand) == (4321, True)
    assert told["pinned"].other_factors == -50
    text = (DATA / release / "scontrol.txt").read_text()
    assert [(p.name, p.priority_tier) for p in show.partitions(text)] == [("gpu", 1), ("sla", 100)]
    assert [r.maintenance for r in show.reservations(text)] == [True, False]
    assert show.config(text, "SLURM_VERSION").startswith(release)
    assert show.seconds(show.config(text, "KillWait"), usual=0) == 30


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (["RUNNING", "COMPLETING"], "COMPLETING"),
        (["CANCELLED", "COMPLETING"], "COMPLETING"),
        (["RUNNING", "CONFIGURING"], "CONFIGURING"),
        (["PENDING", "REQUEUED"], "PENDING"),
        (["COMPLETED"], "COMPLETED"),
    ],
)
def test_a_state_with_flags(words, state):
    """A job that still cleans up holds its nodes."""
    answer = read("26.05", "squeue.json", "jobs")
    answer["jobs"] = [{**answer["jobs"][0], "job_state": words}]
    assert jobs_of(answer)[0].state == state


def test_parts_of_gpus_are_seen():
    """MIG slices, shards and MPS shares are not whole GPUs."""
    answer = read("22.05", "squeue.json", "jobs")
    waiting = next(job for job in answer["jobs"] if job["name"] == "wait")
    for asked in ("gres:gpu:a100_1g.5gb:1", "gres:shard:3", "gres:gpu:1g.10gb:2", "gres/mps:50"):
        assert jobs_of({**answer, "jobs": [{**waiting, "tres_per_node": asked, "tres_req_str": ""}]})[0].shares_gpu
    assert not jobs_of({**answer, "jobs": [waiting]})[0].shares_gpu


def test_gpus_and_memory_a_task_and_a_gpu():
    """Two tasks of three GPUs, 16 GiB a GPU."""
    answer = read("22.05", "squeue.json", "jobs")
    waiting = next(job for job in answer["jobs"] if job["name"] == "wait")
    asked = {"tres_per_node": "", "tres_per_task": "gres:gpu:3", "tasks": 2, "tres_req_str": "", "max_nodes": 0}
    job = jobs_of({**answer, "jobs": [{**waiting, **asked, "memory_per_tres": "gres:gpu:16384"}]})[0]
    assert (job.gpus, job.nodes, job.mem_gib) == (6, 0, 96)


def test_a_job_whose_constraints_cannot_be_met_is_not_held():
    """Slurm sets its priority to 0 too, and takes that back by itself."""
    answer = read("22.05", "squeue.json", "jobs")
    waiting = next(job for job in answer["jobs"] if job["name"] == "wait")
    job = jobs_of({**answer, "jobs": [{**waiting, "priority": 0, "state_reason": "BadConstraints"}]})[0]
    assert not job.held


def test_an_empty_queue_with_errors_is_no_answer():
    """Slurm prints this, with exit code 0, when slurmctld is down."""
    errors = [{"description": "Failed while looking for jobs", "error": "Unspecified error"}]
    text = json.dumps({"meta": {}, "errors": errors, "jobs": []})
    with pytest.raises(BackendError, match="squeue reports: Failed while looking for jobs"):
        answer_of(text, "squeue", "jobs")


def test_an_answer_that_is_not_json_or_lacks_what_was_asked_for():
    """Half an answer is none."""
    with pytest.raises(BackendError, match="squeue did not print JSON but: 'slurm_load"):
        answer_of("slurm_load_jobs error", "squeue", "jobs")
    with pytest.raises(BackendError, match="squeue printed no jobs"):
        answer_of('{"errors": []}', "squeue", "jobs")


@pytest.mark.parametrize("release", ["21.08.8", "23.02.7", "2.205", ""])
def test_an_unknown_release_is_refused(release):
    """The sentence names those that are known."""
    answer = {"meta": {"slurm": {"release": release}}, "jobs": []}
    with pytest.raises(BackendError, match=r"22\.05, 23\.11, 24\.05, 24\.11, 25\.05, 25\.11, 26\.05 are"):
        jobs_of(answer)


def test_a_release_newer_than_any_known_is_read_with_a_caution():
    """As the newest; those that are known need none."""
    assert dialect_for("27.11.2") is dialect_for("26.05.5")
    assert caution("27.11.2") == "Slurm 27.11.2 is newer than any that this was tried on, and read as if it were 26.05"
    assert [caution(f"{release}.1") for release in KNOWN] == [""] * len(KNOWN)


def test_a_record_that_cannot_be_read_is_named():
    """The job's number is in the sentence."""
    answer = read("22.05", "squeue.json", "jobs")
    broken = {key: value for key, value in answer["jobs"][0].items() if key != "cpus"}
    with pytest.raises(BackendError, match="of job 1 what cannot be read: KeyError"):
        jobs_of({**answer, "jobs": [broken]})
    nodes = read("22.05", "sinfo.json", "nodes")
    with pytest.raises(BackendError, match="of node k80-1 what cannot be read"):
        nodes_of({**nodes, "nodes": [{**nodes["nodes"][0], "real_memory": "much"}]})


def test_partitions_reservations_and_settings():
    """As scontrol prints them, one record a line."""
    text = (DATA / "22.05/scontrol.txt").read_text()
    gpu, sla = show.partitions(text)
    assert (gpu.name, gpu.priority_tier, sla.name, sla.priority_tier) == ("gpu", 1, "sla", 100)
    assert gpu.node_names == ("k80-1", "k80-2", "m40-1", "p100-1", "p100-2")
    maintenance, lesson = show.reservations(text)
    assert maintenance.maintenance
    assert not lesson.maintenance
    assert lesson.node_names == ("k80-1", "k80-2")
    assert lesson.end_s - lesson.start_s == 7200
    assert show.config(text, "SelectTypeParameters") == "CR_CORE"
    assert show.config(text, "Nonsense") == ""
    assert show.no_factors(text) == ""


def test_a_partition_with_a_time_limit():
    """One day and a half."""
    text = "PartitionName=short Nodes=n1 MaxTime=1-12:00:00 State=DOWN PriorityTier=3"
    assert show.partitions(text)[0].max_time_s == 129_600
    assert not show.partitions(text)[0].up


@pytest.mark.parametrize(
    ("text", "count"), [("1-5%2", 5), ("3,5", 2), ("0-15:4", 4), ("", 0), ("1-3,9,20-22%1", 7), ("1-3,...", 3)]
)
def test_the_tasks_of_an_array(text, count):
    """Ranges, steps and single tasks."""
    assert count_tasks(text) == count


def test_priorities_without_factors_are_told():
    """With priority/basic no number of ours counts, and a controller that acted would do nothing without a word."""
    assert show.no_factors("PriorityType            = priority/multifactor\n") == ""
    assert "acting on jobs needs priority/multifactor" in show.no_factors("PriorityType = priority/basic\n")

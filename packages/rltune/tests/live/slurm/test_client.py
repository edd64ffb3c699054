"""The client against a real Slurm: the machine's own release, and those that were made beside it."""

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from rltune.live.see.backend import Backend, BackendError, Change, ChangeKind, UnreachableError
from rltune.live.slurm.client import Slurm
from rltune.live.slurm.dialect import KNOWN
from rltune.live.slurm.scontrol_orders import lines_of

FULL = {"gpus": 4, "gpu_type": "p100", "nodes": 2}


@pytest.fixture
def testbed(testbed_of_any_release):
    return testbed_of_any_release


def crowd(bed, *options):
    """Let one job hold all P100 and another wait for them."""
    running = bed.submit(600, **FULL)
    waiting = bed.submit(600, *options, **FULL)
    bed.wait_for("a start", lambda: bed.job(running)["job_state"] == "RUNNING")
    bed.waiting_jobs()  # newer releases show what a priority is made of a second after the job came
    return running, waiting


def test_it_is_a_backend(testbed):
    """As the controller wants one."""
    assert isinstance(testbed.backend(), Backend)


def test_a_snapshot_by_four_processes(testbed):
    """Jobs, nodes, partitions and reservations, at the time of the cluster."""
    running, waiting = crowd(testbed)
    slurm = testbed.backend()
    before = time.time()
    seen = slurm.observe()
    assert sum(slurm.calls.values()) == 4
    assert slurm.calls["squeue"] == slurm.calls["sprio"] == 1
    assert seen.version.rpartition(".")[0] in KNOWN
    assert before <= seen.taken_s <= time.time()
    assert seen.job_by_id[running].gpus_by_node == (4, 4)
    assert [job.id for job in seen.pending] == [waiting]
    assert {node.name: node.gpus_used for node in seen.nodes}["p100-1"] == 4
    assert [partition.name for partition in seen.partitions] == ["gpu", "sla"]
    assert not seen.mem_counts


def test_a_users_settings_of_slurms_commands_hide_nothing(testbed, monkeypatch):
    """A job that is not seen counts as ended, and what was changed of it as given back: filters must not get through.

    Nor may a record become an array, stay because scancel looks elsewhere, or a command wait for an answer.
    """
    running, waiting = crowd(testbed)
    hiding = {
        "SQUEUE_PARTITION": "sla",
        "SQUEUE_USERS": "games",
        "SQUEUE_NAMES": "nosuch",
        "SQUEUE_ACCOUNT": "nosuch",
        "SBATCH_CLUSTERS": "elsewhere",
        "SINFO_PARTITION": "sla",
        "SPRIO_CLUSTERS": "elsewhere",
        "SBATCH_ARRAY_INX": "1-3",
        "SCANCEL_PARTITION": "sla",
        "SCANCEL_INTERACTIVE": "1",
        "SLURM_JOB_ID": "7",
    }
    for name, value in hiding.items():
        monkeypatch.setenv(name, value)
    slurm = testbed.backend()
    slurm.environment = {name: value for name, value in slurm.environment.items() if name not in hiding} | hiding
    seen = slurm.observe()
    assert {job.id for job in seen.jobs if not job.ended} == {running, waiting}
    assert seen.job_by_id[waiting].site_factor == 0
    record = slurm.open_record("text", "gpu")
    assert [one.id for one in slurm.observe().records] == [record]
    slurm.close_records([record])
    assert not slurm.observe().records
    monkeypatch.undo()
    assert not testbed.job(record)["array_job_id"]


@pytest.mark.parametrize("columns", [None, 97])
def test_a_line_that_fills_a_terminal_is_taken_for_no_error(testbed, monkeypatch, columns):
    """Where a line ends with the terminal's, readline moves its cursor about; of every 80 lengths that is one."""
    if columns:
        monkeypatch.setenv("COLUMNS", str(columns))
    slurm = testbed.backend()
    slurm.environment = {name: value for name, value in slurm.environment.items() if name != "COLUMNS"}
    job = testbed.submit(600, "--hold")
    width = columns or 80
    for lines in (1, 2, 10):
        text = "x" * (lines * width - len(f"scontrol: update JobId={job} Comment="))
        slurm.write_records({job: text})
        assert slurm.observe().job_by_id[job].comment == text
    changes = [
        Change(job, ChangeKind.EXCLUDE_NODES, nodes=("p100-1",) * many + ("k80-1",) * more)
        for many in range(8, 8 + width)
        for more in range(2)
    ]
    assert any(len(f"scontrol: {line}") % width == 0 for change in changes for line in lines_of(change))
    assert all(outcome.done for outcome in slurm.apply(changes))


def test_changes_are_made_by_one_process_and_each_has_its_outcome(testbed):
    """One that fails does not stop the others."""
    _, waiting = crowd(testbed)
    slurm = testbed.backend()
    changes = [
        Change(waiting, ChangeKind.SITE_FACTOR, 700),
        Change(999_999, ChangeKind.PRIORITY, 5),
        Change(waiting, ChangeKind.REQUIRE_NODES, nodes=("nosuch",)),
        Change(waiting, ChangeKind.EXCLUDE_NODES, nodes=("k80-1", "k80-2")),
    ]
    outcomes = slurm.apply(changes)
    assert slurm.calls == Counter(scontrol=1)
    assert [o.done for o in outcomes] == [True, False, False, True]
    job = slurm.observe().job_by_id[waiting]
    assert (job.site_factor, job.priority, job.priority_by_hand) == (700, 700, False)
    assert job.excluded_nodes == ("k80-1", "k80-2")
    slurm.apply([Change(waiting, ChangeKind.SITE_FACTOR), Change(waiting, ChangeKind.EXCLUDE_NODES)])
    job = slurm.observe().job_by_id[waiting]
    assert (job.site_factor, job.priority, job.excluded_nodes) == (0, 1, ())


def test_a_release_gives_back_the_nice_that_a_priority_by_hand_took(testbed):
    """Slurm forgets it otherwise."""
    _, waiting = crowd(testbed, "--nice=20")
    slurm = testbed.backend()
    before = slurm.observe().job_by_id[waiting]
    slurm.apply([Change(waiting, ChangeKind.PRIORITY, 4000)])
    by_hand = slurm.observe().job_by_id[waiting]
    assert (by_hand.priority, by_hand.priority_by_hand, by_hand.nice) == (4000, True, 0)
    slurm.apply([Change(waiting, ChangeKind.RELEASE, before.nice)])
    after = slurm.observe().job_by_id[waiting]
    assert (after.priority, after.priority_by_hand, after.nice) == (before.priority, False, 20)


def test_waiting_tasks_of_an_array_are_changed_as_one_record(testbed):
    """Nothing is split off, and running tasks are left alone."""
    array = testbed.submit(600, "--array=1-6%2", gpus=1)
    testbed.wait_for("two tasks to run", lambda: sum(j["job_state"] == "RUNNING" for j in testbed.jobs()) == 2)
    slurm = testbed.backend()
    (record,) = slurm.observe().pending
    assert (record.ref, record.array_waiting) == (f"{array}_[3-6]", 4)
    outcomes = slurm.apply([Change(record.id, ChangeKind.EXCLUDE_NODES, nodes=("p100-1",), ref=record.ref)])
    assert outcomes[0].done
    seen = slurm.observe()
    assert [job.excluded_nodes for job in seen.pending] == [("p100-1",)]
    assert [job.excluded_nodes for job in seen.jobs if job.on_nodes] == [(), ()]


def test_no_changes_no_process(testbed):
    """An empty batch costs nothing."""
    slurm = testbed.backend()
    assert slurm.apply([]) == ()
    assert slurm.calls == Counter()


def test_changes_spelled_for_an_operator(testbed):
    """As they would be typed."""
    told = testbed.backend().commands([Change(7, ChangeKind.PRIORITY, 5), Change(8, ChangeKind.RELEASE, 3)])
    assert told == ("scontrol update JobId=7 Priority=5", "scontrol release 8 && scontrol update JobId=8 Nice=3")


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGSTOP])
def test_a_slurmctld_that_is_down_or_hangs_is_told_within_seconds(testbed, sign):
    """Slurm's own commands would block for nine."""
    slurm = testbed.backend()
    slurm.timeout_s = 1
    if sign == signal.SIGSTOP:
        testbed.send("slurmctld", sign)
    else:
        testbed.stop("slurmctld", sign)
    try:
        for ask in (slurm.observe, lambda: slurm.apply([Change(1, ChangeKind.PRIORITY, 5)])):
            began, asked = time.monotonic(), slurm.calls.total()
            with pytest.raises(UnreachableError, match=r"does not answer|did not answer in"):
                ask()
            assert slurm.calls.total() == asked + 1  # whoever does not answer is asked once
            assert time.monotonic() - began < 8
    finally:
        if sign == signal.SIGSTOP:
            testbed.send("slurmctld", signal.SIGCONT)
        else:
            testbed.start("slurmctld")


def test_exclusive_jobs_and_memory_a_gpu(testbed):
    """Releases differ in how they tell of both."""
    alone = testbed.submit(600, "--exclusive", gpus=1, gpu_type="m40")
    among = testbed.submit(600, "--exclusive=user", gpus=1, gpu_type="k80")
    greedy = testbed.submit(600, "--hold", "--mem-per-gpu=3G", gpus=4, gpu_type="p100")
    seen = testbed.backend().observe().job_by_id
    assert [seen[job].exclusive for job in (alone, among, greedy)] == [True, False, False]
    assert seen[greedy].mem_gib == 12


@pytest.mark.parametrize("command", ["scontrol", "squeue"])
def test_a_command_that_hangs_with_a_child_is_ended_with_it(tmp_path, command):
    """As by ssh or a script around it: the child holds the output open, and would be waited for."""
    left = tmp_path / "child"
    (tmp_path / command).write_text(f"#!/bin/sh\nsleep 1234 & echo $! >{left}; wait\n")
    (tmp_path / command).chmod(0o755)
    slurm = Slurm(environment={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, timeout_s=1.0)
    with pytest.raises(UnreachableError, match=f"{command} did not answer in"):
        slurm.observe() if command == "scontrol" else slurm._run(("squeue",))
    _wait_until(lambda: _is_gone(left.read_text()))


WRITES = "from rltune.live.slurm.client import Slurm; Slurm()._ask_scontrol(['update JobId=1 SiteFactor=7'] * 1000)"


def test_what_writes_dies_with_us(tmp_path):
    """Killed in mid-write: a scontrol that went on would write after all was given back."""
    pid = tmp_path / "pid"
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\necho $$ >{pid}.part; mv {pid}.part {pid}; exec sleep 1234\n")
    (tmp_path / "scontrol").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with subprocess.Popen([sys.executable, "-c", WRITES], env=environment) as process:
        _wait_until(pid.exists)
        process.kill()
    _wait_until(lambda: _is_gone(pid.read_text()))


def _is_gone(pid):
    stat = Path(f"/proc/{pid.strip()}/stat")
    with contextlib.suppress(OSError):
        return stat.read_text().rpartition(")")[2].split()[0] in "ZX"
    return True


def _wait_until(done):
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


DATA = Path(__file__).parent / "data/26.05"
NEWER = """#!/bin/sh
case "$(basename "$0") $*" in
  *v0.0.42*) echo "no such data_parser" >&2; exit 1 ;;
  squeue*) cat "$DATA/squeue.json" ;;
  sprio*) cat "$DATA/sprio.txt" ;;
  *json*) cat "$DATA/nodes-own-shape.json" ;;
  *) while IFS= read -r line; do
      case "$line" in
        ping) printf '%s\\n' "scontrol: ping" "Slurmctld(primary) at head is UP" ;;
        "show hostnames "*) echo "${line#show hostnames }" ;;
        "show config") sed 's/26\\.05\\.[0-9]*/27.11.2/' "$DATA/scontrol.txt" ;;
      esac
    done ;;
esac
"""


def test_a_newer_release_is_read_by_the_shape_it_offers(tmp_path):
    """Where it has dropped the one that is known: with a caution, by which nobody acts."""
    for name in ("scontrol", "squeue", "sprio"):
        (tmp_path / name).write_text(NEWER)
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    seen = Slurm(environment={"PATH": path, "DATA": str(DATA)}).observe()
    assert (seen.version, seen.caution != "") == ("27.11.2", True)
    assert len(seen.jobs) > 20
    assert sum(node.gpus for node in seen.nodes) == 13


def test_without_slurm_the_command_is_named():
    """Not a traceback."""
    slurm = Slurm(environment={"PATH": "/nowhere"})
    with pytest.raises(BackendError, match="scontrol could not be started: No such file"):
        slurm.observe()


def test_an_operator_without_privileges_sees_and_changes_all(testbed_with_database):
    """AdminLevel=Operator is enough."""
    _, waiting = crowd(testbed_with_database)
    slurm = testbed_with_database.backend(as_operator=True)
    assert slurm.apply([Change(waiting, ChangeKind.SITE_FACTOR, 30)])[0].done
    job = slurm.observe().job_by_id[waiting]
    assert (job.site_factor, job.account, job.qos) == (30, "research", "normal")
    assert math.isnan(job.start_s)

"""The testbed: a real Slurm that comes up in seconds, does what it is told, and leaves nothing behind."""

import dataclasses
import os
import signal
import socket
import time
from pathlib import Path

import pytest
from real_slurm import NAMES, RELEASES, require_release

from rltune.cluster import Cluster, NodeGroup
from rltune.errors import InputError
from rltune.lab.testbed import Testbed
from rltune.lab.testbed import debian_needs as needs
from rltune.lab.testbed.daemon_parent import MARK
from rltune.lab.testbed.held_ports import held_ports
from rltune.lab.testbed.testbed_spec import Spec


def processes_with(mark: str) -> list[str]:
    """Find what runs with these words in its environment or command line."""
    found = []
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            text = (proc / "environ").read_bytes() + (proc / "cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in text:
            found.append(proc.name)
    return found


@pytest.mark.parametrize("release", RELEASES, ids=NAMES)
def test_it_leaves_no_process_no_folder_and_no_shared_memory(bed_folder, release):
    """Down with jobs running: daemons, job steps, jobs, files and the clock's shared memory are gone."""
    require_release(release)
    before = set(Path("/dev/shm").glob("*faketime*"))
    bed = Testbed.up(bed_folder, factor=60, release=release)
    bed.submit(36_017, "--exclusive")
    bed.wait_for("the job to run", lambda: processes_with("600.283") != [])
    bed.down()
    assert not bed_folder.exists()
    assert processes_with(f"{MARK}={bed_folder}\0") == []
    assert processes_with("600.283") == []
    assert set(Path("/dev/shm").glob("*faketime*")) <= before


def test_a_minute_of_the_fast_clock_is_a_second(bed_folder):
    """Slurm's own times of a job are those asked for, and the testbed tells Slurm's time."""
    with Testbed.up(bed_folder, factor=60) as bed:
        job = bed.submit(60, gpus=1, limit_min=10)
        bed.wait_for("its end", lambda: bed.job(job)["job_state"] == "COMPLETED")
        told = bed.job(job)
        assert 58 <= told["end_time"] - told["start_time"] <= 600  # a busy machine adds seconds, of 60 s each
        assert -1 <= bed.now_s() - told["end_time"] < 600


def test_the_five_nodes_of_the_paper(testbed):
    """Two nodes of 4 P100, two of 2 K80, one M40, and two partitions of which one comes first."""
    gres = set(testbed.run("sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %G").splitlines())
    assert gres == {"p100-1 gpu:p100:4", "p100-2 gpu:p100:4", "k80-1 gpu:k80:2", "k80-2 gpu:k80:2", "m40-1 gpu:m40:1"}
    assert "PriorityTier=100" in testbed.run("scontrol", "show", "partition", "sla")


def test_it_listens_on_loopback_only(testbed):
    """No daemon of it can be reached from another machine."""
    pids = {testbed._nursery.pid(name) for name in testbed.daemons}
    files = [str(fd.readlink()) for pid in pids for fd in Path(f"/proc/{pid}/fd").iterdir()]
    inodes = {name[8:-1] for name in files if name.startswith("socket:")}
    listening = [
        fields[1]
        for fields in (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
        if fields[3] == "0A" and fields[9] in inodes
    ]
    assert len(listening) >= 6
    assert {address.split(":")[0] for address in listening} == {"0100007F"}


def test_a_job_runs_on_two_nodes_and_sees_its_gpus(testbed, tmp_path):
    """What a job asks for is what it gets."""
    out = tmp_path / "out"
    job = testbed.run(
        "sbatch", "--parsable", "-N2", "--gpus-per-node=p100:3", f"--output={out}", "--wrap=echo $SLURM_JOB_GPUS"
    )
    testbed.wait_for("its end", lambda: testbed.job(int(job))["job_state"] == "COMPLETED")
    assert out.read_text().strip() == "0,1,2"
    assert testbed.job(int(job))["nodes"] == "p100-[1-2]"


def test_without_the_right_to_make_devices_there_are_gpus_all_the_same(bed_folder, monkeypatch):
    """Some containers do not let even root make a device."""

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "mknod", refuse)
    with Testbed.up(bed_folder, Cluster.uniform(1, 2, "T4")) as bed:
        job = bed.submit(0, gpus=2)
        bed.wait_for("its end", lambda: bed.job(job)["job_state"] == "COMPLETED")


def test_a_daemon_can_be_killed_and_started_again(testbed):
    """A job that waits survives a slurmctld that was killed once Slurm has written it down."""
    saved = testbed.folder / "state/job_state"
    before = saved.stat().st_mtime_ns if saved.exists() else 0
    job = testbed.submit(1, "--hold", gpus=1)
    testbed.wait_for("the state to be saved", lambda: saved.exists() and saved.stat().st_mtime_ns > before)
    testbed.stop("slurmctld", signal.SIGKILL)
    assert testbed.running()["slurmctld"] is False
    testbed.start("slurmctld")
    assert testbed.job(job)["job_state"] == "PENDING"


def test_clear_makes_it_as_new(testbed):
    """Jobs of all kinds, a reservation and a drained node are gone after it."""
    testbed.submit(100, gpus=1)
    testbed.submit(100, "--hold", "--array=1-5%2", gpus=1)
    testbed.run("scontrol", "update", "NodeName=m40-1", "State=DRAIN", "Reason=test")
    testbed.run("scontrol", "create", "reservation", "Nodes=k80-1", "StartTime=now", "Duration=60", "Users=root")
    testbed.clear()
    assert testbed.run("squeue", "-h") == ""
    assert "No reservations" in testbed.run("scontrol", "show", "reservation")
    assert testbed._all_idle()


def test_an_operator_without_privileges_may_set_priorities(testbed_with_database):
    """With accounting there is a user who is nobody on the machine and Operator in Slurm."""
    bed = testbed_with_database
    job = bed.submit(1, "--hold", gpus=1)
    bed.run("scontrol", "release", str(job))
    assert bed.run(*bed.operator, "id", "-un").strip() != "root"
    bed.run(*bed.operator, "scontrol", "update", f"JobId={job}", "Nice=-5")
    with pytest.raises(InputError, match="Invalid user id"):
        bed.run(*bed.operator, "scontrol", "update", "NodeName=m40-1", "State=DRAIN", "Reason=no")


def test_accounting_counts_gpus_and_knows_the_sla_qos(testbed_with_database):
    """Resources of jobs are in total and by type, and a QOS asked for is kept."""
    bed = testbed_with_database
    told = bed.job(bed.submit(1, "--hold", "--qos=sla", gpus=2, gpu_type="p100", nodes=2))
    assert "gres/gpu=4" in told["tres_req_str"]
    assert told["qos"] == "sla"


def test_open_finds_a_testbed_that_another_process_started(testbed):
    """The folder holds all that is to be known."""
    again = Testbed.open(testbed.folder)
    assert again.running() == testbed.running()
    assert again.now_s() == pytest.approx(testbed.now_s(), abs=0.5)


def test_a_second_one_in_the_same_folder_is_refused(testbed):
    """And the first is not touched."""
    with pytest.raises(InputError, match="a testbed is up here already"):
        Testbed.up(testbed.folder)
    assert all(testbed.running().values())


def test_a_folder_with_something_in_it_is_refused(tmp_path):
    """Nothing of a user's is ever removed."""
    needs_slurm = needs.missing()
    (tmp_path / "mine").touch()
    with pytest.raises(InputError, match=needs_slurm or "is in use; a testbed wants a folder of its own"):
        Testbed.up(tmp_path)
    assert (tmp_path / "mine").exists()


def test_a_taken_port_is_named_and_nothing_stays(bed_folder):
    """The folder is not even made."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} is in use"):
            Testbed.up(bed_folder, port=port)
    assert not bed_folder.exists()


def test_no_two_testbeds_get_the_same_ports():
    """Not even where one has found its ports and no daemon listens on them yet; and daemons can listen."""
    with held_ports(7) as ours, held_ports(9) as theirs, socket.socket() as daemon:
        assert not set(ours) & set(theirs)
        with held_ports(7) as free:  # by name they must be free, and others take ports meanwhile
            pass
        with held_ports(7, free[0]) as named:
            assert named == free
        daemon.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Slurm's daemons do
        daemon.bind(("127.0.0.1", ours[1]))
        daemon.listen()


def test_a_daemon_that_dies_at_its_start_is_named_with_its_last_words(testbed):
    """At once: nobody waits two minutes for what cannot come, and the files that tell more may be gone by then."""
    dying = ["sh", "-c", "echo no room; exit 1"]
    broken = dataclasses.replace(testbed, daemons={**testbed.daemons, "slurmdbd": dying})
    began = time.monotonic()
    with pytest.raises(InputError, match="slurmdbd has ended instead of answering: no room"):
        broken.start("slurmdbd")
    assert time.monotonic() - began < 30


def test_without_root_it_says_so(monkeypatch):
    """One sentence, before anything is made."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(InputError, match="a testbed needs root"):
        Testbed.up()


def test_without_slurm_the_packages_are_named(monkeypatch):
    """What to install depends on what was asked for."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "/nowhere")
    assert "apt-get install munge slurmctld slurmd slurm-client" in needs.missing()
    assert "slurmdbd mariadb-server" in needs.missing(database=True)
    assert "faketime" in needs.missing(clock=True)


def test_a_clock_out_of_range_is_refused():
    """Daemons have their limits."""
    with pytest.raises(InputError, match="1 to 600 times as fast, not 1000"):
        Testbed.up(factor=1000)


def test_a_folder_whose_path_no_socket_can_have(tmp_path):
    """The kernel's limit is told before Slurm trips over it."""
    with pytest.raises(InputError, match="too long for a socket"):
        Spec(tmp_path / ("x" * 100), Cluster.preset("slurm-five"), range(20000, 20007))


def test_nodes_and_partitions_of_any_cluster():
    """Names are made from groups or GPU types, partitions from VCs; nodes without a VC are in all."""
    groups = (
        NodeGroup(count=2, gpus=8, gpu_type="A100 80GB", vc=("research",)),
        NodeGroup(count=1, gpus=8, gpu_type="A100 80GB", vc=("product",)),
        NodeGroup(count=1, gpus=0, name="login"),
    )
    spec = Spec(Path("/t"), Cluster(groups), range(20000, 20006))
    assert [n.name for n in spec.nodes] == ["a100-80gb-1", "a100-80gb-2", "a100-80gb-3", "login-1"]
    assert [n.gres for n in spec.nodes] == [*["gpu:a100-80gb:8"] * 3, ""]
    assert spec.partitions == {
        "research": ("a100-80gb-1", "a100-80gb-2", "login-1"),
        "product": ("a100-80gb-3", "login-1"),
    }


def test_a_cluster_of_ones_own_comes_up(bed_folder):
    """More nodes than the paper's, GPUs without a type, CPUs and memory not told, VCs."""
    groups = (NodeGroup(count=6, gpus=8, vc=("a",)), NodeGroup(count=2, gpus=1, gpu_type="T4", vc=("b",), cpus=4))
    with Testbed.up(bed_folder, Cluster(groups)) as bed:
        job = bed.submit(0.1, "--partition=a", gpus=8, nodes=6)
        bed.wait_for("its end", lambda: bed.job(job)["job_state"] == "COMPLETED")
        assert bed.job(job)["nodes"] == "node-[1-6]"

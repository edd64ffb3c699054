"""The table of faults: what happens, how it is mended, and why a job may have run more than once because of it."""

from __future__ import annotations

import signal
import time
from functools import partial

from rltune.errors import InputError
from rltune.lab.faults.fault import Fault
from rltune.lab.faults.faults_by_others import BY_OTHERS
from rltune.lab.faults.faults_of_operation import OF_OPERATION
from rltune.lab.faults.faults_of_people import OF_PEOPLE
from rltune.lab.faults.faults_of_records import OF_RECORDS
from rltune.lab.faults.scene import Scene, require_all_up
from rltune.lab.faults.spell_log import keys_of

_USAGE = 2  # the exit code of a mistake that is told in one sentence


def _stop(daemon: str, sign: signal.Signals, scene: Scene) -> None:
    scene.bed.stop(daemon, sign)
    scene.pass_cycles(2)


def _start(daemon: str, scene: Scene) -> None:
    scene.bed.start(daemon)
    require_all_up(scene)


def _save_then_kill(scene: Scene) -> None:
    """Kill slurmctld once it has written down the jobs: what it never wrote down is lost, whoever drives it."""
    saved, submitted = scene.bed.folder / "state/job_state", time.time()
    scene.wait_for("the state to be saved", lambda: saved.exists() and saved.stat().st_mtime > submitted)
    _stop("slurmctld", signal.SIGKILL, scene)


def _freeze(scene: Scene) -> None:
    scene.bed.send("slurmctld", signal.SIGSTOP)
    scene.pass_cycles(1)


def _thaw(scene: Scene) -> None:
    scene.bed.send("slurmctld", signal.SIGCONT)


def _cut_wire(scene: Scene) -> None:
    assert scene.wire is not None
    scene.wire.cut()
    scene.pass_cycles(2, timeout_s=60)


def _mend_wire(scene: Scene) -> None:
    assert scene.wire is not None
    scene.wire.mend()


def _lose_node(scene: Scene) -> None:
    """Let a node die with its job, for good: Slurm puts the job back into the queue."""
    victim = scene.holders[0]
    node = scene.job(victim).node_names[0]
    scene.may_run_again(victim, f"node {node} was lost")
    scene.bed.stop(f"slurmd-{node}", signal.SIGKILL)
    scene.bed.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=lost")
    scene.pass_cycles(2)


def _bring_nodes_back(scene: Scene) -> None:
    for name, runs in scene.bed.running().items():
        if not runs:
            scene.bed.start(name, wait=False)
    scene.wait_for("all daemons", lambda: all(scene.bed.running().values()))
    for job in scene.holders:
        scene.bed.run("scontrol", "update", f"JobId={job}", "StartTime=now", check=False)
    scene.bed.run("scontrol", "update", f"NodeName={','.join(scene.bed.nodes)}", "State=RESUME", check=False)


def _drain(scene: Scene) -> None:
    scene.bed.run("scontrol", "update", "NodeName=k80-[1-2]", "State=DRAIN", "Reason=a fault")
    scene.pass_cycles(2)


def _resume(scene: Scene) -> None:
    scene.bed.run("scontrol", "update", "NodeName=k80-[1-2]", "State=RESUME")


def _partition(state: str, scene: Scene) -> None:
    scene.bed.run("scontrol", "update", "PartitionName=gpu", f"State={state}")
    scene.pass_cycles(2)


def _reserve(scene: Scene) -> None:
    about = ("ReservationName=works", "Nodes=k80-[1-2]", "Users=root", "StartTime=now+60", "Duration=30")
    scene.bed.run("scontrol", "create", "reservation", *about, "Flags=MAINT,IGNORE_JOBS")
    scene.pass_cycles(2)


def _unreserve(scene: Scene) -> None:
    scene.bed.run("scontrol", "delete", "ReservationName=works")


def _requeue(scene: Scene) -> None:
    victim = scene.holders[0]
    scene.may_run_again(victim, "somebody requeued it")
    scene.bed.run("scontrol", "requeue", str(victim))
    scene.wait_for("the job to wait again", lambda: scene.job(victim).pending)
    scene.bed.run("scontrol", "update", f"JobId={victim}", "StartTime=now")
    scene.pass_cycles(2)


def _arrays(scene: Scene) -> None:
    scene.submit("--nodes=1", tasks=30, limit_min=7)
    throttled = scene.submit("--nodes=1", tasks=12, limit_min=30)
    scene.bed.run("scontrol", "update", f"JobId={throttled}", "ArrayTaskThrottle=2")
    scene.pass_cycles(2)


def _heterogeneous(scene: Scene) -> None:
    scene.submit("--nodes=1", ":", "--nodes=1", "--gpus-per-node=k80:1", "--time=9")
    scene.pass_cycles(2)


def _odd_names(scene: Scene) -> None:
    for name in ("rltune+12_[3-5]", "a|b;c,d", "JobId=7 Priority=9", "$(touch /tmp/x)", "other.cluster@7"):
        scene.submit("--nodes=1", f"--job-name={name}")
    scene.pass_cycles(2)


def _by_hand(scene: Scene) -> None:
    job = scene.random.choice(scene.waiting)
    scene.bed.run("scontrol", "update", f"JobId={job}", "Priority=77777")
    scene.pass_cycles(2)


def _cancel(scene: Scene) -> None:
    job = scene.random.choice(scene.waiting)
    scene.excused.update(keys_of(job))
    scene.bed.run("scancel", str(job))
    scene.pass_cycles(2)


def _fill_disk(scene: Scene) -> None:
    with (scene.journal.parent / "full").open("wb") as file:
        try:
            while True:
                file.write(b"\0" * 65536)
                file.flush()
        except OSError:
            pass
    scene.pass_cycles(3)


def _empty_disk(scene: Scene) -> None:
    (scene.journal.parent / "full").unlink()
    scene.pass_cycles(1)


def _kill_in_mid_write(scene: Scene) -> None:
    """Kill a controller as soon as the first of many new numbers is in Slurm; it has all of them to write at once."""
    scene.signal_controllers(signal.SIGSTOP)
    fresh = [scene.submit("--nodes=1", limit_min=scene.random.randint(5, 55)) for _ in range(40)]
    scene.signal_controllers(signal.SIGCONT)
    scene.wait_for("a number", lambda: any(scene.numbers().get(job) for job in fresh))
    scene.kill_controllers(signal.SIGKILL)


def _two_controllers(scene: Scene) -> None:
    scene.start_controller(scene.folder / "journal/second.db")
    scene.pass_cycles(6, timeout_s=60)


def _lose_journal(scene: Scene) -> None:
    scene.kill_controllers(signal.SIGKILL)
    for file in scene.journal.parent.glob(f"{scene.journal.name}*"):
        file.unlink()


def _jump(scene: Scene) -> None:
    """Let the clock go on two hours: nothing is decided by such times."""
    scene.wind_clock(7200)
    scene.wait_said("the cluster's clock jumped")
    scene.wait_given_back()


def _jump_back(scene: Scene) -> None:
    """Set it right, once the controller had taken the other time for the right one."""
    scene.wait_said("all is well again")
    scene.wind_clock(0)
    scene.wait_said("the data are stale")


def _take_rights(scene: Scene) -> None:
    """Let the account be nobody's any more, with numbers to be written."""
    scene.mark("powerless")
    for minutes in (3, 2):
        scene.submit("--nodes=1", limit_min=minutes)
    scene.wait_said("not acting")


def _no_rights(scene: Scene) -> None:
    """Start a controller whose account may change nothing: it must say so and end."""
    scene.kill_controllers(signal.SIGTERM)
    scene.mark("powerless")
    code = scene.start_controller(scene.folder / "journal/powerless.db").wait(240)
    if code != _USAGE or "AdminLevel=Operator" not in scene.said():
        raise InputError(f"without rights the controller ended with {code}: {scene.said()[-500:]}")


def _give_rights(scene: Scene) -> None:
    scene.mark("powerless", on=False)
    scene.pass_cycles(2)


def _at_the_bound(scene: Scene) -> None:
    """Submit jobs whose own priorities are far below Slurm's lowest, at it, and far above all numbers of ours."""
    sla = ("--qos=sla",) if scene.bed.database else ()
    for nice in (2_000_000_000, 20_000, 5_000, 1, 0, -30_000, -2_000_000_000):
        scene.submit("--nodes=1", f"--nice={nice}", *(sla if nice == 0 else ()), limit_min=scene.random.randint(5, 55))
    scene.pass_cycles(4)


def _broken_policy(mood: str, words: str, scene: Scene) -> None:
    scene.act_by_own_policy()
    scene.upset_policy(mood)
    scene.wait_said(words)
    scene.wait_given_back()


def _sound_policy(scene: Scene) -> None:
    scene.upset_policy("")
    scene.wait_said("all is well again")


def _swap_policy(scene: Scene) -> None:
    scene.act_by_own_policy()
    scene.write_policy("# another one\n")
    scene.wait_said("the file of the policy was swapped")
    scene.wait_given_back()


def _hang(scene: Scene) -> None:
    scene.mark("hangs")
    scene.wait_said("2 looks in a row failed")


def _go_on(scene: Scene) -> None:
    scene.mark("hangs", on=False)
    scene.wait_given_back()
    scene.wait_said("all is well again")


def _federated_names(scene: Scene) -> None:
    """Let names, comments and a second partition look like those of another cluster's jobs."""
    scene.bed.run("scontrol", "create", "PartitionName=gpu@east", "Nodes=k80-[1-2]", "MaxTime=INFINITE")
    names = ("east:134217735", "134217735@east", "east/gpu", "-M east", "fed_west_67108871_[1-3]")
    for at, name in enumerate(names):
        partition = ("--partition=gpu,gpu@east",) if at % 2 else ()
        scene.submit("--nodes=1", f"--job-name={name}", f"--comment=cluster={name}", *partition, limit_min=9 + at)
    scene.pass_cycles(3)


def _unfederate(scene: Scene) -> None:
    """Let the second partition be gone again once nobody waits in it."""
    for job in scene.job_ids("gpu@east"):
        scene.bed.run("scontrol", "update", f"JobId={job}", "Partition=gpu")
    scene.bed.run("scontrol", "delete", "PartitionName=gpu@east")
    scene.pass_cycles(2)


def _many(count: int, scene: Scene) -> None:
    """Submit many jobs by one process, and end all but a few of them before the queue runs."""
    script = f"for i in $(seq {count}); do sbatch --parsable -o /dev/null -D / -t $((i % 50 + 5)) $O --wrap true; done"
    printed = scene.bed.run("env", "O=--gpus-per-node=k80:2 -N 1", "sh", "-c", script, timeout_s=3600)
    scene.extra = [int(line) for line in printed.split()]
    scene.pass_cycles(3, timeout_s=120)


def _end_many(scene: Scene) -> None:
    for at in range(0, len(scene.extra), 500):
        scene.bed.run("scancel", *map(str, scene.extra[at : at + 500]))
    scene.pass_cycles(2, timeout_s=120)


TERM, KILL = signal.SIGTERM, signal.SIGKILL
FAULTS = (
    Fault("nothing at all", lambda scene: scene.pass_cycles(2)),
    Fault("slurmctld is restarted", partial(_stop, "slurmctld", TERM), partial(_start, "slurmctld")),
    Fault("slurmctld is killed", _save_then_kill, partial(_start, "slurmctld")),
    Fault("slurmctld hangs", _freeze, _thaw),
    Fault("the network is gone", _cut_wire, _mend_wire),
    Fault("munge is lost", partial(_stop, "munged", KILL), partial(_start, "munged")),
    Fault("a node is lost for good", _lose_node, _bring_nodes_back),
    Fault("nodes are drained", _drain, _resume),
    Fault("the partition is down", partial(_partition, "DOWN"), partial(_partition, "UP")),
    Fault("a reservation comes", _reserve, _unreserve),
    Fault("a running job is requeued", _requeue, cheap=True),
    Fault("a waiting job is cancelled", _cancel),
    Fault("arrays arrive", _arrays),
    Fault("a heterogeneous job arrives", _heterogeneous),
    Fault("names are odd", _odd_names),
    Fault("a human sets a priority", _by_hand),
    Fault("the disk is full", _fill_disk, _empty_disk, cheap=True),
    Fault("the controller is killed in mid-write", _kill_in_mid_write),
    Fault("there are two controllers", _two_controllers),
    Fault("the journal is lost", _lose_journal),
    Fault("the clock jumps", _jump, _jump_back),
    Fault("it has no rights", _no_rights, _give_rights),
    Fault("its rights are taken away", _take_rights, _give_rights),
    Fault("priorities are at Slurm's bounds", _at_the_bound),
    Fault("the policy raises", partial(_broken_policy, "raises", "out of its mind"), _sound_policy),
    Fault("the policy gives no numbers", partial(_broken_policy, "nan", "no decision could be made"), _sound_policy),
    Fault("the policy's file is swapped", _swap_policy, lambda scene: scene.wait_said("all is well again")),
    Fault("Slurm's commands hang", _hang, _go_on),
    Fault("names look federated", _federated_names, _unfederate),
    *BY_OTHERS,
    *OF_RECORDS,
    *OF_OPERATION,
    *OF_PEOPLE,
    Fault("10,000 jobs arrive", partial(_many, 10_000), _end_many, heavy=True),
)

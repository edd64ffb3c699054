"""Faults by other hands: administrators and users who change Slurm's settings or jobs while a controller acts."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from functools import partial
from subprocess import Popen

from rltune.lab.faults.fault import Fault
from rltune.lab.faults.scene import Scene, require_all_up
from rltune.whole_file import write_whole


def _reconfigure(scene: Scene) -> None:
    for _ in range(3):
        scene.bed.run("scontrol", "reconfigure")
        scene.pass_cycles(1)


def write_conf(scene: Scene, **settings: str) -> None:
    """Change slurm.conf, which nobody reads yet."""
    file = scene.bed.folder / "etc/slurm.conf"
    text = scene.conf = file.read_text(encoding="utf-8")
    for name, value in settings.items():
        text = f"{name}={value}\n" + re.sub(rf"^{name}=.*\n", "", text, flags=re.MULTILINE)
    write_whole(file, text)


def restore_conf(scene: Scene) -> None:
    """Let slurm.conf be as it was before the fault; nobody reads it yet."""
    write_whole(scene.bed.folder / "etc/slurm.conf", scene.conf)


def reread_conf(scene: Scene) -> None:
    """Let slurmctld read slurm.conf. Newer releases start anew for that: not to be stopped at the same time."""
    scene.bed.run("scontrol", "reconfigure")
    scene.pass_cycles(3)


def _weigh(scene: Scene) -> None:
    """Let age and partition count for much more than the band of our numbers, and QOS for nothing."""
    write_conf(scene, PriorityWeightAge="5000000", PriorityMaxAge="0-1", PriorityWeightQOS="0")
    reread_conf(scene)


def _weigh_as_before(scene: Scene) -> None:
    restore_conf(scene)
    reread_conf(scene)


def _basic_priorities(scene: Scene) -> None:
    """Let there be no factors any more: numbers of ours then count for nothing."""
    write_conf(scene, PriorityType="priority/basic")
    restart(scene)
    scene.wait_said("acting on jobs needs priority/multifactor")


def _multifactor_again(scene: Scene) -> None:
    restore_conf(scene)
    restart(scene)


def restart(scene: Scene) -> None:
    """Stop slurmctld and start it again."""
    scene.bed.stop("slurmctld")
    scene.bed.start("slurmctld")
    require_all_up(scene)
    scene.pass_cycles(4)


def _nice(scene: Scene) -> None:
    """Let users make their own jobs wait longer, and an administrator lift one."""
    for job, nice in zip(scene.waiting, (700, 40, -300), strict=False):
        scene.bed.run("scontrol", "update", f"JobId={job}", f"Nice={nice}")
        scene.nice_by_others[job] = nice
    scene.pass_cycles(3)


def _hold(scene: Scene) -> None:
    """Hold jobs that have our numbers; some are let go at once, the others when all has been given back."""
    several = scene.random.sample(scene.waiting, 4)
    for job in several:
        scene.bed.run("scontrol", "hold", str(job))
    scene.pass_cycles(2)
    for job in several[:2]:
        scene.bed.run("scontrol", "release", str(job))
    scene.held = several[2:]
    scene.pass_cycles(2)


def _throttle(scene: Scene) -> None:
    array = scene.submit("--nodes=1", tasks=20, limit_min=8)
    for throttle in (1, 5, 0, 2):
        scene.pass_cycles(1)
        scene.bed.run("scontrol", "update", f"JobId={array}", f"ArrayTaskThrottle={throttle}")
    scene.pass_cycles(2)


def _split_array(scene: Scene) -> None:
    """Let somebody change single tasks of an array that has a number of ours: each becomes a job of its own."""
    array = scene.submit("--nodes=1", tasks=12, limit_min=8)
    scene.pass_cycles(2)
    scene.bed.run("scontrol", "update", f"JobId={array}_3", "TimeLimit=21")
    scene.bed.run("scontrol", "hold", f"{array}_5")
    scene.pass_cycles(2)
    scene.bed.run("scontrol", "release", f"{array}_5")
    scene.pass_cycles(2)


def _other_partition(scene: Scene) -> None:
    """Let jobs leave what the controller drives: what they have of ours must go."""
    scene.bed.run("scontrol", "create", "PartitionName=spare", "Nodes=k80-[1-2]", "MaxTime=INFINITE")
    for job in scene.waiting[:2]:
        scene.bed.run("scontrol", "update", f"JobId={job}", "Partition=spare")
    scene.wait_for(
        "what is out of scope to be given back", lambda: not any(scene.numbers().get(job) for job in scene.waiting[:2])
    )


def _delete_partition(scene: Scene) -> None:
    """Try to take a partition away under its jobs, and then do so."""
    scene.bed.run("scontrol", "delete", "PartitionName=spare", check=False)
    scene.pass_cycles(2)
    for job in scene.waiting[:2]:
        scene.bed.run("scontrol", "update", f"JobId={job}", "Partition=gpu")
    scene.bed.run("scontrol", "delete", "PartitionName=spare", check=False)
    scene.pass_cycles(2)


def _become_sla(scene: Scene) -> None:
    """Let a job become one that the controller may not touch."""
    job = scene.waiting[0]
    scene.bed.run("scontrol", "update", f"JobId={job}", "QOS=sla")
    scene.pass_cycles(3)


def _lose_accounting(scene: Scene) -> None:
    scene.bed.stop("slurmdbd")
    scene.pass_cycles(3)


def _accounting_again(scene: Scene) -> None:
    scene.bed.start("slurmdbd")
    scene.pass_cycles(1)


def _sleep_long(scene: Scene) -> None:
    """Let a controller sleep until another one, by whose clock it is dead, has taken over; then wake it."""
    scene.signal_controllers(signal.SIGSTOP)
    sleeper = scene.controllers[-1]
    scene.start_controller(scene.folder / "journal/second.db", ahead_s=7200)
    scene.wait_said("taken over")
    sleeper.send_signal(signal.SIGCONT)
    scene.wait_for("the one that slept to end", lambda: sleeper.poll() is not None)


def _start_together(scene: Scene) -> None:
    """Start two at the same moment, three times: one of them acts, and the other one ends or waits."""
    for attempt in range(3):
        scene.kill_controllers(signal.SIGTERM)
        both = [scene.start_controller(scene.folder / f"journal/{attempt}-{one}.db") for one in range(2)]
        scene.wait_for("numbers in Slurm", lambda: any(scene.numbers().values()))
        scene.wait_for("one of two to end", partial(_has_ended_one, both))
        scene.require_one_lock()


def _has_ended_one(controllers: Sequence[Popen[bytes]]) -> bool:
    return any(one.poll() is not None for one in controllers)


BY_OTHERS = (
    Fault("Slurm is reconfigured", _reconfigure),
    Fault("weights of priorities change", _weigh, _weigh_as_before),
    Fault("priorities have no factors any more", _basic_priorities, _multifactor_again),
    Fault("people change Nice", _nice),
    Fault("jobs are held and let go", _hold),
    Fault("the throttle of an array changes", _throttle),
    Fault("tasks of an array are changed", _split_array),
    Fault("jobs move to another partition", _other_partition, _delete_partition),
    Fault("a job becomes one of the SLA's", _become_sla),
    Fault("accounting is lost", _lose_accounting, _accounting_again),
    Fault("the controller sleeps for long", _sleep_long),
    Fault("two controllers start together", _start_together),
)

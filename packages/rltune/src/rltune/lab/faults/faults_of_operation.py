"""Faults of a cluster's daily life: operators and users do with jobs, nodes and partitions whatever Slurm lets them."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence

from rltune.lab.faults.fault import Fault
from rltune.lab.faults.faults_by_others import reread_conf, restart, restore_conf, write_conf
from rltune.lab.faults.scene import Scene
from rltune.live.see.backend import RECORD_NAME

_ELSEWHERE = {
    "TZ": "Pacific/Kiritimati",
    "LC_ALL": "C",
    "SLURM_TIME_FORMAT": "relative",
    "SQUEUE_FORMAT": "%i",
    "SQUEUE_USERS": "nobody",
    "SPRIO_FORMAT": "%i",
    "SINFO_ALL": "1",
    "SLURM_BITSTR_LEN": "8",
}
_FEDERATION = "east"


def _top(scene: Scene) -> None:
    """Let an operator put the last job of the order on top, which Slurm does by everybody's Nice."""
    scene.bed.run("scontrol", "top", str(scene.waiting[-1]))
    scene.pass_cycles(3)
    scene.nice_by_others |= {job.id: job.nice for job in scene.bed.backend().observe().pending}


def _begin_later(scene: Scene) -> None:
    """Let jobs get begin times to come, to be lifted later, and one that is long past."""
    later, past, fresh = *scene.waiting[:2], scene.submit("--nodes=1", "--begin=now+3600", limit_min=4)
    scene.bed.run("scontrol", "update", f"JobId={later}", "StartTime=now+7200")
    scene.bed.run("scontrol", "update", f"JobId={past}", "StartTime=2020-01-01T00:00:00", check=False)
    scene.pass_cycles(3)
    for job in (later, fresh):
        scene.bed.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    scene.pass_cycles(3)


def _preempt_by_tier(scene: Scene) -> None:
    """Let Slurm itself stop a running job for one of a higher tier."""
    write_conf(scene, PreemptType="preempt/partition_prio", PreemptMode="REQUEUE")
    restart(scene)
    for holder in scene.holders:
        scene.may_run_again(holder, "Slurm's own preemption")
    first = scene.submit_holder("--partition=sla")
    scene.wait_for("a running job to give way", lambda: not scene.job(first).pending)
    scene.pass_cycles(3)


def _no_preemption(scene: Scene) -> None:
    """Let nobody be stopped any more, and who was stopped go on."""
    restore_conf(scene)
    restart(scene)
    for job in scene.holders:
        scene.bed.run("scontrol", "update", f"JobId={job}", "StartTime=now", check=False)
    scene.pass_cycles(2)


def _change_requests(scene: Scene) -> None:
    """Let users ask for other nodes, times and GPUs than before."""
    one, two, three = scene.waiting[:3]
    scene.bed.run("scontrol", "update", f"JobId={one}", "NumNodes=2-2")
    scene.bed.run("scontrol", "update", f"JobId={two}", "TimeLimit=240")
    scene.bed.run("scontrol", "update", f"JobId={three}", "TimeLimit=1", "Features=k80")
    scene.bed.run("scontrol", "update", f"JobId={scene.holders[0]}", "TimeLimit=300")
    scene.pass_cycles(3)
    scene.bed.run("scontrol", "update", f"JobId={one}", "NumNodes=1-1")
    scene.pass_cycles(2)


def _reboot(scene: Scene) -> None:
    """Let nodes be rebooted as soon as their jobs have ended; that is taken back before they have."""
    write_conf(scene, RebootProgram="/bin/true")
    reread_conf(scene)
    scene.bed.run("scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=kernel", "k80-[1-2]")
    scene.pass_cycles(3)


def _cancel_reboot(scene: Scene) -> None:
    scene.bed.run("scontrol", "cancel_reboot", "k80-[1-2]")
    scene.bed.run("scontrol", "update", "NodeName=k80-[1-2]", "State=RESUME", check=False)
    restore_conf(scene)
    reread_conf(scene)


def _set_site_factor(scene: Scene) -> None:
    """Let another tool write a SiteFactor over ours: from then on it is not ours to change."""
    job = scene.waiting[0]
    scene.bed.run("scontrol", "update", f"JobId={job}", "SiteFactor=4321")
    scene.site_by_others[job] = 4321
    scene.pass_cycles(4)


def _suspend(scene: Scene) -> None:
    """Let a running job be suspended and go on."""
    scene.bed.run("scontrol", "suspend", str(scene.holders[0]))
    scene.pass_cycles(3)
    scene.bed.run("scontrol", "resume", str(scene.holders[0]))
    scene.pass_cycles(2)


def _forge(scene: Scene) -> None:
    """Let a user submit held jobs that look like the controller's record, to the letter, and kill the controller."""
    forge_records(scene, [record.text for record in scene.bed.backend().observe().records])
    scene.pass_cycles(3)


def forge_records(scene: Scene, texts: Sequence[str]) -> None:
    """Let a user submit held jobs with these texts, and with two that no controller has written."""
    about = ("--parsable", "--hold", "--time=5", "--output=/dev/null", "--chdir=/", f"--job-name={RECORD_NAME}")
    for text in (*texts, "rltune/1;lock;host=here;pid=1", "rltune/9;what"):
        words = ("sbatch", *about, f"--comment={text}", "--wrap=true")
        scene.forged.append(int(scene.bed.run(*scene.bed.account("games"), *words)))


def _take_forged_away(scene: Scene) -> None:
    scene.require_one_lock(besides=scene.forged)
    scene.bed.run("scancel", *map(str, scene.forged))
    scene.pass_cycles(2)


def _refuse_submissions(scene: Scene) -> None:
    """Start anew where no job can be submitted, so that there can be no record: nothing may be changed then."""
    scene.kill_controllers(signal.SIGTERM)
    scene.bed.run("scontrol", "update", "PartitionName=gpu", "State=INACTIVE")
    scene.start_controller()
    scene.wait_said("Slurm takes no record")
    scene.pass_cycles(2, timeout_s=10)
    scene.require_no_numbers()


def _take_submissions(scene: Scene) -> None:
    scene.bed.run("scontrol", "update", "PartitionName=gpu", "State=UP")
    _act_again(scene)


def _act_again(scene: Scene) -> None:
    if not scene.alive:
        scene.start_controller()
    scene.wait_for("numbers in Slurm", lambda: any(scene.numbers().values()))


def _depend(scene: Scene) -> None:
    """Let jobs that have numbers of ours begin to wait for others, and no longer."""
    first, second, *_ = scene.waiting
    scene.bed.run("scontrol", "update", f"JobId={first}", f"Dependency=afterany:{second}")
    scene.submit("--nodes=1", f"--dependency=afterany:{first}:{second}", limit_min=3)
    scene.pass_cycles(3)
    scene.bed.run("scontrol", "update", f"JobId={first}", "Dependency=")
    scene.pass_cycles(2)


def _elsewhere(scene: Scene) -> None:
    """Go on from a shell with another time zone and settings for Slurm's commands that hide jobs."""
    scene.kill_controllers(signal.SIGKILL)
    scene.shell = _ELSEWHERE
    scene.start_controller()
    scene.wait_for("the lock to be taken over", scene.has_one_lock)
    scene.pass_cycles(4)


def _back_home(scene: Scene) -> None:
    scene.shell = {}


def _federate(scene: Scene) -> None:
    """Let the cluster join a federation: jobs get other numbers from then on."""
    scene.bed.run("sacctmgr", "-i", "add", "federation", _FEDERATION, "clusters=rltune")
    scene.pass_cycles(3)
    for minutes in (4, 33):
        scene.submit("--nodes=1", limit_min=minutes)
    scene.pass_cycles(3)


def _leave_federation(scene: Scene) -> None:
    scene.bed.run("sacctmgr", "-i", "delete", "federation", _FEDERATION)
    scene.pass_cycles(2)


def _read_only(scene: Scene) -> None:
    """Start anew on a disk that can only be read: nothing is decided without being written down."""
    scene.kill_controllers(signal.SIGKILL)
    _remount(scene, "ro")
    scene.start_controller().wait(240)


def _writable(scene: Scene) -> None:
    _remount(scene, "rw")
    scene.start_controller()
    scene.pass_cycles(3)


def _remount(scene: Scene, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(scene.journal.parent)], check=True)


def _fewer_nodes(scene: Scene) -> None:
    """Let the partition lose nodes to which jobs were led, and have another tier."""
    scene.bed.run("scontrol", "update", "PartitionName=gpu", "Nodes=k80-1", "PriorityTier=7")
    scene.pass_cycles(3)


def _all_nodes(scene: Scene) -> None:
    nodes = ",".join(scene.bed.nodes)
    scene.bed.run("scontrol", "update", "PartitionName=gpu", f"Nodes={nodes}", "PriorityTier=1")
    scene.pass_cycles(2)


def _no_room(scene: Scene) -> None:
    """Start anew where the controller's account has as many jobs as it may."""
    scene.kill_controllers(signal.SIGTERM)
    scene.bed.run("sacctmgr", "-i", "modify", "user", "root", "set", "MaxSubmitJobs=1")
    scene.start_controller()
    scene.wait_said("Slurm takes no record")
    scene.require_no_numbers()


def _room_again(scene: Scene) -> None:
    scene.bed.run("sacctmgr", "-i", "modify", "user", "root", "set", "MaxSubmitJobs=-1")
    _act_again(scene)


OF_OPERATION = (
    Fault("an operator puts a job on top", _top),
    Fault("jobs get begin times", _begin_later),
    Fault("Slurm preempts by tiers", _preempt_by_tier, _no_preemption),
    Fault("users change what they ask for", _change_requests),
    Fault("nodes are to be rebooted", _reboot, _cancel_reboot),
    Fault("another tool writes a SiteFactor", _set_site_factor),
    Fault("a running job is suspended", _suspend),
    Fault("a user forges records", _forge, _take_forged_away),
    Fault("the partition takes no jobs", _refuse_submissions, _take_submissions),
    Fault("its account may submit no more jobs", _no_room, _room_again),
    Fault("jobs begin to depend on others", _depend),
    Fault("it goes on in another time zone", _elsewhere, _back_home),
    Fault("the cluster joins a federation", _federate, _leave_federation),
    Fault("the disk is read-only", _read_only, _writable),
    Fault("the partition loses nodes", _fewer_nodes, _all_nodes),
)

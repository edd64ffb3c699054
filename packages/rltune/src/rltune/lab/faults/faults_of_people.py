"""Faults by people who mean no harm, and of Slurm's own memory: accounts and names change, an old state comes back."""

from __future__ import annotations

import shutil
import signal

from rltune.lab.faults.fault import Fault
from rltune.lab.faults.faults_by_others import restart, restore_conf, write_conf
from rltune.lab.faults.faults_of_operation import forge_records
from rltune.lab.faults.scene import Scene, require_all_up
from rltune.whole_file import write_whole

_QOS, _ACCOUNT = "burst", "extra"
_LONGEST = 1000  # characters of a comment that every release takes


def _forged_before(scene: Scene) -> None:
    """Let a user's job look like the lock of a controller that lives, and then start one: it must not wait."""
    texts = [record.text for record in scene.bed.backend().observe().records]
    scene.kill_controllers(signal.SIGTERM)
    forge_records(scene, texts)
    scene.act()
    scene.require_one_lock(besides=scene.forged)


def _uhold(scene: Scene) -> None:
    """Let users hold their own jobs, and one be stopped and held at the same time."""
    stopped, first, second = scene.holders[0], *scene.waiting[:2]
    scene.may_run_again(stopped, "somebody requeued and held it")
    scene.bed.run("scontrol", "uhold", f"{first},{second}")
    scene.bed.run("scontrol", "requeuehold", str(stopped))
    scene.wait_for("the job to wait again", lambda: scene.job(stopped).pending)
    scene.bed.run("scontrol", "update", f"JobId={stopped}", "StartTime=now")
    scene.pass_cycles(3)
    scene.bed.run("scontrol", "release", str(first))
    scene.held = [second, stopped]
    scene.pass_cycles(2)


def _delete_qos(scene: Scene) -> None:
    """Let jobs lose the QOS that they were submitted with."""
    scene.bed.run("sacctmgr", "-i", "add", "qos", _QOS, "Priority=50")
    scene.bed.run("sacctmgr", "-i", "modify", "user", "root", "set", f"qos+={_QOS}")
    scene.wait_for("jobs of the new QOS", lambda: _submitted(scene, f"--qos={_QOS}"))
    scene.pass_cycles(3)
    scene.bed.run("sacctmgr", "-i", "delete", "qos", _QOS, check=False)  # 26.05 waits until no job has it
    scene.pass_cycles(3)


def _other_qos(scene: Scene) -> None:
    for job in scene.moved:
        scene.bed.run("scontrol", "update", f"JobId={job}", "QOS=normal")
    scene.bed.run("sacctmgr", "-i", "delete", "qos", _QOS, check=False)
    scene.pass_cycles(2)


def _delete_account(scene: Scene) -> None:
    """Let jobs lose the account that they were submitted under."""
    scene.bed.run("sacctmgr", "-i", "add", "account", _ACCOUNT, "Cluster=rltune")
    scene.bed.run("sacctmgr", "-i", "add", "user", "root", f"Account={_ACCOUNT}")
    scene.wait_for("jobs of the new account", lambda: _submitted(scene, f"--account={_ACCOUNT}"))
    scene.pass_cycles(3)
    scene.bed.run("sacctmgr", "-i", "delete", "account", _ACCOUNT, check=False)
    scene.pass_cycles(3)


def _other_account(scene: Scene) -> None:
    for job in scene.moved:
        scene.bed.run("scontrol", "update", f"JobId={job}", "Account=research")
    scene.bed.run("sacctmgr", "-i", "delete", "account", _ACCOUNT, check=False)
    scene.pass_cycles(2)


def _submitted(scene: Scene, option: str) -> bool:
    """Submit two jobs; slurmctld learns a little later what was added to the accounting."""
    while len(scene.moved) < 2:
        job = scene.try_submit("--nodes=1", option, limit_min=scene.random.randint(5, 55))
        if not job:
            return False
        scene.moved.append(job)
    return True


def _rename_node(scene: Scene) -> None:
    """Let a node have another name from now on."""
    write_conf(scene)
    for name in ("slurm.conf", "gres.conf"):
        file = scene.bed.folder / "etc" / name
        write_whole(file, file.read_text(encoding="utf-8").replace("m40-1", "m40-9"))
    restart(scene)


def _old_name(scene: Scene) -> None:
    gres = scene.bed.folder / "etc/gres.conf"
    write_whole(gres, gres.read_text(encoding="utf-8").replace("m40-9", "m40-1"))
    restore_conf(scene)
    restart(scene)


def _odd_bytes(scene: Scene) -> None:
    """Let names and comments be as long as Slurm takes them, no text at all, or look like answers of its commands."""
    scene.submit("--nodes=1", f"--comment={'x' * _LONGEST}", limit_min=7)
    scene.submit("--nodes=1", "--job-name=\udcff\udcfe\udc80 \u202egnirts", limit_min=8)
    scene.submit("--nodes=1", "--comment=\udcc3( JobId=1 SiteFactor=9", limit_min=9)
    scene.submit("--nodes=1", f"--job-name={'n' * 900}", limit_min=10)
    scene.submit("--nodes=1", "--job-name=\nscontrol: ping\npinged\n", "--comment=a\tb\nc", limit_min=11)
    scene.pass_cycles(4)


def _slow(scene: Scene) -> None:
    """Let each of Slurm's commands take six seconds longer."""
    scene.mark("slow")
    scene.submit("--nodes=1", limit_min=3)
    scene.pass_cycles(2, timeout_s=180)


def _quick(scene: Scene) -> None:
    scene.mark("slow", on=False)
    scene.pass_cycles(2, timeout_s=120)


def _old_state(scene: Scene) -> None:
    """Let slurmctld come back with what it knew before the last numbers were written, as from a copy of its state."""
    state, copy = scene.bed.folder / "state", scene.folder / "state"
    scene.bed.stop("slurmctld")
    shutil.copytree(state, copy)
    _start(scene)
    before = scene.numbers()
    for job, minutes in zip(scene.waiting, range(60, 10, -7), strict=False):
        scene.bed.run("scontrol", "update", f"JobId={job}", f"TimeLimit={minutes}")
    scene.wait_for("other numbers", lambda: scene.numbers() != before)
    scene.pass_cycles(2)
    scene.bed.stop("slurmctld")
    shutil.rmtree(state)
    shutil.copytree(copy, state)
    _start(scene)
    scene.pass_cycles(4)


def _start(scene: Scene) -> None:
    scene.bed.start("slurmctld")
    require_all_up(scene)
    scene.pass_cycles(3)


OF_PEOPLE = (
    Fault("a user's lock was there first", _forged_before),
    Fault("users hold their own jobs", _uhold),
    Fault("a QOS is deleted", _delete_qos, _other_qos),
    Fault("an account is deleted", _delete_account, _other_account),
    Fault("a node gets another name", _rename_node, _old_name),
    Fault("names and comments are no text", _odd_bytes),
    Fault("Slurm's commands are slow", _slow, _quick),
    Fault("slurmctld comes back with an old state", _old_state),
)

"""Faults of what a controller writes down: its record in Slurm, its journal, and a release that is broken off."""

from __future__ import annotations

import signal
import time
from functools import partial
from subprocess import Popen

from rltune.lab.faults.fault import Fault
from rltune.lab.faults.scene import Scene


def _records(scene: Scene) -> list[int]:
    return [record.id for record in scene.bed.backend().observe().records]


def _edit(scene: Scene) -> None:
    """Let somebody overwrite lock and pages."""
    for record in _records(scene):
        scene.bed.run("scontrol", "update", f"JobId={record}", "Comment=what is this job?")
    scene.pass_cycles(4)


def _rename(scene: Scene) -> None:
    """Let somebody give lock and pages other names, and the controller be killed: they are records all the same."""
    for record in _records(scene):
        scene.bed.run("scontrol", "update", f"JobId={record}", f"JobName=whose-{record}")
    scene.pass_cycles(3)
    scene.require_one_lock()
    scene.kill_controllers(signal.SIGKILL)


def _cancel(scene: Scene) -> None:
    scene.bed.run("scancel", *map(str, _records(scene)))
    scene.wait_said("gone from Slurm")
    scene.wait_said("all is well again")


def _cancel_in_mid_cycle(scene: Scene) -> None:
    """Let the record go between a look and a write: nothing may be written without it."""
    scene.signal_controllers(signal.SIGSTOP)
    scene.bed.run("scancel", *map(str, _records(scene)))
    for minutes in (3, 2, 58):
        scene.submit("--nodes=1", limit_min=minutes)
    scene.signal_controllers(signal.SIGCONT)
    scene.wait_said("all is well again")


def _let_go(scene: Scene) -> None:
    """Let somebody lift the hold of the record's jobs: they must not run."""
    for record in _records(scene):
        scene.bed.run("scontrol", "release", str(record))
    scene.pass_cycles(3)


def _damage_journal(scene: Scene) -> None:
    """Overwrite the journal under a controller."""
    for file in scene.journal.parent.glob(f"{scene.journal.name}*"):
        with file.open("r+b") as overwritten:
            overwritten.write(b"\xff" * max(4096, file.stat().st_size))
    scene.pass_cycles(4)


def _delete_journal(scene: Scene) -> None:
    """Delete the journal under a controller, which could go on writing to what nobody can read."""
    _unlink_journal(scene)
    scene.wait_said("was deleted, moved or replaced")
    scene.wait_given_back()


def _unlink_journal(scene: Scene) -> None:
    for file in scene.journal.parent.glob(f"{scene.journal.name}*"):
        file.unlink()


def _start_anew(scene: Scene) -> None:
    scene.kill_controllers(signal.SIGTERM)
    _unlink_journal(scene)


def _break_off_release(scene: Scene) -> None:
    """Kill a release while it gives back what a killed controller had set, twice."""
    for minutes in range(5, 45):
        scene.submit("--nodes=1", limit_min=minutes)
    scene.wait_for("many numbers", lambda: sum(number != 0 for number in scene.numbers().values()) > 30)
    scene.kill_controllers(signal.SIGKILL)
    for _ in range(2):
        before = sum(number != 0 for number in scene.numbers().values())
        release = scene.start_release()
        scene.wait_for(
            "the first to be given back",
            partial(_has_begun, scene, release, before),
        )
        release.kill()
        release.wait()
        time.sleep(0.1)


def _has_begun(scene: Scene, release: Popen[bytes], before: int) -> bool:
    return release.poll() is not None or sum(number != 0 for number in scene.numbers().values()) < before


OF_RECORDS = (
    Fault("the record is edited by hand", _edit),
    Fault("the record is renamed", _rename),
    Fault("the record is cancelled", _cancel),
    Fault("the record is cancelled in mid-cycle", _cancel_in_mid_cycle),
    Fault("the record's hold is lifted", _let_go),
    Fault("the journal is damaged", _damage_journal, _start_anew),
    Fault("the journal is deleted", _delete_journal, _start_anew),
    Fault("a release is killed", _break_off_release),
)

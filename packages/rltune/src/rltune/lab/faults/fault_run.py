"""One fault on one testbed: fill, act, strike, mend, give back, let the queue run, and check what must be so."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from rltune.errors import InputError
from rltune.lab.faults.fault import Fault
from rltune.lab.faults.invariant import holds_what_was_said, nothing_is_left, ran_once, standing
from rltune.lab.faults.scene import Scene
from rltune.lab.testbed import Testbed

_SETTLING_S = 45.0  # after a fault was mended, in which the order must be the one meant


@dataclass(frozen=True)
class FaultOutcome:
    """What became of one fault; no violation means that all was as it must be."""

    fault: str
    seconds: float
    jobs: int
    violations: tuple[str, ...] = ()
    said: str = field(default="", repr=False)


def run_fault(bed: Testbed, fault: Fault, seed: int) -> FaultOutcome:
    """Run one fault; the testbed is idle before and after."""
    begin = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="rltune-fault-"))
    scene = Scene(bed, folder, Random(seed))  # noqa: S311  no secret hangs on it
    violations: list[str] = []
    try:
        _play(scene, fault, violations)
    except (InputError, subprocess.TimeoutExpired) as error:
        violations.append(f"the scene could not be played: {error}")
        _mend_at_last(scene, fault)
    finally:
        said = scene.said()
        scene.close()
        if not violations:  # else it is kept for whoever looks for the reason
            shutil.rmtree(folder, ignore_errors=True)
    return FaultOutcome(fault.name, time.monotonic() - begin, len(scene.expected), tuple(violations), said)


def _mend_at_last(scene: Scene, fault: Fault) -> None:
    """Mend what can be, so that the next fault does not find the testbed struck by this one."""
    with suppress(InputError, subprocess.SubprocessError, OSError):
        fault.mend(scene)


def _play(scene: Scene, fault: Fault, violations: list[str]) -> None:
    scene.fill()
    before = standing(scene)
    scene.act()
    fault.strike(scene)
    fault.mend(scene)
    violations += _settled(scene)
    scene.kill_controllers(signal.SIGTERM)
    violations += nothing_is_left(scene, before, scene.release())
    scene.let_go()
    try:
        scene.wait_for("the queue to be empty", lambda: not scene.bed.run("squeue", "-h", "-a", "-o", "%A"))
    except InputError as error:
        violations.append(str(error))
    violations += ran_once(scene)


def _settled(scene: Scene) -> list[str]:
    """Give the controller time until Slurm holds what it says, or until it has let go."""
    deadline = time.monotonic() + _SETTLING_S
    while (differs := holds_what_was_said(scene)) and time.monotonic() < deadline:
        time.sleep(0.5)
    return [differs] if differs else []

"""Makes the runs of a plan that have not been made."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from rltune.errors import InputError
from rltune.live.slurm.experiment.plan import Arm, Plan, path_of
from rltune.live.slurm.experiment.record import Record
from rltune.live.slurm.experiment.run import run
from rltune.live.slurm.testbed import needs

Told = Callable[[int, int, str], None]  # jobs ended, in all, which run


def perform(plan: Plan, folder: Path, told: Told = lambda *_: None) -> int:
    """Make what is missing, run by run, and tell how many were made; what is there stays."""
    needs.require(database=True, clock=plan.factor > 1)
    plan.keep_in(folder)
    total = plan.jobs * len(plan.arms) * len(plan.seeds)
    made = 0
    for number, (arm, seed) in enumerate(plan.runs()):
        path = path_of(folder, arm, seed)
        if path.exists():
            _require_same(arm, path)
            continue
        tell = partial(_tell, told, number * plan.jobs, total, f"{arm.name}, seed {seed}")
        run(plan, arm, seed, folder, tell).write(path)
        made += 1
    return made


def _require_same(arm: Arm, path: Path) -> None:
    """Refuse to take a run of another policy or placement for one of this arm."""
    there = Record.read(path).arm
    if there != arm:
        made = f"policy {there.policy or 'none'}, placement {there.placement}"
        raise InputError(f"{path}: was made with {made}; name another folder")


def _tell(told: Told, before: int, total: int, label: str, ended: int) -> None:
    told(before + ended, total, label)

"""Makes the runs of a plan that have not been made."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from rltune.errors import InputError
from rltune.lab.experiment.experiment_plan import Arm, ExperimentPlan, path_of
from rltune.lab.experiment.one_run import run
from rltune.lab.experiment.run_record import RunRecord
from rltune.lab.experiment.side_by_side import run_all
from rltune.lab.testbed import debian_needs as needs

Told = Callable[[int, int, str], None]  # jobs ended, in all, which run


def perform(plan: ExperimentPlan, folder: Path, told: Told = lambda *_: None, workers: int = 1) -> int:
    """Make what is missing, so many runs at a time, and tell how many were made; what is there stays."""
    needs.require(database=True, clock=plan.factor > 1)
    plan.keep_in(folder)
    missing = [(arm, seed) for arm, seed in plan.runs() if not _is_there(folder, arm, seed)]
    if workers > 1:
        run_all(plan, folder, missing, workers, told)
        return len(missing)
    total = plan.jobs * len(plan.arms) * len(plan.seeds)
    before = total - plan.jobs * len(missing)
    for number, (arm, seed) in enumerate(missing):
        tell = partial(_tell, told, before + number * plan.jobs, total, f"{arm.name}, seed {seed}")
        run(plan, arm, seed, folder, tell).write(path_of(folder, arm, seed))
    return len(missing)


def _is_there(folder: Path, arm: Arm, seed: int) -> bool:
    """Return whether a run was made; refuse to take one of another policy or placement for it."""
    path = path_of(folder, arm, seed)
    if not path.exists():
        return False
    there = RunRecord.read(path).arm
    if there != arm:
        made = f"policy {there.policy or 'none'}, placement {there.placement}"
        raise InputError(f"{path}: was made with {made}; name another folder")
    return True


def _tell(told: Told, before: int, total: int, label: str, ended: int) -> None:
    told(before + ended, total, label)

"""One arm of section 2 on a real Slurm."""

from __future__ import annotations

import time
from pathlib import Path

from rltune.errors import InputError
from rltune.lab.experiment.experiment_plan import Arm
from rltune.lab.experiment.fresh_slurm import RunWatch, Told, fresh_testbed, release_of, results_of, submitting
from rltune.lab.experiment.run_record import Cycles, RunRecord
from rltune.lab.experiment.submit import Submitter
from rltune.lab.experiment.tuned_multifactor import SETTINGS
from rltune.lab.motivation.motivation_plan import MotivationArm, MotivationPlan, shuffle
from rltune.lab.testbed import Testbed
from rltune.lab.testbed.testbed_spec import ALL

BY_AGE = SETTINGS | {"PriorityWeightJobSize": "0"}
_LOOK_S = 0.5
_SETTLE_S = 150.0  # by the fast clock: all ages are counted anew each minute, and only then can be compared


def run_arm(plan: MotivationPlan, arm: MotivationArm, folder: Path, told: Told = lambda _: None) -> RunRecord:
    """Run the jobs under one arm, and record what Slurm did."""
    began = time.monotonic()
    with fresh_testbed(folder / f"{arm.name}.testbed", plan.cluster, plan.factor, BY_AGE) as bed:
        if arm.whole_nodes:
            bed.run("scontrol", "update", f"PartitionName={ALL}", "OverSubscribe=EXCLUSIVE")
        with submitting(bed, plan.workload()) as submitter:
            watch = RunWatch(bed, submitter, told)
            while not submitter.done:
                time.sleep(_LOOK_S)
            moved = _move(bed, submitter, plan, arm)
            while not watch.over():
                time.sleep(_LOOK_S)
        ran, release = results_of(bed, submitter), release_of(bed)
    done = Cycles(changes=len(moved), events=moved)
    return RunRecord(Arm(arm.name), 0, ran, done, time.monotonic() - began, release)


def _move(bed: Testbed, submitter: Submitter, plan: MotivationPlan, arm: MotivationArm) -> tuple[str, ...]:
    """Let the arm's jobs exchange priorities, by a number that is added, so that age goes on counting."""
    if not arm.order:
        return ()
    time.sleep(_SETTLE_S / bed.factor)
    rows, number = plan.rows(arm.order), submitter.by_row()
    waiting = _priorities(bed)
    if begun := [plan.jobs[row].name for row in rows if number[row] not in waiting]:
        raise InputError(f"arm {arm.name}: {', '.join(begun)} started before priorities could be exchanged; run again")
    change = shuffle({row: waiting[number[row]] for row in rows}, rows)
    for row, by in change.items():
        bed.run("scontrol", "update", f"JobId={number[row]}", f"SiteFactor={by:.0f}")
    return tuple(f"{plan.jobs[row].name}: priority changed by {by:+.0f}" for row, by in change.items())


def _priorities(bed: Testbed) -> dict[int, float]:
    """Return what Slurm gives to each waiting job, by its number."""
    lines = bed.run("squeue", "-h", "-t", "PENDING", "-o", "%A %Q").splitlines()
    return {int(job): float(priority) for job, priority in (line.split() for line in lines)}

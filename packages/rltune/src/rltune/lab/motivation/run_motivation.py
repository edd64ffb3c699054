"""Section 2's experiment from beginning to end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rltune.lab.experiment.fresh_slurm import LEAD_S, START_S
from rltune.lab.experiment.run_record import RunRecord, as_schedule
from rltune.lab.motivation.motivation_gantt import arm_picture
from rltune.lab.motivation.motivation_plan import MotivationArm, MotivationPlan
from rltune.lab.motivation.motivation_prediction import simulate_arm
from rltune.lab.motivation.motivation_result import Motivation
from rltune.lab.motivation.motivation_run import run_arm
from rltune.lab.testbed import debian_needs as needs
from rltune.metrics.formats import plain
from rltune.text import seconds
from rltune.whole_file import write_whole

Told = Callable[[int, int, str], None]  # jobs ended, in all, which arm
_PLAN = MotivationPlan()


def estimate_motivation_s(out: Path, plan: MotivationPlan = _PLAN) -> float:
    """Return how many real seconds the arms that are missing will take."""
    missing = [arm for arm in plan.arms if not _path(out, arm).exists()]
    ends_s = [float(simulate_arm(plan, arm).end_s.max()) for arm in missing]
    return sum(START_S + (LEAD_S + end_s) / plan.factor for end_s in ends_s)


def run_motivation(out: Path, progress: Told = lambda *_: None, plan: MotivationPlan = _PLAN) -> Motivation:
    """Run the arms that `out` does not hold yet, and return all four; result.json and an SVG an arm are in `out`."""
    needs.require(database=True, clock=plan.factor > 1)
    plan.keep_in(out)
    total = len(plan.arms) * len(plan.jobs)
    if left_s := estimate_motivation_s(out, plan):
        progress(0, total, f"takes about {seconds(left_s)}")
    records = []
    for number, arm in enumerate(plan.arms):
        records.append(_record(plan, arm, out, _teller(progress, number * len(plan.jobs), total, arm)))
    result = Motivation.of(tuple(records), plan, _draw(tuple(records), plan, out))
    write_whole(out / "result.json", json.dumps(plain(result.to_dict()), indent=1) + "\n")
    return result


def _record(plan: MotivationPlan, arm: MotivationArm, out: Path, told: Callable[[int], None]) -> RunRecord:
    """Return the run of an arm: the one that was made, or else one that is made now."""
    path = _path(out, arm)
    if not path.exists():
        run_arm(plan, arm, out, told).write(path)
    return RunRecord.read(path)


def _draw(records: tuple[RunRecord, ...], plan: MotivationPlan, out: Path) -> tuple[Path, ...]:
    """Draw every arm, all on the same axis of time."""
    schedules = [as_schedule(record, plan) for record in records]
    span_s = max(float(np.nanmax(schedule.end_s)) for schedule in schedules)
    paths = []
    for record, schedule in zip(records, schedules, strict=True):
        arm = plan.arm(record.arm.name)
        paths.append(out / f"figure-{arm.figure}.svg")
        write_whole(paths[-1], arm_picture(f"{arm.name} (as Fig. {arm.figure})", schedule, span_s))
    return tuple(paths)


def _teller(progress: Told, before: int, total: int, arm: MotivationArm) -> Callable[[int], None]:
    return lambda ended: progress(before + ended, total, arm.name)


def _path(out: Path, arm: MotivationArm) -> Path:
    return out / f"{arm.name}.json"

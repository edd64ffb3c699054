"""Forecasts on a real Slurm beside `squeue --start`, against what then happened.

python benchmarks/rltune/forecast_on_slurm.py record FOLDER --seed 1     # a run of some minutes on a fast clock
python benchmarks/rltune/forecast_on_slurm.py judge FOLDER --seed 1

`record` runs jobs on the five nodes of the testbed under Slurm alone, with a controller in shadow that writes its
journal, and asks `squeue --start` every few minutes of the testbed's clock. `judge` forecasts at the same moments from
the journal, with what it held then, and compares.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter

from rltune.lab.experiment import tuned_multifactor as multifactor
from rltune.lab.experiment.experiment_plan import Arm, ExperimentPlan
from rltune.lab.experiment.fresh_slurm import RunWatch, fresh_testbed, results_of, submitting
from rltune.lab.experiment.one_run import Driver, control_settings
from rltune.lab.testbed import Testbed
from rltune.live.clock import SystemClock
from rltune.live.control_settings import Mode
from rltune.live.controller import Controller
from rltune.live.journal.store import Journal

EVERY_S = 600.0  # by the testbed's clock, from one look at `squeue --start` to the next


def plan_of(seed: int, jobs: int, load: float, factor: int) -> ExperimentPlan:
    """Return the workload, and a controller by smallest area first."""
    return ExperimentPlan((Arm("shadow", "saf"),), (seed,), jobs=jobs, load=load, factor=factor)


def starts_by_squeue(bed: Testbed) -> dict[int, float]:
    """Ask Slurm when it expects waiting jobs to start; those that it does not tell of are left out."""
    lines = bed.run("squeue", "--start", "--noheader", "--format=%A %S", check=False).split("\n")
    told = (line.split() for line in lines if line.strip())
    return {int(job): float(start) for job, start in told if start.replace(".", "").isdecimal()}


def record(folder: Path, seed: int, plan: ExperimentPlan) -> str:
    """Make the run; the journal, what squeue told and what happened stay in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    journal_file = folder / f"shadow-{seed}.db"
    for left in folder.glob(journal_file.name + "*"):
        left.unlink()
    settings = control_settings(plan, plan.arms[0]).model_copy(update={"mode": Mode.SHADOW})
    looks: list[dict[str, object]] = []
    begin = perf_counter()
    jobs = plan.workload(seed)
    slurm_conf = multifactor.settings_for(1)
    with fresh_testbed(folder / f"shadow-{seed}.testbed", plan.cluster, plan.factor, slurm_conf) as bed:
        journal, clock = Journal.create(journal_file), SystemClock(float(bed.factor), *bed.clock_at)
        driver = Driver(Controller(bed.backend(), journal, settings, clock), journal, clock, plan.cycle_s, bed.factor)
        driver.cycle()  # what is not compiled yet is compiled before the first job comes
        with submitting(bed, jobs) as submitter:
            watch, due_s = RunWatch(bed, submitter, lambda _: None), bed.now_s()
            while not watch.over():
                driver.cycle()
                if bed.now_s() >= due_s:
                    told = starts_by_squeue(bed)
                    looks.append({"cycle": journal.last_cycle(), "at_s": bed.now_s(), "squeue": told})
                    due_s += EVERY_S
            ran = results_of(bed, submitter)
            number = submitter.by_row()
        driver.close()
    happened = {number[row]: [one.submit_s, one.start_s, one.end_s] for row, one in enumerate(ran)}
    (folder / f"shadow-{seed}.json").write_text(json.dumps({"looks": looks, "happened": happened}))
    return f"seed {seed}: {len(jobs)} jobs, {len(looks)} looks, {perf_counter() - begin:.0f} s"


def main() -> None:
    """Do what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("record", "judge"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=150)
    parser.add_argument("--load", type=float, default=1.5)
    parser.add_argument("--factor", type=int, default=60)
    parser.add_argument("--rolls", type=int, default=100)
    given = parser.parse_args()
    if given.what == "record":
        print(record(given.folder, given.seed, plan_of(given.seed, given.jobs, given.load, given.factor)))


if __name__ == "__main__":
    main()

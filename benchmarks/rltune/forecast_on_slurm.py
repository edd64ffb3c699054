"""Forecasts on a real Slurm beside `squeue --start`, against what then happened.

python benchmarks/rltune/forecast_on_slurm.py record FOLDER --seed 1     # a run of some minutes on a fast clock
python benchmarks/rltune/forecast_on_slurm.py judge FOLDER --seed 1
python benchmarks/rltune/forecast_on_slurm.py act FOLDER --seed 1        # the same jobs, with a controller that acts

`record` runs jobs on the five nodes of the testbed under Slurm alone, with a controller in shadow that writes its
journal, and asks `squeue --start` every few minutes of the testbed's clock. `judge` forecasts at the same moments from
the journal, with what it held then, and compares.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter

import numpy as np

from rltune.forecast.calibrate_forecast import TriedMoment, calibration_of, joined
from rltune.forecast.rolls import start_quantiles
from rltune.forecast.start_forecast import StartCalibration
from rltune.lab.experiment import tuned_multifactor as multifactor
from rltune.lab.experiment.experiment_plan import Arm, ExperimentPlan
from rltune.lab.experiment.fresh_slurm import RunWatch, fresh_testbed, results_of, submitting
from rltune.lab.experiment.one_run import Driver, control_settings, run
from rltune.lab.testbed import Testbed
from rltune.live.calibrate_on_journal import tried_cycles
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


def act(folder: Path, seed: int, plan: ExperimentPlan) -> str:
    """Run the same jobs with a controller that acts, and set its mean wait beside that of the run in shadow."""
    acted = run(plan, plan.arms[0], seed, folder).jobs
    kept = json.loads((folder / f"shadow-{seed}.json").read_text())["happened"].values()
    waits = [np.mean([start - submit for submit, start, _ in kept]), np.mean([j.start_s - j.submit_s for j in acted])]
    return (
        f"seed {seed}: mean wait {waits[0]:.0f} s under Slurm alone, {waits[1]:.0f} s acting: {waits[1] / waits[0]:.3f}"
    )


def judge(folder: Path, seed: int, rolls: int) -> str:
    """Forecast at the moments of the looks, and compare with what squeue told and what happened."""
    kept = json.loads((folder / f"shadow-{seed}.json").read_text())
    journal = Journal.read(folder / f"shadow-{seed}.db")
    told = {look["cycle"]: dict(look["squeue"]) for look in kept["looks"]}
    trials = [one for cycle in told for one in tried_cycles(journal, [cycle], rolls=rolls, seed=cycle)]
    by_time = {round(journal.cycle(cycle).taken_s): told[cycle] for cycle in told}
    raw = joined(trial.errors(StartCalibration()) for trial in trials)
    errors = np.concatenate([_compared(trial, by_time[round(trial.now_s)]) for trial in trials])
    p50, roll, squeue = np.median(errors, axis=0)
    return (
        f"seed {seed}: {len(raw.inside)} forecasts at {len(trials)} moments; inside the 80 % interval "
        f"{raw.inside.mean():.1%} as drawn; {calibration_of(trials)}. Where squeue --start tells of the same job "
        f"({len(errors)}): median error p50 {p50:.0f} s, deterministic roll {roll:.0f} s, "
        f"squeue --start {squeue:.0f} s (ratio {p50 / squeue:.2f}); mean {errors.mean(axis=0).round().tolist()} s"
    )


def _compared(trial: TriedMoment, squeue: dict[str, float]) -> np.ndarray:
    """Return the errors of p50, the deterministic roll and squeue for the jobs that all three tell of, [job, 3]."""
    middle = start_quantiles(trial.starts, trial.now_s, StartCalibration())[1]
    rows = [i for i, job in enumerate(trial.jobs) if job in squeue and np.isfinite(trial.truth[i])]
    told = [(middle[i], trial.rolled[i], squeue[trial.jobs[i]]) for i in rows]
    return np.abs(np.array(told).reshape(-1, 3) - trial.truth[rows][:, None])


def main() -> None:
    """Do what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("record", "judge", "act"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=150)
    parser.add_argument("--load", type=float, default=1.5)
    parser.add_argument("--factor", type=int, default=60)
    parser.add_argument("--rolls", type=int, default=100)
    given = parser.parse_args()
    if given.what == "act":
        print(act(given.folder, given.seed, plan_of(given.seed, given.jobs, given.load, given.factor)))
    elif given.what == "record":
        print(record(given.folder, given.seed, plan_of(given.seed, given.jobs, given.load, given.factor)))
    else:
        print(judge(given.folder, given.seed, given.rolls))


if __name__ == "__main__":
    main()

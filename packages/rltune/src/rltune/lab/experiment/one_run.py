"""One run: a fresh Slurm on a fast clock, the jobs of one seed, and one arm."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from rltune.lab.experiment import tuned_multifactor as multifactor
from rltune.lab.experiment.experiment_plan import Arm, ExperimentPlan
from rltune.lab.experiment.fresh_slurm import RunWatch, Told, fresh_testbed, release_of, results_of, submitting
from rltune.lab.experiment.run_record import Cycles, RunRecord
from rltune.lab.experiment.submit import Submitter
from rltune.lab.testbed import Testbed
from rltune.live.clock import SystemClock
from rltune.live.control_settings import ControlSettings
from rltune.live.control_settings_file import load_settings
from rltune.live.controller import Controller
from rltune.live.cycle_report import CycleReport
from rltune.live.decide.rehearse import rehearse
from rltune.live.journal.store import Journal
from rltune.live.pinned_pipeline import pin_pipeline

_NEVER_S = 1e9


def run(plan: ExperimentPlan, arm: Arm, seed: int, folder: Path, told: Told = lambda _: None) -> RunRecord:
    """Run an arm on the jobs of a seed; the controller's journal stays in the folder."""
    jobs = plan.workload(seed)
    if arm.policy:
        _rehearse(control_settings(plan, arm))  # what is not compiled yet would hold up the first cycles
    began = time.monotonic()
    note = folder / f"{arm.name}-{seed}.testbed"
    with fresh_testbed(note, plan.cluster, plan.factor, multifactor.SETTINGS) as bed:
        with submitting(bed, jobs) as submitter:
            cycles = _drive(plan, arm, bed, submitter, folder / f"{arm.name}-{seed}", told)
        ran, release = results_of(bed, submitter), release_of(bed)
    return RunRecord(arm, seed, ran, cycles, time.monotonic() - began, release)


def _drive(plan: ExperimentPlan, arm: Arm, bed: Testbed, submitter: Submitter, stem: Path, told: Told) -> Cycles:
    """Watch until all jobs have ended, and let the controller work if the arm has one."""
    watch = RunWatch(bed, submitter, told)
    if not arm.policy:
        while not watch.over():
            time.sleep(1.0)
        return Cycles()
    driver = Driver.of(plan, arm, bed, stem)
    try:
        while not watch.over():
            driver.cycle()
    finally:
        driver.close()
    return driver.told()


@dataclass
class Driver:
    """The controller, cycle by cycle, with an account of how long each took."""

    controller: Controller
    journal: Journal
    clock: SystemClock
    cycle_s: float
    factor: int
    reports: list[CycleReport] = field(default_factory=list)

    @classmethod
    def of(cls, plan: ExperimentPlan, arm: Arm, bed: Testbed, stem: Path) -> Driver:
        """Make a controller that acts on all jobs of the testbed."""
        clock = SystemClock(float(bed.factor), *bed.clock_at)
        journal_file = stem.with_name(stem.name + ".journal.db")
        for left in journal_file.parent.glob(journal_file.name + "*"):
            left.unlink()  # of a run that was interrupted
        journal = Journal.create(journal_file)
        controller = Controller(bed.backend(), journal, control_settings(plan, arm), clock)
        return cls(controller, journal, clock, plan.cycle_s, bed.factor)

    def cycle(self) -> None:
        """Make one cycle, and wait until the next is due."""
        begin_s = self.clock.elapsed_s()
        self.reports.append(self.controller.cycle())
        self.clock.wait(self.cycle_s - (self.clock.elapsed_s() - begin_s))

    def close(self) -> None:
        """Close the journal; the Slurm that was changed is about to go."""
        self.journal.close()

    def told(self) -> Cycles:
        """Sum up."""
        seconds = [report.seconds for report in self.reports]
        return Cycles(
            count=len(seconds),
            overran=sum(s * self.factor > self.cycle_s for s in seconds),
            mean_s=round(sum(seconds) / max(1, len(seconds)), 4),
            worst_s=round(max(seconds, default=0.0), 4),
            changes=sum(report.changes for report in self.reports),
            refused=sum(report.refused for report in self.reports),
            calls=dict(self.controller.backend.calls),
            events=tuple(text for report in self.reports for text in report.events),
        )


def _rehearse(settings: ControlSettings) -> None:
    rehearse(settings, pin_pipeline(settings))


def control_settings(plan: ExperimentPlan, arm: Arm) -> ControlSettings:
    """Return the controller's settings: real seconds are longer on a fast clock, so that it may jump further."""
    return load_settings(
        None,
        {
            "mode": "act",
            "cycle_s": plan.cycle_s,
            "steer": plan.steer,
            "pipeline": {"policy": arm.policy, "placement": arm.placement, "estimator": plan.estimator},
            "scope": {"partitions": ("*",)},
            "numbers": {"channel": plan.channel, "band": plan.band},
            "advanced": {
                "gain": {"every_s": _NEVER_S},  # both ways are run here, so that nothing need be estimated
                "health": {"max_clock_jump_s": 30.0 + 5.0 * plan.factor},
            },
        },
    )

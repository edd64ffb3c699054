"""One run: a fresh Slurm on a fast clock, the jobs of one seed, and one arm."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rltune.lab.experiment import tuned_multifactor as multifactor
from rltune.lab.experiment.experiment_plan import Arm, ExperimentPlan
from rltune.lab.experiment.fresh_slurm import (
    STUCK_S,
    RunWatch,
    Told,
    fresh_testbed,
    release_of,
    results_of,
    submitting,
    with_logs,
)
from rltune.lab.experiment.job_profiles import YIELDS, WorkFolder
from rltune.lab.experiment.run_record import Cycles, RunRecord, TurnMade
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
PER_CYCLE = 4  # jobs that may be stopped in one cycle
KILLED_AS_USUAL = {"KillWait": "30"}  # as Slurm has it by default; a testbed with a fast clock waits longer


def run(plan: ExperimentPlan, arm: Arm, seed: int, folder: Path, told: Told = lambda _: None) -> RunRecord:
    """Run an arm on the jobs of a seed; the controller's journal stays in the folder."""
    jobs = plan.workload(seed)
    if arm.policy:
        _rehearse(control_settings(plan, arm))  # what is not compiled yet would hold up the first cycles
    began = time.monotonic()
    note, stem = folder / f"{arm.name}-{seed}.testbed", folder / f"{arm.name}-{seed}"
    settings = multifactor.settings_for(plan.jobs_profile.stretch)
    settings |= KILLED_AS_USUAL if plan.jobs_profile.willing else {}
    with fresh_testbed(note, plan.cluster, plan.factor, settings) as bed:
        work = WorkFolder.make(bed.folder / "work", plan.factor) if plan.jobs_profile.works else None
        with submitting(bed, jobs, work) as submitter:
            cycles = _drive(plan, arm, bed, submitter, stem, told)
        ran, release = results_of(bed, submitter), release_of(bed)
        ran, problems = with_logs(ran, submitter, work, bed) if work else (ran, ())
    turns = _turns_made(stem) if arm.preempt else ()
    return RunRecord(arm, seed, ran, cycles, time.monotonic() - began, release, turns, problems)


def _drive(plan: ExperimentPlan, arm: Arm, bed: Testbed, submitter: Submitter, stem: Path, told: Told) -> Cycles:
    """Watch until all jobs have ended, and let the controller work if the arm has one."""
    watch = RunWatch(bed, submitter, told, STUCK_S * plan.jobs_profile.stretch)
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
        journal_file = journal_of(stem)
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


def journal_of(stem: Path) -> Path:
    """Return where the journal of a run lies."""
    return stem.with_name(stem.name + ".journal.db")


def _turns_made(stem: Path) -> tuple[TurnMade, ...]:
    """Return the turns that a run's journal tells of."""
    with closing(Journal.read(journal_of(stem))) as journal:
        rows = journal.rows("SELECT plain, outcome, freed_s FROM turn LEFT JOIN turn_end ON turn = id ORDER BY id")
    return tuple(TurnMade(len(json.loads(plain)["victims"]), how or "not settled", freed) for plain, how, freed in rows)


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
            "safety": {"guard": plan.jobs_profile.guard},
            "numbers": {"channel": plan.channel, "band": plan.band},
            "advanced": {
                "gain": {"every_s": _NEVER_S},  # both ways are run here, so that nothing need be estimated
                "health": {"max_clock_jump_s": 30.0 + 5.0 * plan.factor},
            },
            **({"preempt": _preempt(plan, arm)} if arm.preempt else {}),
        },
    )


def _preempt(plan: ExperimentPlan, arm: Arm) -> dict[str, Any]:
    """Return how jobs give way: by the word of their comment, at the cost that the profile has."""
    profile, turns = plan.jobs_profile, arm.turns
    return {
        "order": turns.order,
        "comment": YIELDS,
        "checkpoint": profile.checkpoint_s,
        "restart": profile.restart_s,
        "per_cycle": PER_CYCLE,
        "min_run": turns.min_run_s,
        "max_preemptions": turns.max_preemptions,
        "max_a_day": turns.max_preemptions,  # what is simulated beside it has no bound by the day
        "late": turns.late_s,
    }

"""One run: a fresh Slurm on a fast clock, the jobs of one seed, and one arm."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.lab.experiment import tuned_multifactor as multifactor
from rltune.lab.experiment.experiment_plan import Arm, ExperimentPlan
from rltune.lab.experiment.run_record import Cycles, Ran, RunRecord
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
from rltune.live.slurm.hostlist import expand

LEAD_S = 60.0  # by the fast clock, before the first job is submitted
STUCK_S = 6 * 3600.0  # without any end: more than the longest job takes
_NEVER_S = 1e9
_ACCOUNTS_S = 900.0  # until accounting must know all ends: a busy machine's is minutes behind, and a run takes an hour
_FIELDS = "JobIDRaw,Submit,Start,End,State,NodeList"
Told = Callable[[int], None]  # jobs ended so far


def run(plan: ExperimentPlan, arm: Arm, seed: int, folder: Path, told: Told = lambda _: None) -> RunRecord:
    """Run an arm on the jobs of a seed; the controller's journal stays in the folder."""
    jobs = plan.workload(seed)
    if arm.policy:
        _rehearse(control_settings(plan, arm))  # what is not compiled yet would hold up the first cycles
    began = time.monotonic()
    note = folder / f"{arm.name}-{seed}.testbed"
    where = _place(note)
    with Testbed.up(where, plan.cluster, factor=plan.factor, database=True, settings=multifactor.SETTINGS) as bed:
        submitter = Submitter(bed, jobs, bed.now_s() + LEAD_S)
        submitter.start()
        try:
            cycles = _drive(plan, arm, bed, submitter, folder / f"{arm.name}-{seed}", told)
        finally:
            submitter.stop()
        ran = _results(bed, submitter.ids, jobs)
        release = bed.run("scontrol", "--version").split()[-1]
    note.unlink()
    return RunRecord(arm, seed, ran, cycles, time.monotonic() - began, release)


def _place(note: Path) -> Path:
    """Make a folder for a testbed, with a short path that jobs' users can enter, and end what an earlier run left."""
    if note.exists():
        left = Path(note.read_text(encoding="utf-8"))
        if left.exists():
            Testbed.open(left).down()
    folder = Path(tempfile.mkdtemp(prefix="rltune-"))
    folder.chmod(0o755)
    note.write_text(str(folder), encoding="utf-8")
    return folder


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
class RunWatch:
    """Tells when all is over, and when nothing moves any more."""

    bed: Testbed
    submitter: Submitter
    told: Told
    _left: int = -1
    _moved_s: float = 0.0

    def over(self) -> bool:
        """Return whether all jobs were submitted and have ended."""
        submitted = self.submitter.done  # asked first: a job submitted in between is still seen below
        left = len(self.bed.run("squeue", "-h", "-o", "%A").split())
        ended = len(self.submitter.ids) - left
        if left != self._left or not submitted:
            self._left, self._moved_s = left, self.bed.now_s()
            self.told(max(0, ended))
        if self.bed.now_s() - self._moved_s > STUCK_S:
            raise InputError(f"{self.bed.folder}: {left} jobs are left and none has ended for {STUCK_S / 3600:g} hours")
        return submitted and left == 0


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


def _results(bed: Testbed, ids: list[int], jobs: Jobs) -> tuple[Ran, ...]:
    """Ask accounting until it knows the end of every job."""
    found: dict[int, Ran] = {}

    def all_known() -> bool:
        found.update(_accounting(bed))
        return all(number in found for number in ids)

    bed.wait_for("accounting to know all ends", all_known, timeout_s=_ACCOUNTS_S)
    in_order = {int(row): number for row, number in zip(jobs.submit_s.argsort(kind="stable"), ids, strict=True)}
    return tuple(found[in_order[row]] for row in range(len(jobs)))


def _accounting(bed: Testbed) -> dict[int, Ran]:
    words = ("sacct", "-a", "-X", "-n", "-P", "-S", "2000-01-01", "-E", "now+365days", "-o", _FIELDS)
    rows = (line.split("|") for line in bed.run(*words).splitlines())
    return {
        int(number): Ran(float(submit), float(start), float(end), expand(nodes), state.split(" ")[0])
        for number, submit, start, end, state, nodes in rows
        if start.isdecimal() and end.isdecimal()
    }

"""What an experiment came to: arms compared seed by seed, beside what the simulator says of the same runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.errors import InputError
from rltune.evaluation.comparison import Comparison, Run, Standing
from rltune.lab.experiment.experiment_gantt import picture
from rltune.lab.experiment.experiment_plan import Arm, ExperimentPlan, path_of
from rltune.lab.experiment.prediction import Prediction, predict
from rltune.lab.experiment.run_record import RunRecord, TurnMade, as_schedule
from rltune.metrics import summarise
from rltune.metrics.formats import number, percent, plain, seconds
from rltune.report.comparison_page import write_report
from rltune.schedule import Settings
from rltune.trials.pipelines import Contender
from rltune.trials.windows import Window
from rltune.whole_file import write_whole

if TYPE_CHECKING:
    from rich.table import Table

LIMITS = "Limits are 1.2 to 8 times the run times (lognormal around 2.5, sigma 0.6, in steps of 5 minutes)."
SLEEPERS = "Jobs sleep: they run as long on every type of GPU."
_COLUMNS = ("runs", "mean wait", "p99", "slowdown", "makespan", "util.", "simulated wait", "overran")
_TURN_COLUMNS = ("runs", "mean delay", "p99", "makespan", "stops a job", "lost", "simulated delay", "overran")


@dataclass(frozen=True)
class ExperimentResult:
    """Runs that were made, as a comparison, and one prediction for each."""

    plan: ExperimentPlan
    records: tuple[RunRecord, ...]
    predictions: tuple[Prediction, ...]
    comparison: Comparison

    @classmethod
    def of(cls, plan: ExperimentPlan, folder: Path) -> ExperimentResult:
        """Gather the runs that a folder holds."""
        records = [RunRecord.read(path) for arm, seed in plan.runs() if (path := path_of(folder, arm, seed)).exists()]
        if not records:
            raise InputError(f"{folder}: no run has been made yet")
        real = [as_schedule(record, plan) for record in records]
        predictions = [predict(record, plan) for record in records]
        names = [arm.name for arm in plan.arms]
        runs = [
            Run(names.index(record.arm.name), plan.seeds.index(record.seed), schedule, summarise(schedule))
            for record, schedule in zip(records, real, strict=True)
        ]
        windows = tuple(Window(i * plan.jobs, plan.jobs) for i in range(len(plan.seeds)))
        comparison = Comparison.build(
            runs=tuple(runs),
            windows=windows,
            contenders=tuple(
                Contender(arm.name, Settings(arm.policy or arm.name, "slurm", arm.placement)) for arm in plan.arms
            ),
            baseline=names[0],
            about=_about(plan, records),
            metric="delay" if plan.jobs_profile.willing else "wait",
            notes=(LIMITS, _about_jobs(plan), *_notes(plan, records, predictions)),
        )
        return cls(plan, tuple(records), tuple(predictions), comparison)

    def table(self) -> Table:
        """Lay out one row an arm: what it did, the difference to the first, and what was predicted."""
        from rich.table import Table

        table = Table(title=self.comparison.about, title_justify="left")
        table.add_column("arm", no_wrap=True)
        for column in _TURN_COLUMNS if self.plan.jobs_profile.willing else _COLUMNS:
            table.add_column(column, justify="right")
        standings = {standing.label: standing for standing in self.comparison.standings}
        base = self.comparison.standings[0]
        for arm in self.plan.arms:
            if arm.name in standings:
                table.add_row(*self._cells(arm, standings[arm.name], base))
        return table

    def gantt(self) -> str:
        """Draw all arms of the first seed that has one."""
        seed = self.records[0].seed
        return picture({r.arm.name: as_schedule(r, self.plan) for r in self.records if r.seed == seed})

    def write(self, folder: Path) -> None:
        """Write result.json, gantt.svg and report.html beside the records."""
        told = json.dumps(self.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)
        write_whole(folder / "result.json", told + "\n")
        write_whole(folder / "gantt.svg", self.gantt())
        title = "The same jobs on a real Slurm"
        write_report(self.comparison, folder / "report.html", title, f"{self.plan.jobs:,} synthetic jobs a seed")

    def to_dict(self) -> dict[str, Any]:
        """Return all but the jobs as plain values."""
        return {
            "plan": asdict(self.plan),
            "arms": [self._arm(standing) for standing in self.comparison.standings],
            "runs": [self._run(i) for i in range(len(self.records))],
            "notes": list(self.comparison.notes),
        }

    def _cells(self, arm: Arm, standing: Standing, base: Standing) -> tuple[str, ...]:
        mine = [i for i, record in enumerate(self.records) if record.arm.name == arm.name]
        cycles = [self.records[i].cycles for i in mine]
        overran = f"{sum(c.overran for c in cycles)} of {sum(c.count for c in cycles)}" if arm.policy else "-"
        if self.plan.jobs_profile.willing:
            return (arm.name, str(standing.windows), *self._turn_cells(standing, base, mine), overran)
        return (
            arm.name,
            str(standing.windows),
            _with_change(standing.wait_s.mean, base.wait_s.mean, seconds),
            _with_change(standing.wait_s.p99, base.wait_s.p99, seconds),
            _with_change(standing.bounded_slowdown.mean, base.bounded_slowdown.mean, number),
            _with_change(standing.makespan_s, base.makespan_s, seconds),
            _with_change(standing.utilisation, base.utilisation, percent),
            self._predicted(mine),
            overran,
        )

    def _turn_cells(self, standing: Standing, base: Standing, mine: Sequence[int]) -> tuple[str, ...]:
        simulated_s = float(np.mean([self.predictions[i].delay_s for i in mine]))
        real_s = float(np.mean([self.predictions[i].real_delay_s for i in mine]))
        return (
            _with_change(standing.delay_s.mean, base.delay_s.mean, seconds),
            _with_change(standing.delay_s.p99, base.delay_s.p99, seconds),
            _with_change(standing.makespan_s, base.makespan_s, seconds),
            number(standing.preemptions.mean),
            percent(standing.lost_share),
            _with_change(simulated_s, real_s, seconds),
        )

    def _predicted(self, mine: Sequence[int]) -> str:
        wait_s = float(np.mean([self.predictions[i].wait_s for i in mine]))
        real_s = float(np.mean([self.predictions[i].real_wait_s for i in mine]))
        return _with_change(wait_s, real_s, seconds)

    def _arm(self, standing: Standing) -> dict[str, Any]:
        return {
            "arm": standing.label,
            "runs": standing.windows,
            "wait_s": standing.wait_s.mean,
            "wait_p99_s": standing.wait_s.p99,
            "wait_ratio": plain(asdict(standing.ratio)),
            "bounded_slowdown": standing.bounded_slowdown.mean,
            "makespan_s": standing.makespan_s,
            "utilisation": standing.utilisation,
            "delay_s": standing.delay_s.mean,
            "delay_p99_s": standing.delay_s.p99,
            "preemptions": standing.preemptions.mean,
            "lost_share": standing.lost_share,
        }

    def _run(self, i: int) -> dict[str, Any]:
        record, prediction = self.records[i], self.predictions[i]
        return {
            "arm": record.arm.name,
            "seed": record.seed,
            "failed_jobs": record.failed,
            "real_s": round(record.real_s, 1),
            "slurm": record.slurm,
            "cycles": asdict(record.cycles),
            "prediction": {
                **asdict(prediction),
                "wait_error": prediction.wait_error,
                "delay_error": prediction.delay_error,
            },
            "preemptions": sum(len(job.cut_short) for job in record.jobs),
            "turns": dict(Counter(turn.outcome for turn in record.turns)),
            "freed_s": {"mean": record.freed_s, "most": max((t.freed_s or 0.0 for t in record.turns), default=0.0)},
            "problems": list(record.problems),
        }


def _about(plan: ExperimentPlan, records: Sequence[RunRecord]) -> str:
    told = f"{plan.jobs:,} jobs at load {plan.load:g}, {len(plan.seeds)} seed(s)"
    return f"Slurm {records[0].slurm} on a clock x{plan.factor}: {told}, {plan.cluster.gpu_count} GPUs"


def _about_jobs(plan: ExperimentPlan) -> str:
    profile = plan.jobs_profile
    if not profile.works:
        return SLEEPERS
    told = f"Jobs count their work, {profile.stretch:g} times as long as in the short profile"
    cost = f"checkpoints every {seconds(profile.checkpoint_s)} of it, restarts of {seconds(profile.restart_s)}"
    return f"{told}; {percent(profile.willing)} of them agree to give way: {cost}."


def _notes(plan: ExperimentPlan, records: Sequence[RunRecord], predictions: Sequence[Prediction]) -> list[str]:
    notes = [_promise(plan, predictions)]
    if plan.jobs_profile.works:
        notes.append(_by_logs(records))
    if turns := [turn for record in records for turn in record.turns]:
        notes.append(_by_turns(turns))
    overran = sum(record.cycles.overran for record in records)
    cycles = sum(record.cycles.count for record in records)
    if overran:
        notes.append(f"{overran:,} of the controller's {cycles:,} cycles took longer than the time to the next.")
    if failed := sum(record.failed for record in records):
        notes.append(f"{failed:,} jobs did not end as they should.")
    return notes


def _promise(plan: ExperimentPlan, predictions: Sequence[Prediction]) -> str:
    what = "delay" if plan.jobs_profile.willing else "wait"
    worst = max((abs(getattr(p, f"{what}_error")) for p in predictions), default=np.nan)
    mean_s = float(np.mean([getattr(p, f"{what}_s") for p in predictions]))
    real_s = float(np.mean([getattr(p, f"real_{what}_s") for p in predictions]))
    told = f"Simulated, the mean {what} of these runs is {seconds(mean_s)}, on Slurm it was {seconds(real_s)}; "
    return told + f"a single run is off by {percent(worst)} at most."


def _by_logs(records: Sequence[RunRecord]) -> str:
    jobs = sum(len(record.jobs) for record in records)
    wrong = [problem for record in records for problem in record.problems]
    once = f"By their own logs {jobs - len(wrong):,} of {jobs:,} jobs ran to their end exactly once."
    return f"{once} The others: {'; '.join(wrong[:3])}." if wrong else once


def _by_turns(turns: Sequence[TurnMade]) -> str:
    outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in Counter(t.outcome for t in turns).most_common())
    freed_s = np.array([turn.freed_s for turn in turns if turn.freed_s is not None])
    if not len(freed_s):
        return f"Turns: {outcomes}."
    p99_s = float(np.percentile(freed_s, 99))
    took = f"mean {seconds(float(freed_s.mean()))}, p99 {seconds(p99_s)}"
    return f"Turns: {outcomes}. From the command to the other job's start by the fast clock: {took}."


def _with_change(value: float, base: float, write: Any) -> str:
    if not base or value == base:
        return str(write(value))
    return f"{write(value)} ({value / base - 1:+.1%})"

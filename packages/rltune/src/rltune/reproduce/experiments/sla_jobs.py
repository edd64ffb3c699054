"""Section 3.1.2: jobs under an SLA are left to the base policy; what that means for them and for the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rltune.labels import Labels
from rltune.reproduce import protocols as by
from rltune.reproduce.cells import Plain, Section
from rltune.reproduce.experiment import Experiment, Made
from rltune.reproduce.held_out import Entry
from rltune.reproduce.lesson import VIEW, Lesson
from rltune.reproduce.step import Result, Step, Workbench
from rltune.reproduce.workloads import HOLDOUT
from rltune.trials.parts import split
from rltune.trials.trial import Trial

if TYPE_CHECKING:
    from rltune.reproduce.run_size import RunSize

TRACE, BASE, SLA = "philly", "fcfs", "sla"
SHARE, SEED = 0.1, 2
SIZE = 1024
TOLD = {
    "off": "RLTune orders everybody",
    f"sla-base={SLA}": "SLA jobs left to the base policy (the paper's way)",
    f"sla={SLA}": "SLA jobs first, by age",
}


@dataclass(frozen=True)
class SlaWindows(Step):
    """Windows in which a tenth of the jobs, drawn by lot, is under an SLA."""

    kind: ClassVar[str] = "sla"

    workload: str
    lesson: Lesson
    every: int

    @property
    def told(self) -> str:
        """Return what is run."""
        return f"{len(TOLD)} ways with SLA jobs on {self.workload}"

    @property
    def needs(self) -> tuple[Step, ...]:
        """Return the training."""
        return (self.lesson,)

    def make(self, bench: Workbench) -> Result:
        """Run the base policy and each way, and average the waits of the two kinds of jobs."""
        work = bench.workload(self.workload)
        lot = np.random.default_rng(SEED).random(len(work.jobs)) < SHARE
        jobs = replace(work.jobs, qos=Labels(np.where(lot, 0, -1).astype(np.int32), (SLA,)))
        trial = Trial(jobs, work.cluster, by.NOISY)
        starts = split(len(jobs), HOLDOUT).test.starts(SIZE, self.every)
        entries = {BASE: Entry(BASE), **{guard: Entry(self.lesson, guard=guard) for guard in TOLD}}
        found: dict[str, dict[str, float]] = {}
        for name, entry in entries.items():
            pipeline = entry.pipeline(bench, "global", VIEW)
            made = [(trial.run(pipeline, first, SIZE), lot[first : first + SIZE]) for first in starts]
            waits = [(s.wait_s[s.ran & of], s.wait_s[s.ran & ~of]) for s, of in made]
            found[name] = {
                which: float(np.mean([w[i].mean() for w in waits])) for i, which in enumerate(("sla", "others"))
            }
        return {"waits": found, "windows": len(starts)}

    def values(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return {"workload": self.workload, "every": self.every, "share": SHARE, "ways": list(TOLD)}


def windows(scope: RunSize) -> SlaWindows:
    """Return the step."""
    return SlaWindows(TRACE, by.paper_lesson(scope, TRACE, BASE, "wait", 0), scope.every)


class SlaJobs(Experiment):
    """What becomes of jobs under an SLA."""

    names = ("sla",)
    title = "Jobs under an SLA, left to the base policy"
    where = "section 3.1.2"

    def steps(self, scope: RunSize) -> tuple[Step, ...]:
        """Return the windows."""
        return (windows(scope),)

    def section(self, made: Made) -> Section:
        """Return the waits of SLA jobs and of the others."""
        found = made.get(windows(made.scope))
        if found is None:
            return Section(self.names[0], self.title, self.where)
        waits = found["waits"]
        rows = [("FIFO alone", *_cells(waits[BASE], waits[BASE]))]
        rows += [(told, *_cells(waits[guard], waits[BASE])) for guard, told in TOLD.items()]
        heads = (f"{made.origin(TRACE).title}", "SLA jobs wait, h", "of FIFO's", "others wait, h", "of FIFO's")
        left, ours = waits[f"sla-base={SLA}"], waits["off"]
        return Section(
            self.names[0],
            self.title,
            self.where,
            tables=(Plain(heads, tuple(rows), f"{found['windows']} windows of {SIZE:,} jobs; noisy estimates."),),
            differs=(f"The paper gives no numbers. A tenth of the jobs, drawn by lot (seed {SEED}), is under an SLA.",),
            concludes=(
                f"Left to FIFO, SLA jobs wait {left['sla'] / ours['sla']:.1f} times as long as under RLTune's order, "
                f"and the others {left['others'] / ours['others']:.1f} times."
            ),
        )


def _cells(of: dict[str, float], base: dict[str, float]) -> tuple[str, ...]:
    return tuple(
        text for which in ("sla", "others") for text in (f"{of[which] / 3600:.2f}", f"{of[which] / base[which]:.2f}")
    )

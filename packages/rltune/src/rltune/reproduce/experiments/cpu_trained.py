"""Section 2: a network trained on CPU logs does not do on GPU clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltune.reproduce import protocols as by
from rltune.reproduce.cells import PAPER, Ours, PaperCell, Section
from rltune.reproduce.experiment import Experiment, Made
from rltune.reproduce.held_out import Entry, HeldOutRun
from rltune.reproduce.relative_gain import window_gain

if TYPE_CHECKING:
    from rltune.reproduce.lesson import Lesson
    from rltune.reproduce.run_size import RunSize
    from rltune.reproduce.step import Step

CPU, GPU, BASE = ("hpc2n", "ctc-sp2"), "philly", "fcfs"


def lesson(scope: RunSize, trace: str, seed: int) -> Lesson:
    """Return one training."""
    return by.paper_lesson(scope, trace, BASE, "wait", seed)


def windows(scope: RunSize) -> HeldOutRun:
    """Return networks of both kinds on Philly's windows."""
    lessons = [lesson(scope, trace, seed) for trace in (*CPU, GPU) for seed in scope.all_seeds]
    return by.paper_windows(scope, GPU, lessons, by.HEADLINE, (BASE, "sjf", "saf"))


class CpuTrained(Experiment):
    """What a network learnt on CPU logs is worth on a GPU trace."""

    names = ("cpu-trained",)
    title = "A network trained on CPU logs, run on a GPU trace"
    where = "section 2"

    def steps(self, scope: RunSize) -> tuple[Step, ...]:
        """Return the windows."""
        return (windows(scope),)

    def section(self, made: Made) -> Section:
        """Return the gain over FIFO of each."""
        found = made.get(windows(made.scope))
        cells = []
        for trace in (*CPU, GPU):
            ours = {}
            if found is not None:
                group = Entry(lesson(made.scope, trace, 0)).group
                ours[PAPER] = Ours(window_gain(found, group, Entry(BASE).label, "wait"))
            title = made.origin(trace).title
            cells.append(PaperCell(f"trained on {title}", f"wait over FIFO, {made.origin(GPU).title}", ours))
        return Section(
            self.names[0],
            self.title,
            self.where,
            cells=tuple(cells),
            differs=("The paper reports that such training does not converge on GPU clusters, without a number.",),
            concludes=_conclusion(cells),
        )


def _conclusion(cells: list[PaperCell]) -> str:
    gains = [cell.ours[PAPER].gain for cell in cells if PAPER in cell.ours]
    if len(gains) < len(cells) or any(gain is None for gain in gains):
        return ""
    *cpu, gpu = (gain.percent for gain in gains if gain is not None)
    verb = "loses" if min(cpu) < gpu else "does not lose"
    return f"Trained on CPU logs, a network {verb} against one trained on the GPU trace: {min(cpu):.1f} to {gpu:.1f} %."

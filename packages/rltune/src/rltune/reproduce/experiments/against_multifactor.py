"""Section 5.4 and Fig. 16: Slurm's multifactor priority, all weights 1000, as the base policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltune.reproduce import protocols as by
from rltune.reproduce.cells import HONEST, PAPER, Figure, Ours, PaperCell, Section
from rltune.reproduce.drawing import Axes, Series, lines
from rltune.reproduce.experiment import Experiment, Made
from rltune.reproduce.held_out import Entry, HeldOutRun
from rltune.reproduce.relative_gain import steady_gain, window_gain
from rltune.reproduce.run_size import RunSize

if TYPE_CHECKING:
    from rltune.reproduce.lesson import Lesson
    from rltune.reproduce.steady import SteadyRun
    from rltune.reproduce.step import Step

BASE, METRIC = "multifactor-paper", "slowdown"
TRACES = ("philly", "helios")


def lesson(scope: RunSize, trace: str, seed: int) -> Lesson:
    """Return one training."""
    return by.paper_lesson(scope, trace, BASE, METRIC, seed)


def windows(scope: RunSize, trace: str) -> HeldOutRun:
    """Return rules and networks on the windows of one trace."""
    lessons = [lesson(scope, trace, seed) for seed in scope.all_seeds]
    return by.paper_windows(scope, trace, lessons, by.HEADLINE, (*by.RULES, BASE))


def honest(scope: RunSize, trace: str, seed: int) -> Lesson:
    """Return one training under honest conditions."""
    return by.honest_lesson(scope, trace, BASE, METRIC, seed)


def steady(scope: RunSize, trace: str) -> SteadyRun:
    """Return the honest run."""
    return by.honest_run(trace, [honest(scope, trace, seed) for seed in scope.all_seeds], (*by.RULES, BASE))


class AgainstMultifactor(Experiment):
    """RLTune over Slurm's own order, in simulation."""

    names = ("fig16",)
    title = "RLTune over Slurm's multifactor priority, in simulation"
    where = "section 5.4: Fig. 16"

    def steps(self, scope: RunSize) -> tuple[Step, ...]:
        """Return windows and steady state."""
        return (*(windows(scope, t) for t in TRACES), *(steady(scope, t) for t in TRACES))

    def section(self, made: Made) -> Section:
        """Return a cell for each trace, and the learning curves."""
        cells = tuple(_cell(made, trace) for trace in TRACES)
        judged = [cell for cell in cells if cell.ahead(PAPER) is not None]
        ahead = sum(bool(cell.ahead(PAPER)) for cell in judged)
        series = [
            Series(made.origin(trace).title, [e["epoch"] for e in log], [100 * e["reward"] for e in log], i)
            for i, trace in enumerate(TRACES)
            if (found := made.get(lesson(made.scope, trace, 0))) is not None and (log := found["log"][1:])
        ]
        told = "bounded slowdown, against Slurm's multifactor"
        svg = lines(Axes(told, "epoch", "gap to the base, %"), series) if series else ""
        return Section(
            self.names[0],
            self.title,
            self.where,
            cells=cells,
            figures=(Figure("fig16", f"Fig. 16: {told}", svg),) if svg else (),
            differs=("The copies of the traces have no users, so fair share is by VC where there is one.",),
            concludes=f"Ahead of the paper on {ahead} of {len(judged)} traces." if judged else "",
        )


def _cell(made: Made, trace: str) -> PaperCell:
    ours: dict[str, Ours] = {}
    if (found := made.get(windows(made.scope, trace))) is not None:
        group = Entry(lesson(made.scope, trace, 0)).group
        best = by.hindsight(found, "none", METRIC)
        beside = window_gain(found, group, best, METRIC)
        note = f"over the best rule in hindsight ({best.partition(' + ')[0]}): {beside}"
        ours[PAPER] = Ours(window_gain(found, group, Entry(BASE).label, METRIC), note=note, over_best=beside)
    if (end := made.get(steady(made.scope, trace))) is not None:
        group, best = Entry(honest(made.scope, trace, 0), "easy").group, end["best_rule"][METRIC]
        beside = steady_gain(end, group, best, METRIC)
        note = f"over the best rule in hindsight ({best.partition(' + ')[0]}): {beside}"
        ours[HONEST] = Ours(steady_gain(end, group, Entry(BASE, "easy").label, METRIC), note=note, over_best=beside)
    return PaperCell.of_key(f"fig16.{trace}.bsld", made.origin(trace).title, "bounded slowdown over multifactor", ours)

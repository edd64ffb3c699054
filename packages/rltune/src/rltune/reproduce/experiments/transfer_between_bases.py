"""Table 7: a network trained against one base policy, judged against another, on Helios."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from rltune.reproduce import protocols as by
from rltune.reproduce.cells import HONEST, PAPER, Ours, PaperCell, Section
from rltune.reproduce.experiment import Experiment, Made
from rltune.reproduce.experiments.per_base import BASE_TOLD, honest_run, paper_run
from rltune.reproduce.held_out import Entry
from rltune.reproduce.relative_gain import steady_gain, window_gain
from rltune.reproduce.run_size import PAPER_BASES

if TYPE_CHECKING:
    from rltune.reproduce.run_size import RunSize
    from rltune.reproduce.step import Step

COLUMN = {"fcfs": "fifo", "sjf": "sjf", "f1": "f1", "wfp3": "wfp3"}


class TransferBetweenBases(Experiment):
    """The networks of Fig. 12, each against all base policies."""

    names = ("table7",)
    title = "A network trained against one base policy, tested against the others, on Helios"
    where = "section 5.3.1: Table 7"

    def steps(self, scope: RunSize) -> tuple[Step, ...]:
        """Return the runs of Fig. 12: the same networks are judged."""
        return (paper_run(scope, "helios", by.HEADLINE), honest_run(scope, "helios"))

    def section(self, made: Made) -> Section:
        """Return all sixteen cells."""
        cells = tuple(self._cell(made, trained, tested) for trained, tested in product(PAPER_BASES, PAPER_BASES))
        worse = [f"{c.row}, {c.column}" for c in cells if PAPER in c.ours and c.ahead(PAPER) is False]
        told = f"Behind the paper in: {'; '.join(worse)}." if worse else "Ahead of the paper in every cell."
        return Section(
            self.names[0],
            self.title,
            self.where,
            cells=cells,
            differs=("The networks of a row are the same; only the base policy they are compared with differs.",),
            concludes=told if any(c.ours for c in cells) else "",
        )

    def _cell(self, made: Made, trained: str, tested: str) -> PaperCell:
        ours: dict[str, Ours] = {}
        if (found := made.get(paper_run(made.scope, "helios", by.HEADLINE))) is not None:
            lesson = by.paper_lesson(made.scope, "helios", trained, "wait", 0)
            ours[PAPER] = Ours(window_gain(found, Entry(lesson).group, Entry(tested).label, "wait"))
        if (steady := made.get(honest_run(made.scope, "helios"))) is not None:
            lesson = by.honest_lesson(made.scope, "helios", trained, "wait", 0)
            ours[HONEST] = Ours(steady_gain(steady, Entry(lesson, "easy").group, Entry(tested, "easy").label, "wait"))
        key = f"table7.{COLUMN[trained]}.{COLUMN[tested]}"
        row, column = f"trained on {BASE_TOLD[trained]}", f"wait over {BASE_TOLD[tested]}"
        return PaperCell.of_key(key, row, column, ours)

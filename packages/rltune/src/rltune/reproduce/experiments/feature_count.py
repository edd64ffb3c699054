"""Section 3.2: seven, eight or nine sampled features; and ours: raw features, all of them, the equations as printed."""

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

TRACE, BASE = "philly", "fcfs"
RECIPES = {
    "sampled-7": "7 sampled features",
    "sampled": "8 sampled features (the paper's choice)",
    "sampled-9": "9 sampled features",
    "naive": "9 raw features, nothing sampled",
    "paper-17": "all 17 features, nothing sampled",
    "paper-literal": "8 sampled features, Eqs. 1 and 2 as printed",
}


def lesson(scope: RunSize, features: str, seed: int) -> Lesson:
    """Return one training with these features."""
    return by.paper_lesson(scope, TRACE, BASE, "wait", seed, features=features)


def windows(scope: RunSize) -> HeldOutRun:
    """Return all of them on the same windows."""
    lessons = [lesson(scope, features, seed) for features in RECIPES for seed in scope.all_seeds]
    return by.paper_windows(scope, TRACE, lessons, by.HEADLINE, (BASE, "sjf", "saf"))


class FeatureCount(Experiment):
    """How many features the network is given."""

    names = ("features",)
    title = "Seven, eight or nine features"
    where = "section 3.2"

    def steps(self, scope: RunSize) -> tuple[Step, ...]:
        """Return the windows."""
        return (windows(scope),)

    def section(self, made: Made) -> Section:
        """Return the gain of each over FIFO, and of each over eight."""
        found = made.get(windows(made.scope))
        cells: list[PaperCell] = []
        if found is not None:
            eight = Entry(lesson(made.scope, "sampled", 0)).group
            for features, told in RECIPES.items():
                group = Entry(lesson(made.scope, features, 0)).group
                beside = window_gain(found, group, eight, "wait")
                note = "" if features == "sampled" else f"over eight: {beside}"
                ours = Ours(window_gain(found, group, Entry(BASE).label, "wait"), note=note)
                cells.append(PaperCell(told, f"wait over FIFO, {made.origin(TRACE).title}", {PAPER: ours}))
        differs = (
            [
                window_gain(found, Entry(lesson(made.scope, f, 0)).group, eight, "wait")
                for f in ("sampled-7", "sampled-9")
            ]
            if found
            else []
        )
        shown = any(gain.shown for gain in differs)
        return Section(
            self.names[0],
            self.title,
            self.where,
            cells=tuple(cells),
            differs=("The paper prints no numbers for this; it finds eight stable and more of no use.",),
            concludes=(
                ""
                if found is None
                else "The number of features makes a difference that is shown."
                if shown
                else "No difference between 7, 8 and 9 features is shown: the number does not decide."
            ),
        )

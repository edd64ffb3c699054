"""Section 3.2: seven, eight or nine sampled features; and ours: raw features, all of them, the equations as printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rltune.reproduce import protocols as by
from rltune.reproduce.cells import PAPER, Ours, PaperCell, Section
from rltune.reproduce.experiment import Experiment, Made
from rltune.reproduce.held_out import Entry, HeldOutRun
from rltune.reproduce.relative_gain import window_gain

if TYPE_CHECKING:
    from rltune.reproduce.lesson import Lesson
    from rltune.reproduce.run_size import RunSize
    from rltune.reproduce.step import Result, Step

TRACE, BASE = "philly", "fcfs"
COUNTS = ("sampled-7", "sampled", "sampled-9")
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
        cells = [_cell(made, found, features, told) for features, told in RECIPES.items()] if found is not None else []
        return Section(
            self.names[0],
            self.title,
            self.where,
            cells=tuple(cells),
            differs=("The paper prints no numbers for this; it finds eight stable and more of no use.",),
            concludes=_conclusion(made, found) if found is not None else "",
        )


def _cell(made: Made, found: Result, features: str, told: str) -> PaperCell:
    group = Entry(lesson(made.scope, features, 0)).group
    gains = ", ".join(f"{gain:.1f}" for gain in _by_seed(made, found, features))
    note = f"by seed: {gains} %"
    if features != "sampled":
        note += f"; over eight: {window_gain(found, group, Entry(lesson(made.scope, 'sampled', 0)).group, 'wait')}"
    ours = Ours(window_gain(found, group, Entry(BASE).label, "wait"), note=note)
    return PaperCell(told, f"wait over FIFO, {made.origin(TRACE).title}", {PAPER: ours})


def _by_seed(made: Made, found: Result, features: str) -> list[float]:
    base = np.mean(found["values"][Entry(BASE).label]["wait"])
    labels = [Entry(lesson(made.scope, features, seed)).label for seed in made.scope.all_seeds]
    return [float(100 * (1 - np.mean(found["values"][label]["wait"]) / base)) for label in labels]


def _conclusion(made: Made, found: Result) -> str:
    """Return how much seeds of one recipe differ beside how much recipes do: an interval knows of windows alone."""
    gains = {features: _by_seed(made, found, features) for features in COUNTS}
    within = max(max(values) - min(values) for values in gains.values())
    means = [float(np.mean(values)) for values in gains.values()]
    between = max(means) - min(means)
    if len(made.scope.all_seeds) < 2:
        return f"The means of 7, 8 and 9 features differ by {between:.0f} points; one seed each shows nothing."
    verdict = "more than the" if between > within else "no more than the"
    return (
        f"The means of 7, 8 and 9 features differ by {between:.0f} points, {verdict} {within:.0f} points by which two "
        "seeds of one recipe do, after trainings of minutes."
    )

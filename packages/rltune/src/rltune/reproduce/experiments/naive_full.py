"""Fig. 10: raw features on exclusive nodes against sampled features with the solver; and what each part is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rltune.reproduce import protocols as by
from rltune.reproduce.cells import PAPER, Figure, Ours, PaperCell, Section
from rltune.reproduce.drawing import Axes, Series, lines
from rltune.reproduce.experiment import Experiment, Made
from rltune.reproduce.held_out import Entry, HeldOutRun
from rltune.reproduce.relative_gain import window_gain

if TYPE_CHECKING:
    from rltune.reproduce.lesson import Lesson
    from rltune.reproduce.run_size import RunSize
    from rltune.reproduce.step import Step

TRACE, BASE, METRIC = "philly", "multifactor-paper", "slowdown"
NAIVE, FULL = "naive", "full"
TRAINED: dict[str, dict[str, Any]] = {
    NAIVE: {"features": "naive", "placement": "exclusive"},
    FULL: {"features": "sampled", "placement": "milp:8"},
    "without feature sampling": {"features": "paper-17", "placement": "milp:8"},
    "without the solver": {"features": "sampled", "placement": "best-fit"},
    "raw features, nodes shared": {"features": "naive", "placement": "best-fit"},
}
SOLVER_SHARE = 4  # with the solver a window takes much longer, so these trainings see fewer


def lesson(scope: RunSize, name: str, seed: int) -> Lesson:
    """Return one training of the five."""
    size = {"windows": max(8, scope.windows // SOLVER_SHARE), "epochs": min(8, scope.epochs)}  # the same for all
    return by.paper_lesson(
        scope, TRACE, BASE, METRIC, seed, **{**size, "held_windows": 3, "starts": (0,)}, **TRAINED[name]
    )


def seeds_of(scope: RunSize) -> range:
    """Return the seeds: fewer than elsewhere, because of the solver."""
    return range(max(1, scope.seeds // 2))


def shown(scope: RunSize) -> tuple[str, ...]:
    """Return which trainings are run: naive and full always, the parts unless in a hurry."""
    return tuple(TRAINED) if scope.ablations else (NAIVE, FULL)


def _entries(scope: RunSize) -> dict[str, tuple[Entry, ...]]:
    seeds = seeds_of(scope)
    made = {name: tuple(_entry(lesson(scope, name, seed)) for seed in seeds) for name in shown(scope)}
    if scope.ablations:
        full = [lesson(scope, FULL, seed) for seed in seeds]
        made["full with search"] = tuple(Entry(each, placement="best-fit", search="16") for each in full)
        made["full with a guard"] = tuple(Entry(each, placement="milp:8", guard="24h:4x") for each in full)
    return made


def _entry(trained: Lesson) -> Entry:
    return Entry(trained, placement=trained.placement)


def windows(scope: RunSize, estimator: str) -> HeldOutRun:
    """Return all of them on the same windows."""
    entries = [Entry(BASE), Entry("fcfs"), Entry("saf"), *(e for each in _entries(scope).values() for e in each)]
    return HeldOutRun(TRACE, tuple(entries), estimator, "global", every=max(scope.every, 1024))


class NaiveFull(Experiment):
    """What features and solver are worth."""

    names = ("fig10", "ablations")
    title = "Naive against full, and what each part is worth"
    where = "section 5.1: Fig. 10"

    def steps(self, scope: RunSize) -> tuple[Step, ...]:
        """Return the windows, with noisy estimates and, for the value of better ones, with the truth."""
        return tuple(windows(scope, estimator) for estimator in (by.NOISY, *((by.TRUTH,) if scope.ablations else ())))

    def section(self, made: Made) -> Section:
        """Return the paper's cell, and a row for each part."""
        found = made.get(windows(made.scope, by.NOISY))
        groups = {name: entries[0].group for name, entries in _entries(made.scope).items()}
        ours, cells = {}, []
        if found is not None:
            ours[PAPER] = Ours(window_gain(found, groups[FULL], groups[NAIVE], METRIC))
            for name, group in groups.items():
                beside = "" if name == FULL else f"full over this: {window_gain(found, groups[FULL], group, METRIC)}"
                gain = window_gain(found, group, Entry(BASE).label, METRIC)
                cells.append(PaperCell(name, "bounded slowdown over multifactor", {PAPER: Ours(gain, note=beside)}))
        truth = made.get(windows(made.scope, by.TRUTH)) if made.scope.ablations else None
        if truth is not None:
            gain = window_gain(truth, groups[FULL], Entry(BASE).label, METRIC)
            told = Ours(gain, note="the same network, true run times for both")
            cells.append(PaperCell("full, true run times", "bounded slowdown over multifactor", {PAPER: told}))
        title = made.origin(TRACE).title
        first = PaperCell.of_key("fig10.philly.bsld", f"{title}, full over naive", "bounded slowdown", ours)
        return Section(
            self.names[0],
            self.title,
            self.where,
            cells=(first, *cells),
            figures=tuple(self._curves(made)),
            differs=(
                (
                    "Naive: raw features, a node for one job at a time. Full: eight sampled features, trained with the "
                    "solver in the loop. With the solver a window takes long, so all of these saw fewer windows."
                ),
            ),
            concludes=_conclusion(first),
        )

    def _curves(self, made: Made) -> list[Figure]:
        series = []
        for i, name in enumerate((NAIVE, FULL)):
            if (found := made.get(lesson(made.scope, name, 0))) is not None:
                log = found["log"][1:]
                series.append(Series(name, [e["epoch"] for e in log], [100 * e["reward"] for e in log], i))
        if not series:
            return []
        told = "bounded slowdown, against Slurm's multifactor"
        return [Figure("fig10", f"Fig. 10: {told}", lines(Axes(told, "epoch", "gap to the base, %"), series))]


def _conclusion(cell: PaperCell) -> str:
    if PAPER not in cell.ours:
        return ""
    return f"Full has {cell.ours[PAPER]} less bounded slowdown than naive (paper: {cell.paper})."

"""Figs. 1 to 4 and section 5.6 (Figs. 18 and 19) on a real Slurm with fake GPUs, where one can be run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rltune.lab.deployment.run_deployment import MODEL
from rltune.lab.experiment.experiment_plan import Arm
from rltune.reproduce.cells import PAPER, Figure, Ours, PaperCell, Plain, Section
from rltune.reproduce.experiment import Experiment, Made
from rltune.reproduce.relative_gain import RelativeGain
from rltune.reproduce.slurm_run import OnSlurm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rltune.reproduce.run_size import RunSize
    from rltune.reproduce.step import Result, Step

NOT_RUN = "Slurm's experiments are not part of the quick look; they run with the others."
KEYS = {"makespan": "fig18.makespan", "wait": "fig18.wait", "utilisation": "fig19.util"}
TOLD = {"makespan": "makespan", "wait": "mean wait", "utilisation": "GPU utilisation"}
SIGN = {"makespan": -100.0, "wait": -100.0, "utilisation": 100.0}


def _found(made: Made, steps: tuple[Step, ...]) -> Result | None:
    return made.get(steps[0]) if steps else {"missing": NOT_RUN}


class PackOrSpread(Experiment):
    """Pack or spread, and priorities swapped."""

    names = ("fig1", "fig2", "fig3", "fig4")
    title = "Slurm: one job a node or packed, and priorities swapped"
    where = "section 2: Figs. 1 to 4"

    def steps(self, scope: RunSize) -> tuple[Step, ...]:
        """Return the run."""
        return (OnSlurm("motivation"),) if scope.slurm_jobs else ()

    def section(self, made: Made) -> Section:
        """Return the four arms with their pictures."""
        found = _found(made, self.steps(made.scope))
        if found is None or "missing" in found:
            missing = (found["missing"],) if found else ()
            return Section(self.names[0], self.title, self.where, missing=missing)
        rows = tuple(
            (
                f"Fig. {arm['arm']['figure']}: {arm['arm']['name']}",
                f"{arm['wait_s'] / 60:.0f}",
                f"{arm['makespan_s'] / 60:.0f}",
                f"{100 * arm['utilisation']:.0f} %",
                f"{100 * arm['wait_error']:+.1f} %",
            )
            for arm in found["arms"]
        )
        heads = ("arm", "all waits, min", "makespan, min", "utilisation", "simulated wait is off by")
        figures = tuple(
            Figure(f"slurm-{name.removesuffix('.svg')}", f"As Fig. {name.removesuffix('.svg')[-1]}", svg)
            for name, svg in found["svg"].items()
        )
        return Section(
            self.names[0],
            self.title,
            self.where,
            tables=(Plain(heads, rows, f"Recorded by Slurm {found['arms'][0]['slurm']}."),),
            figures=figures,
            differs=tuple(found["notes"]),
            concludes=" ".join(_effects(found)),
        )


def _effects(found: Result) -> Iterator[str]:
    for effect in found["effects"]:
        wait, span = 100 * effect["wait"], 100 * effect["makespan"]
        yield f"{effect['name'].capitalize()}: waits {wait:+.0f} %, makespan {span:+.0f} %."


class OnRealSlurm(Experiment):
    """The deployment of section 5.6."""

    names = ("fig18", "fig19")
    title = "A real Slurm of five nodes"
    where = "section 5.6: Figs. 18 and 19"

    def steps(self, scope: RunSize) -> tuple[Step, ...]:
        """Return the run."""
        return (OnSlurm("deployment", scope.slurm_jobs, scope.slurm_seeds),) if scope.slurm_jobs else ()

    def section(self, made: Made) -> Section:
        """Return makespan, wait and utilisation over Slurm alone."""
        found = _found(made, self.steps(made.scope))
        if found is None or "missing" in found:
            missing = (found["missing"],) if found else ()
            return Section(self.names[0], self.title, self.where, missing=missing)
        cells = tuple(_cell(found, gain) for gain in found["gains"])
        figures = tuple(
            Figure(f"slurm-{name.removesuffix('.svg')}", title, found["svg"][name])
            for name, title in (("gantt.svg", "The runs of one seed"), ("utilisation.svg", "Fig. 19: GPUs in use"))
            if found["svg"].get(name)
        )
        return Section(
            self.names[0],
            self.title,
            self.where,
            cells=cells,
            tables=(_runs(found),),
            figures=figures,
            differs=(
                (
                    f"{found['jobs']} jobs and {found['seeds']} seeds on Slurm {found['slurm']} with fake GPUs, a "
                    "clock 60 times as fast, and jobs that sleep. The paper ran 1,024 real jobs once."
                ),
                *found["notes"],
            ),
            concludes=_conclusion(cells),
        )


def _cell(found: Result, gain: dict[str, Any]) -> PaperCell:
    sign = SIGN[gain["measure"]]
    bounds = [gain["change_low"], gain["change_high"]]
    known = [sign * bound for bound in bounds if bound is not None]
    by_seed = ", ".join(f"{sign * change:.1f}" for change in gain["by_seed"])
    ours = Ours(RelativeGain(sign * gain["change"], *sorted(known)), note=f"by seed: {by_seed} %")
    row, column = f"{gain['arm']}, {found['jobs']} jobs", f"{TOLD[gain['measure']]} over multifactor"
    if gain["arm"] == Arm.driven(MODEL).name:
        return PaperCell.of_key(KEYS[gain["measure"]], row, column, {PAPER: ours})
    return PaperCell(row, column, {PAPER: ours})


def _runs(found: Result) -> Plain:
    heads = ("run", "mean wait, min", "makespan, h", "utilisation", "simulated wait is off by")
    rows = tuple(
        (
            f"{run['arm']}, seed {run['seed']}",
            f"{run['wait_s'] / 60:.1f}",
            f"{run['makespan_s'] / 3600:.1f}",
            f"{100 * run['utilisation']:.1f} %",
            f"{100 * (run['simulated_wait_s'] / run['wait_s'] - 1):+.1f} %",
        )
        for run in found["runs"]
    )
    return Plain(heads, rows, "Every run, in the cluster's time.")


def _conclusion(cells: tuple[PaperCell, ...]) -> str:
    printed = [cell for cell in cells if cell.key]
    return "; ".join(f"{cell.column}: {cell.ours[PAPER]} (paper {cell.paper})" for cell in printed) + "."

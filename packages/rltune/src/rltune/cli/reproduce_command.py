"""`rltune reproduce`: the paper's evaluation by one command."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rltune.cli import options
from rltune.cli.console import say, show_line
from rltune.cli.options import examples
from rltune.cli.parsing import split
from rltune.cli.terminal_progress import bar
from rltune.cli.train_command import require_torch
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.reproduce.page import Reproduction
    from rltune.reproduce.run_size import RunSize

EXAMPLES = examples(
    "rltune reproduce --out again --quick",
    "rltune reproduce --traces traces --out again --workers 2",
    "rltune reproduce --out again --only table7,table9 --quick",
)

Out = Annotated[
    Path,
    typer.Option(
        "--out", "-o", help="The folder for report.html, results.json, figures and what is kept.", metavar="DIR"
    ),
]
Traces = Annotated[
    Path | None,
    typer.Option("--traces", help="A folder that holds the public traces; without it jobs are made up.", metavar="DIR"),
]
Quick = Annotated[bool, typer.Option("--quick", help="Small trainings, few windows: about 15 minutes on two cores.")]
Full = Annotated[bool, typer.Option("--full", help="More base policies, five seeds, long trainings: a night.")]
Only = Annotated[
    str | None, typer.Option(help="Only these experiments, a list with commas: table9,fig12.", metavar="LIST")
]
Budget = Annotated[
    float | None,
    typer.Option(help="Stop after so many minutes; what matters least is left out.", metavar="MINUTES"),
]


def reproduce(
    out: Out,
    folder: Traces = None,
    quick: Quick = False,
    full: Full = False,
    only: Only = None,
    budget: Budget = None,
    workers: options.Workers = 1,
) -> None:
    """Run the experiments of the RLTune paper, and set its numbers beside ours.

    Results are kept in the folder, so that the same command goes on where it was interrupted, and runs only what has
    changed. The report is written after every experiment.
    """
    scope = _scope(quick=quick, full=full)
    if budget is not None and not budget >= 0:
        raise InputError(f"--budget should be 0 minutes or more, not {budget:g}")
    require_torch()
    from rltune.reproduce.perform_experiments import perform

    with bar("reproducing") as tell:
        made = perform(
            out,
            folder,
            scope,
            split(only) if only else [],
            budget_s=float("inf") if budget is None else 60 * budget,
            workers=workers,
            tell=lambda at: tell(at.done, at.steps, f"about {at.left_s / 60:.0f} min left; {at.last}"),
            say=say,
        )
    _show(made, out)


def _scope(*, quick: bool, full: bool) -> "RunSize":
    if quick and full:
        raise InputError("--quick and --full cannot both be")
    from rltune.reproduce import run_size

    return run_size.QUICK if quick else run_size.FULL if full else run_size.PAPER


def _show(made: "Reproduction", out: Path) -> None:
    for line in made.lead():
        show_line(line)
    for section in made.sections:
        if section.concludes:
            show_line(f"{section.name}: {section.concludes}")
        for missing in section.missing:
            show_line(f"{section.name}: left out: {missing}")
    show_line(f"report: {out / 'report.html'}")
    show_line(f"results: {out / 'results.json'}")

"""`rltune model show` and `check`: what a trained policy is and where it comes from."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rltune.cli import options
from rltune.cli.command import Command
from rltune.cli.console import show, show_line
from rltune.cli.exits import Mannered
from rltune.cli.options import examples
from rltune.cli.outputs import Outputs
from rltune.cli.trace_argument import load_workload

if TYPE_CHECKING:
    from rich.table import Table

    from rltune.model.learned_model import Model

app = typer.Typer(cls=Mannered, no_args_is_help=True, help="Look at trained policies.")

ModelFile = Annotated[
    str, typer.Argument(help="A file that `rltune train` or `evolve` wrote, or learned:NAME.", metavar="MODEL")
]


@app.command("show", cls=Command, epilog=examples("rltune model show mine.rltune", "rltune model show learned:philly"))
def show_model(model: ModelFile, json: options.JsonOrFile = None, force: options.Force = False) -> None:
    """Show a model: its card, its network, and the range of each input in training."""
    outputs = Outputs(json)
    outputs.require_free(force=force)
    found = _read(model)
    outputs.write_json({**dict(_facts(found)), "inputs": _ranges(found), "card": found.card.to_dict()})
    if outputs.only_json:
        return
    for name, value in (*_facts(found), *found.card.entries()):
        show_line(f"{name.replace('_', ' ')}: {value}")
    show(_table(found))
    outputs.name_files()


@app.command(
    cls=Command, epilog=examples("rltune model check mine.rltune", "rltune model check learned:philly history.txt")
)
def check(
    model: ModelFile,
    trace: Annotated[
        str | None,
        typer.Argument(help=f"Say which of these jobs taught it: {options.TRACE}.", metavar="TRACE"),
    ] = None,
    format: options.Format = None,  # noqa: A002  the option's name
) -> None:
    """Make sure that a file is a model, undamaged, and one that this version can use.

    A sample of its answers is computed, which tells numbers that no network should have. With a trace, it is said
    whether jobs of it taught the model, so that it cannot be judged on them.
    """
    from rltune.model.probe import require_sound

    found = _read(model)
    require_sound(found, model)
    overlap = _overlap(found, model, trace, format) if trace is not None else ()
    show_line(f"{model}: is a model of {len(found.weights):,} weights over {', '.join(found.recipe.inputs)}")
    show_line(f"sha256 {found.sha256}")
    for line in overlap:
        show_line(line)


def _overlap(model: "Model", name: str, trace: str, format_name: str | None) -> tuple[str, ...]:
    """Return which of a trace's jobs taught the model."""
    from rltune.policy.learned import Learned
    from rltune.trials.leak import Exam, leaks

    work = load_workload(trace, format_name)
    none = f"none of the {len(work.jobs):,} jobs of {trace} taught or chose it, as far as its card can tell"
    return tuple(leaks([Learned(model, name)], [Exam(work.jobs, f"of {trace}")])) or (none,)


def _read(spec: str) -> "Model":
    """Read a file, or a model that ships with the package by its name."""
    from rltune.model.model_file import read_model
    from rltune.policy.by_name import LEARNED, get_policy
    from rltune.policy.learned import Learned

    if spec.partition(":")[0] != LEARNED:
        return read_model(spec)
    found = get_policy(spec)
    assert isinstance(found, Learned)
    return found.model


def _facts(model: "Model") -> Iterator[tuple[str, Any]]:
    yield "features", model.recipe.name
    yield "layers", " x ".join(map(str, model.sizes))
    yield "weights", len(model.weights)
    yield "base policy", model.base
    yield "outside the range of training", _DRIFT[model.drift]
    yield "sha256", model.sha256


_DRIFT = {
    "off": "nothing is done",
    "job": "a job is placed by the base policy",
    "whole": "the base policy orders the queue",
}


def _ranges(model: "Model") -> list[dict[str, Any]]:
    keys = ("mean", "scale", "low", "high")
    rows = zip(model.recipe.inputs, model.norm.tolist(), strict=True)
    return [{"name": name, **dict(zip(keys, row, strict=True))} for name, row in rows]


def _table(model: "Model") -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table("input", "mean", "deviation", "low", "high", box=None, padding=(0, 2, 0, 0))
    for column in table.columns[1:]:
        column.justify = "right"
    for row in _ranges(model):
        numbers = (row["mean"], 1 / row["scale"], row["low"], row["high"])
        table.add_row(Text(row["name"]), *(Text(f"{n:.3g}") for n in numbers))
    return table

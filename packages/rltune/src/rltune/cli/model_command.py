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
    outputs.require_free(force=force, inputs=[model])
    found = _read(model)
    outputs.write_json({**dict(_facts(found)), "inputs": _ranges(found), "card": found.card})
    if outputs.only_json:
        return
    for name, value in (*_facts(found), *_flat(found.card)):
        show_line(f"{name}: {value}")
    show(_table(found))
    outputs.name_files()


@app.command(cls=Command, epilog=examples("rltune model check mine.rltune"))
def check(model: ModelFile) -> None:
    """Make sure that a file is a model, undamaged, and one that this version can use.

    A sample of its answers is computed, which tells numbers that no network should have.
    """
    from rltune.model.probe import require_sound

    found = _read(model)
    require_sound(found, model)
    show_line(f"{model}: is a model of {len(found.weights):,} weights over {', '.join(found.recipe.inputs)}")
    show_line(f"sha256 {found.sha256}")


def _read(spec: str) -> "Model":
    """Read a file, or a model that ships with the package by its name."""
    from rltune.model.learned_model import read_model
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


def _flat(card: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Return a card's entries, those of an entry in an entry with both names."""
    for name, value in card.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        for key, given in inner:
            text = ", ".join(map(str, given)) if isinstance(given, list) else given
            yield f"{name} {key}".strip().replace("_", " "), text


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

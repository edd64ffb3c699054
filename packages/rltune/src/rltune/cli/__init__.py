"""The command `rltune`, by noun and verb. What is heavy is imported inside the commands, so that --help is quick."""

from typing import Annotated

import typer

from rltune.cli import cluster_command as cluster
from rltune.cli import compare_command as compare
from rltune.cli import control_command as control
from rltune.cli import evaluate_command as evaluate
from rltune.cli import evolve_command as evolve
from rltune.cli import journal_command as journal
from rltune.cli import model_command as model
from rltune.cli import policies_command as policies
from rltune.cli import simulate_command as simulate
from rltune.cli import slurm_command as slurm
from rltune.cli import trace_command as trace
from rltune.cli import train_command as train
from rltune.cli import transfer_command as transfer
from rltune.cli.exits import JsonMayNameAFile, Mannered
from rltune.cli.options import examples

app = typer.Typer(
    cls=Mannered,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=examples(
        "rltune compare --trace synth:philly --cluster philly-slice",
        "rltune trace check history.txt",
        "rltune compare --help",
    ),
)
app.add_typer(trace.app, name="trace")
app.add_typer(cluster.app, name="cluster")
app.add_typer(slurm.app, name="slurm")
app.command(cls=JsonMayNameAFile, epilog=simulate.EXAMPLES)(simulate.simulate)
app.command(cls=JsonMayNameAFile, epilog=compare.EXAMPLES)(compare.compare)
app.command(cls=JsonMayNameAFile, epilog=evaluate.EXAMPLES)(evaluate.evaluate)
app.command(cls=JsonMayNameAFile, epilog=transfer.EXAMPLES)(transfer.transfer)
app.command(epilog=train.EXAMPLES)(train.train)
app.command(epilog=evolve.EXAMPLES)(evolve.evolve)
app.add_typer(model.app, name="model")
app.command(epilog=policies.EXAMPLES)(policies.policies)
app.command(epilog=control.EXAMPLES)(control.control)
app.add_typer(journal.app, name="journal")


def _version(wanted: bool) -> None:
    if wanted:
        from rltune.version import __version__

        typer.echo(f"rltune {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Tell the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Replay a GPU cluster's history under any scheduling policy, and compare honestly."""


def main() -> None:
    """Run the command."""
    app(prog_name="rltune")

"""The command `rltune`, by noun and verb. What is heavy is imported inside the commands, so that --help is quick."""

from typing import Annotated

import typer

from rltune.cli import calibrate_command as calibrate
from rltune.cli import cluster_command as cluster
from rltune.cli import compare_command as compare
from rltune.cli import control_command as control
from rltune.cli import evaluate_command as evaluate
from rltune.cli import evolve_command as evolve
from rltune.cli import explain_command as explain
from rltune.cli import forecast_command as forecast
from rltune.cli import journal_command as journal
from rltune.cli import model_command as model
from rltune.cli import policies_command as policies
from rltune.cli import reproduce_command as reproduce
from rltune.cli import serve_command as serve
from rltune.cli import simulate_command as simulate
from rltune.cli import slurm_command as slurm
from rltune.cli import trace_command as trace
from rltune.cli import train_command as train
from rltune.cli import transfer_command as transfer
from rltune.cli import tune_command as tune
from rltune.cli import turns_command as turns
from rltune.cli import whatif_command as whatif
from rltune.cli.command import Command
from rltune.cli.exits import HISTORY, JUDGE, LEARN, RUN, Mannered, whole_output
from rltune.cli.options import examples

START = """\
rltune replays the history of a GPU cluster under any scheduling policy, and says which one makes jobs wait least.

Try:
  rltune compare synth:philly --cluster philly-slice    the usual policies on a made-up history: no file is needed
  rltune trace check history.txt                        your own history (sacct, SWF, csv, ...): what is in it?
  rltune policies                                       who may run next, and how to bring your own

All commands: rltune --help. One of them: rltune compare --help."""

app = typer.Typer(
    cls=Mannered,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 120},
    epilog=examples(
        "rltune compare synth:philly --cluster philly-slice",
        "rltune trace check history.txt",
        "rltune compare --help",
    ),
)
app.add_typer(trace.app, name="trace", rich_help_panel=HISTORY)
app.add_typer(cluster.app, name="cluster", rich_help_panel=HISTORY)
app.command(cls=Command, epilog=calibrate.EXAMPLES, rich_help_panel=HISTORY)(calibrate.calibrate)
app.command(cls=Command, epilog=tune.EXAMPLES, rich_help_panel=JUDGE)(tune.tune)
app.command(cls=Command, epilog=simulate.EXAMPLES, rich_help_panel=JUDGE)(simulate.simulate)
app.command(cls=Command, epilog=compare.EXAMPLES, rich_help_panel=JUDGE)(compare.compare)
app.command(cls=Command, epilog=evaluate.EXAMPLES, rich_help_panel=JUDGE)(evaluate.evaluate)
app.command(cls=Command, epilog=transfer.EXAMPLES, rich_help_panel=JUDGE)(transfer.transfer)
app.command(cls=Command, epilog=turns.EXAMPLES, rich_help_panel=JUDGE)(turns.turns)
app.command(cls=Command, epilog=whatif.EXAMPLES, rich_help_panel=JUDGE)(whatif.whatif)
app.command(cls=Command, epilog=policies.EXAMPLES, rich_help_panel=JUDGE)(policies.policies)
app.command(cls=Command, epilog=reproduce.EXAMPLES, rich_help_panel=JUDGE)(reproduce.reproduce)
app.command(cls=Command, epilog=train.EXAMPLES, rich_help_panel=LEARN)(train.train)
app.command(cls=Command, epilog=evolve.EXAMPLES, rich_help_panel=LEARN)(evolve.evolve)
app.add_typer(model.app, name="model", rich_help_panel=LEARN)
app.command(
    cls=Command,
    epilog=control.EXAMPLES,
    rich_help_panel=RUN,
    short_help="Watch a running Slurm, advise it or drive it.",
)(control.control)
app.command(cls=Command, epilog=explain.EXAMPLES, rich_help_panel=RUN)(explain.explain)
app.command(cls=Command, epilog=forecast.EXAMPLES, rich_help_panel=RUN)(forecast.forecast)
app.add_typer(journal.app, name="journal", rich_help_panel=RUN)
app.command(cls=Command, epilog=serve.EXAMPLES, rich_help_panel=RUN)(serve.serve)
app.add_typer(slurm.app, name="slurm", rich_help_panel=RUN)


def _version(wanted: bool) -> None:
    if wanted:
        from rltune.version import __version__

        typer.echo(f"rltune {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    ctx: typer.Context,
    version: Annotated[  # noqa: ARG001  acts when it is read
        bool, typer.Option("--version", help="Tell the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Replay a GPU cluster's history under any scheduling policy, and compare honestly."""
    if ctx.invoked_subcommand is None:
        typer.echo(START)


def run() -> None:
    """Read the words of the command line and do what they say."""
    with whole_output():
        app(prog_name="rltune")

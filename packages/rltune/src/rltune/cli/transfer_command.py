"""`rltune transfer`: how models fare on traces that they were not trained on."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rltune.cli import completion as complete
from rltune.cli import options
from rltune.cli.compile_notice import compile_core
from rltune.cli.console import show_json, show_line, show_table, write_json
from rltune.cli.evaluate_command import RULES, Contended, Every, Holdout, Measure, Processes, RayAddress, Size
from rltune.cli.named_pipeline import Outputs, named, split
from rltune.cli.options import examples
from rltune.cli.progress_bar import bar
from rltune.cli.trace_argument import load_workload
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.evaluation.transfer import Ground

EXAMPLES = examples(
    "rltune transfer --models a.rltune,b.rltune --traces a.csv,b.csv --clusters a.toml,b.toml",
    "rltune transfer --models saf,f1 --traces synth:philly,synth:helios --clusters philly-slice,helios-slice -b easy",
)

Models = Annotated[
    str,
    typer.Option(
        "--models",
        "-m",
        help="The models, a list with commas: model files, or names of `rltune policies`.",
        metavar="LIST",
        autocompletion=complete.policies,
    ),
]
Traces = Annotated[
    str,
    typer.Option("--traces", "-t", help=f"The histories, a list with commas. Each is {options.TRACE}.", metavar="LIST"),
]
Clusters = Annotated[
    str,
    typer.Option(
        "--clusters",
        "-c",
        help="A cluster for each trace, in their order, or one for all: presets or TOML files.",
        metavar="LIST",
        autocompletion=complete.presets,
    ),
]
Rules = Annotated[
    str,
    typer.Option(
        help="The rules of which the best is compared with, a list with commas.",
        metavar="LIST",
        autocompletion=complete.policies,
    ),
]


def transfer(
    models: Models,
    traces: Traces,
    clusters: Clusters,
    rules: Rules = RULES,
    backfill: options.Backfill = "none",
    placement: options.Placement = "best-fit",
    estimator: options.Estimator = "history",
    holdout: Holdout = 0.1,
    windows: Size = 1024,
    every: Every = 64,
    contended: Contended = 600.0,
    metric: Measure = "wait",
    head: options.Head = "pool",
    view: options.View = 0,
    seed: options.Seed = 0,
    jobs: Processes = 1,
    ray: RayAddress = None,
    format: options.Format = None,  # noqa: A002
    json: options.JsonOrFile = None,
    force: options.Force = False,
) -> None:
    """Run each model on the held-out part of each history.

    Shown are the gap to the model's base policy, as it was trained for, and the ratio to the best rule of each history.
    """
    names, known = split(models), split(rules)
    outputs = Outputs(json, None, None)
    outputs.require_free(force=force, inputs=[])
    from rltune.estimate import get_estimator
    from rltune.evaluation.evaluate import require_measured
    from rltune.evaluation.transfer import transfer as run
    from rltune.parallel import spread_over
    from rltune.trials.pipelines import line_up

    require_measured(metric)
    get_estimator(estimator)
    pipelines = line_up([*names, *known], [backfill], [placement], head=head, view=view)
    grounds, told = _grounds(traces_of(traces), split(clusters), format)
    compile_core(pipelines)
    how: dict[str, Any] = {"holdout": holdout, "size": windows, "every": every, "contended_s": contended}
    how |= {"metric": metric, "head": head, "view": view, "seed": seed}
    with spread_over(jobs, ray) as spread, bar("evaluating") as tell:
        made = run(names, grounds, known, backfill, placement, estimator, spread=spread, progress=tell, **how)
    from rltune.evaluation.transfer_tables import matrix, notes
    from rltune.version import __version__

    content = {"rltune": __version__, **made.to_dict(), "notes": [*told, *notes(made)]}
    if outputs.json_file is not None:
        write_json(content, outputs.json_file)
    if outputs.only_json:
        show_json(content)
        return
    for line in told:
        show_line(line)
    show_table(matrix(made))
    if outputs.json_file is not None:
        show_line(f"JSON: {outputs.json_file}")


def traces_of(text: str) -> list[str]:
    """Take a list of traces apart; a comma within `synth:philly,jobs=5000` does not end it."""
    listed: list[str] = []
    for part in split(text):
        if listed and listed[-1].startswith("synth:") and "=" in part and ":" not in part:
            listed[-1] += f",{part}"
        else:
            listed.append(part)
    return listed


def _grounds(traces: list[str], clusters: list[str], format_name: str | None) -> tuple[list["Ground"], list[str]]:
    """Load every trace with its cluster; give what must be known of each."""
    from rltune.cluster import Cluster
    from rltune.evaluation.transfer import Ground

    if len(clusters) not in {1, len(traces)}:
        raise InputError(
            f"{len(traces)} traces and {len(clusters)} clusters: give one cluster for each, or one for all"
        )
    grounds, told = [], []
    for trace, name in zip(traces, clusters * (len(traces) // len(clusters)), strict=True):
        on = Cluster.load(name)
        work = load_workload(trace, format_name, on)
        short = trace.rpartition("/")[2]
        grounds.append(Ground(short, work.jobs, on))
        told += [f"{short}: {work.name} on {named(on, name)}", *(f"{short}: {note}" for note in work.notes)]
    return grounds, told

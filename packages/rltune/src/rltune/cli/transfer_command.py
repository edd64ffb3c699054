"""`rltune transfer`: how models fare on traces that they were not trained on."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rltune.cli import completion as complete
from rltune.cli import options
from rltune.cli.compile_notice import compile_core
from rltune.cli.console import show_line, show_table
from rltune.cli.evaluate_command import RULES, WINDOWS, held_out, require_known
from rltune.cli.options import examples
from rltune.cli.outputs import Outputs, cluster_line
from rltune.cli.parsing import cluster_for_each, split
from rltune.cli.terminal_progress import bar
from rltune.cli.trace_argument import load_workload

if TYPE_CHECKING:
    from rltune.evaluation.transfer import Ground, Transfer

EXAMPLES = examples(
    "rltune transfer a.csv b.csv -c a.toml,b.toml -p a.rltune,b.rltune",
    "rltune transfer synth:philly synth:helios -c philly-slice,helios-slice -p saf,f1 -b easy",
)

Judged = Annotated[
    str,
    typer.Option(
        "--policy",
        "-p",
        help="Who is judged, a list with commas: model files (mine.rltune), or names of `rltune policies`.",
        metavar="LIST",
        autocompletion=complete.policies,
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
    trace: options.Traces,
    cluster: options.Clusters,
    policy: Judged,
    backfill: options.Backfill = None,
    placement: options.Placement = None,
    rules: Rules = RULES,
    windows: options.HeldOutWindows = WINDOWS,
    estimator: options.Estimator = "history",
    metric: options.HeldOutMetric = "wait",
    seed: options.Seed = 0,
    workers: options.Workers = 1,
    json: options.JsonOrFile = None,
    force: options.Force = False,
    holdout: options.Holdout = 0.0,
    head: options.Head = "pool",
    view: options.View = 0,
    ray: options.Ray = None,
    allow_rejected: options.AllowRejected = False,
    format: options.Format = None,  # noqa: A002
) -> None:
    """Run each model on the held-out part of each history.

    Shown are the gap to the model's base policy, as it was trained for, and the ratio to the best rule of each history.
    """
    names, known = split(policy), split(rules)
    outputs = Outputs(json)
    outputs.require_free(force=force)
    require_known([estimator or "history"], metric)
    from rltune.evaluation.transfer import transfer as run
    from rltune.parallel import spread_over
    from rltune.trials.pipelines import line_up

    under = (backfill or "none", placement or "best-fit")
    pipelines = line_up([*names, *known], *([part] for part in under), head=head, view=view)
    how: dict[str, Any] = {"holdout": holdout, "metric": metric, "head": head, "view": view, "seed": seed}
    how |= held_out(windows)
    grounds, told = _grounds(trace, cluster_for_each(trace, cluster), format, allow_rejected=allow_rejected)
    compile_core(pipelines)
    with spread_over(workers, ray) as spread, bar("evaluating") as tell:
        made = run(names, grounds, known, *under, estimator, spread=spread, progress=tell, **how)
    _write(made, outputs, told)


def _write(made: "Transfer", outputs: Outputs, told: list[str]) -> None:
    from rltune.evaluation.transfer_tables import matrix, transfer_notes
    from rltune.version import __version__

    outputs.write_json({"rltune": __version__, **made.to_dict(), "notes": [*told, *transfer_notes(made)]})
    if outputs.only_json:
        return
    for line in told:
        show_line(line)
    show_table(matrix(made))
    outputs.name_files()


def _grounds(
    traces: list[str], clusters: list[str], format_name: str | None, *, allow_rejected: bool
) -> tuple[list["Ground"], list[str]]:
    """Load every trace with its cluster; give what must be known of each."""
    from rltune.cluster import Cluster
    from rltune.evaluation.transfer import Ground

    grounds, told = [], []
    for trace, name in zip(traces, clusters, strict=True):
        on = Cluster.load(name)
        work = load_workload(trace, format_name, on, allow_rejected=allow_rejected)
        short = trace.rpartition("/")[2]
        grounds.append(Ground(short, work.jobs, on))
        told += [f"{short}: {work.name} on {cluster_line(on, name)}", *(f"{short}: {note}" for note in work.notes)]
    return grounds, told

"""`rltune compare`: many pipelines on the same windows of one history."""

import json as json_text
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rltune.cli import options, pipeline_options
from rltune.cli.compile_notice import compile_core
from rltune.cli.console import say, show, show_line, show_table
from rltune.cli.exits import INTERRUPTED
from rltune.cli.opt_in_options import OptIn
from rltune.cli.options import examples
from rltune.cli.outputs import Outputs, cluster_line, with_notes
from rltune.cli.terminal_progress import bar
from rltune.cli.trace_argument import Workload, load_workload

if TYPE_CHECKING:
    from rltune.engine.pipeline import Pipeline
    from rltune.evaluation import Comparison
    from rltune.trials.windows import Spec

EXAMPLES = examples(
    "rltune compare synth:philly -c philly-slice -p fcfs,saf,wfp3 -b none,easy",
    "rltune compare history.txt -c my.toml -w 20x1024 --baseline 'saf + easy'",
    "rltune compare history.txt -c my.toml --pipeline 'saf + easy' --pipeline 'learned + easy, milp:8'",
    "rltune compare history.txt -c my.toml -p saf,mine.py:score --report out/mine.html",
)
USUAL = "fcfs,sjf,saf,wfp3,qssf,multifactor,learned"
Policies = Annotated[str | None, options.policies(USUAL)]


def compare(
    trace: options.Trace,
    cluster: options.Cluster,
    policy: Policies = None,
    backfill: options.Backfills = "none,easy",
    placement: options.Placements = "best-fit",
    pipeline: options.Pipelines = None,
    windows: options.Windows = "whole",
    estimator: options.Estimator = "history",
    guard: options.Guard = "off",
    preempt: options.Preempt = "off",
    baseline: options.Baseline = None,
    metric: options.Metric = "wait",
    seed: options.Seed = 0,
    workers: options.Workers = 1,
    details: options.Details = False,
    json: options.JsonOrFile = None,
    jobs_file: options.JobsFile = None,
    report: options.ReportFile = None,
    force: options.Force = False,
    warm: options.Warm = False,
    head: options.Head = "pool",
    view: options.View = 0,
    cycle: options.Cycle = 0.0,
    search: options.Search = "off",
    remaining: options.Remaining = "ends-now",
    commit: options.Commit = False,
    preemptible: options.Preemptible = None,
    checkpoint: options.Checkpoint = None,
    restart: options.Restart = None,
    format: options.Format = None,  # noqa: A002
) -> None:
    """Compare policies on the same windows of a history.

    Each policy runs with each backfilling and each placement. Every difference stands with its confidence interval,
    every pipeline with its gap to a bound that no schedule can beat. Ctrl-C shows what has been done so far.
    """
    outputs = Outputs(json, jobs_file, report)
    outputs.require_free(force=force, inputs=[trace, cluster])
    willing = OptIn.of(preemptible, checkpoint, restart)
    how: dict[str, Any] = {"head": head, "view": view, "cycle_s": cycle, "commit": commit, "seed": seed}
    parts = (policy, backfill, placement, pipeline, USUAL)
    pipelines = pipeline_options.several(
        *parts, guard=guard, search=search, preempt=preempt, remaining=remaining, **how
    )
    _require_known(pipelines, estimator, baseline, metric)
    cut = _cut(windows, pipelines, estimator, seed, warm=warm)
    from rltune import Cluster
    from rltune.evaluation import compare as run

    on = Cluster.load(cluster)
    work, on = willing.applied(load_workload(trace, format, on), on)
    compile_core(pipelines)
    how = {"pipelines": pipelines, "seed": seed, "workers": workers, "warm": warm}
    with bar("comparing") as tell:
        made = run(work.jobs, on, (), (), (), cut, estimator, baseline, metric, progress=tell, **how)
    _write(with_notes(made, work), outputs, work, cluster_line(on, cluster), details=details)


def _write(result: "Comparison", outputs: Outputs, work: Workload, cluster: str, *, details: bool) -> None:
    if not outputs.only_json:
        show_line(f"{work.name} on {cluster}")
        show_table(result.table())
        if details:
            show(result.details())
    outputs.write(result, work, cluster, json_text.loads(result.to_json()))
    if not result.complete:
        say(f"rltune: interrupted after {len(result.runs)} of {result.planned} runs; only those count")
        raise typer.Exit(INTERRUPTED)


def _require_known(pipelines: "tuple[Pipeline, ...]", estimator: str, baseline: str | None, metric: str) -> None:
    """Refuse, before anything is read or compiled, what does not exist."""
    from rltune.estimate import get_estimator
    from rltune.trials.measures import metric_of
    from rltune.trials.pipelines import find_pipeline

    metric_of(metric)
    get_estimator(estimator)
    find_pipeline(pipelines, baseline)


def _cut(windows: str, pipelines: "tuple[Pipeline, ...]", estimator: str, seed: int, *, warm: bool) -> "Spec":
    """Refuse windows that cannot be, or a warm start of what does not learn."""
    from rltune.evaluation.compare import require_warm
    from rltune.trials.windows import parse_windows

    cut = parse_windows(windows, seed)
    if warm:
        require_warm(pipelines, estimator, cut)
    return cut

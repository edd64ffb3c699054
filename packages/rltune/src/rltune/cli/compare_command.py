"""`rltune compare`: many pipelines on the same windows of one history."""

import json as json_text
from typing import TYPE_CHECKING, Any

import typer

from rltune.cli import options
from rltune.cli.compile_notice import compile_core
from rltune.cli.console import say, show, show_line, show_table
from rltune.cli.exits import INTERRUPTED
from rltune.cli.named_pipeline import Outputs, named, split, with_notes
from rltune.cli.options import examples
from rltune.cli.progress_bar import bar
from rltune.cli.trace_argument import load_workload

if TYPE_CHECKING:
    from rltune.engine.pipeline import Pipeline
    from rltune.trials.windows import Spec

EXAMPLES = examples(
    "rltune compare -t synth:philly -c philly-slice -p fcfs,saf,wfp3 -b none,easy",
    "rltune compare -t history.txt -c my.toml -w 20x1024 --baseline 'saf + easy'",
    "rltune compare -t history.txt -c my.toml -p saf,mine.py:score --report out/mine.html",
)


def compare(
    trace: options.Trace,
    cluster: options.Cluster,
    policies: options.Policies = "fcfs,sjf,saf,wfp3,qssf,multifactor,learned",
    backfill: options.Backfills = "none,easy",
    placement: options.Placements = "best-fit",
    windows: options.Windows = "whole",
    warm: options.Warm = False,
    estimator: options.Estimator = "history",
    baseline: options.Baseline = None,
    metric: options.Metric = "wait",
    head: options.Head = "pool",
    view: options.View = 0,
    cycle: options.Cycle = 0.0,
    guard: options.Guard = "off",
    search: options.Search = "off",
    commit: options.Commit = False,
    seed: options.Seed = 0,
    workers: options.Workers = 1,
    details: options.Details = False,
    format: options.Format = None,  # noqa: A002
    json: options.JsonOrFile = None,
    jobs: options.JobsFile = None,
    report: options.ReportFile = None,
    force: options.Force = False,
) -> None:
    """Compare policies on the same windows of a history.

    Each policy runs with each backfilling and each placement. Every difference stands with its confidence interval,
    every pipeline with its gap to a bound that no schedule can beat. Ctrl-C shows what has been done so far.
    """
    outputs = Outputs(json, jobs, report)
    outputs.require_free(force=force, inputs=[trace, cluster])
    parts = (split(policies), split(backfill), split(placement))
    how: dict[str, Any] = {"head": head, "view": view, "cycle_s": cycle, "commit": commit, "seed": seed}
    pipelines = _lined_up(parts, estimator, baseline, metric, guard=guard, search=search, **how)
    cut = _cut(windows, pipelines, estimator, seed, warm=warm)
    from rltune import Cluster
    from rltune.evaluation import compare as run

    on = Cluster.load(cluster)
    work = load_workload(trace, format, on)
    compile_core(pipelines)
    how = {"pipelines": pipelines, "seed": seed, "workers": workers, "warm": warm}
    with bar("comparing") as tell:
        made = run(work.jobs, on, (), (), (), cut, estimator, baseline, metric, progress=tell, **how)
    result = with_notes(made, work)
    if not outputs.only_json:
        show_line(f"{work.name} on {named(on, cluster)}")
        show_table(result.table())
        if details:
            show(result.details())
    outputs.write(result, work, named(on, cluster), json_text.loads(result.to_json()))
    if not result.complete:
        say(f"rltune: interrupted after {len(result.runs)} of {result.planned} runs; only those count")
        raise typer.Exit(INTERRUPTED)


def _lined_up(
    parts: tuple[list[str], list[str], list[str]], estimator: str, baseline: str | None, metric: str, **how: Any
) -> "tuple[Pipeline, ...]":
    """Refuse, before anything is read or compiled, what does not exist or does not go together."""
    from rltune.estimate import get_estimator
    from rltune.trials.measures import metric_of
    from rltune.trials.pipelines import find_pipeline, line_up

    metric_of(metric)
    get_estimator(estimator)
    pipelines = line_up(*parts, **how)
    find_pipeline(pipelines, baseline)
    return pipelines


def _cut(windows: str, pipelines: "tuple[Pipeline, ...]", estimator: str, seed: int, *, warm: bool) -> "Spec":
    """Refuse windows that cannot be, or a warm start of what does not learn."""
    from rltune.evaluation import parse_windows
    from rltune.evaluation.compare import require_warm

    cut = parse_windows(windows, seed)
    if warm:
        require_warm(pipelines, estimator, cut)
    return cut

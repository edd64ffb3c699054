"""`rltune compare`: many pipelines on the same windows of one history."""

import json as json_text
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rltune.cli import INTERRUPTED, options, pipeline_options
from rltune.cli.compile_notice import compile_core
from rltune.cli.console import say, show, show_line, show_table
from rltune.cli.estimator_argument import estimator_for
from rltune.cli.opt_in_options import OptIn
from rltune.cli.options import examples
from rltune.cli.outputs import Outputs, cluster_and_file, with_notes
from rltune.cli.parsing import split
from rltune.cli.terminal_progress import bar
from rltune.cli.trace_argument import Workload, also_on, load_workload
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.engine.pipeline import Pipeline
    from rltune.evaluation import Comparison
    from rltune.trials.windows import Spec

EXAMPLES = examples(
    "rltune compare synth:philly -c philly-slice -p fcfs,saf,wfp3 -b none,easy",
    "rltune compare history.txt -c my.toml -w 20x1024 --baseline 'saf + easy'",
    "rltune compare history.txt -c my.toml --pipeline 'saf + easy' --pipeline 'learned + easy, milp:8'",
    "rltune compare history.txt -c my.toml -p saf,mine.py:score --report out/mine.html",
    "rltune compare history.txt -c now.toml,larger.toml -p multifactor -b easy",
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
    windows: options.Windows = "steady",
    estimator: options.Estimator = None,
    guard: options.Guard = "off",
    preempt: options.Preempt = "off",
    baseline: options.Baseline = None,
    metric: options.Metric = None,
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
    allow_rejected: options.AllowRejected = False,
    preemptible: options.Preemptible = None,
    checkpoint: options.Checkpoint = None,
    restart: options.Restart = None,
    format: options.Format = None,  # noqa: A002
) -> None:
    """Compare policies on the same windows of a history.

    Each policy runs with each backfilling and each placement. Every difference stands with its confidence interval,
    every pipeline with its gap to a bound that no schedule can beat. Ctrl-C shows what has been done so far. Of several
    clusters (-c a.toml,b.toml) each runs the same jobs under the same pipelines.
    """
    outputs = Outputs(json, jobs_file, report)
    outputs.require_free(force=force)
    willing = OptIn.of(preemptible, checkpoint, restart)
    how: dict[str, Any] = {"head": head, "view": view, "cycle_s": cycle, "commit": commit, "seed": seed}
    parts = (policy, backfill, placement, pipeline, USUAL)
    own = pipeline_options.own_estimators(estimator, pipeline, trace)
    how |= {"guard": guard, "search": search, "preempt": preempt, "remaining": remaining, "estimators": own}
    pipelines = pipeline_options.several(*parts, **how)
    estimator = estimator_for(estimator, trace) if estimator else "history" if warm else None
    _require_known(pipelines, estimator, baseline, metric)
    cut = _cut(windows, pipelines, estimator, seed, warm=warm)
    from rltune import Cluster
    from rltune.estimate import sites_estimator
    from rltune.evaluation import compare as run
    from rltune.evaluation.several_clusters import join_clusters

    clusters = {name: Cluster.load(name) for name in clusters_of(cluster)}
    first, *others = clusters
    work = load_workload(trace, format, clusters[first], allow_rejected=allow_rejected)
    for name in others:
        work = also_on(work, clusters[name], name, allow_rejected=allow_rejected)
    asked = {name: willing.applied(work, on) for name, on in clusters.items()}
    compile_core(pipelines)
    estimator = estimator or sites_estimator(work.jobs)
    own = [*(None for _ in pipelines[len(own) :]), *own]
    how = {"pipelines": pipelines, "estimators": own, "seed": seed, "workers": workers, "warm": warm}
    made: dict[str, Comparison] = {}
    for name, (given, on) in asked.items():
        with bar(f"comparing on {name}" if others else "comparing") as tell:
            made[name] = run(given.jobs, on, (), (), (), cut, estimator, baseline, metric, progress=tell, **how)
        if not made[name].complete:
            break
    work = asked[first][0]
    result = with_notes(join_clusters(made) if others else made[first], work)
    where = ", ".join(cluster_and_file(on, name) for name, on in clusters.items())
    _write(result, outputs, work, where, pipelines, details=details)


def clusters_of(text: str) -> list[str]:
    """Take the clusters apart, each once."""
    names = split(text)
    if not names or len(set(names)) < len(names):
        raise InputError("give at least one cluster, and each once")
    return names


def _write(
    result: "Comparison",
    outputs: Outputs,
    work: Workload,
    cluster: str,
    pipelines: "tuple[Pipeline, ...]",
    *,
    details: bool,
) -> None:
    from rltune.evaluation.verdict import verdict

    if not outputs.only_json:
        show_line(f"{work.name} on {cluster}")
        show_line(verdict(result))
        show_table(result.table())
        if details:
            show(result.details())
    outputs.write(result, work, cluster, json_text.loads(result.to_json()), pipelines)
    if not result.complete:
        say(f"rltune: interrupted after {len(result.runs)} of {result.planned} runs; only those count")
        raise typer.Exit(INTERRUPTED)


def _require_known(
    pipelines: "tuple[Pipeline, ...]", estimator: str | None, baseline: str | None, metric: str | None
) -> None:
    """Refuse, before anything is read or compiled, what does not exist."""
    from rltune.estimate import get_estimator
    from rltune.trials.measures import metric_of
    from rltune.trials.pipelines import find_pipeline

    if metric is not None:
        metric_of(metric)
    if estimator is not None:
        get_estimator(estimator)
    find_pipeline(pipelines, baseline)


def _cut(windows: str, pipelines: "tuple[Pipeline, ...]", estimator: str | None, seed: int, *, warm: bool) -> "Spec":
    """Refuse windows that cannot be, or a warm start of what does not learn."""
    from rltune.evaluation.compare import require_warm
    from rltune.trials.windows import parse_windows

    cut = parse_windows(windows, seed)
    if warm and estimator is not None:
        require_warm(pipelines, estimator, cut)
    return cut

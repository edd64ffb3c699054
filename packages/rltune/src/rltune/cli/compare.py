"""`rltune compare`: many pipelines on the same windows of one history."""

import json as json_text
from typing import Annotated

import typer

from rltune.cli import complete, options
from rltune.cli.compiling import compile_core
from rltune.cli.manners import INTERRUPTED
from rltune.cli.options import examples
from rltune.cli.output import say, show, show_line
from rltune.cli.pipeline import Outputs, is_own, named, require_known, split, with_notes
from rltune.cli.progress import bar
from rltune.cli.workload import load_workload

EXAMPLES = examples(
    "rltune compare -t synth:philly -c philly-slice -p fcfs,saf,wfp3 -b none,easy",
    "rltune compare -t history.txt -c my.toml -w 20x1024 --baseline 'saf + easy'",
    "rltune compare -t history.txt -c my.toml -p saf,mine.py:score --report out/mine.html",
)


def compare(
    trace: options.Trace,
    cluster: options.Cluster,
    policies: Annotated[
        str,
        typer.Option(
            "--policies",
            "-p",
            help="Who runs next: names or path.py:function, with commas between.",
            metavar="LIST",
            autocompletion=complete.policies,
        ),
    ] = "fcfs,sjf,saf,wfp3,qssf,multifactor",
    backfill: Annotated[
        str,
        typer.Option(
            "--backfill",
            "-b",
            help="Who may overtake, a list of: none, fit-first, easy, conservative, shadow.",
            metavar="LIST",
            autocompletion=complete.backfills,
        ),
    ] = "none,easy",
    placement: Annotated[
        str,
        typer.Option(
            help="On which nodes, a list of: best-fit, first-fit, spread.",
            metavar="LIST",
            autocompletion=complete.placements,
        ),
    ] = "best-fit",
    windows: Annotated[
        str,
        typer.Option(
            "--windows",
            "-w",
            help="Which parts are run: whole; 20x1024 (windows x jobs), evenly spaced; 20x1024:random; "
            "20x1024:contended=600, where FCFS waits over 600 s; steady:0.3, the first 30 % of the time not measured.",
            metavar="WINDOWS",
            autocompletion=complete.windows,
        ),
    ] = "whole",
    estimator: options.Estimator = "history",
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Against whom: a policy, or a pipeline such as 'saf + easy'; the first if not told.", metavar="NAME"
        ),
    ] = None,
    metric: Annotated[
        str,
        typer.Option(
            help="Compared by what: wait, jct, slowdown, wait-p99, wait-max, large-wait, utilisation, makespan, "
            "fragmentation, fairness.",
            metavar="NAME",
            autocompletion=complete.metrics,
        ),
    ] = "wait",
    head: options.Head = "pool",
    view: options.View = 0,
    commit: options.Commit = False,
    seed: options.Seed = 0,
    workers: Annotated[
        int, typer.Option(help="Processes; the results do not depend on it.", min=1, max=1024, metavar="N")
    ] = 1,
    details: Annotated[
        bool, typer.Option("--details", help="Add mean, p50, p90, p99 and max of every metric.")
    ] = False,
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
    names, backfills, placements = split(policies), split(backfill), split(placement)
    outputs = Outputs(json, jobs, report)
    outputs.require_free(force=force, inputs=[trace, cluster])
    require_known(names, backfills, placements, estimator)
    from rltune import Cluster
    from rltune.evaluate import compare as run
    from rltune.evaluate import parse_windows
    from rltune.evaluate.compare import line_up
    from rltune.evaluate.comparison import find_contender
    from rltune.evaluate.metric import metric_of

    cut = parse_windows(windows, seed)
    metric_of(metric)
    find_contender(line_up(names, backfills, placements), baseline)
    on = Cluster.load(cluster)
    work = load_workload(trace, format, on)
    compile_core(commit=commit, own_policy=is_own(names))
    with bar("comparing") as tell:
        made = run(
            work.jobs,
            on,
            names,
            backfills,
            placements,
            cut,
            estimator,
            baseline,
            metric,
            head=head,
            view=view,
            commit=commit,
            seed=seed,
            workers=workers,
            progress=tell,
        )
    result = with_notes(made, work)
    if not outputs.only_json:
        show_line(f"{work.name} on {named(on, cluster)}")
        show(result.table(), *([result.details()] if details else []))
    outputs.write(result, work, named(on, cluster), json_text.loads(result.to_json()))
    if not result.complete:
        say(f"rltune: interrupted after {len(result.runs)} of {result.planned} runs; only those count")
        raise typer.Exit(INTERRUPTED)

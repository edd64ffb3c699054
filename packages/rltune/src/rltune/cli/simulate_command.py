"""`rltune simulate`: one history, one cluster, one pipeline."""

from time import perf_counter
from typing import Any

from rltune.cli import options
from rltune.cli.compile_notice import compile_core
from rltune.cli.console import show, show_line
from rltune.cli.named_pipeline import Outputs, named, with_notes
from rltune.cli.options import examples
from rltune.cli.progress_bar import bar, spinner
from rltune.cli.trace_argument import load_workload

EXAMPLES = examples(
    "rltune simulate -t synth:philly -c philly-slice -p saf -b easy",
    "rltune simulate -t history.txt -c my.toml -p mine.py:score --report out/mine.html",
    "rltune simulate -t history.txt -c my.toml -p wfp3 --estimator user --json",
)


def simulate(
    trace: options.Trace,
    cluster: options.Cluster,
    policy: options.Policy = "learned",
    backfill: options.Backfill = "none",
    placement: options.Placement = "best-fit",
    estimator: options.Estimator = "history",
    head: options.Head = "pool",
    view: options.View = 0,
    cycle: options.Cycle = 0.0,
    guard: options.Guard = "off",
    search: options.Search = "off",
    commit: options.Commit = False,
    seed: options.Seed = 0,
    format: options.Format = None,  # noqa: A002
    json: options.JsonOrFile = None,
    jobs: options.JobsFile = None,
    report: options.ReportFile = None,
    force: options.Force = False,
) -> None:
    """Replay a history under one policy, and sum it up."""
    outputs = Outputs(json, jobs, report)
    outputs.require_free(force=force, inputs=[trace, cluster])
    from rltune import Cluster
    from rltune.engine.parse_pipeline import parse_pipeline
    from rltune.engine.run import run_pipeline
    from rltune.estimate import get_estimator
    from rltune.evaluation import Comparison

    how: dict[str, Any] = {"head": head, "commit": commit, "seed": seed, "view": view, "cycle_s": cycle}
    pipeline = parse_pipeline(policy, backfill, placement, guard=guard, search=search, **how)
    guess = get_estimator(estimator)

    on = Cluster.load(cluster)
    work = load_workload(trace, format, on)
    compile_core([pipeline])
    with bar("simulating") as tell:
        told = lambda done, total: tell(done, total, "jobs")  # noqa: E731  shorter than a function
        schedule = run_pipeline(work.jobs, on, pipeline, guess, told, perf_counter)
    with spinner("summing up"):
        made = with_notes(Comparison.of_schedules([schedule]), work)
    summary = made.runs[0].summary
    if not outputs.only_json:
        show_line(f"{work.name} on {named(on, cluster)}")
        show(summary)
        for note in work.notes:
            show_line(note)
    outputs.write(made, work, named(on, cluster), {**summary.to_dict(), "notes": list(work.notes)})

"""`rltune simulate`: one history, one cluster, one pipeline."""

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rltune.cli import options, pipeline_options
from rltune.cli.compile_notice import compile_core
from rltune.cli.console import show, show_line
from rltune.cli.estimator_argument import estimator_for
from rltune.cli.opt_in_options import OptIn
from rltune.cli.options import examples
from rltune.cli.outputs import Outputs, cluster_line, with_notes
from rltune.cli.terminal_progress import bar, spinner
from rltune.cli.trace_argument import Workload, load_workload

if TYPE_CHECKING:
    from rltune.engine.pipeline import Pipeline
    from rltune.evaluation import Comparison

EXAMPLES = examples(
    "rltune simulate synth:philly -c philly-slice -p saf -b easy",
    "rltune simulate history.txt -c my.toml --pipeline 'saf + easy, milp:8'",
    "rltune simulate history.txt -c my.toml -p mine.py:score --report out/mine.html",
    "rltune simulate history.txt -c my.toml -p wfp3 --estimator user --json",
)
USUAL = "learned"


def simulate(
    trace: options.Trace,
    cluster: options.Cluster,
    policy: options.Policy = None,
    backfill: options.Backfill = None,
    placement: options.Placement = None,
    pipeline: options.Pipeline = None,
    estimator: options.Estimator = None,
    guard: options.Guard = "off",
    preempt: options.Preempt = "off",
    seed: options.Seed = 0,
    json: options.JsonOrFile = None,
    jobs_file: options.JobsFile = None,
    report: options.ReportFile = None,
    force: options.Force = False,
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
    """Replay a history under one policy, and sum it up."""
    outputs = Outputs(json, jobs_file, report)
    outputs.require_free(force=force)
    willing = OptIn.of(preemptible, checkpoint, restart)
    from rltune import Cluster
    from rltune.engine.run import run_pipeline
    from rltune.estimate import get_estimator, sites_estimator
    from rltune.evaluation import Comparison
    from rltune.opt_in import told_of
    from rltune.trials.leak import Exam, leaks

    how: dict[str, Any] = {"head": head, "commit": commit, "seed": seed, "view": view, "cycle_s": cycle}
    parts = (policy, backfill, placement, pipeline, USUAL)
    planned = pipeline_options.one(*parts, guard=guard, search=search, preempt=preempt, remaining=remaining, **how)
    named = pipeline_options.estimator_of(estimator, pipeline)
    given = get_estimator(estimator_for(named, trace)) if named else None

    on = Cluster.load(cluster)
    work = load_workload(trace, format, on, allow_rejected=allow_rejected)
    work, on = willing.applied(work, on)
    notes = (*work.notes, *leaks([planned.policy], [Exam(work.jobs)]), *told_of(work.jobs))
    work = replace(work, notes=notes)
    compile_core([planned])
    guess = given or get_estimator(sites_estimator(work.jobs))
    with bar("simulating") as tell:
        told = lambda done, total: tell(done, total, "jobs")  # noqa: E731  shorter than a function
        schedule = run_pipeline(work.jobs, on, planned, guess, told, perf_counter)
    with spinner("summing up"):
        made = with_notes(Comparison.of_schedules([schedule]), work)
    _write(made, outputs, work, cluster_line(on, cluster), planned)


def _write(made: "Comparison", outputs: Outputs, work: Workload, cluster: str, pipeline: "Pipeline") -> None:
    summary = made.runs[0].summary
    if not outputs.only_json:
        show_line(f"{work.name} on {cluster}")
        show(summary)
        for note in work.notes:
            show_line(note)
    outputs.write(made, work, cluster, {**summary.to_dict(), "notes": list(work.notes)}, [pipeline])

"""`rltune simulate`: one history, one cluster, one pipeline."""

from dataclasses import replace

from rltune.cli import options
from rltune.cli.compile_notice import compile_core
from rltune.cli.console import show, show_line
from rltune.cli.named_pipeline import Outputs, around, is_own, named, require_known, search_in, with_notes
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
    policy = around([policy], guard, search)[0]
    outputs = Outputs(json, jobs, report)
    outputs.require_free(force=force, inputs=[trace, cluster])
    require_known([policy], [backfill], [placement], estimator, head, commit=commit)
    from rltune import Cluster
    from rltune import simulate as run
    from rltune.evaluation import Comparison
    from rltune.trials.leak import Exam, leaks

    on = Cluster.load(cluster)
    work = load_workload(trace, format, on)
    work = replace(work, notes=(*work.notes, *leaks([policy], [Exam(work.jobs)])))
    compile_core(commit=commit, own_policy=is_own([policy]), searches=search_in([policy]))
    with bar("simulating") as tell:
        schedule = run(
            work.jobs,
            on,
            policy,
            backfill,
            placement,
            estimator,
            head,
            commit,
            seed,
            view=view,
            cycle_s=cycle,
            progress=lambda done, total: tell(done, total, "jobs"),
        )
    with spinner("summing up"):
        made = with_notes(Comparison.of_schedules([schedule]), work)
    summary = made.runs[0].summary
    if not outputs.only_json:
        show_line(f"{work.name} on {named(on, cluster)}")
        show(summary)
        for note in work.notes:
            show_line(note)
    outputs.write(made, work, named(on, cluster), {**summary.to_dict(), "notes": list(work.notes)})

"""`rltune evaluate`: policies and trained models on the held-out part of a history."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rltune.cli import completion as complete
from rltune.cli import options, pipeline_options
from rltune.cli.compile_notice import compile_core
from rltune.cli.console import show_line, show_table
from rltune.cli.estimator_argument import estimator_for
from rltune.cli.opt_in_options import OptIn
from rltune.cli.options import examples
from rltune.cli.outputs import Outputs, cluster_line
from rltune.cli.parsing import split
from rltune.cli.terminal_progress import bar, spinner
from rltune.cli.trace_argument import Workload, load_workload
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.evaluation import Evaluation

RULES = "fcfs,sjf,saf,wfp3,f1,unicep,qssf,multifactor"
USUAL = f"{RULES},learned"
WINDOWS = "1024:every=64:contended=600"
EXAMPLES = examples(
    "rltune evaluate history.txt -c my.toml",
    "rltune evaluate history.txt -c my.toml -p saf,f1,sjf,mine.rltune -b none,fit-first,easy --select",
    "rltune evaluate synth:philly,jobs=20000 -c philly-slice -p fcfs,saf -w 256:contended=60 --workers 2",
)

Policies = Annotated[str | None, options.policies(USUAL)]
Select = Annotated[
    bool,
    typer.Option(
        "--select",
        help="Choose the best configuration of rules, and of models, on the part before; test only those.",
    ),
]
Estimators = Annotated[
    str,
    typer.Option(
        "--estimator",
        help="What is known of run times, one or a list with commas: history (learnt from what had ended), user (the "
        "limits asked), noisy or noisy:1.2 (the truth with an error), predicted (from users, names and what had "
        "ended), file:PATH or column:NAME (your own), oracle (the truth). Several are each evaluated, then crossed.",
        metavar="LIST",
        autocompletion=complete.estimators,
    ),
]
BreakDown = Annotated[bool, typer.Option("--details", help="Add every metric's mean, and the waits by size and by VC.")]


def evaluate(
    trace: options.Trace,
    cluster: options.Cluster,
    policy: Policies = None,
    backfill: options.Backfills = "none",
    placement: options.Placements = "best-fit",
    pipeline: options.Pipelines = None,
    windows: options.HeldOutWindows = None,
    estimator: Estimators = "history",
    guard: options.Guard = "off",
    preempt: options.Preempt = "off",
    select: Select = False,
    baseline: options.Baseline = None,
    metric: options.HeldOutMetric = None,
    seed: options.Seed = 0,
    workers: options.Workers = 1,
    details: BreakDown = False,
    json: options.JsonOrFile = None,
    report: options.ReportFile = None,
    force: options.Force = False,
    holdout: options.Holdout = 0.0,
    head: options.Head = "pool",
    view: options.View = 0,
    cycle: options.Cycle = 0.0,
    commit: options.Commit = False,
    search: options.Search = "off",
    remaining: options.Remaining = "ends-now",
    ray: options.Ray = None,
    allow_rejected: options.AllowRejected = False,
    preemptible: options.Preemptible = None,
    checkpoint: options.Checkpoint = None,
    restart: options.Restart = None,
    format: options.Format = None,  # noqa: A002
) -> None:
    """Evaluate policies and models on the held-out part of a history.

    The last tenth of the jobs (more of a short history), which nothing was trained on or chosen by, is cut into
    windows; those where jobs queue are run under every pipeline. Ratios to a reference stand with intervals that know
    that windows overlap.
    """
    guesses = [estimator_for(each, trace) for each in split(estimator)]
    outputs = Outputs(json, report=report)
    outputs.require_free(force=force)
    willing = OptIn.of(preemptible, checkpoint, restart)
    require_pages(guesses, report)
    require_known(guesses, metric)
    from rltune import Cluster
    from rltune.evaluation import evaluate as run
    from rltune.parallel import spread_over

    settings: dict[str, Any] = {"head": head, "view": view, "cycle_s": cycle, "commit": commit, "seed": seed}
    parts = (policy, backfill, placement, pipeline, USUAL)
    pipelines = pipeline_options.several(
        *parts, guard=guard, search=search, preempt=preempt, remaining=remaining, **settings
    )
    how: dict[str, Any] = {"holdout": holdout, "select": select, "baseline": baseline, "metric": metric}
    how |= {"pipelines": pipelines, **held_out(windows), **settings}
    on = Cluster.load(cluster)
    work, on = willing.applied(load_workload(trace, format, on, allow_rejected=allow_rejected), on)
    work = replace(work, notes=(*work.notes, *pipeline_options.other_knowledge(pipeline, guesses)))
    compile_core(pipelines)
    with spread_over(workers, ray) as spread, bar("evaluating") as tell:
        made = [run(work.jobs, on, (), (), (), guess, spread=spread, progress=tell, **how) for guess in guesses]
    _write(made, outputs, work, cluster_line(on, cluster), details=details)


def held_out(windows: str | None) -> dict[str, Any]:
    """Read the windows of a held-out part, as the functions that cut it want them; of none they follow the history."""
    from rltune.trials.contention import CONTENDED_S
    from rltune.trials.windows import parse_sliding

    if windows is None:
        return {}

    cut = parse_sliding(windows, min_wait_s=CONTENDED_S)
    return {"size": cut.size, "every": cut.every, "contended_s": cut.min_wait_s}


def require_known(estimators: list[str], metric: str | None) -> None:
    """Refuse, before anything is read or compiled, what does not exist."""
    from rltune.estimate import get_estimator
    from rltune.estimate.estimator_names import AUTO
    from rltune.evaluation.evaluate import require_measured

    if metric is not None:
        require_measured(metric)
    for name in estimators:
        if name != AUTO:
            get_estimator(name)


def require_pages(estimators: list[str], report: Path | None) -> None:
    """Refuse a page of several evaluations: it shows one."""
    if not estimators or len(set(estimators)) < len(estimators):
        raise InputError("give at least one estimator, and each once")
    if report is not None and len(estimators) > 1:
        raise InputError(f"a report shows one estimator, not {len(estimators)}; give one, or --json in its place")


def _write(made: "list[Evaluation]", outputs: Outputs, work: Workload, cluster: str, *, details: bool) -> None:
    outputs.write_json(_content(made, work, cluster))
    if outputs.report is not None:
        _write_report(made[0], outputs.report, work, cluster)
    if outputs.only_json:
        return
    show_line(f"{work.name} on {cluster}")
    for note in work.notes:
        show_line(note)
    _show_tables(made, details=details)
    outputs.name_files()


def _show_tables(made: "list[Evaluation]", *, details: bool) -> None:
    from rltune.evaluation.evaluation_tables import cross_table, tables

    for evaluation in made:
        for table in tables(evaluation, details=details):
            show_table(table)
    if len(made) > 1 and made[0].choices:
        show_table(cross_table(made))


def _content(made: "list[Evaluation]", work: Workload, cluster: str) -> dict[str, Any]:
    """Return one evaluation as it is, several as a list with what crosses them."""
    from rltune.evaluation.cross import cross
    from rltune.metrics.formats import plain
    from rltune.version import __version__

    told: dict[str, Any] = {"rltune": __version__, "trace": work.name, "cluster": cluster}
    if len(made) == 1:
        content = made[0].to_dict()
        return {**told, **content, "notes": [*work.notes, *content["notes"]]}
    crossings = plain([asdict(c) for c in cross(made)])
    return {**told, "notes": list(work.notes), "evaluations": [e.to_dict() for e in made], "crossings": crossings}


def _write_report(made: "Evaluation", path: Path, work: Workload, cluster: str) -> None:
    from rltune.report import write_evaluation

    with spinner(f"writing {path}"):
        write_evaluation(made, path, work.name, cluster, work.notes)

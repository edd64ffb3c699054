"""`rltune evaluate`: policies and trained models on the held-out part of a history."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rltune.cli import completion as complete
from rltune.cli import options
from rltune.cli.compile_notice import compile_core
from rltune.cli.console import show_json, show_line, show_table, write_json
from rltune.cli.named_pipeline import Outputs, named, split
from rltune.cli.options import examples
from rltune.cli.progress_bar import bar, spinner
from rltune.cli.trace_argument import Workload, load_workload
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.evaluation import Evaluation

RULES = "fcfs,sjf,saf,wfp3,f1,unicep,qssf,multifactor"
EXAMPLES = examples(
    "rltune evaluate history.txt -c my.toml",
    "rltune evaluate history.txt -c my.toml -p saf,f1,sjf,mine.rltune -b none,fit-first,easy --select",
    "rltune evaluate synth:philly,jobs=20000 -c philly-slice -p fcfs,saf --windows 256 --contended 60 --jobs 2",
)

TraceToJudge = Annotated[str, typer.Argument(help=f"The history: {options.TRACE}.", metavar="TRACE")]
Judged = Annotated[
    str,
    typer.Option(
        "--policies",
        "-p",
        help="Who runs next, a list with commas: names of `rltune policies`, model files, or path.py:function.",
        metavar="LIST",
        autocompletion=complete.policies,
    ),
]
Pipelines = Annotated[
    list[str] | None,
    typer.Option(
        "--pipeline",
        help="One more, as tables name it: 'learned + easy, milp:8'. May be given again.",
        metavar="NAME",
    ),
]
Holdout = Annotated[
    float, typer.Option(help="The share of the jobs, the last ones, that makes the test part.", metavar="SHARE")
]
Size = Annotated[int, typer.Option("--windows", "-w", help="Jobs in a window.", min=1, metavar="JOBS")]
Every = Annotated[
    int, typer.Option(help="A window starts at every so-manyth job; they may overlap.", min=1, metavar="JOBS")
]
Contended = Annotated[
    float,
    typer.Option(
        help="Only windows in which FCFS without backfilling waits longer, on average.", min=0, metavar="SECONDS"
    ),
]
Select = Annotated[
    bool,
    typer.Option(
        "--select",
        help="Choose the best configuration of rules, and of models, on the part before; test only those.",
    ),
]
Measure = Annotated[
    str,
    typer.Option(
        help="Chosen and compared by what: wait, jct, slowdown, wait-p99, utilisation.",
        metavar="NAME",
        autocompletion=complete.metrics,
    ),
]
Processes = Annotated[
    int, typer.Option("--jobs", "-j", help="Processes; the results do not depend on it.", min=1, max=1024, metavar="N")
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        help="Spread the windows over the Ray cluster at this address, or `auto` (extra [ray]).",
        metavar="ADDRESS",
    ),
]
Estimators = Annotated[
    str,
    typer.Option(
        "--estimator",
        help="What is known of run times, one or a list with commas: history (learnt from what had ended), user (the "
        "limits asked), noisy or noisy:1.2 (the truth with an error), boost (trees grown on what had ended), oracle "
        "(the truth). Several are each evaluated, then crossed.",
        metavar="LIST",
        autocompletion=complete.estimators,
    ),
]
BreakDown = Annotated[bool, typer.Option("--details", help="Add every metric's mean, and the waits by size and by VC.")]


def evaluate(
    trace: TraceToJudge,
    cluster: options.Cluster,
    policies: Judged = f"{RULES},learned",
    backfill: options.Backfills = "none",
    placement: options.Placements = "best-fit",
    pipeline: Pipelines = None,
    estimator: Estimators = "history",
    holdout: Holdout = 0.1,
    windows: Size = 1024,
    every: Every = 64,
    contended: Contended = 600.0,
    select: Select = False,
    baseline: options.Baseline = None,
    metric: Measure = "wait",
    head: options.Head = "pool",
    view: options.View = 0,
    cycle: options.Cycle = 0.0,
    guard: options.Guard = "off",
    search: options.Search = "off",
    seed: options.Seed = 0,
    jobs: Processes = 1,
    ray: RayAddress = None,
    details: BreakDown = False,
    format: options.Format = None,  # noqa: A002
    json: options.JsonOrFile = None,
    report: options.ReportFile = None,
    force: options.Force = False,
) -> None:
    """Evaluate policies and models on the held-out part of a history.

    The last tenth of the jobs, which nothing was trained on or chosen by, is cut into windows; those where jobs queue
    are run under every pipeline. Ratios to a reference stand with intervals that know that windows overlap.
    """
    guesses = split(estimator)
    outputs = Outputs(json, None, report)
    outputs.require_free(force=force, inputs=[trace, cluster])
    require_pages(guesses, report)
    from rltune import Cluster
    from rltune.estimate import get_estimator
    from rltune.evaluation import evaluate as run
    from rltune.evaluation.evaluate import require_measured
    from rltune.parallel import spread_over
    from rltune.trials.pipelines import line_up

    require_measured(metric)
    for guess in guesses:
        get_estimator(guess)
    settings: dict[str, Any] = {"head": head, "view": view, "cycle_s": cycle, "seed": seed}
    parts = (split(policies), split(backfill), split(placement), pipeline or ())
    pipelines = line_up(*parts, guard=guard, search=search, **settings)
    on = Cluster.load(cluster)
    work = load_workload(trace, format, on)
    compile_core(pipelines)
    how: dict[str, Any] = {"holdout": holdout, "size": windows, "every": every, "contended_s": contended}
    how |= {
        "pipelines": pipelines,
        "select": select,
        "baseline": baseline,
        "metric": metric,
        "head": head,
        "view": view,
        "cycle_s": cycle,
        "seed": seed,
    }
    with spread_over(jobs, ray) as spread, bar("evaluating") as tell:
        made = [run(work.jobs, on, (), (), (), guess, spread=spread, progress=tell, **how) for guess in guesses]
    _write(made, outputs, work, named(on, cluster), details=details)


def require_pages(estimators: list[str], report: Path | None) -> None:
    """Refuse a page of several evaluations: it shows one."""
    if not estimators or len(set(estimators)) < len(estimators):
        raise InputError("give at least one estimator, and each once")
    if report is not None and len(estimators) > 1:
        raise InputError(f"a report shows one estimator, not {len(estimators)}; give one, or --json in its place")


def _write(made: "list[Evaluation]", outputs: Outputs, work: Workload, cluster: str, *, details: bool) -> None:
    from rltune.evaluation.evaluation_tables import cross_table, tables

    told = _content(made, work, cluster)
    if outputs.json_file is not None:
        write_json(told, outputs.json_file)
    if outputs.report is not None:
        _write_report(made[0], outputs.report, work, cluster)
    if outputs.only_json:
        show_json(told)
        return
    show_line(f"{work.name} on {cluster}")
    for note in work.notes:
        show_line(note)
    for evaluation in made:
        for table in tables(evaluation, details=details):
            show_table(table)
    if len(made) > 1 and made[0].choices:
        show_table(cross_table(made))
    for what, path in (("JSON", outputs.json_file), ("report", outputs.report)):
        if path is not None:
            show_line(f"{what}: {path}")


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

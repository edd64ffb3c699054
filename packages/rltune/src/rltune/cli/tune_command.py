"""`rltune tune`: which pipeline to run, from one's own history."""

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rltune.cli import options
from rltune.cli.apart import require_apart
from rltune.cli.compile_notice import compile_core
from rltune.cli.console import require_free, say, show_line, show_table, write_text
from rltune.cli.next_command import as_given, calibrated_name, say_next
from rltune.cli.options import examples
from rltune.cli.outputs import Outputs, cluster_and_file
from rltune.cli.parsing import SYNTH, split
from rltune.cli.pipeline_options import as_table_names, estimator_of
from rltune.cli.terminal_progress import bar, spinner
from rltune.cli.trace_argument import Workload, load_workload
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.tune import Tuning

MODEL_SUFFIX = ".rltune"
EXAMPLES = examples(
    "rltune tune history.txt -c my.toml",
    "rltune tune history.txt -c my.toml --now 'multifactor + easy' --out ours.toml --report out/tune.html",
    "rltune tune history.txt -c my.toml --minutes 60 --workers 8",
    "rltune tune history.txt -c my.toml --learn evolve --out ours.toml",
    "rltune compare later.txt -c my.toml --pipeline 'multifactor + easy' --pipeline ours.toml",
)
Now = Annotated[
    str | None,
    typer.Option(
        "--now",
        help="What the site runs today, as tables name it, or a settings file.",
        metavar="PIPELINE",
        show_default="multifactor + easy; fcfs + easy where no users are recorded",
    ),
]
NowEstimator = Annotated[
    str | None,
    typer.Option(
        "--now-estimator",
        help="What is known of run times today: user (the limits asked) or history.",
        metavar="NAME",
        show_default="user, if limits are recorded",
    ),
]
Minutes = Annotated[
    float,
    typer.Option(help="How much may be tried: minutes of one slow core, counted out beforehand.", metavar="N"),
]
Models = Annotated[
    str | None,
    typer.Option(
        "--models",
        help="Models to try, a list with commas: files or learned:NAME; none for no model.",
        metavar="LIST",
        show_default="those that ship and were not taught by these jobs",
    ),
]
Learn = Annotated[
    str | None,
    typer.Option(
        "--learn",
        help="Let the first part of the history teach a policy, to compete on the next: evolve, train, or both.",
        metavar="LIST",
        show_default="none",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="Write what is recommended as settings for simulate, compare and control.",
        metavar="FILE.toml",
    ),
]
Keep = Annotated[
    Path | None,
    typer.Option("--runs", help="Keep finished runs in this file; a call with the same file goes on.", metavar="FILE"),
]
TunedMetric = Annotated[
    str, typer.Option("--metric", help="What is to be short: wait, jct or slowdown.", metavar="NAME")
]


def tune(
    trace: options.Trace,
    cluster: options.Cluster,
    now: Now = None,
    minutes: Minutes = 10.0,
    out: Out = None,
    metric: TunedMetric = "wait",
    models: Models = None,
    learn: Learn = None,
    now_estimator: NowEstimator = None,
    runs: Keep = None,
    seed: options.Seed = 0,
    workers: options.Workers = 1,
    json: options.JsonOrFile = None,
    report: options.ReportFile = None,
    force: options.Force = False,
    allow_rejected: options.AllowRejected = False,
    ray: options.Ray = None,
    format: options.Format = None,  # noqa: A002
) -> None:
    """Show which pipeline to run, from your own history.

    Rules, models, backfilling, placement, guard and estimates are tried on the middle part of the history, what you
    have now among them; the best is tested once on the last part. "Stay with what you have" is an answer. A model that
    was taught here and won is written beside the settings.
    """
    outputs = Outputs(json, report=report)
    outputs.require_free(force=force)
    taught = _named("--learn", learn)
    model = out.with_suffix(MODEL_SUFFIX) if out is not None and taught else None
    require_free([out, model], force=force)
    require_apart({"out": model, "json": json, "report": report, "runs": runs, "settings": out})
    from rltune import Cluster
    from rltune.engine.parse_pipeline import parse_pipeline
    from rltune.parallel import spread_over
    from rltune.tune import tune as run

    chosen = [] if models == "none" else _named("--models", models) or None
    now_estimator = estimator_of(now_estimator, now)
    on = Cluster.load(cluster)
    work = load_workload(trace, format, on, allow_rejected=allow_rejected)
    compile_core([parse_pipeline("saf", "easy"), parse_pipeline("learned", "easy")])
    with spread_over(workers, ray) as spread, bar("tuning") as tell:
        made = run(
            work.jobs,
            on,
            now and as_table_names(now),
            now_estimator=now_estimator,
            metric=metric,
            minutes=minutes,
            models=chosen,
            learn=taught,
            threads=workers,
            seed=seed,
            kept=runs,
            spread=spread,
            progress=tell,
        )
    if out is not None:
        _write_settings(made, out, model, f"{work.name} on {cluster_and_file(on, cluster)}")
    _tell(made, outputs, out, work, cluster_and_file(on, cluster))
    if out is None and made.recommended_model is not None:
        say("rltune: the model was taught here and is kept nowhere: give --out FILE.toml to have it")
    if not outputs.only_json and made.unasked and not trace.startswith(SYNTH):
        say_next(["calibrate", trace, "-c", cluster, *as_given(format), "--write", calibrated_name(cluster)])


def _named(option: str, told: str | None) -> list[str]:
    """Take a list apart; one that is given names something."""
    names = split(told or "")
    if told is not None and not names:
        raise InputError(f"{option} names nothing; leave it out, or give a list with commas")
    return names


def _write_settings(made: "Tuning", out: Path, model: Path | None, where: str) -> None:
    """Write the settings, with when and from what they were made, and before them the model that they name."""
    from rltune.model.model_file import save_model
    from rltune.tune.tuning_text import settings_file
    from rltune.version import __version__

    if model is not None and made.recommended_model is not None:
        save_model(made.recommended_model.with_card(made_by=f"rltune {__version__}", command="rltune tune"), model)
    when = f"Written by rltune {__version__} on {dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M} UTC"
    budget = f"--minutes {made.minutes:g}, --seed {made.seed}, --metric {made.metric}"
    write_text(settings_file(made, str(model or ""), (f"{when} from {where}; {budget}.",)), out)


def _tell(made: "Tuning", outputs: Outputs, out: Path | None, work: Workload, cluster: str) -> None:
    from rltune.tune.tuning_text import finalists_table, sentences, shares_table

    where = f"{work.name} on {cluster}"
    content = made.to_dict()
    content["sentences"] += work.notes
    outputs.write_json({"trace": work.name, "cluster": cluster, **content})
    if outputs.report is not None:
        from rltune.tune.tuning_page import write_tuning

        with spinner(f"writing {outputs.report}"):
            write_tuning(made, outputs.report, where, work.notes)
    if outputs.only_json:
        return
    show_line(where)
    for told in (*sentences(made), *work.notes):
        show_line(told)
    if made.finalists:
        show_table(finalists_table(made))
    if made.recommended.label != made.now.label:
        show_table(shares_table(made))
    if out is not None:
        say(f"settings: {out}")
    outputs.name_files()

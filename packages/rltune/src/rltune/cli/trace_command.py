"""`rltune trace`: a cluster's history, looked at, checked, converted, made and shared."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rltune.cli import completion as complete
from rltune.cli import options
from rltune.cli.array_limits import ArrayLimits, parse_array_limits, with_array_limits
from rltune.cli.command import Command
from rltune.cli.console import make_room, require_free, say, show, show_line
from rltune.cli.exits import MISUSE, Mannered
from rltune.cli.options import examples
from rltune.cli.outputs import Outputs
from rltune.cli.parsing import split
from rltune.cli.terminal_progress import bar, spinner
from rltune.cli.trace_argument import LOAD, MOST_JOBS, load_workload, read

if TYPE_CHECKING:
    from rltune.jobs import Jobs
    from rltune.trace import Trace

app = typer.Typer(cls=Mannered, no_args_is_help=True, help="Read, check, convert, make and share histories.")
SALT = "RLTUNE_SALT"


@app.command(cls=Command, epilog=examples("rltune trace info history.txt", "rltune trace info synth:helios --json"))
def info(
    trace: options.Trace,
    json: options.JsonOrFile = None,
    force: options.Force = False,
    format: options.Format = None,  # noqa: A002  the option's name
) -> None:
    """Sum a trace up: sizes, run times, arrivals, users."""
    outputs = Outputs(json)
    outputs.require_free(force=force)
    work = load_workload(trace, format)
    from rltune.metrics.formats import plain
    from rltune.metrics.recorded import recorded_wait
    from rltune.trace.describe import describe

    told, waits = describe(work.jobs), recorded_wait(work.jobs)
    recorded = {"jobs": waits.recorded_s.n, "held_s": waits.held_s, "wait_s": plain(waits.recorded_s.to_dict())}
    outputs.write_json({"trace": work.name, **told.to_dict(), "recorded": recorded, "notes": list(work.notes)})
    if outputs.only_json:
        return
    show_line(work.name)
    show(told)
    for note in (*waits.lines(), *work.notes):
        show_line(note)
    outputs.name_files()


@app.command(
    cls=Command,
    epilog=examples("rltune trace check history.txt", "rltune trace check history.txt --cluster my.toml --json"),
)
def check(
    trace: options.TraceFile,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            "-c",
            metavar="CLUSTER",
            help="Make sure that every job fits this cluster.",
            autocompletion=complete.presets,
        ),
    ] = None,
    json: options.JsonOrFile = None,
    dedupe: options.Dedupe = False,
    force: options.Force = False,
    format: options.Format = None,  # noqa: A002
) -> None:
    """Show what was repaired or dropped, and why.

    Every kind of mistake is listed, not only the first. Refused are a cycle of dependencies and, with a cluster, a job
    that the empty cluster cannot hold.
    """
    from rltune.cluster import Cluster
    from rltune.trace.fits_cluster import require_fit, require_no_cycle

    outputs = Outputs(json)
    outputs.require_free(force=force)
    fits = Cluster.load(cluster) if cluster else None
    found = _read_or_list(trace, format, dedupe=dedupe)
    require_no_cycle(found)
    if fits is not None:
        require_fit(found, fits)
    outputs.write_json(found.quality.to_dict())
    if outputs.only_json:
        return
    show(found.quality)
    if fits is not None:
        show_line(f"every job fits {cluster}")
    outputs.name_files()


@app.command(
    cls=Command,
    epilog=examples(
        "rltune trace predictability history.txt",
        "rltune trace predictability history.txt -c my.toml --report can.html",
    ),
)
def predictability(
    trace: options.Trace,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            "-c",
            metavar="CLUSTER",
            help="Say what it is worth in waits on this cluster, too.",
            autocompletion=complete.presets,
        ),
    ] = None,
    seed: options.Seed = 0,
    workers: options.Workers = 1,
    json: options.JsonOrFile = None,
    report: options.ReportFile = None,
    force: options.Force = False,
    format: options.Format = None,  # noqa: A002
) -> None:
    """Show how well run times can be told, and what it is worth.

    The last tenth of the jobs is predicted, each as of its submission, from what had ended by then. With a cluster,
    windows of it are run with history's means, with these predictions, and with the truth.
    """
    outputs = Outputs(json, report=report)
    outputs.require_free(force=force)
    from rltune.cli.compile_notice import compile_core
    from rltune.cluster import Cluster
    from rltune.engine.parse_pipeline import parse_pipeline
    from rltune.evaluation.predictability import lines
    from rltune.evaluation.predictability import predictability as run
    from rltune.parallel import spread_over

    on = Cluster.load(cluster) if cluster else None
    work = load_workload(trace, format, on)
    if on is not None:
        compile_core([parse_pipeline("saf", "easy")])
    with spread_over(workers) as spread, bar("predicting") as tell:
        made = run(work.jobs, on, seed=seed, spread=spread, progress=tell)
    outputs.write_json({"trace": work.name, "cluster": cluster, **made.to_dict()})
    if report is not None:
        from rltune.report.predictability_page import write_predictability

        write_predictability(made, report, work.name, cluster or "")
    if outputs.only_json:
        return
    show_line(f"{work.name}{f' on {cluster}' if cluster else ''}")
    deciding = ", ".join(f"{name} ({share:.0%})" for name, share in list(made.told.weights.items())[:5])
    for line in (*lines(made), f"What decides most: {deciding}." if deciding else "", *work.notes):
        show_line(line)
    outputs.name_files()


@app.command(cls=Command, epilog=examples("rltune trace convert history.txt -o history.parquet"))
def convert(
    trace: options.TraceFile,
    out: options.TraceOut,
    array_limit: ArrayLimits = None,
    dedupe: options.Dedupe = False,
    force: options.Force = False,
    format: options.Format = None,  # noqa: A002
) -> None:
    """Write a trace as csv or parquet, quick to read.

    What was repaired or dropped on the way is told, as by `trace check`.
    """
    _require_free(out, force=force)
    limits = parse_array_limits(array_limit)
    found = read(trace, format, dedupe=dedupe)
    _write(with_array_limits(found.jobs, limits), out)
    show(found.quality)


@app.command(
    cls=Command,
    epilog=examples(
        "rltune trace synth philly -o made.parquet --jobs 100000 --cluster philly-slice",
        "rltune trace synth helios -o made.csv.gz --days 7 --seed 1",
    ),
)
def synth(
    kind: Annotated[
        str,
        typer.Argument(
            help="philly, helios, pai, lublin, habits or campaigns.", metavar="KIND", autocompletion=complete.kinds
        ),
    ],
    out: options.TraceOut,
    jobs: Annotated[int, typer.Option(help="How many jobs.", metavar="N", min=1, max=MOST_JOBS)] = 10_000,
    seed: options.Seed = 0,
    load: Annotated[
        float | None,
        typer.Option(
            help=f"GPU-seconds asked over those the cluster has; {LOAD} if only a cluster is given.", metavar="SHARE"
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            "-c",
            metavar="CLUSTER",
            help="Use its VCs and GPU types, and no job larger than it.",
            autocompletion=complete.presets,
        ),
    ] = None,
    days: Annotated[
        float | None, typer.Option(help="Spread the jobs over so many days, in place of a load.", metavar="DAYS")
    ] = None,
    force: options.Force = False,
) -> None:
    """Make a trace like Philly, Helios or PAI.

    Same seed, same trace.
    """
    _require_free(out, force=force)
    from rltune.cluster import Cluster
    from rltune.trace import synthesise

    fits = Cluster.load(cluster) if cluster else None
    if fits is not None and load is None and days is None:
        load = LOAD
    with spinner(f"making {jobs:,} jobs"):
        made = synthesise(kind, jobs, seed, load, fits, days)
    _write(made, out)
    show_line(f"{out}: {len(made):,} jobs over {float(made.submit_s.max()) / 86_400:,.1f} days")


@app.command(
    cls=Command,
    epilog=examples(
        "rltune trace anonymise history.txt -o shared.csv.gz",
        "rltune trace anonymise history.txt -o shared.csv.gz --keep vc",
        "RLTUNE_SALT=$(cat secret) rltune trace anonymise history.txt -o shared.csv.gz",
    ),
)
def anonymise(
    trace: options.TraceFile,
    out: options.TraceOut,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="Leave a column as it is: vc, qos, user, account, name, recorded_nodes or id. May be given again.",
            metavar="COLUMN",
        ),
    ] = None,
    dedupe: options.Dedupe = False,
    force: options.Force = False,
    format: options.Format = None,  # noqa: A002
) -> None:
    """Put pseudonyms for names, so that it can be shared.

    Users, accounts, names, VCs, QOS, nodes and job ids are replaced; who is the same stays the same. The key is drawn
    at random and kept nowhere. If pseudonyms must agree between files, put a secret into the environment variable
    RLTUNE_SALT (not into an argument, which others on the machine could see).
    """
    from rltune.trace.anonymise import anonymise as hide

    _require_free(out, force=force)
    found = read(trace, format, dedupe=dedupe)
    salt = os.environ.get(SALT)
    hidden = hide(found.jobs, salt=salt, keep=split(",".join(keep or [])))
    _write(hidden, out)
    show(found.quality)
    key = f"the secret in {SALT}" if salt else "a random key, kept nowhere"
    say(f"pseudonyms are by {key}; times and sizes stay as they were")


@app.command(
    "import-slurm",
    cls=Command,
    epilog=examples(
        "rltune trace import-slurm --from 2026-01-01 -o history.parquet",
        "rltune trace import-slurm --from 2026-01-01 --to 2026-04-01 --slice 6h -o history.csv.gz",
    ),
)
def import_slurm(
    begin: Annotated[
        str, typer.Option("--from", help="The first day, or time: 2026-01-31, 2026-01-31T12:00.", metavar="DATE")
    ],
    out: options.TraceOut,
    end: Annotated[str, typer.Option("--to", help="Until when; that time is not part of it.", metavar="DATE")] = "now",
    slice: Annotated[  # noqa: A002  the option's name
        str, typer.Option(help="How much is asked for at once: 1d, 6h, 30m.", metavar="TIME")
    ] = "1d",
    force: options.Force = False,
) -> None:
    """Fetch a history from this Slurm's accounting, by sacct.

    It holds the jobs that ended in a span of time. slurmdbd is asked for one slice at a time, and rests as long as each
    took. After an interruption the same command goes on where it was; until it is done, what was fetched lies in
    OUT.parts.
    """
    from rltune import trace
    from rltune.cli import dates as when
    from rltune.live.slurm import sacct_history as history

    _require_free(out, force=force)
    folder = make_room(out).with_name(f"{out.name}.parts")
    span = history.AskedSpan(when.moment(begin), when.moment(end), when.duration(slice))
    span = history.begin(folder, span, until_now=end == when.NOW)
    with bar("asking slurmdbd") as tell:
        raw = history.fetch(span, folder, history.Sacct(), tell)
    found = trace.load(raw, "sacct")
    _write(found.jobs, out)
    history.forget(folder)
    show(found.quality)


def _read_or_list(path: str, format_name: str | None, *, dedupe: bool) -> "Trace":
    """Read a trace; if it has mistakes, list them all."""
    from rltune.trace.every_mistake import read_or_list
    from rltune.trace.known_formats import FORMATS

    if format_name is not None and format_name not in FORMATS:  # your own reader says what it likes
        return read(path, format_name, dedupe=dedupe)
    with spinner(f"reading {path}"):
        found, mistakes = read_or_list(path, format_name, dedupe=dedupe)
    for sentence in mistakes:
        say(f"rltune: {sentence}")
    if found is None:
        raise typer.Exit(MISUSE)
    return found


def _require_free(out: Path, *, force: bool) -> None:
    """Refuse, before anything is read, a file that may not be written or whose name does not say how."""
    from rltune.trace.table import require_suffix

    require_suffix(out)
    require_free([out], force=force)


def _write(jobs: "Jobs", path: Path) -> None:
    from rltune import trace

    with spinner(f"writing {path}"):
        trace.write(jobs, make_room(path))

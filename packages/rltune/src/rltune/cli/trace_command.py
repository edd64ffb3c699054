"""`rltune trace`: a cluster's history, looked at, checked, converted, made and shared."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rltune.cli import completion as complete
from rltune.cli import options
from rltune.cli.console import make_room, require_free, say, show, show_json, show_line
from rltune.cli.exits import Mannered
from rltune.cli.named_pipeline import split
from rltune.cli.options import examples
from rltune.cli.progress_bar import bar, spinner
from rltune.cli.trace_argument import LOAD, MOST_JOBS, load_workload, read
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.jobs import Jobs

app = typer.Typer(cls=Mannered, no_args_is_help=True, help="Read, check, convert, make and share histories.")
SALT = "RLTUNE_SALT"


@app.command(epilog=examples("rltune trace info history.txt", "rltune trace info synth:helios --json"))
def info(
    trace: Annotated[str, typer.Argument(help=f"The history: {options.TRACE}.", metavar="TRACE")],
    format: options.Format = None,  # noqa: A002  the option's name
    json: options.Json = False,
) -> None:
    """Sum a trace up: sizes, run times, arrivals, users."""
    work = load_workload(trace, format)
    from rltune.trace.describe import describe

    told = describe(work.jobs)
    if json:
        show_json({"trace": work.name, **told.to_dict(), "notes": list(work.notes)})
        return
    show_line(work.name)
    show(told)
    for note in work.notes:
        show_line(note)


@app.command(
    epilog=examples("rltune trace check history.txt", "rltune trace check history.txt --cluster my.toml --json")
)
def check(
    trace: options.TraceFile,
    format: options.Format = None,  # noqa: A002
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
    json: options.Json = False,
) -> None:
    """Return what was repaired or dropped, and why.

    With a cluster, a trace with a job that the empty cluster cannot hold is refused.
    """
    from rltune.cluster import Cluster

    fits = Cluster.load(cluster) if cluster else None
    found = read(trace, format)
    if fits is not None:
        from rltune.trace.fits_cluster import require_fit

        require_fit(found, fits)
    if json:
        show_json(found.quality.to_dict())
        return
    show(found.quality)
    if fits is not None:
        show_line(f"every job fits {cluster}")


@app.command(epilog=examples("rltune trace convert history.txt history.parquet"))
def convert(
    trace: options.TraceFile,
    out: options.OutTrace,
    format: options.Format = None,  # noqa: A002
    force: options.Force = False,
) -> None:
    """Write a trace as csv or parquet, quick to read.

    What was repaired or dropped on the way is told, as by `trace check`.
    """
    _require_trace_name(out)
    require_free([out], force=force, inputs=[trace])
    found = read(trace, format)
    _write(found.jobs, out)
    show(found.quality)


@app.command(
    epilog=examples(
        "rltune trace synth philly made.parquet --jobs 100000 --cluster philly-slice",
        "rltune trace synth helios made.csv.gz --days 7 --seed 1",
    )
)
def synth(
    kind: Annotated[str, typer.Argument(help="philly, helios or pai.", metavar="KIND", autocompletion=complete.kinds)],
    out: options.OutTrace,
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
    """Make a trace like Philly, Helios or PAI: same seed, same trace."""
    _require_trace_name(out)
    require_free([out], force=force)
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
    epilog=examples(
        "rltune trace anonymise history.txt shared.csv.gz",
        "rltune trace anonymise history.txt shared.csv.gz --keep vc",
        "RLTUNE_SALT=$(cat secret) rltune trace anonymise history.txt shared.csv.gz",
    )
)
def anonymise(
    trace: options.TraceFile,
    out: options.OutTrace,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="Leave a column as it is: vc, qos, user, account, name or id. May be given again.", metavar="COLUMN"
        ),
    ] = None,
    format: options.Format = None,  # noqa: A002
    force: options.Force = False,
) -> None:
    """Put pseudonyms for names, so that it can be shared.

    Users, accounts, names, VCs, QOS and job ids are replaced; who is the same stays the same. The key is drawn at
    random and kept nowhere. If pseudonyms must agree between files, put a secret into the environment variable
    RLTUNE_SALT (not into an argument, which others on the machine could see).
    """
    from rltune.trace.anonymise import anonymise as hide

    _require_trace_name(out)
    require_free([out], force=force, inputs=[trace])
    found = read(trace, format)
    salt = os.environ.get(SALT)
    hidden = hide(found.jobs, salt=salt, keep=split(",".join(keep or [])))
    _write(hidden, out)
    show(found.quality)
    key = f"the secret in {SALT}" if salt else "a random key, kept nowhere"
    say(f"pseudonyms are by {key}; times and sizes stay as they were")


@app.command(
    "import-slurm",
    epilog=examples(
        "rltune trace import-slurm --from 2026-01-01 -o history.parquet",
        "rltune trace import-slurm --from 2026-01-01 --to 2026-04-01 --slice 6h -o history.csv.gz",
    ),
)
def import_slurm(
    begin: Annotated[str, typer.Option("--from", help="The first day, or time: 2026-01-31, 2026-01-31T12:00.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The file to write: .csv, .csv.gz or .parquet.", metavar="OUT")
    ],
    end: Annotated[str, typer.Option("--to", help="Until when; that time is not part of it.")] = "now",
    slice: Annotated[  # noqa: A002  the option's name
        str, typer.Option(help="How much is asked for at once: 1d, 6h, 30m.", metavar="TIME")
    ] = "1d",
    force: options.Force = False,
) -> None:
    """Fetch the jobs that ended in a span of time from this Slurm's accounting, by sacct.

    slurmdbd is asked for one slice at a time, and rests as long as each took. After an interruption the same command
    goes on where it was; until it is done, what was fetched lies in OUT.parts.
    """
    from rltune import trace
    from rltune.cli import dates as when
    from rltune.live.slurm import sacct_history as history

    _require_trace_name(out)
    require_free([out], force=force)
    folder = make_room(out).with_name(f"{out.name}.parts")
    span = history.AskedSpan(when.moment(begin), when.moment(end), when.duration(slice))
    span = history.begin(folder, span, until_now=end == when.NOW)
    with bar("asking slurmdbd") as tell:
        raw = history.fetch(span, folder, history.Sacct(), tell)
    found = trace.load(raw, "sacct")
    _write(found.jobs, out)
    history.forget(folder)
    show(found.quality)


def _require_trace_name(path: Path) -> None:
    """Refuse, before anything is read, a name that tells no format."""
    from rltune.trace.table import SUFFIXES

    if not path.name.endswith(SUFFIXES):
        raise InputError(f"{path}: the name should end in {', '.join(SUFFIXES)}")


def _write(jobs: "Jobs", path: Path) -> None:
    from rltune import trace

    with spinner(f"writing {path}"):
        trace.write(jobs, make_room(path))

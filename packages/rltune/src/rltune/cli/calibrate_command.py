"""`rltune calibrate`: how far a replay of a history is from what happened, why, and what can be done about it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rltune.cli import options
from rltune.cli.compile_notice import compile_core
from rltune.cli.console import require_free, show_line, show_table, write_text
from rltune.cli.estimator_argument import estimator_for
from rltune.cli.next_command import as_given, calibrated_name, free_name, say_next
from rltune.cli.options import examples
from rltune.cli.outputs import Outputs, cluster_and_file
from rltune.cli.terminal_progress import spinner
from rltune.cli.trace_argument import load_workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rltune.calibration import Calibration

EXAMPLES = examples(
    "rltune calibrate history.txt -c my.toml",
    "rltune calibrate history.txt -c my.toml --report out/calibration.html",
    "rltune calibrate history.txt -c my.toml --pipeline 'multifactor + easy' --write calibrated.toml",
)
MOST_TOML = 40  # lines shown


def calibrate(
    trace: options.TraceFile,
    cluster: options.Cluster,
    pipeline: Annotated[
        str | None,
        typer.Option(
            help="What the site has, as 'multifactor + easy'; the cluster's [scheduler], or the nearest of some.",
            metavar="PIPELINE",
        ),
    ] = None,
    estimator: Annotated[
        str | None,
        typer.Option(
            help="What the site's scheduler knows of run times; the limits asked, or else history.", metavar="NAME"
        ),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(help="Write the cluster with all lines that were found taken over.", metavar="FILE.toml"),
    ] = None,
    seed: options.Seed = 0,
    json: options.JsonOrFile = None,
    report: options.ReportFile = None,
    force: options.Force = False,
    format: options.Format = None,  # noqa: A002
) -> None:
    """Show how far a replay is from what happened, and why.

    The history is replayed under the site's own policy and compared with the starts it records. What the history tells
    of the site (nodes down, limits, weights) is offered as lines for the cluster's file.
    """
    outputs = Outputs(json, None, report)
    outputs.require_free(force=force)
    require_free([write], force=force)
    from rltune import Cluster
    from rltune.calibration import calibrate as run
    from rltune.calibration import calibration_text as text
    from rltune.engine.parse_pipeline import parse_pipeline

    on = Cluster.load(cluster)
    work = load_workload(trace, format, on, as_submitted=True)
    compile_core([parse_pipeline("multifactor", "easy")])
    with spinner("replaying and comparing"):
        made = run(work.jobs, on, pipeline, estimator and estimator_for(estimator, trace), seed, origin_s=work.origin_s)
    if not outputs.only_json:
        _show(made, f"{work.name} on {cluster_and_file(on, cluster)}", trace, work.notes)
    outputs.write_json({"trace": work.name, "cluster": cluster, "notes": work.notes, **text.as_dict(made)})
    if write is not None:
        _write(made, cluster, write, work.origin_s)
    if outputs.report is not None:
        from rltune.report.calibration_page import write_calibration

        write_calibration(made, outputs.report, work.name, cluster_and_file(on, cluster), (trace, work.notes))
    outputs.name_files()
    if outputs.only_json:
        return
    if write is not None:
        say_next(["tune", trace, "-c", str(write), *as_given(format), "--out", free_name("settings", ".toml")])
    elif any(one.toml for one in made.findings):
        say_next(["calibrate", trace, "-c", cluster, *as_given(format), "--write", calibrated_name(cluster)])


def _show(made: "Calibration", about: str, trace: str, notes: "Sequence[str]") -> None:
    from rltune.calibration import calibration_text as text

    for line in text.answer(made):
        show_line(line)
    show_line(f"\n{about}")
    for line in (text.how_replayed(made), *notes):
        show_line(line)
    for title, lines in text.all_evidence(made):
        show_line(f"\n{title}")
        for line in lines:
            show_line(f"  {line}")
    show_line("\nWhat was found")
    for line in text.causes(made, trace):
        show_line(f"- {line}")
    show_line("")
    for title, table in text.tables(made):
        show_line(title)
        show_table(table)
        show_line("")
    _show_toml(made)


def _show_toml(made: "Calibration") -> None:
    from rltune.calibration.cluster_file import some_lines
    from rltune.text import counted

    lines, left = some_lines(made.findings, MOST_TOML)
    if not lines:
        show_line("Nothing was found that a cluster's file could say.")
        return
    show_line("Lines for the cluster's file (nothing is taken over unless you do, or give --write):")
    if left:
        out = ", ".join(counted(number, f"[{name}] table") for name, number in left.items())
        show_line(f"Left out here: {out}; --write has all.")
    for line in ("", *lines):
        show_line(line)


def _write(made: "Calibration", cluster: str, path: Path, clock_s: float | None) -> None:
    from rltune.calibration.cluster_file import file_with
    from rltune.cluster import Cluster

    verdict = (made.after or made.close).verdict
    write_text(file_with(Cluster.text_of(cluster), made.findings, clock_s, verdict), path)
    Cluster.from_toml(path)
    same = "" if any(one.toml for one in made.findings) else f" (as {cluster}: nothing was found that it could say)"
    show_line(f"cluster: {path}{same}")

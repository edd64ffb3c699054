"""Options that several commands share; each text is its --help."""

from pathlib import Path
from typing import Annotated

import typer

from rltune.cli import completion as complete

TRACE = "a file, or a synthetic trace: synth:philly, synth:helios or synth:pai, such as synth:philly,jobs=5000,load=0.9"

Trace = Annotated[str, typer.Option("--trace", "-t", help=f"The history: {TRACE}.", metavar="TRACE")]
TraceFile = Annotated[str, typer.Argument(help="The trace to read.", metavar="TRACE")]
Format = Annotated[
    str | None,
    typer.Option(
        help="The trace's format; found by content if not named.", metavar="FORMAT", autocompletion=complete.formats
    ),
]
Cluster = Annotated[
    str,
    typer.Option(
        "--cluster", "-c", help="A preset's name, or a TOML file.", metavar="CLUSTER", autocompletion=complete.presets
    ),
]
Estimator = Annotated[
    str,
    typer.Option(
        help="What is known of run times: history (learnt while it runs), user (the limits asked), noisy or noisy:1.2 "
        "(the truth with an error), boost:TRACE (boosted trees learnt from an earlier trace), oracle (the truth).",
        metavar="NAME",
        autocompletion=complete.estimators,
    ),
]
Head = Annotated[
    str,
    typer.Option(
        help="What a job that does not fit blocks: its pool, or everything (global).",
        metavar="HEAD",
        autocompletion=complete.heads,
    ),
]
View = Annotated[
    int, typer.Option(help="Show the policy only so many of the oldest waiting jobs; 0 = all.", min=0, metavar="N")
]
Cycle = Annotated[
    float,
    typer.Option(
        help="Ask the policy only so often, as a controller does; who has come since is last. 0 = in every pass.",
        min=0,
        metavar="SECONDS",
    ),
]
Guard = Annotated[
    str,
    typer.Option(
        help="For how long a job may be overtaken before it comes first: 24h, 4x (times its estimate), 24h:4x (the "
        "longer); 24h:sla=gold lets jobs of that QOS go before all; off.",
        metavar="GRACE",
    ),
]
Search = Annotated[
    str,
    typer.Option(
        help="Before each pass try so many orders of the queue by rolling them forward: 16, or 16:slowdown for bounded "
        "slowdown in place of wait; off.",
        metavar="N",
    ),
]
Seed = Annotated[int, typer.Option(help="Same seed, same result.", min=0, metavar="N")]
Commit = Annotated[bool, typer.Option("--commit", help="Run RLScheduler's machine, to check its published table.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]
JsonOrFile = Annotated[
    str | None,
    typer.Option("--json", help="Print JSON instead of the table; with a FILE, write it there.", metavar="[FILE]"),
]
JobsFile = Annotated[
    Path | None, typer.Option("--jobs", help="Write when and where every job ran, as parquet.", metavar="FILE.parquet")
]
ReportFile = Annotated[
    Path | None, typer.Option("--report", help="Write one self-contained HTML page.", metavar="FILE.html")
]
Policy = Annotated[
    str,
    typer.Option(
        "--policy",
        "-p",
        help="Who runs next: a name of `rltune policies`, or path.py:function.",
        metavar="NAME",
        autocompletion=complete.policies,
    ),
]
Policies = Annotated[
    str,
    typer.Option(
        "--policies",
        "-p",
        help="Who runs next, a list with commas: names of `rltune policies`, or path.py:function.",
        metavar="LIST",
        autocompletion=complete.policies,
    ),
]
Backfill = Annotated[
    str,
    typer.Option(
        "--backfill",
        "-b",
        help="Who may overtake: none, fit-first, easy, conservative, shadow.",
        metavar="NAME",
        autocompletion=complete.backfills,
    ),
]
Backfills = Annotated[
    str,
    typer.Option(
        "--backfill",
        "-b",
        help="Who may overtake, a list of: none, fit-first, easy, conservative, shadow.",
        metavar="LIST",
        autocompletion=complete.backfills,
    ),
]
Placement = Annotated[
    str,
    typer.Option(
        help="On which nodes: best-fit, first-fit, spread, hierarchical, milp[:K], auto.",
        metavar="NAME",
        autocompletion=complete.placements,
    ),
]
Placements = Annotated[
    str,
    typer.Option(
        "--placement",
        help="On which nodes, a list of: best-fit, first-fit, spread, hierarchical, milp[:K], auto.",
        metavar="LIST",
        autocompletion=complete.placements,
    ),
]
Windows = Annotated[
    str,
    typer.Option(
        "--windows",
        "-w",
        help="Which parts are run: whole; 20x1024 (windows x jobs), evenly spaced; 20x1024:random; "
        "20x1024:contended=600, where FCFS waits over 600 s; steady:0.3, the first 30 % of the time not measured.",
        metavar="WINDOWS",
        autocompletion=complete.windows,
    ),
]
Warm = Annotated[
    bool,
    typer.Option(
        "--warm", help="Let estimators and policies that learn begin each window with what had ended before it."
    ),
]
Baseline = Annotated[
    str | None,
    typer.Option(
        help="Against whom: a policy, or a pipeline such as 'saf + easy'; the first if not told.", metavar="NAME"
    ),
]
Metric = Annotated[
    str,
    typer.Option(
        help="Compared by what: wait, jct, slowdown, wait-p99, wait-max, large-wait, utilisation, makespan, "
        "fragmentation, fairness.",
        metavar="NAME",
        autocompletion=complete.metrics,
    ),
]
Workers = Annotated[int, typer.Option(help="Processes; the results do not depend on it.", min=1, max=1024, metavar="N")]
Details = Annotated[bool, typer.Option("--details", help="Add mean, p50, p90, p99 and max of every metric.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace files that exist.")]
OutTrace = Annotated[Path, typer.Argument(help="The file to write: .csv, .csv.gz or .parquet.", metavar="OUT")]


def examples(*lines: str) -> str:
    """Set examples below a command's help, one a line."""
    return "\b\n" + "\n".join(["Examples:", *(f"  {line}" for line in lines)])

"""The words of the command line, once for all commands; each text is its --help. The rules: docs/reference/cli.md."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rltune.cli import completion as complete
from rltune.cli.command import ADVANCED

TRACE = "a file, or a synthetic trace: synth:philly, synth:helios or synth:pai, such as synth:philly,jobs=5000,load=0.9"

Trace = Annotated[str, typer.Argument(help=f"The history: {TRACE}.", metavar="TRACE")]
Traces = Annotated[list[str], typer.Argument(help=f"The histories. Each is {TRACE}.", metavar="TRACE")]
TraceFile = Annotated[str, typer.Argument(help="The history: a file.", metavar="TRACE")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="The trace's format; found by content if not named.",
        metavar="FORMAT",
        autocompletion=complete.formats,
        rich_help_panel=ADVANCED,
    ),
]
Cluster = Annotated[
    str,
    typer.Option(
        "--cluster", "-c", help="A preset's name, or a TOML file.", metavar="CLUSTER", autocompletion=complete.presets
    ),
]
Clusters = Annotated[
    str,
    typer.Option(
        "--cluster",
        "-c",
        help="A preset's name, or a TOML file; of several traces one for each, with commas, or one for all.",
        metavar="LIST",
        autocompletion=complete.presets,
    ),
]
Estimator = Annotated[
    str | None,
    typer.Option(
        help="What is known of run times: history (learnt while it runs), user (the limits asked), noisy or noisy:1.2 "
        "(the truth with an error), predicted (from users, names and what has ended), last2 (the user's last two), "
        "blend:user+predicted, oracle (the truth), or your own: file:PATH (job ids and seconds), column:NAME of the "
        "trace, path.py:Name.",
        metavar="NAME",
        show_default="as a settings file says, or user where the history has starts and limits, or else history",
        autocompletion=complete.estimators,
    ),
]
Head = Annotated[
    str,
    typer.Option(
        help="What a job that does not fit blocks: its pool, or everything (global).",
        metavar="HEAD",
        autocompletion=complete.heads,
        rich_help_panel=ADVANCED,
    ),
]
View = Annotated[
    int,
    typer.Option(
        help="Show the policy only so many of the oldest waiting jobs; 0 = all.",
        min=0,
        metavar="N",
        rich_help_panel=ADVANCED,
    ),
]
Cycle = Annotated[
    float,
    typer.Option(
        help="Ask the policy only so often, as a controller does; who has come since is last. 0 = in every pass.",
        min=0,
        metavar="SECONDS",
        rich_help_panel=ADVANCED,
    ),
]
Guard = Annotated[
    str,
    typer.Option(
        help="For how long a job may be overtaken before it comes first: 24h, 4x (times its estimate), 24h:4x (the "
        "longer); 24h:sla=gold lets jobs of that QOS go before all, sla-base=gold leaves them to a model's base "
        "policy; off.",
        metavar="GRACE",
    ),
]
Preempt = Annotated[
    str,
    typer.Option(
        help="Let running jobs that are preemptible give way, by an order: las (least attained service), gittins, srsf "
        "(smallest remaining area), policy; las:run=600:most=5:turn=300 for the seconds a spell lasts at least, how "
        "often one job is displaced at most, and the seconds between two looks; off.",
        metavar="ORDER",
    ),
]
Remaining = Annotated[
    str,
    typer.Option(
        help="What reservations take running jobs to have left: ends-now (their estimate, and nothing past it) or "
        "history (what jobs like them that ran as long had left).",
        metavar="RULE",
        rich_help_panel=ADVANCED,
    ),
]
Search = Annotated[
    str,
    typer.Option(
        help="Before each pass try so many orders of the queue by rolling them forward: 16, or 16:slowdown for bounded "
        "slowdown in place of wait; off.",
        metavar="N",
        rich_help_panel=ADVANCED,
    ),
]
Preemptible = Annotated[
    str | None,
    typer.Option(
        "--preemptible",
        help="Which jobs may be displaced while they run, in place of what trace and cluster say: a share, drawn by "
        "lot (30%, 30%:seed=1), all, none.",
        metavar="SHARE",
        rich_help_panel=ADVANCED,
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        help="How much work lies between two checkpoints of the jobs that may be displaced: 10m; 0 = they lose none, "
        "inf = all.",
        metavar="TIME",
        rich_help_panel=ADVANCED,
    ),
]
Restart = Annotated[
    str | None,
    typer.Option(
        "--restart",
        help="For how long a displaced job holds its GPUs without progress before it goes on: 2m.",
        metavar="TIME",
        rich_help_panel=ADVANCED,
    ),
]
Seed = Annotated[int, typer.Option(help="Same seed, same result.", min=0, metavar="N")]
Commit = Annotated[
    bool,
    typer.Option("--commit", help="Run RLScheduler's machine, to check its published table.", rich_help_panel=ADVANCED),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]
JsonOrFile = Annotated[
    str | None,
    typer.Option("--json", help="Print JSON instead of the table; with a FILE, write it there.", metavar="[FILE]"),
]
JobsFile = Annotated[
    Path | None,
    typer.Option(
        "--jobs-file",
        help="Write when and where every job ran and why it waited, as .csv, .csv.gz or .parquet.",
        metavar="FILE",
    ),
]
ReportFile = Annotated[
    Path | None, typer.Option("--report", help="Write one self-contained HTML page.", metavar="FILE.html")
]
_WHO = "names of `rltune policies`, model files (mine.rltune), or path.py:function"
Policy = Annotated[
    str | None,
    typer.Option(
        "--policy",
        "-p",
        help="Who runs next: a name of `rltune policies`, a model file (mine.rltune), or path.py:function.",
        metavar="NAME",
        show_default="learned",
        autocompletion=complete.policies,
    ),
]


def policies(usual: str) -> Any:
    """Make the option for a list of policies; of these if none is named."""
    return typer.Option(
        "--policy",
        "-p",
        help=f"Who runs next, a list with commas: {_WHO}.",
        metavar="LIST",
        show_default=usual,
        autocompletion=complete.policies,
    )


_BACKFILLS = "none, fit-first, easy, easy:fcfs, easy:sjf, easy:srf, easy:saf, conservative, whole-nodes, shadow"
Backfill = Annotated[
    str | None,
    typer.Option(
        "--backfill",
        "-b",
        help=f"Who may overtake: {_BACKFILLS}.",
        metavar="NAME",
        show_default="none",
        autocompletion=complete.backfills,
    ),
]
Backfills = Annotated[
    str,
    typer.Option(
        "--backfill",
        "-b",
        help=f"Who may overtake, a list of: {_BACKFILLS}.",
        metavar="LIST",
        autocompletion=complete.backfills,
    ),
]
_PLACEMENTS = "best-fit, first-fit, spread, hierarchical, exclusive, slurm, milp[:K], auto"
Placement = Annotated[
    str | None,
    typer.Option(
        "--placement",
        help=f"On which nodes: {_PLACEMENTS}.",
        metavar="NAME",
        show_default="best-fit",
        autocompletion=complete.placements,
    ),
]
Placements = Annotated[
    str,
    typer.Option(
        "--placement",
        help=f"On which nodes, a list of: {_PLACEMENTS}.",
        metavar="LIST",
        autocompletion=complete.placements,
    ),
]
Pipeline = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        help="All three in one, as tables name it: 'saf + easy, milp:8', or a settings file.",
        metavar="PIPELINE",
    ),
]
Pipelines = Annotated[
    list[str] | None,
    typer.Option(
        "--pipeline",
        help="A pipeline as tables name it, 'learned + easy, milp:8', or a settings file. May be given again. "
        "With --policy it is one more, without it there are no others.",
        metavar="PIPELINE",
    ),
]
_CONTENDED = "contended=600 keeps those where FCFS without backfilling waits over 600 s on average"
Windows = Annotated[
    str,
    typer.Option(
        "--windows",
        "-w",
        help="Which parts are run: steady, all but the first 20 % of the time measured, from the jobs that were "
        "running and waiting then; steady:0.3, all but 30 %; whole, from an idle cluster; from idle: "
        "20x1024 (windows x jobs), evenly spaced, or 20x1024:random; 1024:every=64, windows that start at every 64th "
        f"job; {_CONTENDED}.",
        metavar="WINDOWS",
        autocompletion=complete.windows,
    ),
]
HeldOutWindows = Annotated[
    str | None,
    typer.Option(
        "--windows",
        "-w",
        help=f"Windows of the test part: 1024:every=64, of 1024 jobs from every 64th job on; {_CONTENDED}.",
        metavar="WINDOWS",
        show_default="1024:every=64:contended=600, smaller in a short history",
        autocompletion=complete.windows,
    ),
]


def _drawn_windows(usual: str) -> Any:
    return typer.Option(
        "--windows",
        "-w",
        help=f"Windows that each step learns from, as windows x jobs; {_CONTENDED}.",
        metavar="WINDOWS",
        show_default=usual,
        autocompletion=complete.windows,
    )


TrainWindows = Annotated[str | None, _drawn_windows("100x256:contended=600")]
EvolveWindows = Annotated[str | None, _drawn_windows("14x1024:contended=600")]
Holdout = Annotated[
    float,
    typer.Option(
        "--holdout",
        help="The share of the jobs, the last ones, that makes the test part.",
        metavar="SHARE",
        show_default="a tenth, more of a short history",
        rich_help_panel=ADVANCED,
    ),
]
Warm = Annotated[
    bool,
    typer.Option(
        "--warm",
        help="Let estimators and policies that learn begin each window with what had ended before it.",
        rich_help_panel=ADVANCED,
    ),
]
Baseline = Annotated[
    str | None,
    typer.Option(
        help="Against whom: a policy, or a pipeline such as 'saf + easy'; the first if not told; in `evaluate` the "
        "chosen rule, or FCFS.",
        metavar="NAME",
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        help="Compared by what: wait (usual), delay (usual with --preempt), jct, slowdown, wait-p99, delay-p99, "
        "wait-max, large-wait, utilisation, goodput, makespan, preemptions, lost, fragmentation, fairness, or your "
        "own as path.py:name.",
        metavar="NAME",
        autocompletion=complete.metrics,
    ),
]
HeldOutMetric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        help="Chosen and compared by what: wait (usual), delay (usual with --preempt), jct, slowdown, wait-p99, "
        "delay-p99, utilisation.",
        metavar="NAME",
        autocompletion=complete.metrics,
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        "--workers",
        help="How many processes or threads work; the results do not depend on it.",
        min=1,
        max=1024,
        metavar="N",
    ),
]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        help="Spread the windows over the Ray cluster at this address, or `auto` (extra [ray]).",
        metavar="ADDRESS",
        rich_help_panel=ADVANCED,
    ),
]
Details = Annotated[bool, typer.Option("--details", help="Add mean, p50, p90, p99 and max of every metric.")]
Dedupe = Annotated[
    bool,
    typer.Option("--dedupe", help="Leave out records that stand in the file already, as when two exports overlap."),
]
AllowRejected = Annotated[
    bool,
    typer.Option(
        "--allow-rejected",
        help="Go on though the cluster can never run more than 1 % of the jobs; they are in no mean.",
        rich_help_panel=ADVANCED,
    ),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace files that exist.")]
OutTrace = Annotated[Path, typer.Argument(help="The file to write: .csv, .csv.gz or .parquet.", metavar="OUT")]
TraceOut = Annotated[
    Path, typer.Option("--out", "-o", help="The file to write: .csv, .csv.gz or .parquet.", metavar="OUT")
]
ModelOut = Annotated[Path, typer.Option("--out", "-o", help="The model to write.", metavar="FILE.rltune")]
Base = Annotated[
    str | None,
    typer.Option(
        "--base",
        help="The rule to beat, and to fall back to: fcfs, sjf, saf, f1, wfp3, unicep, qssf, multifactor, "
        "multifactor-paper.",
        metavar="NAME",
        show_default="saf",
        autocompletion=complete.policies,
    ),
]
Estimators = Annotated[
    str | None,
    typer.Option(
        "--estimator",
        help="What is known of run times; of several, with commas, every window draws one.",
        metavar="LIST",
        show_default="history",
        autocompletion=complete.estimators,
    ),
]
TrainedBackfill = Annotated[
    str | None,
    typer.Option(
        "--backfill",
        "-b",
        help="Who may overtake where the policy is to work: none, fit-first or easy.",
        metavar="NAME",
        show_default="none",
        autocompletion=complete.backfills,
    ),
]
TrainedPlacement = Annotated[
    str | None,
    typer.Option(
        "--placement",
        help=f"On which nodes jobs run while it learns: {_PLACEMENTS}. With the solver it learns much more slowly.",
        metavar="NAME",
        show_default="best-fit",
        autocompletion=complete.placements,
    ),
]
LearnSeed = Annotated[
    int | None, typer.Option("--seed", help="Same seed, same result.", min=0, metavar="N", show_default="0")
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        help="All that has no option, as TOML; `--print-settings` writes one. Options given here win.",
        metavar="FILE.toml",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="One setting of that file, such as hidden=64x32. May be given again.",
        metavar="KEY=VALUE",
        rich_help_panel=ADVANCED,
    ),
]


def examples(*lines: str) -> str:
    """Set examples below a command's help, one a line."""
    return "\b\n" + "\n".join(["Examples:", *(f"  {line}" for line in lines)])

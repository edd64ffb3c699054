"""`rltune turns`: what letting jobs take turns would be worth on a history."""

from math import inf, isnan, nan
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rltune.cli import options
from rltune.cli.compile_notice import compile_core
from rltune.cli.console import show_line, show_table
from rltune.cli.evaluate_command import held_out
from rltune.cli.options import examples
from rltune.cli.outputs import Outputs, cluster_line
from rltune.cli.parsing import split
from rltune.cli.terminal_progress import bar, spinner
from rltune.cli.trace_argument import load_workload
from rltune.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from rltune.evaluation.turns_verdict import TurnsWorth

EXAMPLES = examples(
    "rltune turns history.txt -c my.toml --report out/turns.html",
    "rltune turns history.txt -c my.toml --shares 20%,50% --restarts 5m --checkpoint 30m",
)

Shares = Annotated[
    str, typer.Option(help="Which shares of the jobs agree to be displaced, each drawn by lot.", metavar="LIST")
]
Restarts = Annotated[str, typer.Option(help="How long a displaced job takes to go on: each is tried.", metavar="LIST")]
Checkpoint = Annotated[str, typer.Option(help="How often jobs write checkpoints; inf = never.", metavar="TIME")]


def turns(
    trace: options.Trace,
    cluster: options.Cluster,
    shares: Shares = "10%,30%,50%,100%",
    restarts: Restarts = "30s,2m,10m",
    checkpoint: Checkpoint = "10m",
    estimator: options.Estimator = None,
    windows: options.HeldOutWindows = None,
    guard: options.Guard = "off",
    seed: options.Seed = 0,
    workers: options.Workers = 1,
    json: options.JsonOrFile = None,
    report: options.ReportFile = None,
    force: options.Force = False,
    allow_rejected: options.AllowRejected = False,
    holdout: options.Holdout = 0.0,
    format: options.Format = None,  # noqa: A002
) -> None:
    """Show what letting jobs take turns would be worth: which share must agree for which gain.

    The best pipeline without turns and the best way of taking turns around its policy are chosen on one part of the
    history and compared on the part after it, for each share of willing jobs and each cost of a restart.
    """
    outputs = Outputs(json, report=report)
    outputs.require_free(force=force)
    asked: dict[str, Any] = {
        "shares": [_share(word) for word in split(shares)],
        "restarts_s": [_seconds(word, "--restarts", finite=True) for word in split(restarts)],
        "checkpoint_s": _seconds(checkpoint, "--checkpoint"),
    }
    if any(len(set(asked[name])) < len(asked[name]) for name in ("shares", "restarts_s")):
        raise InputError("name each share and each restart once")
    from rltune import Cluster
    from rltune.engine.parse_pipeline import read_pipeline
    from rltune.estimate import sites_estimator
    from rltune.evaluation.turns_worth import WITHOUT, turns_worth, ways_around
    from rltune.parallel import spread_over

    on = Cluster.load(cluster)
    work = load_workload(trace, format, on, allow_rejected=allow_rejected)
    plain = [read_pipeline(text) for text in WITHOUT[:3]]
    compile_core([*plain, *ways_around(plain[0])])
    how = {"guard": None if guard == "off" else guard, "holdout": holdout, "seed": seed, **held_out(windows)}
    with spread_over(workers) as spread, bar("taking turns") as tell:
        guess = estimator or sites_estimator(work.jobs)
        made = turns_worth(work.jobs, on, estimator=guess, spread=spread, progress=tell, **asked, **how)
    _write(made, outputs, f"{work.name} on {cluster_line(on, cluster)}")


def _write(made: "TurnsWorth", outputs: Outputs, about: str) -> None:
    from rltune.evaluation.turns_tables import worth_table

    if not outputs.only_json:
        show_line(about)
        show_table(worth_table(made))
    outputs.write_json({"about": about, **made.to_dict()})
    if outputs.report is not None:
        _write_page(made, outputs.report, about)
    outputs.name_files()


def _write_page(made: "TurnsWorth", path: "Path", about: str) -> None:
    from rltune.report.turns_page import write_turns

    with spinner("writing the page"):
        write_turns(made, path, about)


def _share(word: str) -> float:
    from rltune.preemption_rules import parse_lot

    rule = parse_lot(word)
    if ":" in word or not rule.share:
        raise InputError(f"--shares: {word!r} should be a share above 0, such as 30%; --seed draws the lots")
    return rule.share


def _seconds(word: str, option: str, *, finite: bool = False) -> float:
    from rltune.text import read_seconds

    try:
        told = read_seconds(word)
    except ValueError:
        told = inf if finite else nan
    if isnan(told) or (finite and told == inf):
        raise InputError(f"{option}: {word!r} is no time; write 90s, 10m{' or 2h' if finite else ', 2h or inf'}")
    return told

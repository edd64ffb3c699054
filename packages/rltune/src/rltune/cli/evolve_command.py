"""`rltune evolve`: find a policy by evolution, without torch."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rltune.cli import INTERRUPTED, options
from rltune.cli.command import ADVANCED
from rltune.cli.compile_notice import compile_core
from rltune.cli.console import make_room, require_free, say, show_line
from rltune.cli.options import examples
from rltune.cli.outputs import cluster_line
from rltune.cli.parsing import cluster_for_each, drawn_windows, split
from rltune.cli.terminal_progress import bar
from rltune.cli.trace_argument import load_workload
from rltune.cli.training_settings_file import Values, as_toml, merged, read_settings, with_values
from rltune.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rltune import Cluster
    from rltune.cli.trace_argument import Workload
    from rltune.learn.cma_es import Told
    from rltune.learn.evolve import Evolved, EvolvePlan

EXAMPLES = examples(
    "rltune evolve history.txt -c my.toml -o mine.rltune",
    "rltune evolve history.txt -c my.toml --backfill easy --objective slowdown -o mine.rltune",
    "rltune evolve a.csv b.csv -c a.toml,b.toml --workers 2 -o both.rltune",
    "rltune evolve history.txt -c my.toml -o mine.rltune --generations 80 --resume",
    "rltune evolve --print-settings > evolve.toml",
)
ABOUT_SETTINGS = "# Settings of `rltune evolve --settings FILE`; docs/reference/training.md says what each does."


def _print_settings(wanted: bool) -> None:
    if wanted:
        for line in (ABOUT_SETTINGS, *as_toml(_usual())):
            show_line(line)
        raise typer.Exit


Goal = Annotated[
    str | None, typer.Option(help="What to improve: wait, slowdown or delay.", metavar="NAME", show_default="wait")
]
Features = Annotated[
    str | None,
    typer.Option(
        help="What the network sees: wide, ahead, all, paper-17, or names joined by +.",
        metavar="NAME",
        show_default="wide",
    ),
]
Generations = Annotated[int | None, typer.Option(help="Steps.", min=0, metavar="N", show_default="40")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint beside the model.")]
PrintSettings = Annotated[
    bool,
    typer.Option(
        "--print-settings",
        help="Print all settings with their usual values, as a file for --settings, and end.",
        callback=_print_settings,
        is_eager=True,
        rich_help_panel=ADVANCED,
    ),
]
Also = Annotated[
    list[str] | None,
    typer.Option(help="A further trace, as it was named before.", metavar="TRACE@CLUSTER", hidden=True),
]


def evolve(
    trace: options.Traces,
    cluster: options.Clusters,
    out: options.ModelOut,
    base: options.Base = None,
    objective: Goal = None,
    backfill: options.TrainedBackfill = None,
    placement: options.TrainedPlacement = None,
    estimator: options.Estimators = None,
    features: Features = None,
    windows: options.EvolveWindows = None,
    generations: Generations = None,
    seed: options.LearnSeed = None,
    workers: options.Workers = 1,
    resume: Resume = False,
    settings: options.SettingsFile = None,
    force: options.Force = False,
    set_: options.Set = None,
    print_settings: PrintSettings = False,  # noqa: ARG001  acts when it is read
    allow_rejected: options.AllowRejected = False,
    format: options.Format = None,  # noqa: A002
    also: Also = None,
) -> None:
    """Find a policy by evolution of a network, under any backfilling. Needs no torch.

    The last tenth of the jobs is left for `rltune evaluate`; the tenth before it chooses the best. `rltune train
    --init` can go on from the model. After every generation a checkpoint is written beside the model; Ctrl-C writes the
    best so far, too.
    """
    where = cluster_for_each(trace, cluster)
    require_free([out], force=force or resume)
    given: Values = {"base": base, "objective": objective, "backfill": backfill, "placement": placement}
    given["features"] = features
    given["estimators"] = split(estimator) if estimator is not None else None
    steps: Values = {"generations": generations, "seed": seed}
    plan = evolve_plan(read_settings(settings, set_ or ()), {**given, "evolve": steps}, windows, workers)
    from rltune.learn.evolve import evolve_policy
    from rltune.learn.same_training import SUFFIX, none_to_resume

    checkpoint = out.with_name(f"{out.name}{SUFFIX}")
    if resume and not checkpoint.exists():
        raise none_to_resume(checkpoint)
    sources = [
        _source(*pair, format, allow_rejected=allow_rejected)
        for pair in (*zip(trace, where, strict=True), *map(_further, also or ()))
    ]
    compile_core()
    make_room(checkpoint)
    follow = _curve_writer(out, resume=resume)
    with bar("evolving") as tell:

        def told(news: "Told") -> None:
            tell(news.generation, plan.evolve.generations, f"held-out {news.validation:.3f}")
            follow(news)

        found = evolve_policy(
            [(work.jobs, on) for work, on in sources],
            plan,
            told,
            [work.name for work, _ in sources],
            checkpoint,
            resume=resume,
        )
    _write(found, out, cluster_line(sources[0][1], where[0]))
    _tell(found, plan, out)
    if not found.complete:
        made = f"interrupted after {found.told[-1].generation} of {plan.evolve.generations} generations"
        say(f"rltune: {made}; {out} holds the best so far, --resume goes on from there")
        raise typer.Exit(INTERRUPTED)


def evolve_plan(below: Values, options_given: Values, windows: str | None, workers: int) -> "EvolvePlan":
    """Make the plan: the usual one, over it a file's settings, over them what options say."""
    usual = _usual()
    values = merged(below, options_given)
    cut = drawn_windows(windows, values.get("contended_s", usual.contended_s))
    if cut is not None:
        drawn: Values = {"size": cut.size, "contended_s": cut.min_wait_s, "evolve": {"windows": cut.count}}
        values = merged(values, drawn)
    plan = with_values(usual, values)
    return replace(plan, evolve=replace(plan.evolve, threads=workers))


def _usual() -> "EvolvePlan":
    from rltune.learn.cma_es import EvolveSettings
    from rltune.learn.evolve import EvolvePlan

    return EvolvePlan(evolve=EvolveSettings(windows=14))


def _curve_writer(out: Path, *, resume: bool) -> "Callable[[Told], None]":
    """Return what keeps the curve beside the model as it grows, for `rltune serve --training`."""
    from rltune.model.curve_file import curve_beside, read_curve, write_curve

    path = curve_beside(out)
    entries = read_curve(path) if resume and path.exists() else []

    def follow(news: "Told") -> None:
        entries.append({"generation": news.generation, "train": news.train, "held_out": news.validation})
        write_curve(path, entries)

    return follow


def _write(found: "Evolved", out: Path, cluster: str) -> None:
    """Write the model, with what made it."""
    from rltune.model.model_file import save_model
    from rltune.version import __version__

    command = " ".join(["rltune", *sys.argv[1:]]) if sys.argv[1:2] == ["evolve"] else "rltune evolve"
    save_model(found.model.with_card(made_by=f"rltune {__version__}", command=command, cluster=cluster), out)


def _tell(found: "Evolved", plan: "EvolvePlan", out: Path) -> None:
    show_line(f"{out}: best of {found.told[-1].generation} generations is {found.best.generation}")
    held = found.model.card.held_out
    on = f"{held.windows} held-out windows of {held.jobs_each:,} jobs" if held is not None else "held-out windows"
    ratio = f"{found.best.validation:.3f} of {plan.base}'s under {plan.backfill}"
    show_line(f"{plan.objective} on {on}: {ratio} (at the start {found.told[0].validation:.3f})")


def _source(trace: str, cluster: str, format_name: str | None, *, allow_rejected: bool) -> "tuple[Workload, Cluster]":
    from rltune import Cluster

    on = Cluster.load(cluster)
    return load_workload(trace, format_name, on, allow_rejected=allow_rejected), on


def _further(spec: str) -> tuple[str, str]:
    """Read `TRACE@CLUSTER`, as further traces were named before."""
    say("rltune: write 'evolve A B -c C,D' for 'evolve A -c C --also B@D'; --also ends with the next release")
    trace, at, cluster = spec.rpartition("@")
    if not at or not trace or not cluster:
        raise InputError(f"--also {spec!r} is not understood; write TRACE@CLUSTER")
    return trace, cluster

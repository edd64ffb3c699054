"""`rltune evolve`: find a policy by evolution, without torch."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rltune.cli import options
from rltune.cli.compile_notice import compile_core
from rltune.cli.console import require_free, show_line
from rltune.cli.named_pipeline import named, split
from rltune.cli.options import examples
from rltune.cli.progress_bar import bar
from rltune.cli.trace_argument import load_workload
from rltune.cli.train_command import (
    Base,
    Contended,
    Estimators,
    Hidden,
    Out,
    TraceToLearn,
    VaryCluster,
    VaryLoad,
    _widths,
)
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune import Cluster
    from rltune.cli.trace_argument import Workload
    from rltune.learn.evolve import Evolved, EvolvePlan

EXAMPLES = examples(
    "rltune evolve history.txt -c my.toml -o mine.rltune",
    "rltune evolve history.txt -c my.toml --backfill easy --objective slowdown -o mine.rltune",
)

Goal = Annotated[str, typer.Option(help="What to improve: wait or slowdown.", metavar="NAME")]
Backfill = Annotated[
    str,
    typer.Option("--backfill", "-b", help="Under which the policy is to work: none, fit-first, easy.", metavar="NAME"),
]
Features = Annotated[
    str, typer.Option(help="What the network sees: wide, ahead, all, paper-17, or names joined by +.", metavar="NAME")
]
Bends = Annotated[
    int, typer.Option(help="Bends of the score: with them the queue can change what counts.", min=0, metavar="N")
]
Generations = Annotated[int, typer.Option(help="Steps.", min=0, metavar="N")]
Tried = Annotated[int, typer.Option(help="Candidates of a generation.", min=4, metavar="N")]
PerGeneration = Annotated[
    int, typer.Option("--windows", "-w", help="Windows that a generation is tried on.", min=1, metavar="N")
]
Pool = Annotated[int, typer.Option(help="Different windows in all.", min=1, metavar="N")]
Size = Annotated[int, typer.Option(help="Jobs in a window.", min=2, metavar="JOBS")]
HeldWindows = Annotated[int, typer.Option(help="Held-out windows that the best is chosen on.", min=1, metavar="N")]
Also = Annotated[
    list[str] | None,
    typer.Option(
        help="Learn from a further trace on its own cluster, too; may be given again.", metavar="TRACE@CLUSTER"
    ),
]
Threads = Annotated[int, typer.Option(help="Threads; the results do not depend on it.", min=1, max=1024, metavar="N")]


def evolve(
    trace: TraceToLearn,
    cluster: options.Cluster,
    out: Out,
    base: Base = "saf",
    objective: Goal = "wait",
    estimator: Estimators = "history",
    backfill: Backfill = "none",
    head: options.Head = "pool",
    cycle: options.Cycle = 0.0,
    guard: options.Guard = "off",
    features: Features = "wide",
    hidden: Hidden = "8x6",
    bends: Bends = 0,
    generations: Generations = 40,
    tried: Tried = 14,
    windows: PerGeneration = 14,
    pool: Pool = 120,
    size: Size = 1024,
    held_windows: HeldWindows = 20,
    contended: Contended = 600.0,
    vary_load: VaryLoad = 1.0,
    vary_cluster: VaryCluster = 0.0,
    seed: options.Seed = 0,
    also: Also = None,
    threads: Threads = 1,
    format: options.Format = None,  # noqa: A002
    force: options.Force = False,
) -> None:
    """Find a policy by evolution of a network, under any backfilling. Needs no torch.

    The last tenth of the jobs is left for `rltune evaluate`; the tenth before it chooses the best. `rltune train
    --init` can go on from the model.
    """
    require_free([out], force=force, inputs=[trace, cluster])
    from rltune import Cluster
    from rltune.learn.cma_es import EvolveSettings
    from rltune.learn.evolve import EvolvePlan, evolve_policy
    from rltune.learn.training_windows import Variation

    plan = EvolvePlan(
        base=base,
        objective=objective,
        estimators=tuple(split(estimator)),
        backfill=backfill,
        head=head,
        cycle_s=cycle,
        guard=guard,
        features=features,
        hidden=_widths(hidden),
        bends=bends,
        pool=pool,
        size=size,
        held_windows=held_windows,
        contended_s=contended,
        variation=Variation(vary_load, vary_cluster),
        evolve=EvolveSettings(generations, tried, windows, seed=seed, threads=threads),
    )
    on = Cluster.load(cluster)
    sources = [(load_workload(trace, format, on), on), *map(_further, also or [])]
    compile_core()
    with bar("evolving") as tell:
        found = evolve_policy(
            [(source.jobs, where) for source, where in sources],
            plan,
            lambda news: tell(news.generation, generations, f"held-out {news.validation:.3f}"),
            [source.name for source, _ in sources],
        )
    _write(found, out, named(on, cluster))
    _tell(found, plan, out)


def _write(found: "Evolved", out: Path, cluster: str) -> None:
    """Write the model, with what made it."""
    from rltune.model.model_file import save_model
    from rltune.version import __version__

    command = " ".join(["rltune", *sys.argv[1:]]) if sys.argv[1:2] == ["evolve"] else "rltune evolve"
    save_model(found.model.with_card(made_by=f"rltune {__version__}", command=command, cluster=cluster), out)


def _tell(found: "Evolved", plan: "EvolvePlan", out: Path) -> None:
    show_line(f"{out}: best of {found.told[-1].generation} generations is {found.best.generation}")
    show_line(
        f"{plan.objective} on held-out windows of {plan.size:,} jobs: {found.best.validation:.3f} of {plan.base}'s "
        f"under {plan.backfill} (at the start {found.told[0].validation:.3f})"
    )


def _further(spec: str) -> tuple["Workload", "Cluster"]:
    """Read `TRACE@CLUSTER`."""
    from rltune import Cluster

    trace, at, cluster = spec.rpartition("@")
    if not at or not trace or not cluster:
        raise InputError(f"--also {spec!r} is not understood; write TRACE@CLUSTER")
    on = Cluster.load(cluster)
    return load_workload(trace, None, on), on

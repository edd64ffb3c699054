"""`rltune train`: learn a policy from a cluster's own history."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rltune.cli import completion as complete
from rltune.cli import options
from rltune.cli.compile_notice import NOTICE, is_compiled
from rltune.cli.console import make_room, require_free, say, show_line
from rltune.cli.exits import INTERRUPTED
from rltune.cli.named_pipeline import named, split
from rltune.cli.options import examples
from rltune.cli.progress_bar import spinner
from rltune.cli.trace_argument import load_workload
from rltune.cli.training_curve import sparkline, training_display
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.learn.train import Trainer
    from rltune.model.learned_model import Model

EXAMPLES = examples(
    "rltune train history.txt -c my.toml -o mine.rltune",
    "rltune train synth:philly -c philly-slice --epochs 10 --windows 40 -o quick.rltune",
    "rltune train history.txt -c my.toml --objective wait:0.7+slowdown:0.3 --p99 1.5x -o mine.rltune",
    "rltune train history.txt -c my.toml -o mine.rltune --resume",
)

TraceToLearn = Annotated[str, typer.Argument(help=f"The history: {options.TRACE}.", metavar="TRACE")]
Out = Annotated[Path, typer.Option("--out", "-o", help="The model to write.", metavar="FILE.rltune")]
Base = Annotated[
    str,
    typer.Option(
        help="The rule to beat, and to fall back to: fcfs, sjf, saf, f1, wfp3, unicep, qssf, multifactor.",
        metavar="NAME",
        autocompletion=complete.policies,
    ),
]
Goal = Annotated[
    str,
    typer.Option(help="What to improve: wait, jct, slowdown, utilisation, or wait:0.7+slowdown:0.3.", metavar="NAME"),
]
P99 = Annotated[
    str | None,
    typer.Option(help="Keep the p99 wait below: 1.5x (of the base policy's), 36h, 90m or seconds.", metavar="BOUND"),
]
Reward = Annotated[
    str,
    typer.Option(
        help="Told as it grows (dense), or only at the end of a window as in the paper (end).", metavar="NAME"
    ),
]
Estimators = Annotated[
    str,
    typer.Option(
        "--estimator",
        help="What is known of run times; of several, with commas, every window draws one.",
        metavar="LIST",
        autocompletion=complete.estimators,
    ),
]
Backfill = Annotated[
    str, typer.Option("--backfill", "-b", help="Who may overtake: none, fit-first or easy.", metavar="NAME")
]
Features = Annotated[
    str,
    typer.Option(
        help="What the network sees: sampled (the paper's 8), sampled-7, sampled-9, naive, paper-17, wide, ahead, "
        "all, or names joined by +.",
        metavar="NAME",
    ),
]
Hidden = Annotated[str, typer.Option(help="Widths of the two hidden layers.", metavar="NxN")]
Epochs = Annotated[int, typer.Option(help="How often windows are run and learnt from.", min=1, metavar="N")]
PerEpoch = Annotated[int, typer.Option("--windows", "-w", help="Windows of an epoch.", min=1, metavar="N")]
Size = Annotated[int, typer.Option(help="Jobs in a window.", min=2, metavar="JOBS")]
Pool = Annotated[int, typer.Option(help="Different windows in all; then they come again.", min=1, metavar="N")]
Contended = Annotated[
    float, typer.Option(help="Draw windows in which FCFS waits longer, on average.", min=0, metavar="SECONDS")
]
VaryLoad = Annotated[
    float, typer.Option(help="Make arrivals denser or thinner by a factor of up to this.", min=1, metavar="FACTOR")
]
VaryCluster = Annotated[
    float, typer.Option(help="Make groups of nodes larger or smaller by a share of up to this.", min=0, metavar="SHARE")
]
HeldWindows = Annotated[
    int, typer.Option(help="Held-out windows that the best network is chosen on.", min=1, metavar="N")
]
HeldSize = Annotated[int, typer.Option(help="Jobs in a held-out window.", min=2, metavar="JOBS")]
HeldEvery = Annotated[int, typer.Option(help="Look at the held-out windows every so many epochs.", min=1, metavar="N")]
Patience = Annotated[
    int, typer.Option(help="Stop after so many looks that found nothing better; 0 = never.", min=0, metavar="N")
]
Rate = Annotated[float, typer.Option(help="Learning rate of the actor.", min=0, metavar="RATE")]
Passes = Annotated[int, typer.Option(help="How often an epoch's choices are learnt from.", min=1, metavar="N")]
Entropy = Annotated[float, typer.Option(help="What indecision is worth.", min=0, metavar="WEIGHT")]
Imitate = Annotated[
    int, typer.Option(help="First imitate the base policy, in so many passes; 0 = begin at random.", min=0, metavar="N")
]
Init = Annotated[Path | None, typer.Option(help="Begin with this model's network.", metavar="MODEL")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint beside the model.")]
TensorBoard = Annotated[
    Path | None, typer.Option("--tensorboard", help="Write scalars for TensorBoard.", metavar="DIR")
]
Threads = Annotated[int, typer.Option(help="Threads; the results do not depend on it.", min=1, max=1024, metavar="N")]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray", help="Run the windows on the Ray cluster at this address, or `auto` (extra [ray]).", metavar="ADDRESS"
    ),
]


def train(
    trace: TraceToLearn,
    cluster: options.Cluster,
    out: Out,
    base: Base = "saf",
    objective: Goal = "wait",
    p99: P99 = None,
    reward: Reward = "dense",
    estimator: Estimators = "history",
    backfill: Backfill = "none",
    head: options.Head = "pool",
    view: options.View = 0,
    features: Features = "sampled",
    hidden: Hidden = "32x16",
    imitate: Imitate = 10,
    epochs: Epochs = 100,
    windows: PerEpoch = 100,
    size: Size = 256,
    pool: Pool = 2000,
    contended: Contended = 600.0,
    vary_load: VaryLoad = 1.0,
    vary_cluster: VaryCluster = 0.0,
    held_windows: HeldWindows = 16,
    held_size: HeldSize = 1024,
    held_every: HeldEvery = 2,
    patience: Patience = 15,
    rate: Rate = 3e-3,
    passes: Passes = 6,
    entropy: Entropy = 0.0,
    seed: options.Seed = 0,
    init: Init = None,
    resume: Resume = False,
    threads: Threads = 1,
    ray: RayAddress = None,
    tensorboard: TensorBoard = None,
    format: options.Format = None,  # noqa: A002
    force: options.Force = False,
) -> None:
    """Learn a policy from a history, by PPO against a rule.

    The last tenth of the jobs is left for `rltune evaluate`; the tenth before it chooses the best network. After every
    epoch a checkpoint is written beside the model, so that Ctrl-C or a crash costs one epoch at most.
    """
    _require_torch()
    require_free([out], force=force or resume, inputs=[trace, cluster])
    from rltune.learn.objective import Objective
    from rltune.learn.ppo import PpoSettings
    from rltune.learn.train_settings import TrainSettings
    from rltune.learn.training_windows import Variation

    settings = TrainSettings(
        base=base,
        objective=Objective.parse(objective, p99),
        reward=reward,
        estimators=tuple(split(estimator)),
        backfill=backfill,
        head=head,
        view=view,
        features=features,
        hidden=_widths(hidden),
        imitate=imitate,
        epochs=epochs,
        windows=windows,
        size=size,
        pool=pool,
        contended_s=contended,
        variation=Variation(vary_load, vary_cluster),
        held_windows=held_windows,
        held_size=held_size,
        held_every=held_every,
        patience=patience,
        seed=seed,
        ppo=PpoSettings(actor_rate=rate, passes=passes, entropy=entropy),
    )
    from rltune import Cluster
    from rltune.learn.checkpoint import SUFFIX, read_checkpoint
    from rltune.learn.train import Trainer
    from rltune.model.model_file import read_model

    checkpoint = out.with_name(f"{out.name}{SUFFIX}")
    if resume:
        read_checkpoint(checkpoint)
    begun = read_model(init) if init else None
    on = Cluster.load(cluster)
    work = load_workload(trace, format, on)
    _compile()
    with _place(threads, ray) as spread:
        with spinner("looking for windows where jobs queue"):
            trainer = Trainer(work.jobs, on, settings, begun, spread, threads, work.name)
        if begun:
            _warn(begun, str(init), trainer)
        make_room(checkpoint)
        if resume:
            trainer.resume(checkpoint)
        done = _run(trainer, checkpoint, tensorboard)
    _write(trainer, out, named(on, cluster))
    _tell(trainer, out)
    if not done:
        say(f"rltune: interrupted after {trainer.progress.epoch} epochs; --resume goes on from there")
        raise typer.Exit(INTERRUPTED)


def _warn(begun: "Model", name: str, trainer: "Trainer") -> None:
    """Say if the model to begin with has seen the jobs that the best network is chosen on."""
    from rltune.policy.learned import Learned
    from rltune.trials.leak import Exam, leaks

    for note in leaks([Learned(begun, name)], [Exam.of_part(trainer.jobs, trainer.parts.validation)]):
        say(note)


def _run(trainer: "Trainer", checkpoint: Path, tensorboard: Path | None) -> bool:
    """Train, with a checkpoint after every epoch; False if Ctrl-C ended it."""
    from contextlib import closing, nullcontext

    from rltune.learn.tensorboard import Board

    board = closing(Board(tensorboard, trainer.progress.epoch)) if tensorboard else nullcontext()
    try:
        with training_display(trainer.settings.epochs) as show, board as to_board:
            for progress in trainer.epochs():
                trainer.save(checkpoint)
                show(progress)
                if to_board is not None:
                    to_board.add(progress.log[-1])
    except KeyboardInterrupt:
        if trainer.progress.best is None:
            raise
        return False
    return True


def _write(trainer: "Trainer", out: Path, cluster: str) -> None:
    from rltune.model.model_file import save_model
    from rltune.version import __version__

    command = " ".join(["rltune", *sys.argv[1:]]) if sys.argv[1:2] == ["train"] else "rltune train"
    save_model(trainer.best_model().with_card(made_by=f"rltune {__version__}", command=command, cluster=cluster), out)


def _tell(trainer: "Trainer", out: Path) -> None:
    at, s = trainer.progress, trainer.settings
    assert at.best is not None
    show_line(f"{out}: best of {at.epoch} epochs is epoch {at.best_epoch}")
    jobs = len(trainer.held[0].jobs)
    show_line(
        f"{s.objective} on {len(trainer.held)} held-out windows of {jobs:,} jobs: "
        f"{at.best.score:.3f} of {s.base}'s (untrained {at.curve[0]:.3f})"
    )
    if at.best.excess > 0:
        show_line(f"its p99 wait is {at.best.excess:.0%} above what is allowed: no network kept the bound")
    show_line(f"held-out score by epoch: {sparkline(at.curve)}")
    if trainer.stale and at.epoch < s.epochs:
        show_line(f"stopped early: nothing better since epoch {at.best_epoch}")


def _require_torch() -> None:
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise InputError("training needs torch: pip install 'rltune[train]'")


def _widths(text: str) -> tuple[int, int]:
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(p.isdigit() and 0 < int(p) <= 4096 for p in parts):
        raise InputError(f"hidden layers {text!r} are not understood; write two widths, such as 32x16")
    return int(parts[0]), int(parts[1])


def _place(threads: int, ray: str | None) -> Any:
    from rltune.parallel import Here, Ray, Threads

    if ray is not None:
        return Ray(ray)
    return Threads(threads) if threads > 1 else Here()


def _compile() -> None:
    """Compile what training needs, if that has not been done."""
    from rltune.kernel.backfill import scheduling_pass as decide
    from rltune.kernel.rollout import drawn_window as rollout
    from rltune.kernel.rollout import event_loop as loop
    from rltune.kernel.state import handles as handle

    needed = (loop.run, loop.advance, decide.decide, rollout.rollout)
    source = handle.SOURCE_HASH  # of all kernels; every compiled signature holds it
    if not all(is_compiled(kernel, source) for kernel in needed):
        say(NOTICE)

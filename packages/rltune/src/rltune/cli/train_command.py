"""`rltune train`: learn a policy from a cluster's own history."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rltune.cli import INTERRUPTED, options
from rltune.cli.command import ADVANCED
from rltune.cli.compile_notice import NOTICE, is_compiled
from rltune.cli.console import make_room, require_free, say, show_line
from rltune.cli.options import examples
from rltune.cli.outputs import cluster_line
from rltune.cli.parsing import drawn_windows, split
from rltune.cli.terminal_progress import spinner
from rltune.cli.trace_argument import load_workload
from rltune.cli.training_curve import sparkline, training_display
from rltune.cli.training_settings_file import Values, as_toml, merged, read_settings, with_values
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.learn.train import Trainer
    from rltune.learn.train_settings import TrainSettings
    from rltune.model.learned_model import Model

EXAMPLES = examples(
    "rltune train history.txt -c my.toml -o mine.rltune",
    "rltune train synth:philly -c philly-slice --epochs 10 -w 40x256 -o quick.rltune",
    "rltune train history.txt -c my.toml --objective wait:0.7+slowdown:0.3 --p99 1.5x -o mine.rltune",
    "rltune train --print-settings > train.toml",
    "rltune train history.txt -c my.toml --settings train.toml -o mine.rltune --resume",
)
ABOUT_SETTINGS = "# Settings of `rltune train --settings FILE`; docs/reference/training.md says what each does."


def _print_settings(wanted: bool) -> None:
    if wanted:
        require_torch()
        from rltune.learn.train_settings import TrainSettings

        usual = TrainSettings()
        for line in (ABOUT_SETTINGS, *as_toml(usual, objective=str(usual.objective), p99="")):
            show_line(line)
        raise typer.Exit


Goal = Annotated[
    str | None,
    typer.Option(
        help="What to improve: wait, jct, slowdown, utilisation, or wait:0.7+slowdown:0.3.",
        metavar="NAME",
        show_default="wait",
    ),
]
P99 = Annotated[
    str | None,
    typer.Option(help="Keep the p99 wait below: 1.5x (of the base policy's), 36h, 90m or seconds.", metavar="BOUND"),
]
Features = Annotated[
    str | None,
    typer.Option(
        help="What the network sees: sampled (the paper's 8), sampled-7, sampled-9, paper-literal, naive, "
        "paper-17, wide, ahead, all, or names joined by +.",
        metavar="NAME",
        show_default="sampled",
    ),
]
Epochs = Annotated[
    int | None,
    typer.Option(help="How often windows are run and learnt from.", min=1, metavar="N", show_default="100"),
]
Init = Annotated[Path | None, typer.Option(help="Begin with this model's network.", metavar="MODEL")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint beside the model.")]
TensorBoard = Annotated[
    Path | None,
    typer.Option("--tensorboard", help="Write scalars for TensorBoard.", metavar="DIR", rich_help_panel=ADVANCED),
]
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


def train(
    trace: options.Trace,
    cluster: options.Cluster,
    out: options.ModelOut,
    base: options.Base = None,
    objective: Goal = None,
    p99: P99 = None,
    backfill: options.TrainedBackfill = None,
    placement: options.TrainedPlacement = None,
    estimator: options.Estimators = None,
    features: Features = None,
    windows: options.TrainWindows = None,
    epochs: Epochs = None,
    seed: options.LearnSeed = None,
    workers: options.Workers = 1,
    init: Init = None,
    resume: Resume = False,
    settings: options.SettingsFile = None,
    force: options.Force = False,
    set_: options.Set = None,
    print_settings: PrintSettings = False,  # noqa: ARG001  acts when it is read
    ray: options.Ray = None,
    tensorboard: TensorBoard = None,
    allow_rejected: options.AllowRejected = False,
    format: options.Format = None,  # noqa: A002
) -> None:
    """Learn a policy from a history, by PPO against a rule.

    The last tenth of the jobs is left for `rltune evaluate`; the tenth before it chooses the best network. After every
    epoch a checkpoint is written beside the model, so that Ctrl-C or a crash costs one epoch at most.
    """
    require_torch()
    require_free([out], force=force or resume)
    given: Values = {"base": base, "objective": objective, "p99": p99, "backfill": backfill, "features": features}
    given |= {"placement": placement, "epochs": epochs, "seed": seed}
    given |= {"estimators": split(estimator) if estimator is not None else None}
    chosen = train_settings(read_settings(settings, set_ or ()), given, windows)
    from rltune import Cluster
    from rltune.learn.checkpoint import read_checkpoint
    from rltune.learn.same_training import SUFFIX
    from rltune.learn.train import Trainer
    from rltune.model.model_file import read_model

    checkpoint = out.with_name(f"{out.name}{SUFFIX}")
    if resume:
        read_checkpoint(checkpoint)
    begun = read_model(init) if init else None
    on = Cluster.load(cluster)
    work = load_workload(trace, format, on, allow_rejected=allow_rejected)
    _compile()
    with _place(workers, ray) as spread:
        with spinner("looking for windows where jobs queue"):
            trainer = Trainer(work.jobs, on, chosen, begun, spread, workers, work.name)
        if begun:
            _warn(begun, str(init), trainer)
        make_room(checkpoint)
        if resume:
            trainer.resume(checkpoint)
        done = _run(trainer, out, checkpoint, tensorboard)
    _write(trainer, out, cluster_line(on, cluster))
    _tell(trainer, out)
    if not done:
        say(f"rltune: interrupted after {trainer.progress.epoch} epochs; --resume goes on from there")
        raise typer.Exit(INTERRUPTED)


def _warn(begun: "Model", name: str, trainer: "Trainer") -> None:
    """Warn if the model to begin with has seen the jobs that the best network is chosen on."""
    from rltune.policy.learned import Learned
    from rltune.trials.leak import Exam, leaks

    for note in leaks([Learned(begun, name)], [Exam.of_part(trainer.jobs, trainer.parts.validation)]):
        say(note)


def train_settings(below: Values, options_given: Values, windows: str | None) -> "TrainSettings":
    """Make the settings: the usual ones, over them those of a file, over them what options say."""
    from rltune.learn.objective import Objective
    from rltune.learn.train_settings import TrainSettings

    usual = TrainSettings()
    values = merged(below, options_given)
    cut = drawn_windows(windows, values.get("contended_s", usual.contended_s))
    if cut is not None:
        values |= {"windows": cut.count, "size": cut.size, "contended_s": cut.min_wait_s}
    goal, bound = (str(values.pop(name, "")) for name in ("objective", "p99"))
    usual = TrainSettings(objective=Objective.parse(goal or str(usual.objective), bound or None))
    return with_values(usual, values, more=("p99",))


def _run(trainer: "Trainer", out: Path, checkpoint: Path, tensorboard: Path | None) -> bool:
    """Train, with a checkpoint and the curve after every epoch; False if Ctrl-C ended it."""
    from contextlib import closing, nullcontext

    from rltune.learn.tensorboard import Board
    from rltune.model.curve_file import curve_beside, write_curve

    board = closing(Board(tensorboard, trainer.progress.epoch)) if tensorboard else nullcontext()
    try:
        with training_display(trainer.settings.epochs) as show, board as to_board:
            for progress in trainer.epochs():
                trainer.save(checkpoint)
                write_curve(curve_beside(out), progress.log)
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


def require_torch() -> None:
    """Refuse to begin without torch."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise InputError("training needs torch: pip install 'rltune[train]'")


def _place(workers: int, ray: str | None) -> Any:
    from rltune.parallel import Here, Ray, Threads

    if ray is not None:
        return Ray(ray)
    return Threads(workers) if workers > 1 else Here()


def _compile() -> None:
    """Compile what training needs, if that has not been done."""
    from rltune.kernel.backfill import scheduling_pass as decide
    from rltune.kernel.jit import SOURCE_HASH
    from rltune.kernel.rollout import drawn_window as rollout
    from rltune.kernel.rollout import event_loop as loop

    needed = (loop.run, loop.advance, decide.make_pass, rollout.rollout)
    source = SOURCE_HASH  # of all kernels; every compiled signature holds it
    if not all(is_compiled(kernel, source) for kernel in needed):
        say(NOTICE)

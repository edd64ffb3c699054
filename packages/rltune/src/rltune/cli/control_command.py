"""`rltune control`: watch a running Slurm, advise it, or drive it."""

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rltune.cli.console import say, show_line, write_text
from rltune.cli.options import examples
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.live.clock import Clock
    from rltune.live.control_settings import ControlSettings
    from rltune.live.controller import Controller
    from rltune.live.see.backend import Backend

JOURNAL = Path("rltune-journal.db")
FAILED = 1

EXAMPLES = examples(
    "rltune control --once                                  # look once, change nothing",
    "rltune control --journal /var/lib/rltune/journal.db    # every minute, until Ctrl-C",
    "rltune control --mode advise --partition gpu --once",
    "rltune control --mode act --config /etc/rltune/control.toml",
    "rltune control --release                               # give every job back",
)

_Mode = Annotated[
    str | None,
    typer.Option(help="shadow: change nothing (default); advise: say which commands; act: give them.", metavar="MODE"),
]
_Config = Annotated[Path | None, typer.Option(help="Settings as TOML; options given here win.", metavar="FILE")]
_Journal = Annotated[Path, typer.Option(help="Where everything is written down.", metavar="FILE")]
_Partition = Annotated[
    list[str] | None,
    typer.Option("--partition", help="Touch jobs of this partition; may be given again.", metavar="NAME"),
]
_Policy = Annotated[
    str | None,
    typer.Option("--policy", "-p", help="Who runs next, as for `simulate`; learned if not told.", metavar="NAME"),
]
_Backfill = Annotated[
    str | None, typer.Option("--backfill", "-b", help="Who may overtake; easy if not told.", metavar="NAME")
]
_Placement = Annotated[str | None, typer.Option(help="On which nodes; best-fit if not told.", metavar="NAME")]
_Estimator = Annotated[
    str | None,
    typer.Option(
        help="What is known of run times: user (default), history (of this journal), boost:TRACE.", metavar="NAME"
    ),
]
_Guard = Annotated[
    str | None,
    typer.Option(help="How long a job may be overtaken, as for `simulate`; 24h:4x if not told.", metavar="G"),
]
_Channel = Annotated[
    str | None, typer.Option(help="Order jobs by site-factor (default) or by priority.", metavar="CHANNEL")
]
_Steer = Annotated[
    str | None, typer.Option(help="Lead jobs to nodes by exclude (default) or pin, or not: off.", metavar="HOW")
]
_Cycle = Annotated[float | None, typer.Option(help="Seconds from one look to the next; 60 if not told.", metavar="S")]
_Once = Annotated[bool, typer.Option("--once", help="One cycle, then end; what was changed stays.")]
_Release = Annotated[bool, typer.Option("--release", help="Give every job back what it had, and end.")]
_Advice = Annotated[Path | None, typer.Option(help="Also write the commands advised into this file.", metavar="FILE")]
_Textfile = Annotated[Path | None, typer.Option(help="Write metrics for Prometheus here.", metavar="FILE.prom")]
_Port = Annotated[int, typer.Option(help="Serve metrics on this port of 127.0.0.1.", min=0, max=65535, metavar="PORT")]
_Testbed = Annotated[
    Path | None, typer.Option(help="Take the Slurm of `rltune slurm testbed` in this folder.", metavar="FOLDER")
]


def control(
    mode: _Mode = None,
    config: _Config = None,
    journal: _Journal = JOURNAL,
    partition: _Partition = None,
    policy: _Policy = None,
    backfill: _Backfill = None,
    placement: _Placement = None,
    estimator: _Estimator = None,
    guard: _Guard = None,
    channel: _Channel = None,
    steer: _Steer = None,
    cycle: _Cycle = None,
    once: _Once = False,
    release: _Release = False,
    advice: _Advice = None,
    metrics: _Textfile = None,
    metrics_port: _Port = 0,
    testbed: _Testbed = None,
) -> None:
    """Watch a running Slurm, advise it, or drive it; by default nothing is changed."""
    from rltune.live.control_settings_file import load_settings

    pipeline = {"policy": policy, "backfill": backfill, "placement": placement, "estimator": estimator}
    overrides: dict[str, Any] = {
        "mode": mode,
        "steer": steer,
        "cycle_s": cycle,
        "pipeline": pipeline,
        "scope": {"partitions": tuple(partition) if partition else None},
        "numbers": {"channel": channel},
        "safety": {"guard": guard},
    }
    settings = load_settings(config, overrides)
    backend, clock = _cluster(testbed)
    if release:
        _release(backend, clock, settings, journal)
    else:
        _drive(backend, clock, settings, journal, advice, metrics, metrics_port, once=once)


def _cluster(testbed: Path | None) -> "tuple[Backend, Clock]":
    from rltune.live.clock import SystemClock
    from rltune.live.slurm.client import Slurm

    if testbed is None:
        return Slurm(), SystemClock()
    from rltune.lab.testbed.bed import Testbed

    bed = Testbed.open(testbed)
    return bed.backend(), SystemClock(float(bed.factor), *bed.clock_at)


def _drive(
    backend: "Backend",
    clock: "Clock",
    settings: "ControlSettings",
    journal: Path,
    advice: Path | None,
    textfile: Path | None,
    port: int,
    *,
    once: bool,
) -> None:
    from rltune.live.controller import Controller
    from rltune.live.journal.store import Journal
    from rltune.live.pinned_pipeline import pin_pipeline
    from rltune.live.prometheus import Metrics
    from rltune.live.single_instance import only_one

    pinned = pin_pipeline(settings)  # what cannot be decided by is refused before anything is written
    with only_one(_lock_of(journal)):
        _tell_of_compiling()
        store = Journal.create(journal)
        told = Metrics(textfile, port)
        told.write()
        shown: dict[str, Any] = {"metrics": told, "say": say, "advise": _adviser(advice)}
        controller = Controller(backend, store, settings, clock, pinned=pinned, **shown)
        say(f"{settings.mode} by {settings.pipeline.policy}, journal {journal}")
        if once:
            report = controller.cycle()
            say(str(report))
        else:
            with _led_by_signals(controller):
                controller.run()
        told.close()
        store.close()
    if once and report.outcome != "ok":
        raise typer.Exit(FAILED)


def _release(backend: "Backend", clock: "Clock", settings: "ControlSettings", journal: Path) -> None:
    """Restore what the journal says was changed; no policy is read, so it may be missing."""
    from rltune.live.act.state_machine import Brain
    from rltune.live.hands import Hands
    from rltune.live.journal.store import Journal
    from rltune.live.prometheus import Metrics
    from rltune.live.see.backend import BackendError
    from rltune.live.single_instance import only_one

    Journal.read(journal).close()
    with only_one(_lock_of(journal)):
        store = Journal.create(journal)
        hands = Hands(backend, store, Brain(settings, store.holdings()), clock, Metrics(), say)
        try:
            left = hands.give_back()
        except BackendError as error:
            raise InputError(f"nothing could be given back, {error}; try again when Slurm answers") from None
        finally:
            store.close()
    if left:
        raise typer.Exit(FAILED)


def _lock_of(journal: Path) -> Path:
    return journal.with_name(journal.name + ".lock")


def _adviser(file: Path | None) -> Callable[[Sequence[str]], None]:
    def advise(commands: Sequence[str]) -> None:
        for command in commands:
            show_line(command)
        if file is not None:
            write_text("".join(f"{command}\n" for command in commands), file)

    return advise


class _led_by_signals:  # noqa: N801  reads as what it does
    """Let SIGTERM and SIGINT end the controller after its cycle, all given back; let SIGHUP reload its policy."""

    def __init__(self, controller: "Controller") -> None:
        self._controller = controller
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, lambda *_: self._controller.stop())
        self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda *_: self._controller.reload())

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _tell_of_compiling() -> None:
    """Print a notice if the first cycle will have to compile the core."""
    from rltune.cli.compile_notice import NOTICE, is_compiled
    from rltune.kernel.backfill.easy import reservation
    from rltune.kernel.jit import SOURCE_HASH

    if not is_compiled(reservation, SOURCE_HASH):  # every compiled signature holds it
        say(NOTICE)

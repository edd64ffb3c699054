"""`rltune control`: watch a running Slurm, advise it, or drive it."""

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rltune.cli.console import say, show_line, write_text
from rltune.cli.control_release import end_by
from rltune.cli.options import examples
from rltune.errors import InputError
from rltune.live.journal.default_place import default_journal

if TYPE_CHECKING:
    from rltune.live.clock import Clock
    from rltune.live.control_settings import ControlSettings
    from rltune.live.controller import Controller
    from rltune.live.give_back import GivenBack
    from rltune.live.rest_place import RestPlace
    from rltune.live.see.backend import Backend

JOURNAL = default_journal()
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
    typer.Option("--policy", "-p", help="Who runs next, as for `simulate`; portfolio if not told.", metavar="NAME"),
]
_Backfill = Annotated[
    str | None, typer.Option("--backfill", "-b", help="Who may overtake; easy if not told.", metavar="NAME")
]
_Placement = Annotated[str | None, typer.Option(help="On which nodes; best-fit if not told.", metavar="NAME")]
_Estimator = Annotated[
    str | None,
    typer.Option(
        help="What is known of run times: user (default), history or predicted (of this journal), file:PATH.",
        metavar="NAME",
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
_Owner = Annotated[
    str, typer.Option(help="With --release: by the records of this account, not of one's own.", metavar="USER")
]
_TakeOver = Annotated[
    bool, typer.Option("--take-over", help="Take the lock though its holder may live: you know that it is dead.")
]
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
    owner: _Owner = "",
    take_over: _TakeOver = False,
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
    if owner and not release:
        raise InputError("--owner says whose records --release goes by; give --release, or leave it out")
    if release:  # before settings are read: a mistake in them must not keep jobs from being given back
        _release(testbed, config, journal, tuple(partition or ()), owner, take_over=take_over)
        return
    settings = load_settings(config, overrides)
    place = settings.slurm.place()
    if place and place.leaks:
        say(f"the token goes to {place.url} unencrypted: whoever listens can use it; prefer https or a unix socket")
    backend, clock = slurm_of(testbed, place)
    given = _drive(backend, clock, settings, journal, advice, metrics, metrics_port, once=once, take_over=take_over)
    end_by(given)


def _release(
    testbed: Path | None,
    config: Path | None,
    journal: Path,
    partitions: tuple[str, ...],
    owner: str,
    *,
    take_over: bool,
) -> None:
    from rltune.cli.control_release import place_of, release
    from rltune.live.give_back import GiveBack
    from rltune.live.see.ownership import EVERYWHERE
    from rltune.live.see.snapshot import Lever

    place = place_of(config)
    backend, _ = slurm_of(testbed, place)
    giving = GiveBack(backend, owner, partitions or (EVERYWHERE,), by_force=take_over)
    release(giving, journal, Lever.NICE if place else Lever.SITE_FACTOR)


def slurm_of(testbed: Path | None, place: "RestPlace | None" = None) -> "tuple[Backend, Clock]":
    """Return the Slurm of this machine, of a test cluster or behind a slurmrestd, and its clock."""
    from rltune.live.clock import SystemClock
    from rltune.live.slurm.client import Slurm
    from rltune.live.slurm.rest_client import SlurmRest

    if testbed is None:
        return SlurmRest(place) if place else Slurm(), SystemClock()
    from rltune.lab.testbed.bed import Testbed

    bed = Testbed.open(testbed)
    return SlurmRest(place, bed.now_s) if place else bed.backend(), SystemClock(float(bed.factor), *bed.clock_at)


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
    take_over: bool,
) -> "GivenBack":
    from rltune.live.controller import Controller
    from rltune.live.give_back import GivenBack
    from rltune.live.journal.store import Journal
    from rltune.live.pinned_pipeline import pin_pipeline
    from rltune.live.prometheus import Metrics
    from rltune.live.single_instance import only_one
    from rltune.live.watchdog import Watchdog

    pinned = pin_pipeline(settings)  # what cannot be decided by is refused before anything is written
    with only_one(_lock_of(journal)):
        _tell_of_compiling()
        store = Journal.create(journal)
        told = Metrics(textfile, port)
        told.write()
        shown: dict[str, Any] = {"metrics": told, "say": say, "advise": _adviser(advice)}
        shown |= {"take_over": take_over, "watchdog": Watchdog.of()}
        controller = Controller(backend, store, settings, clock, pinned=pinned, **shown)
        say(f"{settings.mode} by {settings.pipeline.policy}, journal {journal}")
        given = GivenBack()
        if once:
            report = controller.cycle()
            if report.outcome == "ok":
                say(str(report))
        else:
            with _led_by_signals(controller):
                given = controller.run()
        told.close()
        store.close()
    if once and (report.outcome != "ok" or controller.brain.powerless):
        raise typer.Exit(FAILED)
    return given


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

"""`rltune serve`: pages, an HTTP API and metrics over a controller's journal, or over a simulated cluster."""

import ipaddress
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rltune.cli.console import say, show_line
from rltune.cli.control_command import JOURNAL
from rltune.cli.options import examples
from rltune.cli.terminal_progress import spinner
from rltune.errors import InputError

if TYPE_CHECKING:
    from socket import socket as Socket  # noqa: N812  as types are written

    from rltune.serve.app import ServeSettings
    from rltune.serve.tokens import Tokens

EXAMPLES = examples(
    "rltune serve --demo                                      # a simulated cluster; nothing else is needed",
    "rltune serve --journal /var/lib/rltune/journal.db        # on this machine only",
    "rltune serve --new-token grafana --tokens tokens.toml    # make a token, then",
    "rltune serve --address 0.0.0.0 --tokens tokens.toml      # for everybody who has one",
)

_Journal = Annotated[Path, typer.Option("--journal", "-j", help="The controller's journal.", metavar="FILE")]
_Demo = Annotated[bool, typer.Option("--demo", help="Show a simulated cluster instead.")]
_Speed = Annotated[
    float, typer.Option(help="How much faster than time the demo runs.", min=1.0, max=3600.0, metavar="X")
]
_Address = Annotated[
    str, typer.Option(help="Where to listen; another than this machine's own needs --tokens.", metavar="ADDRESS")
]
_Port = Annotated[int, typer.Option(help="The port; 0 = any that is free.", min=0, max=65535, metavar="PORT")]
_TokenFile = Annotated[Path | None, typer.Option("--tokens", help="Who may look, as TOML.", metavar="FILE")]
_NewToken = Annotated[
    str, typer.Option("--new-token", help="Make a token for NAME, add it to --tokens, show it once.", metavar="NAME")
]
_Role = Annotated[str, typer.Option(help="Of a new token: viewer or operator.", metavar="ROLE")]
_OnlyUser = Annotated[str, typer.Option("--user", help="Of a new token: sees only this user's jobs.", metavar="NAME")]
_Buckets = Annotated[
    str, typer.Option("--wait-buckets", help="Edges of /metrics' histogram of waits: 1m,10m,1h,...", metavar="LIST")
]
_Training = Annotated[
    Path | None, typer.Option("--training", help="A folder of models and of the curves beside them.", metavar="FOLDER")
]
_PATIENCE_S = 10  # for which answers that are being made are waited for at the end
_KEPT_OPEN_S = 75  # a connection on which nothing is asked: shorter, and a slow client asks into one that is closing


def serve(
    journal: _Journal = JOURNAL,
    demo: _Demo = False,
    speed: _Speed = 60.0,
    address: _Address = "127.0.0.1",
    port: _Port = 8470,
    tokens: _TokenFile = None,
    new_token: _NewToken = "",
    role: _Role = "viewer",
    user: _OnlyUser = "",
    wait_buckets: _Buckets = "",
    training: _Training = None,
) -> None:
    """Show what waits, why and since when: pages for people, /api/v1 for programs, /metrics for Prometheus.

    It reads the journal that `rltune control` writes, and changes nothing.
    """
    if new_token:
        _make_token(tokens, new_token, role, user)
        return
    _require_installed()
    if training is not None and not training.is_dir():
        raise InputError(f"--training {training}: there is no such folder")
    settings = _settings(tokens, address, wait_buckets, demo=demo)
    settings = replace(settings, training=training or (_demo_training() if demo else None))
    with _listening(address, port) as socket, _journal(journal, speed, demo=demo) as path:
        _run(path, settings, address, socket)


def _make_token(path: Path | None, name: str, role: str, user: str) -> None:
    from rltune.serve.tokens import Role, Tokens, new_token
    from rltune.whole_file import write_whole

    if path is None:
        raise InputError("--new-token: say with --tokens FILE where it is kept")
    if not name.strip():
        raise InputError("--new-token: say for whom it is")
    if role not in set(Role):
        raise InputError(f"--role: {role!r} should be viewer or operator")
    token, lines = new_token(name, Role(role), user)
    before = ""
    if path.exists():
        Tokens.read(path)  # one that cannot be read is not added to
        before = path.read_text(encoding="utf-8")
    write_whole(path, before + lines, private=True)
    show_line(token)
    say(f"rltune: {path} knows this token by its hash; it is not shown again")


def _require_installed() -> None:
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InputError(f"rltune serve needs {error.name}: pip install 'rltune[serve]'") from None


def _settings(tokens: Path | None, address: str, buckets: str, *, demo: bool) -> "ServeSettings":
    from rltune.serve.app import ServeSettings
    from rltune.serve.cluster_metrics import WAIT_BUCKETS_S

    known = _tokens(tokens, address)
    edges = _edges(buckets) if buckets else WAIT_BUCKETS_S
    return ServeSettings(tokens=known, wait_buckets_s=edges, demo=demo, follow=True)


def _demo_training() -> Path:
    """Return the folder with a training that was recorded."""
    from rltune.serve.demonstration import TRAINING

    return TRAINING


def _tokens(path: Path | None, address: str) -> "Tokens | None":
    from rltune.serve.tokens import Tokens

    if path is not None:
        return Tokens.read(path)
    if not _is_loopback(address):
        raise InputError(f"--address {address}: others could look at everybody's jobs; name who may with --tokens FILE")
    return None


def _is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        raise InputError(f"--address: {address!r} is no address; write 127.0.0.1, 0.0.0.0 or ::1") from None


def _edges(text: str) -> tuple[float, ...]:
    from rltune.cli.parsing import split
    from rltune.text import read_seconds

    try:
        edges = tuple(read_seconds(word) for word in split(text))
    except ValueError:
        raise InputError(f"--wait-buckets: {text!r} should be times in order, such as 1m,10m,1h") from None
    if not edges or any(b <= a for a, b in zip((0.0, *edges), edges, strict=False)):
        raise InputError(f"--wait-buckets: {text!r} should be times in order, such as 1m,10m,1h")
    return edges


@contextmanager
def _journal(path: Path, speed: float, *, demo: bool) -> Iterator[Path]:
    if not demo:
        yield path
        return
    from rltune.cli.compile_notice import compile_core
    from rltune.engine.parse_pipeline import read_pipeline
    from rltune.serve.demonstration import PIPELINES, demonstration

    compile_core([read_pipeline(text) for text in PIPELINES])
    with ExitStack() as stack:
        stack.enter_context(_tidy_when_terminated())
        with spinner("simulating a cluster"):
            running = stack.enter_context(demonstration(speed))
        yield running.journal


@contextmanager
def _tidy_when_terminated() -> Iterator[None]:
    """Let SIGTERM end the program as an exception does, or the demonstration's folder would stay behind."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _listening(address: str, port: int) -> "Iterator[Socket]":
    """Take the port, before anything that lasts is begun."""
    import socket

    try:
        made = socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise InputError(f"{address}:{port}: cannot listen there: {why}") from None
    with made as listening:
        # Head and body of an answer are written apart: else the body waits 40 ms for the head to be acknowledged.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield listening


def _run(path: Path, settings: "ServeSettings", address: str, listening: "Socket") -> None:
    import uvicorn

    from rltune.serve.app import make_app
    from rltune.serve.ending_server import ending_server
    from rltune.serve.sight import Watch

    app = make_app(Watch(path), settings)
    host = f"[{address}]" if ":" in address else address
    show_line(f"http://{host}:{listening.getsockname()[1]}  (Ctrl-C ends it)")
    how = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_PATIENCE_S,
        timeout_keep_alive=_KEPT_OPEN_S,
    )
    ending_server(how, app.state.streams).run(sockets=[listening])

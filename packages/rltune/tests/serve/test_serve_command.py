import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import httpx
import pytest
from serve_cases import journal_of, service
from starlette.testclient import TestClient
from typer.testing import CliRunner

from rltune.cli import app, serve_command
from rltune.serve import demonstration
from rltune.serve.sight import Watch
from rltune.serve.tokens import Tokens

run = CliRunner().invoke


def test_new_tokens_are_added_to_a_file_that_only_its_owner_reads(tmp_path):
    file = tmp_path / "tokens.toml"
    shown = [
        run(app, ["serve", "--new-token", name, "--tokens", str(file), *more]).stdout.split()[0]
        for name, more in (("a", ()), ("b", ("--role", "operator", "--user", "bob")))
    ]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    tokens = Tokens.read(file)
    assert [tokens.caller(token).name for token in shown] == ["a", "b"]
    assert tokens.caller(shown[1]).user == "bob"


def test_it_ends_at_once_though_somebody_has_a_live_view_open(tmp_path):
    path = journal_of(tmp_path)
    program = [sys.executable, "-c", "from rltune.cli import main; main()"]
    command = [*program, "serve", "--journal", str(path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        base = started.stdout.readline().split()[0]
        with httpx.stream("GET", f"{base}/api/v1/stream", timeout=60) as view:
            assert any("event: cycle" in line for line in view.iter_lines())
            started.send_signal(signal.SIGINT)
            assert started.wait(timeout=60) in {0, -signal.SIGINT, 130}
        assert "Traceback" not in started.stderr.read()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--address", "0.0.0.0"], "--tokens FILE"),
        (["--address", "nowhere"], "is no address"),
        (["--journal", "/no/such/journal.db"], "there is no journal"),
        (["--wait-buckets", "1h,1m"], "times in order"),
        (["--training", "/no/such/folder"], "no such folder"),
        (["--wait-buckets", "soon"], "times in order"),
        (["--new-token", "a"], "--tokens FILE"),
        (["--new-token", "a", "--tokens", "t.toml", "--role", "king"], "viewer or operator"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_sentence(words, why, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = run(app, ["serve", *words])
    assert made.exit_code != 0
    assert why in f"{made.output}{made.exception}"


def test_a_port_that_is_taken_is_told_before_anything_is_simulated(monkeypatch):
    """The demonstration takes the better part of a minute to begin."""
    monkeypatch.setattr(demonstration, "demonstration", lambda *_: pytest.fail("it was begun"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        made = run(app, ["serve", "--demo", "--port", str(port)])
    assert made.exit_code == 2
    assert f"127.0.0.1:{port}: cannot listen there: Address already in use\n" in made.output


def test_what_goes_on_at_the_end_is_waited_for(tmp_path, caplog, monkeypatch):
    """Else it would find the journal closed, and say so with a traceback."""
    begun, refresh = threading.Event(), Watch.refresh

    def slow(watch, prepare):
        begun.set()
        time.sleep(0.5)
        refresh(watch, prepare)
        with watch.journal() as journal:
            journal.last_cycle()

    monkeypatch.setattr(Watch, "refresh", slow)
    with TestClient(service(journal_of(tmp_path), follow=True)):
        assert begun.wait(60)
    assert not caplog.records
    assert "follower" not in {thread.name for thread in threading.enumerate()}


def test_a_demonstration_that_is_terminated_leaves_nothing_behind(monkeypatch, tmp_path):
    """As `timeout` and systemd end it: the server ends, and hands the signal on."""
    left = []

    @contextmanager
    def simulated(speed):
        try:
            yield SimpleNamespace(journal=tmp_path / "journal.db", speed=speed)
        finally:
            left.append("tidy")

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(demonstration, "demonstration", simulated)
    monkeypatch.setattr(serve_command, "_run", lambda *_: signal.raise_signal(signal.SIGTERM))
    assert run(app, ["serve", "--demo", "--port", "0"]).exit_code == 128 + signal.SIGTERM
    assert left == ["tidy"]
    assert signal.getsignal(signal.SIGTERM) == before

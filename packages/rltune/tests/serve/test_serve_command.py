import signal
import stat
import subprocess
import sys

import httpx
import pytest
from serve_cases import journal_of
from typer.testing import CliRunner

from rltune.cli import app
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
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as service:
        base = service.stdout.readline().split()[0]
        with httpx.stream("GET", f"{base}/api/v1/stream", timeout=60) as view:
            assert any("event: cycle" in line for line in view.iter_lines())
            service.send_signal(signal.SIGINT)
            assert service.wait(timeout=60) in {0, -signal.SIGINT, 130}
        assert "Traceback" not in service.stderr.read()


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

import stat

import pytest
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


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--address", "0.0.0.0"], "--tokens FILE"),
        (["--address", "nowhere"], "is no address"),
        (["--journal", "/no/such/journal.db"], "there is no journal"),
        (["--wait-buckets", "1h,1m"], "times in order"),
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

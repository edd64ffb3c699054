"""The command as a user runs it, in this process."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from learn.small_training import jobs
from typer.testing import CliRunner

from rltune.cli import app


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


@pytest.fixture
def rltune(monkeypatch):
    """Run the command with these words; give exit code, stdout and stderr. A traceback fails the test."""
    monkeypatch.delenv("RLTUNE_SALT", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*words: object) -> Said:
        result = CliRunner().invoke(app, [str(w) for w in words], prog_name="rltune")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Said(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def trace(tmp_path) -> Path:
    """Three jobs that queue on one node of two GPUs."""
    path = tmp_path / "trace.csv"
    path.write_text("submit_s,duration_s,gpus,user,vc\n0,100,2,ann,a\n1,50,1,bob,a\n2,10,1,cy,a\n")
    return path


@pytest.fixture
def cluster(tmp_path) -> Path:
    path = tmp_path / "two.toml"
    path.write_text('name = "two"\n[[group]]\ncount = 1\ngpus = 2\n')
    return path


@pytest.fixture(scope="session")
def history(tmp_path_factory):
    """Jobs that queue on two nodes of four GPUs."""
    path = tmp_path_factory.mktemp("history") / "history.csv"
    trace = jobs()
    rows = zip(trace.submit_s, trace.duration_s, trace.gpus, trace.user.to_list(), strict=True)
    lines = [f"{s!r},{d!r},{g},{u}" for s, d, g, u in ((float(s), float(d), int(g), u) for s, d, g, u in rows)]
    path.write_text("\n".join(["submit_s,duration_s,gpus,user", *lines]))
    return path


@pytest.fixture(scope="session")
def two(tmp_path_factory):
    path = tmp_path_factory.mktemp("cluster") / "two.toml"
    path.write_text('name = "two"\n[[group]]\ncount = 2\ngpus = 4\n')
    return path

"""A command that a message names exists with its options; what is printed whole can be pasted."""

import ast
import re
import shlex
from pathlib import Path

import pytest
import typer
from made_history import as_sacct, happened, limited, workload

import rltune as package
from rltune.cli import app

SOURCES = sorted(Path(package.__file__).parent.rglob("*.py"))
COMMAND = re.compile(r"`rltune ([^`]+)`")


def texts(path):
    """Yield all string constants of a file; a part that is filled in stands as X."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def named():
    """Return every command that stands in backquotes in the sources, with where."""
    found = {}
    for path in SOURCES:
        for text in texts(path):
            for command in COMMAND.findall(" ".join(text.split())):
                found.setdefault(command, path.name)
    return found


def what_is_wrong(command):
    """Return which word of a command there is not; "" if all are there."""
    here = typer.main.get_command(app)
    words = command.split()
    while words and hasattr(here, "commands"):
        if words[0].startswith("-"):
            break
        if words[0] not in here.commands:
            return words[0]
        here = here.commands[words.pop(0)]
    options = {option for param in here.params for option in (*param.opts, *param.secondary_opts)} | {"--help"}
    return next((word for word in words if word.startswith("-") and word not in options), "")


def test_every_command_that_a_message_names_exists_with_its_options():
    commands = named()
    assert len(commands) > 20
    wrong = {command: (what_is_wrong(command), where) for command, where in commands.items() if what_is_wrong(command)}
    assert not wrong
    assert what_is_wrong("calibrte x") == "calibrte"
    assert what_is_wrong("trace convert --array-limits 1=2") == "--array-limits"


def pasted(rltune, out):
    """Run every command that was printed whole: in backquotes with words behind it, or as what comes next."""
    lines = [line.removeprefix("next: ") for line in out.splitlines() if line.startswith("next: ")]
    whole = [command for command in COMMAND.findall(out) if len(command.split()) > 2]
    words = [*(shlex.split(line)[1:] for line in lines), *map(shlex.split, whole)]
    made = [rltune(*command) for command in words]
    assert [one.err for one in made if one.code] == []
    return words, made


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A history with an array whose throttle is not told, and a cluster."""
    monkeypatch.chdir(tmp_path)
    lines = as_sacct(happened(workload(load=0.6, users=4), limited(8))).splitlines()
    submit = int(lines[1].split("|")[6])
    for task in range(40):
        start = submit + 4000 * (task // 2)
        cells = f"9999_{task}|eve|lab|gpu|normal|COMPLETED|{submit}|{submit}|{start}|{start + 3900}|3900|70"
        lines.append(f"{cells}|cpu=1,gres/gpu=1,node=1|cpu=1,gres/gpu=1,node=1|n007")
    Path("a history.txt").write_text("\n".join(lines) + "\n")
    Path("site.toml").write_text("[[group]]\ncount = 12\ngpus = 4\n")


@pytest.mark.usefixtures("site")
def test_what_calibrate_prints_can_be_pasted_and_leads_on(rltune):
    made = rltune("calibrate", "a history.txt", "-c", "site.toml")
    assert "trace convert 'a history.txt'" in made.out
    words, then = pasted(rltune, f"{made.out}\n{made.err}")
    assert {command[0] for command in words} == {"trace", "calibrate"}
    assert Path("a history-throttled.csv").exists()
    assert Path("site-calibrated.toml").exists()
    (on,) = (one for one in then if "next: rltune tune" in one.err)
    assert "-c site-calibrated.toml --out settings.toml" in on.err


@pytest.mark.usefixtures("site")
def test_what_tune_prints_can_be_pasted(rltune):
    """It sends to calibrate where nobody has asked it; the second time there is nothing to ask."""
    slow = happened(workload(n=2600, load=0.9), limited(32), "fcfs", "none")
    Path("long.txt").write_text(as_sacct(slow))
    Path("eight.toml").write_text("[[group]]\ncount = 8\ngpus = 4\n")
    how = ("--now", "fcfs", "--models", "none", "--minutes", "0.3")
    made = rltune("tune", "long.txt", "-c", "eight.toml", *how)
    assert "next: rltune calibrate long.txt -c eight.toml --write eight-calibrated.toml" in made.err
    pasted(rltune, f"{made.out}\n{made.err}")
    assert "next:" not in rltune("tune", "long.txt", "-c", "eight-calibrated.toml", *how).err

"""Commands in the documentation are commands: each is taken apart as the shell and the program would."""

import re
import shlex
from contextlib import suppress
from dataclasses import is_dataclass
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from rltune.cli import app
from rltune.cli.old_spellings import OLD, modern
from rltune.cli.training_settings_file import field_names

ROOT = Path(__file__).parents[4]
PAGES = [
    ROOT / "README.md",
    ROOT / "packages/rltune/README.md",
    ROOT / "scripts/demo",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def commands(text: str) -> list[list[str]]:
    """Find the lines of code that call rltune, and give their words."""
    whole = text.replace("\\\n", " ")
    lines = re.findall(r"^(?: {4}|show )(?:[A-Z_]+=\S+ )*(?:\S*/)?(rltune .*)$", whole, flags=re.MULTILINE)
    return [shlex.split(line, comments=True)[1:] for line in lines]


FOUND = [(page, words) for page in PAGES if page.exists() for words in commands(page.read_text(encoding="utf-8"))]


def test_there_are_commands_in_the_documentation():
    assert len({page for page, _ in FOUND}) >= 4
    assert any(page.name == "demo" for page, _ in FOUND)


@pytest.mark.parametrize(("page", "words"), FOUND, ids=lambda x: " ".join(x)[:60] if isinstance(x, list) else x.stem)
def test_a_documented_command_is_understood(page, words):
    command = get_command(app)
    if words[0].startswith("--"):
        return
    while hasattr(command, "commands"):
        command = command.commands[words[0]]
        words = words[1:]
    with suppress(typer.Exit):  # of --print-settings and its like
        command.make_context(command.name, [word for word in words if word != ">"])


def examples() -> list[list[str]]:
    """Take the examples out of every command's help."""
    group = get_command(app)
    listed = [c for g in (group, *group.commands.values()) for c in getattr(g, "commands", {}).values()]
    return [words for c in (group, *listed) for words in commands((c.epilog or "").replace("\n  ", "\n    "))]


def test_what_is_shown_first_is_in_the_new_spelling():
    """The reference, the demonstration and the examples of every help."""
    pages = [words for page, words in FOUND if page.name in {"cli.md", "training.md", "demo"}]
    shown = [words for words in (*pages, *examples()) if not words[0].startswith("--")]
    assert len(shown) > 30
    for words in shown:
        nouns = 2 if words[0] in {"trace", "cluster", "model", "slurm", "journal"} else 1
        assert modern(words[nouns - 1], words[nouns:])[1] == ""


def test_every_setting_stands_in_the_reference():
    from rltune.learn.evolve import EvolvePlan
    from rltune.learn.train_settings import TrainSettings

    text = (ROOT / "docs/reference/training.md").read_text(encoding="utf-8")
    training, _, evolution = text.partition("## Settings of evolve")
    keys = re.compile(r"`([a-z0-9_.]+)`")
    assert {*setting_keys(TrainSettings()), "p99"} <= {*keys.findall(training)}
    shared = {"base", "objective", "estimators", "backfill", "features"}  # options, in cli.md
    assert {*setting_keys(EvolvePlan())} <= {*keys.findall(evolution)} | shared


def setting_keys(settings, table: str = "") -> list[str]:
    """Name the keys that a settings file may hold."""
    found = []
    for name in field_names(settings):
        value = getattr(settings, name)
        nested = is_dataclass(value) and name != "objective"
        found += setting_keys(value, f"{table}{name}.") if nested else [f"{table}{name}"]
    return found


def test_every_command_and_option_stands_in_the_reference():
    text = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    group = get_command(app)
    for name, command in group.commands.items():
        for verb in getattr(command, "commands", {"": None}):
            assert f"rltune {name} {verb}".strip() in text
    for name in ("simulate", "compare", "evaluate", "transfer", "evolve"):
        shown = [p for p in group.commands[name].params if not getattr(p, "hidden", False)]
        long = [o for p in shown for o in p.opts if o.startswith("--") and o != "--help"]
        assert [option for option in long if option not in text] == []


def options_of(command) -> set[str]:
    """Name the options of a command and of those under it, old spellings too."""
    own = set(OLD.get(command.name, ()))
    own |= {option for p in command.params for option in (*p.opts, *p.secondary_opts)}
    return own.union(*(options_of(c) for c in getattr(command, "commands", {}).values()))


@pytest.mark.parametrize("folder", ["how-to", "tutorial", "explanation"])
def test_every_option_that_a_page_names_exists(folder):
    text = "".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / folder).glob("*.md")))
    assert set(re.findall(r"`(--[a-z0-9-]+)", text)) <= options_of(get_command(app))

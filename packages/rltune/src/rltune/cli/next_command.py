"""The command that comes next, as it can be pasted."""

import shlex
from collections.abc import Iterable
from pathlib import Path

from rltune.cli.console import say


def say_next(words: Iterable[str | None]) -> None:
    """Print a command; a word that is None was not given."""
    say(f"next: {shlex.join(['rltune', *(word for word in words if word is not None)])}")


def free_name(stem: str, suffix: str) -> str:
    """Return the name of a file that is not there yet, since commands replace none."""
    names = (f"{stem}{number}{suffix}" for number in ("", *(f"-{i}" for i in range(2, 100))))
    return next((name for name in names if not Path(name).exists()), f"{stem}{suffix}")


def calibrated_name(cluster: str) -> str:
    """Return where a calibrated cluster may be written."""
    return free_name(f"{Path(cluster).name.removesuffix('.toml')}-calibrated", ".toml")


def as_given(format_name: str | None) -> tuple[str | None, str | None]:
    """Return the option that names the format, if it was named."""
    return ("--format" if format_name else None, format_name)

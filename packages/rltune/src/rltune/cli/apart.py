"""No command writes a file twice, or one that it reads: asked once, before any of them begins."""

import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

from rltune.errors import InputError

TO_STDOUT = "-"
# parameters that name a file to write; tests/cli/test_apart.py finds those that are missing here
WRITTEN = ("out", "json", "jobs_file", "report", "advice", "metrics", "write", "runs", "html")
_JOINTS = re.compile(r"[,:@+\s]+")  # of a.toml,b.toml; mine.py:score; boost:history.csv; 'mine.rltune + easy'


def require_apart(values: Mapping[str, Any]) -> None:
    """Refuse a command, given its parameters, that names one file for two outputs, or for an input and an output."""
    given = [(name, values.get(name)) for name in WRITTEN]
    named = [(name, Path(value)) for name, value in given if isinstance(value, (str, Path)) and value != TO_STDOUT]
    outputs = [(name, path) for name, path in named if path.is_file() or not path.exists()]  # a device may take two
    for (one, path), (other, same) in combinations(outputs, 2):
        if _is_same(path, same):
            raise InputError(f"{_option(one)} and {_option(other)} both name {path}; give each a file of its own")
    read = [file for name, value in values.items() if name not in WRITTEN for file in _files(value)]
    for _, path in outputs:
        if any(_is_same(path, file) for file in read):
            raise InputError(f"{path}: is what is read; it cannot be written as well")


def _files(value: Any) -> Iterator[Path]:
    """Return the files that an option's value names, alone or in a list or as a part of its words."""
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _files(one)
    elif isinstance(value, Path):
        yield value  # there or not: a journal is made
    elif isinstance(value, str):
        for part in {value, *value.split(","), *_JOINTS.split(value)}:
            if _is_file(part):
                yield Path(part)


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or a zero byte in it
        return False


def _is_same(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return one.samefile(other)  # hard links too
    return one.resolve() == other.resolve()


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"

"""What the command says, and where: results on stdout, everything else on stderr."""

import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltune.errors import InputError
from rltune.whole_file import cannot_write, write_whole

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_WIDTH_IN_A_FILE = 200  # of what goes into a file or a pipe, so that tables stay whole


def results() -> "Console":
    """Return the console for results."""
    from rltune.cli.harmless_console import HarmlessConsole as Console

    fixed = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _WIDTH_IN_A_FILE
    return Console(width=fixed)


def notes() -> "Console":
    """Return the console for progress, notes and errors."""
    from rltune.cli.harmless_console import HarmlessConsole as Console

    return Console(stderr=True)


def say(sentence: str) -> None:
    """Print something for the user that is no result, on one line however long."""
    with suppress(OSError):  # of a stderr that takes no more: there is nobody left to tell
        notes().print(sentence, soft_wrap=True)


def show(*renderables: Any) -> None:
    """Print results."""
    console = results()
    for renderable in renderables:
        console.print(renderable)


def show_table(table: "Table") -> None:
    """Print a table; columns that a narrow terminal has no room for are left out, and named."""
    from rltune.cli.narrow_tables import fitted

    console = results()
    console.print(fitted(table, console))


def count(number: int, what: str) -> str:
    """Write a number of things; `what` is their plural."""
    return f"{number:,} {what.removesuffix('s') if number == 1 else what}"


def show_line(text: str) -> None:
    """Print one line of results as it is: no wrapping."""
    results().print(text, soft_wrap=True)


def show_json(value: Any) -> None:
    """Print JSON and nothing else; JSON itself escapes what steers a terminal but for DEL and the C1 codes."""
    plain = json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False)
    sys.stdout.write(plain.translate({code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}) + "\n")


def require_free(paths: Iterable[Path | None], *, force: bool) -> None:
    """Make sure, before the work begins, that the files to be written may be."""
    for path in (p for p in paths if p is not None):
        if path.is_dir():
            raise InputError(f"{path}: is a directory; name a file in it")
        if path.exists() and not path.is_file():
            continue  # a device or a pipe: nothing is lost
        if path.exists() and not force:
            raise InputError(f"{path}: exists already; give --force to replace it")
        if path.exists() and not os.access(path, os.W_OK):
            raise InputError(f"{path}: is write-protected; make it writable, or name another file")
        home = next(folder for folder in path.absolute().parents if folder.exists())
        if not home.is_dir() or not os.access(home, os.W_OK | os.X_OK):
            raise InputError(f"{path}: cannot be written, {home} does not let it be")


def make_room(path: Path) -> Path:
    """Make the folder in which a file is to be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from None
    return path


def write_json(value: Any, path: Path) -> None:
    """Write JSON into a file."""
    write_text(json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n", path)


def write_text(text: str, path: Path) -> None:
    """Write text into a file."""
    write_whole(make_room(path), text)

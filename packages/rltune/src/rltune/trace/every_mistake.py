"""All that is wrong with a file, not only the first thing: what cannot be read is set aside, and reading goes on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rltune.errors import InputError
from rltune.trace.known_formats import read
from rltune.trace.trace_file import BadLinesError, read_source

if TYPE_CHECKING:
    from rltune.trace.read_result import Trace

MOST = 20  # kinds of mistakes that are looked for; the file is read once for each


def read_or_list(path: str | Path, format_name: str | None, *, dedupe: bool = False) -> tuple[Trace | None, list[str]]:
    """Read a history; if it has mistakes, return no history but a sentence for every kind of them."""
    source = read_source(path, dedupe=dedupe)
    found: list[str] = []
    while len(found) < MOST:
        try:
            trace = read(source, format_name)
        except InputError as error:
            lines = error.lines if isinstance(error, BadLinesError) else ()
            if not lines or min(lines) <= source.first_line:  # of what is left after mistakes nothing more can be told
                return None, found or [str(error)]
            found.append(str(error))
            source = source.without(lines)
        else:
            return (None, found) if found else (trace, [])
    return None, [*found, f"{path}: only the first {MOST} kinds of mistakes are listed"]

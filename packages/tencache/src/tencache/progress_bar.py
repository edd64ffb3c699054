"""A progress bar for what takes longer than two seconds; silent when nobody watches."""

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TextIO, TypeVar

Item = TypeVar("Item")
WIDTH = 30
PATIENCE_S = 2.0


def progress(items: Iterable[Item], label: str, stream: TextIO | None = None) -> Iterator[Item]:
    """Yield the items; on a terminal, show the progress of a loop that takes long."""
    stream = sys.stderr if stream is None else stream
    total = len(items) if isinstance(items, Sized) else None
    shows = stream.isatty()
    began = time.monotonic()
    for done, item in enumerate(items):
        if shows and time.monotonic() - began > PATIENCE_S:
            stream.write(_line(label, done, total))
            stream.flush()
        yield item
    if shows and time.monotonic() - began > PATIENCE_S:
        stream.write("\r" + " " * (len(label) + WIDTH + 20) + "\r")
        stream.flush()


def _line(label: str, done: int, total: int | None) -> str:
    if not total:
        return f"\r{label} {done}"
    filled = WIDTH * done // total
    return f"\r{label} [{'#' * filled}{'.' * (WIDTH - filled)}] {done}/{total}"

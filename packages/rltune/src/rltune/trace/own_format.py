"""A user's own trace format: a function from a file's path to jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.errors import InputError, told
from rltune.jobs import Jobs
from rltune.plugins import FORMATS, short_name
from rltune.trace.quality import Quality
from rltune.trace.read_result import Trace

if TYPE_CHECKING:
    from collections.abc import Callable

    Reader = Callable[[str], Any]  # from the path to Jobs, or to a polars frame with their columns


def own_reader(name: str) -> Reader | None:
    """Load a reader, `mine.py:read` or an entry point's name; None if the name is neither."""
    found: Reader | None = FORMATS.find(name)
    if found is None or callable(found):
        return found
    raise InputError(f"trace format {name!r}: {found!r} is no function from a path to jobs")


def read_own(reader: Reader, path: str | Path, name: str) -> Trace:
    """Read a file by a user's function; rows are counted as it gives them."""
    if not Path(path).exists():
        raise InputError(f"{path}: there is no such file")
    try:
        given = reader(str(path))
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # whatever it raises, the user wrote it
        raise InputError(f"{path}: trace format {name} failed: {told(error)}") from error
    jobs = _jobs(given, path, name)
    order = np.argsort(jobs.submit_s, kind="stable")
    quality = Quality(str(path), short_name(name), len(jobs), len(jobs), ())
    return Trace(jobs.take(order), quality, order.astype(np.int64) + 1)


def _jobs(given: Any, path: str | Path, name: str) -> Jobs:
    import polars as pl

    if isinstance(given, Jobs):
        return given
    if not isinstance(given, pl.DataFrame):
        what = type(given).__name__
        raise InputError(f"{path}: trace format {name} gave a {what}, not rltune.Jobs or a polars frame of jobs")
    try:
        return Jobs.from_polars(given)
    except InputError as error:
        raise InputError(f"{path}: trace format {name}: {error}") from None

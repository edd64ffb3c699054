"""Cluster histories: readers, a quality report, writers, pseudonyms, and a generator.

trace = rltune.trace.load("cluster_log.csv")   # format found by content
trace.jobs                                     # sorted by submit time
trace.quality                                  # what was repaired or dropped, by named rule
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from rltune.jobs import Jobs
    from rltune.trace.quality import Quality
    from rltune.trace.read_result import Trace
    from rltune.trace.synthetic import synthesise

__all__ = ["Quality", "Trace", "formats", "load", "read_trace", "synthesise", "write"]

_HOME = {"Trace": "read_result", "Quality": "quality", "synthesise": "synthetic"}  # imported when first asked for


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"rltune.trace.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load(path: str | Path, format: str | None = None, *, dedupe: bool = False) -> Trace:  # noqa: A002  the public name
    """Read a history with the account of what was repaired or dropped; the format is found by content if not named.

    `dedupe` leaves out records that stand in the file already, as when two exports that overlap were joined.
    """
    from rltune.trace.known_formats import FORMATS, by_name, read
    from rltune.trace.own_format import own_reader, read_own
    from rltune.trace.trace_file import read_source

    own = None if format is None or format in FORMATS else own_reader(format)
    if own is not None and format is not None:
        return read_own(own, path, format)
    if format is not None:
        by_name(format)  # refused before the file is read
    return read(read_source(path, dedupe=dedupe), format)


def read_trace(path: str | Path, format: str | None = None) -> Jobs:  # noqa: A002  the public name
    """Read the jobs of a history, sorted by submit time.

    Args:
        path: The file: text, gzip or parquet.
        format: The name of its format (`rltune.trace.formats()` lists them), or your own as `mine.py:read`; found by
            content if not told.

    Returns the jobs; `rltune.trace.load` gives the account of what was repaired or dropped as well.

        jobs = rltune.read_trace("history.csv")
    """
    return load(path, format).jobs


def write(jobs: Jobs, path: str | Path) -> None:
    """Write jobs as .csv, .csv.gz or .parquet; reading the file gives them back exactly."""
    from rltune.trace.table import write as write_table

    write_table(jobs, path)


def formats() -> dict[str, str]:
    """Name the formats that can be read, each with what it is."""
    from rltune import plugins
    from rltune.trace.known_formats import FORMATS

    return {f.name: f.about for f in FORMATS.values()} | dict.fromkeys(
        plugins.FORMATS.names(), "of an installed package"
    )

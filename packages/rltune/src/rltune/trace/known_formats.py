"""The formats by name, and how a file is recognised."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rltune import plugins
from rltune.errors import InputError, unknown

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from rltune.trace.read_result import Trace
    from rltune.trace.trace_file import Source

_ENOUGH = 0.6  # of the columns that must be there: a file that lacks one is told so, not called unknown
_FIELDS = 3  # separators in the first line by which a file may be one of sacct's


@dataclass(frozen=True)
class Format:
    """One format: a reader, and either a header by which to know it or a function that does."""

    name: str
    about: str
    module: str
    reader: str = "read"
    header: str = ""  # the name of the tuple of columns, for csv with a header line

    def read(self, source: Source) -> Trace:
        """Read a file in this format.

        The header of a further export that was joined to it is left out and counted, and if asked for so is every
        line that stands in the file already.
        """
        reader: Callable[[Source], Trace] = getattr(self._module(), self.reader)
        headers = source.repeats(of_header=True) if self.has_header and not source.is_parquet else []
        source = source.without(headers) if headers else source
        again = source.repeats(of_header=False) if source.dedupe and self.has_lines and not source.is_parquet else []
        trace = reader(source.without(again) if again else source)
        quality = trace.quality.with_dropped("same-record-twice", again, source.line(again[0]) if again else "")
        quality = quality.with_dropped("header-again", headers, source.line(1) if headers else "")
        return replace(trace, quality=quality)

    @property
    def has_header(self) -> bool:
        """Return whether the first line names the columns."""
        return bool(self.header) or self.name == "sacct"

    @property
    def has_lines(self) -> bool:
        """Return whether a line is a record."""
        return self.name != "philly"

    def likeness(self, source: Source, head: list[str]) -> float:
        """Return from 0 to 1 how much a file looks like this format."""
        if source.is_parquet or self.name == "parquet":
            return float(source.is_parquet and self.name == "parquet")
        if not self.header:
            return float(self._module().looks_like(head))
        wanted = set(getattr(self._module(), self.header))
        found = {name.strip().strip('"') for name in head[0].split(",")}
        return len(wanted & found) / len(wanted)

    def _module(self) -> ModuleType:
        return importlib.import_module(f"rltune.trace.{self.module}")


FORMATS = {
    f.name: f
    for f in (
        Format("parquet", "our own table", "table", "read_parquet"),
        Format("csv", "our own table", "table", "read_csv", "COLUMNS"),
        Format("sacct", "Slurm's accounting, sacct --parsable2", "sacct"),
        Format("swf", "Standard Workload Format", "swf"),
        Format("philly", "Microsoft Philly, cluster_job_log (JSON)", "philly"),
        Format("helios", "SenseTime Helios, cluster_log.csv", "helios", header="COLUMNS"),
        Format("pai", "Alibaba PAI, pai_task_table and its fellows", "pai"),
        Format("pai-sim", "Alibaba PAI's simulator, pai_job_*_100K.csv", "pai_sim", header="COLUMNS"),
        Format("openb", "Alibaba openb, openb_pod_list_*.csv", "openb", header="COLUMNS"),
        Format("rltune-csv", "the published RLTune code's 19 or 20 fields", "rltune_csv"),
        Format("philly-csv", "Philly as one line a job", "derived", "read_philly", "PHILLY"),
        Format("arrival-csv", "job_id, arrival_s, service_sec, gpu_count", "derived", "read_arrivals", "ARRIVAL"),
        Format("gaia", "PAI in the GAIA project: arrival_time, length, cpus", "derived", "read_gaia", "GAIA"),
    )
}


def by_name(name: str) -> Format:
    """Return a format by its name."""
    if name not in FORMATS:
        raise unknown("trace format", name, (*FORMATS, *plugins.FORMATS.names()), more=", or your own as path.py:read")
    return FORMATS[name]


def recognise(source: Source) -> Format | None:
    """Find the format that a file looks most like, if there is one."""
    head = source.head() or [""]
    best = max(FORMATS.values(), key=lambda f: f.likeness(source, head))
    return best if best.likeness(source, head) >= _ENOUGH else None


def read(source: Source, name: str | None) -> Trace:
    """Read a file in the format named, or else in the one it looks like."""
    if name is None:
        found = recognise(source)
        if found is None:
            first = (source.head(1) or [""])[0][:60]
            known = ", ".join(FORMATS)
            wrong = f"{source.path}: not a trace format known here (it begins {first!r})"
            raise InputError(f"{wrong}; {_no_header(source)}there are: {known}")
        return found.read(source)
    wanted = by_name(name)
    if (name == "parquet") != source.is_parquet:
        raise InputError(f"{source.path}: is not in format {name}{_hint(source, name)}")
    try:
        return wanted.read(source)
    except InputError as error:
        raise InputError(f"{error}{_hint(source, name)}") from None


def _no_header(source: Source) -> str:
    """Return a sentence that lines as sacct writes them lack their header, if it looks so."""
    from rltune.trace.sacct_fields import separator_of

    first = (source.head(1) or [""])[0]
    if first.count(separator_of(first)) < _FIELDS:
        return ""
    return "if sacct wrote it, the header line is missing or lacks JobID, State, Submit, Start or End; "


def _hint(source: Source, name: str) -> str:
    found = recognise(source)
    return "" if found is None or found.name == name else f"; the file looks like format {found.name}, not {name}"

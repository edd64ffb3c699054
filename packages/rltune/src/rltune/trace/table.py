"""Our own format: the columns of `Jobs.to_polars()` as csv or parquet, so that reading gives back what was written.

Only submit_s, duration_s and gpus must be there, so a table of one's own in these three columns is a trace too.
"""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.labels import LABEL_COLUMNS
from rltune.preemptibility import PREEMPTION_COLUMNS, fill_unsaid
from rltune.trace.columns import MAX_COUNT, MAX_TIME_S, Columns
from rltune.trace.quality import Ledger
from rltune.trace.read_result import Trace, build
from rltune.whole_file import write_whole

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from rltune.trace.trace_file import Source

COLUMNS = ("submit_s", "duration_s", "gpus")
TIMES = ("submit_s", "duration_s", "limit_s", "recorded_start_s", "recorded_eligible_s", "held_s")
COUNTS = {"gpus": 0.0, "nodes": 0.0, "gpus_per_node": 0.0, "array": -1.0, "array_limit": 0.0}  # with what empty means
AMOUNTS = ("cpus", "mem_gib", "cpus_per_gpu", "mem_gib_per_gpu")
ALL = ("id", *TIMES, *COUNTS, *AMOUNTS, *PREEMPTION_COLUMNS, *LABEL_COLUMNS, "after")
SUFFIXES = (".csv", ".csv.gz", ".parquet")
_SEPARATOR = ";"  # between the values of a list in csv, such as the rows a job depends on


def write(jobs: Jobs, path: str | Path) -> None:
    """Write a trace; the name's ending says how: .csv, .csv.gz or .parquet."""
    require_suffix(path)
    if len(jobs) and jobs.submit_s.min() < 0:
        raise InputError(f"{path}: a trace with a negative submit time ({jobs.submit_s.min():g} s) cannot be written")
    frame = jobs.to_polars()
    if not jobs.tells_preemption:  # such a file is byte for byte what it was before there was preemption
        frame = frame.drop(PREEMPTION_COLUMNS)
    write_frame(frame, path)


def require_suffix(path: str | Path) -> None:
    """Refuse a name that does not tell how a table is to be written."""
    if not Path(path).name.endswith(SUFFIXES):
        raise InputError(f"{path}: the name should end in {', '.join(SUFFIXES)}")


def write_frame(frame: pl.DataFrame, path: str | Path) -> None:
    """Write a table as its name says, whole or not at all."""
    require_suffix(path)
    name = Path(path).name
    if name.endswith(".parquet"):
        buffer = io.BytesIO()  # polars would leave half a file on a full disk
        frame.write_parquet(buffer)
        write_whole(path, buffer.getvalue())
    else:
        text = _csv(frame)
        # no time of day in the file: the same jobs give the same bytes
        write_whole(path, gzip.compress(text, 6, mtime=0) if name.endswith(".gz") else text)


def read_csv(source: Source) -> Trace:
    """Read our csv."""
    columns = Columns.read(source)
    # the writer puts text in quotation marks, so that the id "7" stays text
    quoted = b'\n"' in source.data[: source.data.find(b"\n") + 2]
    return _read(columns, "csv", ids_are_text=quoted)


def read_parquet(source: Source) -> Trace:
    """Read our parquet; what a csv would hold as text is checked in the same way."""
    import polars as pl

    try:
        frame = pl.read_parquet(io.BytesIO(source.data))
    except (pl.exceptions.PolarsError, OSError) as error:
        problem = str(error).splitlines()[0]
        raise source.error(f"is not a complete parquet file ({problem})") from None
    ids_are_text = "id" not in frame.columns or not frame.schema["id"].is_integer()
    columns = Columns(source, _as_text(source, frame), np.arange(1, frame.height + 1, dtype=np.int64))
    return _read(columns, "parquet", ids_are_text=ids_are_text)


def _csv(frame: pl.DataFrame) -> bytes:
    import polars as pl

    lists = [name for name, kind in frame.schema.items() if isinstance(kind, pl.List)]
    joined = frame.with_columns(pl.col(name).cast(pl.List(pl.String)).list.join(_SEPARATOR) for name in lists)
    return joined.write_csv(quote_style="non_numeric").encode()


def _as_text(source: Source, frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    texts = []
    for name in frame.columns:
        column = frame[name]
        if name == "after" and isinstance(column.dtype, pl.List):
            column = column.cast(pl.List(pl.String)).list.join(_SEPARATOR)
        elif column.dtype.is_nested() or column.dtype in {pl.Binary, pl.Object}:
            raise source.error(f"holds {column.dtype}, which is no column of jobs", column=name)
        texts.append(column.cast(pl.String))
    return pl.DataFrame(texts)


def _read(columns: Columns, format_name: str, *, ids_are_text: bool) -> Trace:
    columns.require(*COLUMNS)
    ledger = Ledger(columns.source, columns.lines)
    unknown = [name for name in columns.frame.columns if name not in ALL]
    ledger.mark("unknown-column", np.full(len(columns), bool(unknown)), example=", ".join(unknown))
    values: dict[str, Any] = {"id": _ids(columns, ids_are_text=ids_are_text)}
    for name in TIMES:
        if name in columns:
            values[name] = columns.number(name, empty=None if name in COLUMNS else np.nan, high=MAX_TIME_S)
    for name, empty in COUNTS.items():
        if name in columns:
            values[name] = columns.count(name, empty=None if name in COLUMNS else empty, low=min(empty, 0.0))
    for name in AMOUNTS:
        if name in columns:
            values[name] = columns.number(name, empty=np.nan)
    if "preemptible" in columns:
        values["preemptible"] = columns.flag("preemptible")
    for name in ("checkpoint_s", "restart_s"):
        if name in columns:
            values[name] = columns.number(name, empty=np.nan, high=np.inf)
    values = fill_unsaid(values)
    for name in LABEL_COLUMNS:
        if name in columns:
            values[name] = columns.frame[name].to_list()
    if "after" in columns:
        values["after"] = _after(columns)
    return build(ledger, format_name, **values)


def _ids(columns: Columns, *, ids_are_text: bool) -> NDArray[Any]:
    if "id" not in columns:
        return np.arange(len(columns))
    ids = columns.unique("id", as_is=True)
    whole = not ids_are_text and all(i.isdecimal() and str(int(i)) == i and int(i) < 2**63 for i in ids.tolist())
    return ids.astype(np.int64) if whole else ids


def _after(columns: Columns) -> list[list[int]]:
    """Read the rows a job depends on."""
    lists: list[list[int]] = []
    for row, text in enumerate(columns.text("after").to_list()):
        parts = [] if text is None else text.split(_SEPARATOR)
        if any(not p.isdecimal() or int(p) >= len(columns) or int(p) > MAX_COUNT for p in parts):
            problem = f"{text!r} should be rows of this table, 0 to {len(columns) - 1}, with {_SEPARATOR} between them"
            raise columns.source.error(problem, int(columns.lines[row]), "after")
        lists.append([int(p) for p in parts])
    return lists

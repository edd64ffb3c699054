"""Estimates of the site's own, by job: a file of job ids and seconds, or a column of the trace itself."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rltune.errors import InputError
from rltune.estimate.estimators import Estimates
from rltune.jobs import Floats, Jobs
from rltune.text import counted

if TYPE_CHECKING:
    import polars as pl

IDS = ("id", "job_id", "jobid", "job", "jobidraw")
SECONDS = ("seconds", "estimate_s", "predicted_s", "mean", "mean_s")
RESERVED = 0.75  # of the quantiles that a file has, the one next to this is for reservations
_QUANTILE = re.compile(r"[pq](\d{1,2}(?:\.\d+)?)")


@dataclass(frozen=True)
class ByJob:
    """Estimates by job id; with quantiles jobs are ordered by the seconds and reserved for by a quantile."""

    path: str
    column: str = ""  # of the seconds; the usual names if not told
    or_limit: bool = False  # whether a job that is not in the file has its limit for an estimate, or is an error
    table: tuple[dict[str, int], Floats, Floats] | None = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        """Name the file, or the column of the trace."""
        return f"column:{self.column}" if self.column else f"file:{Path(self.path).name}"

    def read(self) -> ByJob:
        """Read the file; every mistake is found here."""
        return replace(self, table=_read(self.path, self.column))

    def leniently(self) -> ByJob:
        """Return the same for a running cluster, where jobs come that the file does not know yet."""
        return replace(self, or_limit=True)

    def estimate(self, jobs: Jobs, seed: int) -> Estimates:  # noqa: ARG002
        """Find every job by its id."""
        row_of, seconds, reserved = self.table or _read(self.path, self.column)
        rows = np.array([row_of.get(str(each), -1) for each in jobs.id], dtype=np.int64)
        missing = np.flatnonzero(rows < 0)
        if not self.or_limit and len(missing):
            told = f"{counted(len(missing), 'job')} of {len(jobs):,} not in it, the first is {jobs.id[missing[0]]}"
            raise InputError(f"{self.path}: {told}")
        limit = np.nan_to_num(jobs.limit_s, nan=86_400.0)
        rank, reserve = (np.where(rows < 0, limit, np.append(v, 0.0)[rows]) for v in (seconds, reserved))
        return Estimates(reserve, rank_s=None if (rank == reserve).all() else rank)


def _read(path: str, column: str) -> tuple[dict[str, int], Floats, Floats]:
    """Return the row of each id, and per row the seconds and what reservations are made for."""
    frame = _frame(path)
    by_name = {name.strip().lower(): name for name in frame.columns}
    ids = frame[_find(path, by_name, IDS, "job ids")]
    if ids.null_count():
        raise InputError(f"{path}: {counted(ids.null_count(), 'row')} without a job id")
    wanted = (column.lower(),) if column else SECONDS
    seconds = _positive(path, frame, _find(path, by_name, wanted, "seconds"))
    row_of: dict[str, int] = {}
    for row, each in enumerate(ids.cast(str).to_list()):
        if row_of.setdefault(each.strip(), row) != row:
            raise InputError(f"{path}: job {each} is there twice, in rows {row_of[each.strip()] + 1} and {row + 1}")
    quantiles = {float(m[1]) / 100: name for low, name in by_name.items() if (m := _QUANTILE.fullmatch(low))}
    if column or not quantiles:
        return row_of, seconds, seconds
    values = np.stack([_positive(path, frame, quantiles[q]) for q in sorted(quantiles)], axis=1)
    if (falls := np.flatnonzero((np.diff(values, axis=1) < 0).any(axis=1))).size:
        raise InputError(f"{path}: row {falls[0] + 1}: a higher quantile is less than a lower one")
    nearest = int(np.argmin([abs(q - RESERVED) for q in sorted(quantiles)]))
    return row_of, seconds, values[:, nearest]


def _frame(path: str) -> pl.DataFrame:
    import polars as pl

    if not path or Path(path).is_dir():
        raise InputError(f"file:{path}: name a file of job ids and seconds")
    try:
        if path.endswith(".parquet"):
            return pl.read_parquet(path)
        return pl.read_csv(path, infer_schema_length=None)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file of estimates") from None
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}: cannot be read as a table of estimates: {str(error).splitlines()[0]}") from None


def _find(path: str, by_name: dict[str, str], wanted: tuple[str, ...], what: str) -> str:
    for name in wanted:
        if name in by_name:
            return by_name[name]
    there = ", ".join(by_name.values())
    raise InputError(f"{path}: no column of {what} ({', '.join(wanted)}); there are: {there}")


def _positive(path: str, frame: pl.DataFrame, column: str) -> Floats:
    import polars as pl

    values = frame[column].cast(pl.Float64, strict=False).to_numpy().astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if len(bad):
        shown = frame[column][int(bad[0])]
        told = f"{counted(len(bad), 'value')} of {column} not above 0, the first is {shown!r} in row {bad[0] + 1}"
        raise InputError(f"{path}: {told}")
    return values

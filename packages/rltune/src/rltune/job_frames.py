"""Data frames as columns of jobs: what is there, what is missing, and what is of the wrong kind."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import polars as pl

from rltune.errors import InputError, unknown
from rltune.labels import LABEL_COLUMNS
from rltune.preemptibility import fill_unsaid

REQUIRED = ("submit_s", "duration_s", "gpus")
_SECONDS = "numbers of seconds"


def columns_of(frame: Any, known: Collection[str]) -> dict[str, Any]:
    """Return the columns of a polars frame as arrays and lists; each must be one of the known ones."""
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, pl.DataFrame):
        raise InputError(
            f"a polars frame is expected, not a {type(frame).__name__}; for pandas: rltune.Jobs.from_pandas"
        )
    for name in REQUIRED:
        if name not in frame.columns:
            raise InputError(
                f"column {name} is missing: {', '.join(REQUIRED)} are needed; given: {_listed(frame.columns)}"
            )
    for name in frame.columns:
        if name not in known:
            raise unknown("column of jobs", name, known, more="; drop or rename it")
    return fill_unsaid({name: _column(frame[name]) for name in frame.columns})


def polars_of(frame: Any) -> pl.DataFrame:
    """Return a pandas frame as a polars one; pandas itself is not needed."""
    try:
        columns = dict(frame.to_dict("list"))
    except (AttributeError, TypeError, ValueError):
        what = type(frame).__name__
        raise InputError(f"a pandas frame is expected, not a {what}; for polars: rltune.Jobs.from_polars") from None
    return pl.DataFrame([_series(str(name), [None if _is_missing(v) else v for v in c]) for name, c in columns.items()])


def _series(name: str, values: list[Any]) -> pl.Series:
    try:
        return pl.Series(name, values)
    except (TypeError, pl.exceptions.PolarsError):
        raise InputError(f"column {name} holds values of several kinds; {_expected(name)} are expected") from None


def _column(column: pl.Series) -> Any:
    name, kind = column.name, column.dtype
    if name in REQUIRED or name == "id":
        _require_no_null(column)
    if name == "id":
        return _ids(column)
    if name == "after":
        _require(column, isinstance(kind, pl.List) and kind.inner.is_integer() if kind != pl.Null else True)
        return [rows or [] for rows in column.to_list()]
    if name in LABEL_COLUMNS:
        _require(column, name in {"gpu_types", "recorded_nodes"} or not kind.is_nested())
        return column.to_list()
    _require(column, kind.is_numeric() or kind in {pl.Boolean, pl.Null})
    return column.cast(pl.Float64).fill_null(np.nan).to_numpy()


def _ids(column: pl.Series) -> Any:
    kind = column.dtype
    _require(column, kind.is_integer() or kind in {pl.String, pl.Categorical} or isinstance(kind, pl.Enum))
    return column.to_numpy() if kind.is_integer() else column.cast(pl.String).to_list()


def _require(column: pl.Series, good: bool) -> None:
    if not good:
        raise InputError(f"column {column.name} holds {column.dtype}; {_expected(column.name)} are expected")


def _require_no_null(column: pl.Series) -> None:
    if column.null_count():
        row = int(column.is_null().arg_max() or 0)
        raise InputError(f"column {column.name}, row {row}: nothing is told; {_expected(column.name)} are expected")


def _expected(name: str) -> str:
    if name == "id":
        return "whole numbers or texts"
    if name == "after":
        return "lists of rows"
    if name in LABEL_COLUMNS:
        return "names"
    if name == "preemptible":
        return "true and false"
    return _SECONDS if name.endswith("_s") else "numbers"


def _listed(names: list[str], most: int = 20) -> str:
    shown = ", ".join(names[:most]) or "none"
    return f"{shown}, ..." if len(names) > most else shown


def _is_missing(value: object) -> bool:
    """Return whether a cell of a pandas frame is one of its words for nothing."""
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in {"NAType", "NaTType"}

"""A csv file as columns of text that know the line they stand on, so that every bad value can be pointed at."""

from __future__ import annotations

import csv
import io
import itertools
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rltune.trace.trace_file import DEDUPE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from rltune.trace.trace_file import Source

Floats = NDArray[np.float64]

NOTHING = ("", "none", "nan", "null", "n/a", "unknown")  # how sources spell that a value is not there
YES, NO = ("true", "yes", "1"), ("false", "no", "0")
MAX_TIME_S = 1e12  # beyond that it is no time in seconds (milliseconds since 1970, say)
MAX_COUNT = 2**31 - 1


class Columns:
    """The columns of one csv file."""

    def __init__(self, source: Source, frame: pl.DataFrame, lines: NDArray[np.int64]) -> None:
        self.source = source
        self.frame = frame
        self.lines = lines

    @classmethod
    def read(cls, source: Source, names: Sequence[str] | None = None) -> Columns:
        """Read a csv file; `names` are given where the file has no header line."""
        import polars as pl

        try:
            frame = pl.read_csv(
                io.BytesIO(source.data),
                has_header=names is None,
                new_columns=names,
                infer_schema=False,
                # polars may skip lines only here, and would then count them wrong
                comment_prefix=None,
            )
        except pl.exceptions.PolarsError as error:
            raise _csv_error(source, error) from None
        columns = cls(source, frame, _line_numbers(source, frame.height, headers=names is None))
        columns._check_header(names)
        return columns._without_blank_lines()

    def __len__(self) -> int:
        return self.frame.height

    def __contains__(self, name: str) -> bool:
        return name in self.frame.columns

    def emptied(self, rows: NDArray[np.bool_]) -> Columns:
        """Return the columns with nothing in some rows."""
        import polars as pl

        if not rows.any():
            return self
        keep = pl.Series(~rows)
        return Columns(self.source, self.frame.select(pl.when(keep).then(pl.all())), self.lines)

    def require(self, *names: str) -> None:
        """Raise unless all these columns are there."""
        missing = [name for name in names if name not in self]
        if missing:
            found = ", ".join(self.frame.columns[:30])
            what = f"column {missing[0]} is" if len(missing) == 1 else f"columns {', '.join(missing)} are"
            raise self.source.error(f"{what} missing; the file has {found}", line=1)
        if not len(self):
            raise self.source.error("holds a header line and no jobs")

    def text(self, name: str) -> pl.Series:
        """Return a column, blanks around values taken off; null where there is none."""
        values = self.frame[name].str.strip_chars()
        return values.set(values.str.to_lowercase().is_in(NOTHING).fill_null(value=True), None)

    def labels(self, name: str) -> list[str | None] | None:
        """Return a column of names; None if the file has no such column."""
        return self.text(name).to_list() if name in self else None

    def number(
        self, name: str, *, empty: float | None = None, low: float = 0.0, high: float = MAX_TIME_S, whole: bool = False
    ) -> Floats:
        """Return a column of numbers; without `empty` every row must have one."""
        import polars as pl

        given = self.text(name)
        values = given.cast(pl.Float64, strict=False)
        self._refuse(name, (given.is_not_null() & values.is_null()).to_numpy(), "is not a number")
        if empty is None:
            self._refuse(name, given.is_null().to_numpy(), "is not a number")
        numbers = values.to_numpy().astype(np.float64)
        numbers = np.where(given.is_null().to_numpy(), np.nan if empty is None else empty, numbers)
        told = given.is_not_null().to_numpy()
        self._refuse(name, told & ~(numbers >= low), "is negative" if low == 0.0 else f"is less than {low:g}")
        self._refuse(name, told & ~(numbers <= high), f"is more than {high:,.0f}")
        if whole:
            self._refuse(name, told & (numbers != np.floor(numbers)), "is not a whole number")
        return numbers

    def count(self, name: str, *, empty: float | None = None, low: float = 0.0) -> Floats:
        """Return a column of whole numbers such as GPUs."""
        return self.number(name, empty=empty, low=low, high=MAX_COUNT, whole=True)

    def flag(self, name: str) -> Floats:
        """Return a column of yes (1) and no (0, and where it is empty)."""
        given = self.text(name).str.to_lowercase()
        yes, no = (given.is_in(words).fill_null(value=False).to_numpy() for words in (YES, NO))
        self._refuse(name, given.is_not_null().to_numpy() & ~yes & ~no, "should be true or false")
        return yes.astype(np.float64)

    def clock(self, name: str, *, may_be_empty: bool = False) -> Floats:
        """Return a column of times, in seconds since 1970 on the trace's own clock."""
        import polars as pl

        given = self.text(name)
        if not may_be_empty:
            self._refuse(name, given.is_null().to_numpy(), "is not a time")
        epoch = given.cast(pl.Float64, strict=False)
        dated = given.str.replace("T", " ", literal=True).str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False)
        seconds = epoch.fill_null(dated.dt.epoch("us").cast(pl.Float64) / 1e6)
        self._refuse(
            name, (given.is_not_null() & seconds.is_null()).to_numpy(), "is not a time like 2017-10-07 01:11:39"
        )
        values = seconds.to_numpy().astype(np.float64)
        self._refuse(name, values < 0, "is negative")
        self._refuse(name, values > MAX_TIME_S, "is not a time in seconds")
        return values

    def unique(self, name: str, *, as_is: bool = False) -> NDArray[np.str_]:
        """Return a column of job ids, none missing and all different; `as_is` keeps blanks in them."""
        ids = self.frame[name] if as_is else self.text(name)
        self._refuse(name, ids.is_null().to_numpy(), "is no job id")
        again = (~ids.is_first_distinct()).to_numpy()
        if again.any():
            row = int(np.argmax(again))
            first = int(np.argmax((ids == ids[row]).to_numpy()))
            problem = f"job id {ids[row]!r} was used before, in line {self.lines[first]}"
            raise self.source.error(f"{problem}; {DEDUPE}", column=name, lines=self.lines[again].tolist())
        return ids.to_numpy().astype(np.str_)

    def _refuse(self, name: str, bad: NDArray[np.bool_], problem: str) -> None:
        if bad.any():
            told = f"{self.frame[name][int(np.argmax(bad))] or ''!r} {problem}"
            raise self.source.error(told, column=name, lines=self.lines[bad].tolist())

    def _check_header(self, names: Sequence[str] | None) -> None:
        if names is None:
            found = [name.split("_duplicated_")[0].strip() for name in self.frame.columns]
            twice = [name for name in found if found.count(name) > 1]
            if twice:
                raise self.source.error(f"column {twice[0] or 'without a name'} stands twice", line=1)
            self.frame.columns = found
        elif len(names) != self.frame.width:
            problem = f"has {self.frame.width} fields, {len(names)} are expected ({', '.join(names)})"
            raise self.source.error(problem, line=1)

    def _without_blank_lines(self) -> Columns:
        import polars as pl

        blank = self.frame.select(pl.all_horizontal(pl.all().is_null())).to_series().to_numpy()
        if not blank.any():
            return self
        return Columns(self.source, self.frame.filter(~blank), self.lines[~blank])


def _csv_error(source: Source, error: Exception) -> Exception:
    """Find the line that polars did not like."""
    records = csv.reader(io.StringIO(source.text, newline=""), strict=True)
    start = 1
    try:
        width = len(next(records))
        for fields in records:
            if len(fields) > width:
                return source.error(f"has {len(fields)} fields, the first line has {width}", line=start + 1)
            start = records.line_num
    except csv.Error:
        return source.error("a quotation mark is opened and not closed", line=start + 1)
    return source.error(f"is not a csv file: {str(error).splitlines()[0]}")


def _line_numbers(source: Source, rows: int, *, headers: bool) -> NDArray[np.int64]:
    """Find the line each record begins on; a quoted value may hold line ends."""
    body = source.data.lstrip(b"\r\n")
    first = source.data[: len(source.data) - len(body)].count(b"\n") + 1 + headers
    simple = np.arange(first, first + rows, dtype=np.int64)
    if b'"' not in body or rows + headers == body.rstrip(b"\r\n").count(b"\n") + 1:
        return simple
    records = csv.reader(io.StringIO(source.text, newline=""))
    ends = [0, *(records.line_num for _ in records)]
    starts = [before + 1 for before, after in itertools.pairwise(ends) if after > before]
    return np.array(starts[headers : rows + headers], dtype=np.int64)

"""Lines of sacct's output as fields: which are short, and in which field a surplus separator stands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rltune.trace.columns import Columns

if TYPE_CHECKING:
    from rltune.trace.trace_file import Source

Mask = NDArray[np.bool_]

SEPARATOR_THAT_NO_NAME_HAS = "\x1f"
NAME = "JobName"
_MAY_HOLD_IT = (NAME, "QOS", "Account", "WCKey", "Comment", "AdminComment", "SubmitLine")  # free text, or nearly
_KNOWN_VALUES = ("User", "Account", "Partition", "QOS")  # few values, which other lines have too
_MOMENT = re.compile(r"\d+(\.\d+)?|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|Unknown|None|")
_STATE = re.compile(r"[A-Z][A-Z_]+\+?( by \S+)?")
_FORM_OF = {"State": _STATE, "Submit": _MOMENT, "Eligible": _MOMENT, "Start": _MOMENT, "End": _MOMENT}


@dataclass(frozen=True)
class Fields:
    """The columns of a file, and which lines had too few or too many fields."""

    columns: Columns
    short: Mask
    in_name: Mask  # the separator stands in the job's name, which got it back
    in_other: Mask  # it stands in another field, which got it back
    unclear: Mask  # it is not clear in which


def separator_of(header: str) -> str:
    """Return what stands between the fields of a header line."""
    return SEPARATOR_THAT_NO_NAME_HAS if SEPARATOR_THAT_NO_NAME_HAS in header else "|"


def split_fields(source: Source) -> Fields:
    """Split the lines; a line with surplus fields is put together so that every field is what its column holds."""
    import polars as pl

    rows = [(i, line.rstrip("\r")) for i, line in enumerate(source.text.split("\n"), start=1) if line.strip()]
    mark = separator_of(rows[0][1])
    header = rows[0][1].split(mark)
    closed = header[-1] == ""  # --parsable closes every line with the separator
    header = header[:-1] if closed else header
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise source.error(f"column {twice[0]} stands twice", line=rows[0][0])
    lines = np.array([line for line, _ in rows[1:]], dtype=np.int64)
    parts = [text.removesuffix(mark).split(mark) if closed else text.split(mark) for _, text in rows[1:]]
    surplus = np.array([len(p) - len(header) for p in parts], dtype=np.int64)
    places = [name for name in _MAY_HOLD_IT if name in header]
    if (surplus > 0).any() and not places:
        first = int(np.argmax(surplus > 0))
        problem = f"has {len(parts[first])} fields, the header has {len(header)}"
        raise source.error(problem, lines=lines[surplus > 0].tolist())
    joined = _Joiner(header, places, mark, [p for p, more in zip(parts, surplus.tolist(), strict=True) if not more])
    stands_in = [None if more <= 0 else joined.place_of(p) for p, more in zip(parts, surplus.tolist(), strict=True)]
    filled = [
        joined.put_together(p, place or places[0]) if more > 0 else p + [""] * -more
        for p, more, place in zip(parts, surplus.tolist(), stands_in, strict=True)
    ]
    frame = pl.DataFrame(filled, schema=dict.fromkeys(header, pl.String), orient="row")
    in_name = np.array([place == NAME for place in stands_in], dtype=np.bool_)
    in_other = np.array([place is not None for place in stands_in], dtype=np.bool_) & ~in_name
    unclear = (surplus > 0) & ~in_name & ~in_other
    return Fields(Columns(source, frame, lines), surplus < 0, in_name, in_other, unclear)


class _Joiner:
    """Finds the field that holds the separator by what the other columns hold elsewhere in the file."""

    def __init__(self, header: Sequence[str], places: Sequence[str], mark: str, whole: list[list[str]]) -> None:
        self._header = list(header)
        self._places = places
        self._mark = mark
        known = [(name, self._header.index(name)) for name in _KNOWN_VALUES if name in header]
        self._values = {name: {parts[at] for parts in whole} for name, at in known}

    def put_together(self, parts: list[str], place: str) -> list[str]:
        """Join the surplus fields into the one at a place."""
        at, more = self._header.index(place), len(parts) - len(self._header)
        return [*parts[:at], self._mark.join(parts[at : at + more + 1]), *parts[at + more + 1 :]]

    def place_of(self, parts: list[str]) -> str | None:
        """Return the column that holds the separator: the one that leaves most values known; None if two do."""
        scores = {place: self._score(parts, place) for place in self._places}
        best = max(scores.values())
        found = [place for place, score in scores.items() if score == best]
        if best < 0:
            return None
        if len(found) > 1 and not any(self._values.values()):  # nothing to compare with: users name jobs as they like
            return found[0] if found[0] == NAME else None
        return found[0] if len(found) == 1 else None

    def _score(self, parts: list[str], place: str) -> int:
        """Count the values that other lines have too; -1 if a time or a state would not be one."""
        row = dict(zip(self._header, self.put_together(parts, place), strict=True))
        if not all(form.fullmatch(row[name]) for name, form in _FORM_OF.items() if name in row):
            return -1
        return sum(row[name] in values for name, values in self._values.items() if name != place)

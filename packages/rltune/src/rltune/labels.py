"""A column of names kept as codes: users, VCs, accounts, sets of GPU types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int32]

LABEL_COLUMNS = ("vc", "user", "account", "qos", "name", "gpu_types", "state", "recorded_nodes")  # of a job table


@dataclass(frozen=True)
class Labels:
    """One code per job into a tuple of names; -1 where the job has none."""

    codes: Codes
    names: tuple[str, ...]

    @classmethod
    def none(cls, n: int) -> Labels:
        """Return a column in which no job has a name."""
        return cls(np.full(n, -1, dtype=np.int32), ())

    @classmethod
    def of(cls, values: Sequence[object] | Iterable[object] | None, n: int) -> Labels:
        """Encode names in order of first appearance; None, NaN and "" are no name."""
        if values is None:
            return cls.none(n)
        code_of: dict[str, int] = {}
        codes = np.fromiter((_code(v, code_of) for v in values), dtype=np.int32)
        return cls(codes, tuple(code_of))

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, index: NDArray[np.intp]) -> Labels:
        """Keep the rows of index; the names stay, so that codes mean the same in every part of a trace."""
        return Labels(self.codes[index], self.names)

    def with_name(self, row: int, name: str | None) -> Labels:
        """Return the column with another name in one row; codes of the others stay."""
        names = self.names if not name or name in self.names else (*self.names, name)
        codes = self.codes.copy()
        codes[row] = names.index(name) if name else -1
        return Labels(codes, names)

    def followed_by(self, other: Labels) -> Labels:
        """Return both columns as one; codes of the first stay."""
        number = {name: code for code, name in enumerate(self.names)}
        table = [number.setdefault(name, len(number)) for name in other.names]
        codes = np.array([*table, -1], dtype=np.int32)[other.codes]
        return Labels(np.concatenate([self.codes, codes]), tuple(number))

    def name_of(self, row: int) -> str:
        """Name one row, "" if it has none."""
        code = self.codes[row]
        return self.names[code] if code >= 0 else ""

    def to_list(self) -> list[str | None]:
        """List the names, None where there is none."""
        names: tuple[str | None, ...] = (*self.names, None)
        return [names[c] for c in self.codes.tolist()]


def _code(value: object, code_of: dict[str, int]) -> int:
    if value is None or value != value or value == "":  # noqa: PLR0124  NaN alone differs from itself
        return -1
    return code_of.setdefault(str(value), len(code_of))

"""What differs in the JSON of Slurm's releases. One adapter a shape; releases not named here are refused.

| release | JSON | numbers | states | nodes from |
| --- | --- | --- | --- | --- |
| 22.05 | openapi/v0.0.38 | plain, null = none | one word | sinfo --json |
| 23.11, 24.05 | data_parser/v0.0.40, 41 | {set, infinite, number} | list | scontrol show nodes --json |
| 24.11, 25.05 | data_parser/v0.0.42, 43 | {set, infinite, number} | list, no `exclusive` | scontrol show nodes --json |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rltune.live.see.backend import BackendError

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Dialect:
    """How one family of releases spells things."""

    releases: tuple[str, ...]
    nodes_command: tuple[str, ...]
    number: Callable[[Any], float]  # NaN = not set; inf = without bound
    words: Callable[[Record, str, str], tuple[str, ...]]  # a state and its flags, in capitals
    is_exclusive: Callable[[Record], bool]


def dialect_of(answer: Mapping[str, Any]) -> Dialect:
    """Find the dialect in which an answer is written."""
    release = release_of(answer)
    for dialect in DIALECTS:
        if any(release == known or release.startswith(f"{known}.") for known in dialect.releases):
            return dialect
    raise BackendError(f"Slurm {release or 'of an unknown release'} is not supported; {', '.join(KNOWN)} are")


def release_of(answer: Mapping[str, Any]) -> str:
    """Return which Slurm wrote an answer, such as 22.05.8."""
    meta = answer.get("meta") or {}
    slurm = meta.get("slurm") or meta.get("Slurm") or {}
    return str(slurm.get("release", ""))


def _plain_number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _told_number(value: Any) -> float:
    """Read {set, infinite, number}; a few fields are plain all the same."""
    if not isinstance(value, Mapping):
        return _plain_number(value)
    if value["infinite"]:
        return math.inf
    return float(value["number"]) if value["set"] else math.nan


def _one_word(record: Record, state: str, flags: str) -> tuple[str, ...]:
    return (str(record[state]).upper(), *(str(flag).upper() for flag in record.get(flags) or ()))


def _list_of_words(record: Record, state: str, flags: str) -> tuple[str, ...]:  # noqa: ARG001  flags are in the list
    return tuple(str(word).upper() for word in record[state])


def _exclusive_if_shared_by_none(record: Record) -> bool:
    """Know an exclusive job by `shared`: "none", or a list with it."""
    shared = record.get("shared") or ()
    return "none" in ((shared,) if isinstance(shared, str) else shared)


def _exclusive_if_told(record: Record) -> bool:
    return "true" in (record.get("exclusive") or ()) or _exclusive_if_shared_by_none(record)


_SCONTROL = ("scontrol", "--json", "show", "nodes")
DIALECTS = (
    Dialect(("22.05",), ("sinfo", "--json"), _plain_number, _one_word, _exclusive_if_shared_by_none),
    Dialect(("23.11", "24.05"), _SCONTROL, _told_number, _list_of_words, _exclusive_if_told),
    Dialect(("24.11", "25.05"), _SCONTROL, _told_number, _list_of_words, _exclusive_if_shared_by_none),
)
KNOWN = tuple(release for dialect in DIALECTS for release in dialect.releases)

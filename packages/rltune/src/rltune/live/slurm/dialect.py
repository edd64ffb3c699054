"""What differs in the JSON of Slurm's releases. One adapter a shape.

A release is asked for a shape that is known here, not for its newest: 26.05's own has no word for exclusive jobs.

| release | asked for | numbers | states | nodes from |
| --- | --- | --- | --- | --- |
| 22.05 | openapi/v0.0.38 | plain, null = none | one word | sinfo --json |
| 23.11, 24.05 | data_parser/v0.0.40 | {set, infinite, number} | list | scontrol show nodes --json |
| 24.11 to 26.05 | data_parser/v0.0.42 | {set, infinite, number} | list, no `exclusive` | scontrol show nodes --json |

22.05, 24.11 and 26.05 were run. 23.11 and 24.05 are read as documented; 25.05 and 25.11 lie between two that were run
and offer the same shape. A newer release is read likewise, with a caution; an older one is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rltune.live.see.backend import BackendError

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Dialect:
    """How one family of releases spells things."""

    releases: tuple[str, ...]
    json_word: str  # by which a command is asked for JSON
    nodes_command: tuple[str, ...]
    number: Callable[[Any], float]  # NaN = not set; inf = without bound
    words: Callable[[Record, str, str], tuple[str, ...]]  # a state and its flags, in capitals
    is_exclusive: Callable[[Record], bool]


def dialect_of(answer: Mapping[str, Any]) -> Dialect:
    """Find the dialect in which an answer is written."""
    return dialect_for(release_of(answer))


def dialect_for(release: str) -> Dialect:
    """Find the dialect of a release; a newer one than any known is taken to speak as the newest."""
    for dialect in DIALECTS:
        if any(release == known or release.startswith(f"{known}.") for known in dialect.releases):
            return dialect
    if _is_newer(release):
        return DIALECTS[-1]
    raise BackendError(f"Slurm {release or 'of an unknown release'} is not supported; {', '.join(KNOWN)} are")


def own_shape(dialect: Dialect) -> Dialect:
    """Return how to ask a release for its own newest shape, where it does not offer the one that is known."""
    return replace(dialect, json_word="--json", nodes_command=_nodes_by_scontrol("--json"))


def plain_record(record: Record) -> dict[str, Any]:
    """Return a record of any release in the shape of the oldest: plain numbers, and one word for a job's state."""
    return {key: _plain_value(key, value) for key, value in record.items()}


def _plain_value(key: str, value: Any) -> Any:
    if key == "job_state" and isinstance(value, list):
        return value[0]
    if isinstance(value, Mapping) and {"set", "number"} <= value.keys():
        number = _told_number(value)
        return None if not math.isfinite(number) else number if number % 1 else int(number)
    return value


def caution(release: str) -> str:
    """Return what to say of a release that is newer than any known; "" of one that is known."""
    if not _is_newer(release):
        return ""
    return f"Slurm {release} is newer than any that this was tried on, and read as if it were {KNOWN[-1]}"


def _is_newer(release: str) -> bool:
    match = re.match(r"(\d\d\.\d\d)(\.|$)", release)
    return match is not None and match[1] > KNOWN[-1]


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


def _nodes_by_scontrol(json_word: str) -> tuple[str, ...]:
    return ("scontrol", json_word, "show", "nodes")


_V40, _V42 = "--json=v0.0.40", "--json=v0.0.42"
_NEWER = ("24.11", "25.05", "25.11", "26.05")
DIALECTS = (
    Dialect(("22.05",), "--json", ("sinfo", "--json"), _plain_number, _one_word, _exclusive_if_shared_by_none),
    Dialect(("23.11", "24.05"), _V40, _nodes_by_scontrol(_V40), _told_number, _list_of_words, _exclusive_if_told),
    Dialect(_NEWER, _V42, _nodes_by_scontrol(_V42), _told_number, _list_of_words, _exclusive_if_shared_by_none),
)
KNOWN = tuple(release for dialect in DIALECTS for release in dialect.releases)

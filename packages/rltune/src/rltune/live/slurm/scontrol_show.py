"""The text of `scontrol --oneliner show`: records of `Key=value`, one a line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rltune.hostlist import expand
from rltune.live.see.snapshot import NAN, Partition, Reservation
from rltune.trace.tres import parse_duration

_PAIR = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z0-9_/]*)=")
_MULTIFACTOR = "priority/multifactor"
_UNLIMITED = frozenset({"UNLIMITED", "INFINITE", "NONE", "N/A", "(null)"})


def records(text: str, first: str) -> Iterator[dict[str, str]]:
    """Return the records whose lines begin with a key."""
    for line in text.splitlines():
        if line.startswith(f"{first}="):
            yield pairs(line)


def pairs(line: str) -> dict[str, str]:
    """Take one record apart; "(null)" is nothing."""
    keys = list(_PAIR.finditer(line))
    ends = [key.start() for key in keys[1:]] + [len(line)]
    values = (line[key.end() : end].strip() for key, end in zip(keys, ends, strict=True))
    return {key[1]: "" if value == "(null)" else value for key, value in zip(keys, values, strict=True)}


def no_factors(text: str) -> str:
    """Return what to say if priorities have no factors, so that no number of ours would count; "" if they have."""
    plugin = config(text, "PriorityType")
    if plugin in {"", _MULTIFACTOR}:
        return ""
    return f"Slurm's PriorityType is {plugin}, which knows no SiteFactor; acting on jobs needs {_MULTIFACTOR}"


def partitions(text: str) -> tuple[Partition, ...]:
    """Read what `show partition` tells. Raises ValueError."""
    return tuple(
        Partition(
            name=record["PartitionName"],
            node_names=expand(record.get("Nodes", "")),
            priority_tier=int(record.get("PriorityTier", 1)),
            up=record.get("State", "UP") == "UP",
            max_time_s=_time_limit(record.get("MaxTime", "")),
        )
        for record in records(text, "PartitionName")
    )


def reservations(text: str) -> tuple[Reservation, ...]:
    """Read what `show reservation` tells, asked with SLURM_TIME_FORMAT=%s. Raises ValueError."""
    return tuple(
        Reservation(
            name=record["ReservationName"],
            start_s=float(record["StartTime"]),
            end_s=float(record["EndTime"]),
            node_names=expand(record.get("Nodes", "")),
            flags=_list(record.get("Flags", "")),
            users=_list(record.get("Users", "")),
            accounts=_list(record.get("Accounts", "")),
        )
        for record in records(text, "ReservationName")
    )


def config(text: str, key: str) -> str:
    """Find a setting in what `show config` tells; "" if it is not told."""
    match = re.search(rf"^{re.escape(key)}\s*= (.*)$", text, flags=re.MULTILINE)
    return match[1].strip() if match else ""


def seconds(text: str, usual: float) -> float:
    """Read `30 sec`; the usual if it is not told."""
    match = re.match(r"(\d+) sec", text)
    return float(match[1]) if match else usual


def _time_limit(text: str) -> float:
    return NAN if not text or text in _UNLIMITED else parse_duration(text)


def _list(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))

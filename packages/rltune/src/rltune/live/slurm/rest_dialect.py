"""What differs between the versions of slurmrestd's interface, and what each of them cannot do. Found by trying.

| | v0.0.38 (Slurm 22.05) | v0.0.40 and later |
| --- | --- | --- |
| SiteFactor | neither told nor taken | taken, not told |
| who set a priority | not told | not told |
| Nice | told (below 0 as if unsigned), taken | told, taken |
| node lists | "Disabled key" | taken |
| AdminComment | unknown key | taken |
| requeue | no way | no way before v0.0.45 |
| waiting tasks of an array | by name; "failed", whatever became of it | by number |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from rltune.hostlist import expand
from rltune.live.see.backend import BackendError, Change, ChangeKind
from rltune.live.see.snapshot import NAN, Partition, Reservation
from rltune.live.slurm import json_records as parse
from rltune.live.slurm import scontrol_orders as orders
from rltune.live.slurm.dialect import Record, dialect_of

_PATH = re.compile(r"/slurm/(v0\.0\.(\d+))/jobs/?$")
# A Priority is out of reach because nothing tells one that a human has set, which must be left alone.
_NEVER = frozenset({ChangeKind.PRIORITY, ChangeKind.RELEASE, ChangeKind.REQUEUE})
_NOT_IN_OLD = frozenset({ChangeKind.EXCLUDE_NODES, ChangeKind.REQUIRE_NODES, ChangeKind.ADMIN_COMMENT})
_OLDEST_NEW = 40
_PREFERRED = (42, 40, 38)  # shapes that are known; see `dialect`


@dataclass(frozen=True)
class RestDialect:
    """One version of the interface."""

    version: int  # 42 of v0.0.42

    @property
    def root(self) -> str:
        """Return how its paths begin."""
        return f"/slurm/v0.0.{self.version}"

    @property
    def is_old(self) -> bool:
        """Return whether it is from before the data parsers: plain numbers, few keys."""
        return self.version < _OLDEST_NEW

    @property
    def cannot(self) -> frozenset[ChangeKind]:
        """Return which changes it does not know."""
        return _NEVER | (_NOT_IN_OLD if self.is_old else frozenset())

    def path_of(self, change: Change) -> str:
        """Return the path of a job; by its number, 22.05 alone would change an array's running tasks as well."""
        name = change.ref if self.is_old and "[" in change.ref else str(change.job)
        return f"{self.root}/job/{quote(name, safe='')}"

    def update(self, change: Change) -> dict[str, Any]:
        """Spell a change as the body of an update."""
        match change.kind:
            case ChangeKind.SITE_FACTOR:
                return {"nice": -change.value}
            case ChangeKind.EXCLUDE_NODES:
                return {"excluded_nodes": _names(change)}
            case ChangeKind.REQUIRE_NODES:
                return {"required_nodes": _names(change)}
            case ChangeKind.ADMIN_COMMENT:
                return {"admin_comment": change.text}
            case ChangeKind.BEGIN_NOW:
                return {"begin_time": "now"}
            case _:
                raise ValueError(change.kind)

    def submission(self, job: Mapping[str, Any], script: str) -> dict[str, Any]:
        """Spell a job to submit."""
        if self.is_old:
            return {"script": script, "job": {**job, "nodes": 1}}
        return {"job": {**job, "script": script, "minimum_nodes": 1, "environment": ["SLURM_EXPORT_ENV=NONE"]}}


def dialect_offered(paths: Iterable[str]) -> RestDialect:
    """Choose among the versions that a slurmrestd offers: a known one, else the newest."""
    offered = {int(found[2]) for path in paths if (found := _PATH.search(path))}
    if not offered:
        raise BackendError("this slurmrestd offers no jobs: it was started without its openapi plugin for slurmctld")
    return RestDialect(next((known for known in _PREFERRED if known in offered), max(offered)))


def typed(change: Change) -> str:
    """Spell a change as the operator would type it, by the lever that is used here."""
    job = change.ref or str(change.job)
    if change.kind is ChangeKind.SITE_FACTOR:
        return f"scontrol update JobId={job} Nice={-change.value}"
    return " && ".join(f"scontrol {line}" for line in orders.lines_of(change))


def _names(change: Change) -> list[str] | None:
    """Spell a list of nodes; an empty one would be taken, and clear nothing."""
    return list(change.nodes) or None


def partitions_of(answer: Mapping[str, Any]) -> tuple[Partition, ...]:
    """Read partitions."""
    number = dialect_of(answer).number
    return tuple(_partition(record, number) for record in answer["partitions"])


def _partition(record: Record, number: Any) -> Partition:
    if "priority_tier" in record:  # v0.0.38
        nodes, tier, state, minutes = (record[k] for k in ("nodes", "priority_tier", "state", "max_time_limit"))
        minutes = NAN if minutes is None or minutes < 0 else minutes
    else:
        nodes, tier = record["nodes"]["configured"], record["priority"]["tier"]
        state, minutes = record["partition"]["state"], record["maximums"]["time"]
    states = (state,) if isinstance(state, str) else tuple(state)
    return Partition(
        name=record["name"],
        node_names=expand(nodes or ""),
        priority_tier=int(tier),
        up="UP" in states,
        max_time_s=parse.finite(60 * number(minutes)),
    )


def reservations_of(answer: Mapping[str, Any]) -> tuple[Reservation, ...]:
    """Read reservations."""
    number = dialect_of(answer).number
    return tuple(
        Reservation(
            name=record["name"],
            start_s=number(record["start_time"]),
            end_s=number(record["end_time"]),
            node_names=expand(record["node_list"] or ""),
            flags=tuple(str(flag).upper() for flag in record["flags"] or ()),
            users=_list(record["users"]),
            accounts=_list(record["accounts"]),
        )
        for record in answer["reservations"]
    )


def _list(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (text or "").split(",")))

"""Snapshots, decisions and holdings as bytes: columns of JSON, compressed. Equal values give equal bytes."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, asdict, fields
from typing import Any, TypeVar

from rltune.live.decide.decision import Decision, Displacement, Waiting
from rltune.live.see.backend import ChangeKind
from rltune.live.see.holdings import Hold, Holdings
from rltune.live.see.snapshot import Lever, LiveJob, LiveNode, Partition, Reservation, Snapshot

_LEVEL = 3
Columns = dict[str, list[Any]]
T = TypeVar("T")


def pack_snapshot(snapshot: Snapshot) -> bytes:
    """Pack a snapshot."""
    return _pack(
        {
            **({} if snapshot.kill_wait_s == Snapshot.kill_wait_s else {"kill_wait_s": snapshot.kill_wait_s}),
            **({"caution": snapshot.caution} if snapshot.caution else {}),
            **({} if snapshot.lever is Snapshot.lever else {"lever": snapshot.lever}),
            "taken_s": snapshot.taken_s,
            "version": snapshot.version,
            "mem_counts": snapshot.mem_counts,
            "jobs": _columns(snapshot.jobs),
            "nodes": _columns(snapshot.nodes),
            "partitions": _columns(snapshot.partitions),
            "reservations": _columns(snapshot.reservations),
        }
    )


def unpack_snapshot(data: bytes) -> Snapshot:
    """Return the packed snapshot, equal in every value."""
    plain = _unpack(data)
    return Snapshot(
        taken_s=plain["taken_s"],
        version=plain["version"],
        mem_counts=plain["mem_counts"],
        kill_wait_s=plain.get("kill_wait_s", Snapshot.kill_wait_s),
        caution=plain.get("caution", ""),
        lever=Lever(plain.get("lever", Snapshot.lever)),
        jobs=_rows(LiveJob, plain["jobs"]),
        nodes=_rows(LiveNode, plain["nodes"]),
        partitions=_rows(Partition, plain["partitions"]),
        reservations=_rows(Reservation, plain["reservations"]),
    )


def pack_decision(decision: Decision) -> bytes:
    """Pack a decision."""
    turns = [asdict(one) for one in decision.displacements]
    plain = {"taken_s": decision.taken_s, "work": decision.work, "waiting": _columns(decision.waiting)}
    return _pack(plain | ({"displacements": turns} if turns else {}))


def unpack_decision(data: bytes) -> Decision:
    """Return the packed decision."""
    plain = _unpack(data)
    turns = tuple(Displacement.of_plain(one) for one in plain.get("displacements", ()))
    return Decision(plain["taken_s"], _rows(Waiting, plain["waiting"]), plain["work"], turns)


def pack_holdings(holdings: Holdings) -> bytes:
    """Pack what is held."""
    holds = [(job, h.kind, h.value, h.before, h.submit_s) for job, h in holdings]
    return _pack({"holds": holds, "given_up": list(holdings.given_up.items())})


def unpack_holdings(data: bytes) -> Holdings:
    """Return the packed holdings."""
    plain = _unpack(data)
    by_job: dict[int, dict[ChangeKind, Hold]] = {}
    for job, kind, value, before, submit_s in plain["holds"]:
        by_job.setdefault(job, {})[ChangeKind(kind)] = Hold(ChangeKind(kind), _value(value), _value(before), submit_s)
    return Holdings(by_job, dict(plain["given_up"]))


def pack_estimates(estimates: dict[int, float]) -> bytes:
    """Pack estimates by job."""
    return _pack({"job": list(estimates), "estimate_s": list(estimates.values())})


def unpack_estimates(data: bytes) -> dict[int, float]:
    """Return the packed estimates."""
    plain = _unpack(data)
    return dict(zip(plain["job"], plain["estimate_s"], strict=True))


def _pack(plain: dict[str, Any]) -> bytes:
    return zlib.compress(json.dumps(plain, separators=(",", ":"), ensure_ascii=False).encode(), _LEVEL)


def _unpack(data: bytes) -> Any:
    return json.loads(zlib.decompress(data))


def _columns(rows: Iterable[Any]) -> Columns:
    """Turn rows into columns, leaving out those in which every row has the default."""
    values = list(rows)
    columns: Columns = {"": [0] * len(values)}
    for field in fields(values[0]) if values else ():
        column = [getattr(row, field.name) for row in values]
        if field.default is MISSING or any(value != field.default for value in column):
            columns[field.name] = column
    return columns


def _rows(kind: type[T], columns: Columns) -> tuple[T, ...]:
    given = {name: column for name, column in columns.items() if name}
    lists = _tuples(kind)
    cells: Sequence[Sequence[Any]] = [
        [tuple(cell) for cell in column] if name in lists else column for name, column in given.items()
    ]
    if not given:
        return ()
    return tuple(kind(**dict(zip(given, row, strict=True))) for row in zip(*cells, strict=True))


def _tuples(kind: type[Any]) -> frozenset[str]:
    """Name the fields that hold tuples, which JSON gives back as lists."""
    return frozenset(field.name for field in fields(kind) if str(field.type).startswith("tuple"))


def _value(plain: Any) -> Any:
    return tuple(plain) if isinstance(plain, list) else plain

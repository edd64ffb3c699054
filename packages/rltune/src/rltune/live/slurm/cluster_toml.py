"""A running Slurm's nodes as a cluster's TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rltune.live.see.snapshot import LiveNode, Reservation, Snapshot


@dataclass(frozen=True)
class NodeKind:
    """What nodes of one group have in common."""

    gpu_type: str
    gpus: int
    cpus: float
    mem_gib: float
    partitions: tuple[str, ...]
    features: tuple[str, ...]
    maintenance: tuple[str, ...]  # names of the reservations that keep them from work
    shares_gpus: bool


@dataclass(frozen=True)
class AlikeNodes:
    """Nodes of one kind."""

    kind: NodeKind
    nodes: tuple[LiveNode, ...]

    @property
    def name(self) -> str:
        """Name the group as its first node, without the number."""
        first = self.nodes[0].name
        return re.sub(r"[-_.]?\d+$", "", first) or first


def to_toml(snapshot: Snapshot, name: str = "") -> str:
    """Write nodes, GPUs, partitions and maintenance; what our TOML has no word for stands in comments."""
    groups = group(snapshot)
    lines = [f"name = {_text(name)}", f"about = {_text(_about(snapshot))}"]
    for one in groups:
        lines += ["", *_comments(one), *_table(one, snapshot)]
    lines += _maintenance(snapshot, groups)
    return "\n".join(lines) + "\n"


def group(snapshot: Snapshot) -> list[AlikeNodes]:
    """Put alike nodes together, in the order in which they come."""
    by_kind: dict[NodeKind, list[LiveNode]] = {}
    for node in snapshot.nodes:
        by_kind.setdefault(_kind(node, snapshot), []).append(node)
    return [AlikeNodes(kind, tuple(nodes)) for kind, nodes in by_kind.items()]


def _kind(node: LiveNode, snapshot: Snapshot) -> NodeKind:
    kept_away = tuple(r.name for r in snapshot.reservations if r.maintenance and node.name in r.node_names)
    return NodeKind(
        node.gpu_type,
        node.gpus,
        node.cpus,
        node.mem_gib,
        tuple(sorted(node.partitions)),
        tuple(sorted(node.features)),
        kept_away,
        node.shares_gpus,
    )


def _about(snapshot: Snapshot) -> str:
    gpus = sum(node.gpus for node in snapshot.nodes)
    slurm = f"Slurm {snapshot.version}".rstrip()
    return f"Imported from {slurm}: {len(snapshot.nodes)} nodes, {gpus} GPUs"


def _table(one: AlikeNodes, snapshot: Snapshot) -> Iterator[str]:
    kind = one.kind
    yield "[[group]]"
    yield f"name = {_text(one.name)}"
    yield f"count = {len(one.nodes)}"
    yield f"gpus = {kind.gpus}"
    if kind.gpu_type:
        yield f"gpu_type = {_text(kind.gpu_type)}"
    yield f"cpus = {kind.cpus:g}"
    if snapshot.mem_counts:
        yield f"mem_gib = {kind.mem_gib:g}"
    if kind.partitions:
        yield f"vc = [{', '.join(map(_text, kind.partitions))}]"


def _comments(one: AlikeNodes) -> Iterator[str]:
    names = [node.name for node in one.nodes]
    yield f"# {_listed(names)}"
    if one.kind.features:
        yield f"# features: {_listed(one.kind.features)}"
    if one.kind.shares_gpus:
        yield "# some GPUs here are shared (MIG, shard or MPS): they are counted as Slurm counts them"
    down = [f"{node.name} ({node.state})" for node in one.nodes if not node.up]
    if down:
        yield f"# took no jobs when this was written: {_listed(down)}"


def _maintenance(snapshot: Snapshot, groups: Sequence[AlikeNodes]) -> Iterator[str]:
    for reservation in snapshot.reservations:
        yield ""
        nodes = _listed(reservation.node_names)
        yield f"# reservation {_plain(reservation.name)} of {nodes}{_whose(reservation)}"
        if reservation.maintenance and reservation.end_s > snapshot.taken_s:
            yield "# times are seconds from the moment when this was written"
            yield "[[maintenance]]"
            yield f"start_s = {max(0.0, reservation.start_s - snapshot.taken_s):.1f}"
            yield f"end_s = {reservation.end_s - snapshot.taken_s:.1f}"
            yield f"groups = {[i for i, one in enumerate(groups) if reservation.name in one.kind.maintenance]}"


def _whose(reservation: Reservation) -> str:
    people = [*reservation.users, *reservation.accounts]
    return f", for {_listed(people)}" if people else ""


def _listed(names: Sequence[str]) -> str:
    most = 8
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return _plain(", ".join(names[:most])) + more


def _plain(text: str) -> str:
    """Keep a comment on its line."""
    return "".join(char if char.isprintable() else " " for char in text)


def _text(text: str) -> str:
    """Write a string as TOML has it; JSON's way is one of its ways."""
    return json.dumps(text, ensure_ascii=False)

"""The cluster of a snapshot, in the core's terms: alike nodes in groups, and which groups a job may use.

A job's partitions, features and node lists become one label, its *admission*; a group lists the admissions that it
takes. That is how the core knows VCs, so nothing new is needed there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rltune.cluster import Cluster, Maintenance, NodeGroup
from rltune.live.see.constraints import UnknownConstraintError, parse
from rltune.live.see.snapshot import LiveJob, LiveNode, Reservation, Snapshot

_NOBODY = ("(nobody)",)
_NOWHERE = "(nowhere)"
Asks = tuple[tuple[str, ...], str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class NodeLayout:
    """A cluster for the core, and how it names things."""

    cluster: Cluster
    names: tuple[str, ...]  # of the nodes, in the core's order
    number: dict[str, int]
    down: tuple[int, ...]
    admission: dict[Asks, str]


def asks_of(job: LiveJob) -> Asks:
    """Return what decides on which nodes a job may run."""
    return job.partitions, job.features, job.required_nodes, job.excluded_nodes


def lay_out(snapshot: Snapshot, jobs: Iterable[LiveJob]) -> NodeLayout:
    """Sort the nodes into groups, as coarse as the jobs and reservations allow. Nodes with shared GPUs are left out."""
    nodes = [node for node in snapshot.nodes if not node.shares_gpus]
    admitted = {asks: _admitted(asks, snapshot, nodes) for asks in {asks_of(job): None for job in jobs}}
    admission = _labels(admitted)
    takes: dict[str, tuple[str, ...]] = {
        node.name: tuple(sorted({admission[asks] for asks, names in admitted.items() if node.name in names}))
        for node in nodes
    }
    windows = _windows(snapshot)
    grouped: dict[tuple[NodeGroup, tuple[Reservation, ...]], list[LiveNode]] = {}
    for node in nodes:
        group = _group(node, takes[node.name], mem_counts=snapshot.mem_counts)
        grouped.setdefault((group, windows.get(node.name, ())), []).append(node)
    ordered = [node for members in grouped.values() for node in members]
    number = {node.name: i for i, node in enumerate(ordered)}
    return NodeLayout(
        cluster=_cluster(grouped),
        names=tuple(number),
        number=number,
        down=tuple(number[node.name] for node in ordered if not node.up),
        admission=admission,
    )


def _admitted(asks: Asks, snapshot: Snapshot, nodes: list[LiveNode]) -> frozenset[str]:
    """Name the nodes on which a job that asks this may run."""
    partitions, features, required, excluded = asks
    test = parse(features) if features else None
    up = {name for name in partitions if name not in snapshot.partition_by_name or snapshot.partition_by_name[name].up}
    return frozenset(
        node.name
        for node in nodes
        if (not partitions or up & set(node.partitions))
        and node.name not in excluded
        and (not required or node.name in required)
        and (test is None or test(node.features))
    )


def is_understood(constraint: str) -> bool:
    """Return whether a constraint on features can be judged here."""
    try:
        parse(constraint)
    except UnknownConstraintError:
        return not constraint
    return True


def _labels(admitted: dict[Asks, frozenset[str]]) -> dict[Asks, str]:
    """Name each set of nodes after the partitions of the job that asks the least; others get a number beside it."""
    name_of: dict[frozenset[str], str] = {}
    used: set[str] = set()
    for asks in sorted(admitted, key=lambda a: (bool(a[1] or a[2] or a[3]), a)):
        names = admitted[asks]
        if names and names not in name_of:
            plain = ",".join(asks[0]) or "all"
            name_of[names] = plain if plain not in used else f"{plain} #{len(used)}"
            used.add(name_of[names])
    return {asks: name_of.get(names, _NOWHERE) for asks, names in admitted.items()}


def _windows(snapshot: Snapshot) -> dict[str, tuple[Reservation, ...]]:
    """List by node the reservations that are still to end: nobody else may run into them."""
    windows: dict[str, tuple[Reservation, ...]] = {}
    for reservation in snapshot.reservations:
        if reservation.end_s > max(snapshot.taken_s, reservation.start_s):
            for name in reservation.node_names:
                windows[name] = (*windows.get(name, ()), reservation)
    return windows


def _group(node: LiveNode, takes: tuple[str, ...], *, mem_counts: bool) -> NodeGroup:
    return NodeGroup(
        count=1,
        gpus=node.gpus,
        gpu_type=node.gpu_type,
        cpus=node.cpus or None,
        mem_gib=(node.mem_gib or None) if mem_counts else None,
        vc=takes or _NOBODY,
        rack=node.rack,
    )


def _cluster(grouped: dict[tuple[NodeGroup, tuple[Reservation, ...]], list[LiveNode]]) -> Cluster:
    groups = tuple(group.model_copy(update={"count": len(members)}) for (group, _), members in grouped.items())
    maintenance = tuple(
        Maintenance(start_s=window.start_s, end_s=window.end_s, groups=(i,))
        for i, (_, windows) in enumerate(grouped)
        for window in windows
    )
    return Cluster(groups=groups, maintenance=maintenance)

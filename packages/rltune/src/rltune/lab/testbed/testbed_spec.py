"""What a testbed consists of: nodes from a cluster's TOML, ports, clock, database."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rltune.cluster import Cluster, NodeGroup
from rltune.errors import InputError
from rltune.lab.testbed.slurm_releases import SlurmRelease

LONGEST_SOCKET = 107  # bytes of a socket's path, by the kernel
CPUS, MEM_GIB = 32, 125  # of a node whose group does not tell
ALL, SLA = "gpu", "sla"  # partitions: of everybody, and of those whom no controller may touch


@dataclass(frozen=True)
class Node:
    """One node, with the port of its slurmd."""

    name: str
    port: int
    group: NodeGroup

    @property
    def gpu_type(self) -> str:
        """Name its GPUs as Slurm wants it: in small letters, without spaces."""
        return slug(self.group.gpu_type)

    @property
    def gres(self) -> str:
        """Return which GPUs it has, in Slurm's spelling; "" if none."""
        if not self.group.gpus:
            return ""
        return ":".join(filter(None, ("gpu", self.gpu_type, str(self.group.gpus))))


@dataclass(frozen=True)
class Spec:
    """A testbed on paper."""

    folder: Path
    cluster: Cluster
    ports: range  # slurmctld, slurmdbd, one a node, slurmrestd
    factor: int = 1  # how much faster its clock runs
    database: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)  # of slurm.conf, over the testbed's own
    release: SlurmRelease | None = None  # None = the machine's own
    rest: bool = False  # with a slurmrestd, on the last of the ports and on a socket

    def __post_init__(self) -> None:
        if len(str(self.folder / "run/mysql.sock").encode()) > LONGEST_SOCKET:
            raise InputError(f"{self.folder}: the path is too long for a socket in it; name a shorter --folder")
        if re.search(r"[^\w./+-]", str(self.folder)):
            raise InputError(f"{self.folder}: Slurm takes only letters, digits and ._+- in the path of a testbed")

    @property
    def nodes(self) -> tuple[Node, ...]:
        """List the nodes, named by group or GPU type and numbered from 1."""
        count: Counter[str] = Counter()
        nodes: list[Node] = []
        for group in self.cluster.groups:
            base = slug(group.name or group.gpu_type) or "node"
            for _ in range(group.count):
                count[base] += 1
                nodes.append(Node(f"{base}-{count[base]}", self.ports[2 + len(nodes)], group))
        return tuple(nodes)

    @property
    def partitions(self) -> dict[str, tuple[str, ...]]:
        """Return the nodes of each VC; without VCs there is one partition of all."""
        vcs = self.cluster.vcs
        if not vcs:
            return {ALL: tuple(n.name for n in self.nodes)}
        return {slug(vc): tuple(n.name for n in self.nodes if not n.group.vc or vc in n.group.vc) for vc in vcs}

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """Name the GPU types."""
        return tuple(dict.fromkeys(n.gpu_type for n in self.nodes if n.gpu_type))


def ports_needed(cluster: Cluster) -> int:
    """Count the ports that a testbed of this cluster takes."""
    return cluster.node_count + 3


def slug(text: str) -> str:
    """Reduce a name to what Slurm takes as one."""
    return re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-")

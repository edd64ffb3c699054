"""When each node was in use, and when it was idle though jobs waited that it could have taken: then it was down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rltune.calibration.finding import SiteFact
from rltune.calibration.history import Happened, Steps
from rltune.cluster import Cluster, NodeGroup
from rltune.hostlist import expand
from rltune.jobs import Floats
from rltune.text import counted, seconds

SHORTEST_S = 3600.0  # of an outage that is told
FEWEST_JOBS = 10  # that began elsewhere after waiting beside the idle node
WAITED_S = 600.0  # so long, beside the idle node
AT_ONCE_S = 120.0
MOST_SHOWN = 200  # outages offered as TOML
LOOKS = 9  # moments of a wait at which nodes are looked at
MOST_LOOKS = 2_000_000  # jobs times nodes
MOSTLY = 0.5  # of these moments


@dataclass(frozen=True)
class NodeUse:
    """Nodes by name, and the stretches in which a job ran on each."""

    names: tuple[str, ...]
    jobs: tuple[NDArray[np.intp], ...]  # of each node, the rows of its jobs

    @classmethod
    def of(cls, history: Happened) -> NodeUse:
        """Spell the recorded lists of nodes out."""
        labels = history.jobs.recorded_nodes
        rows_of: dict[str, list[int]] = {}
        for row, code in enumerate(labels.codes.tolist()):
            for name in expand(labels.names[code]) if code >= 0 else ():
                rows_of.setdefault(name, []).append(row)
        names = tuple(sorted(rows_of))
        return cls(names, tuple(np.array(rows_of[name], dtype=np.intp) for name in names))


@dataclass(frozen=True)
class Idle:
    """A stretch in which a node took no job although jobs waited that it could have taken."""

    node: int  # in the cluster
    name: str
    begin_s: float
    end_s: float
    jobs: int  # that waited beside it and began elsewhere


def find_nodes(
    history: Happened,
    cluster: Cluster,
    held: NDArray[np.bool_],
    told: Sequence[tuple[float, float, frozenset[int]]] = (),
) -> list[SiteFact]:
    """Compare the nodes that jobs ran on with those of the cluster, and find stretches in which nodes were down.

    What lies in a time in which hardly any job started is not told again: each such time comes with the groups of
    nodes that it is told of.
    """
    use = NodeUse.of(history)
    if not use.names:
        return []
    place = match_nodes(use, history, cluster)
    known = [(place[name], name, rows) for name, rows in zip(use.names, use.jobs, strict=True) if name in place]
    extra = len(use.names) - len(known)
    found = []
    if extra:
        lacks = f"jobs ran on {len(use.names):,} nodes, the cluster has room for {len(known):,} of them"
        found.append(SiteFact("nodes that the cluster lacks", lacks))
    idle = [stretch for node, name, rows in known for stretch in _idle(history, cluster, node, name, rows, held)]
    missing = sorted(set(range(cluster.node_count)) - {node for node, _, _ in known})
    if missing and len(known) > 1 and _was_full(history, cluster, known):
        never = f"no job ever ran on {counted(len(missing), 'node')} of {cluster.node_count:,}, though jobs waited"
        lines = [line for node in missing for line in ("[[outage]]", f"node = {node}", "down_s = 0.0")]
        found.append(SiteFact("nodes that did not exist", never, tuple(lines)))
    edges = np.cumsum([group.count for group in cluster.groups])
    group = [int(np.searchsorted(edges, stretch.node, "right")) for stretch in idle]
    return [*found, *_downs([s for s, g in zip(idle, group, strict=True) if not _mostly_within(s, g, told)])]


def _mostly_within(idle: Idle, group: int, told: Sequence[tuple[float, float, frozenset[int]]]) -> bool:
    spans = [(low, high) for low, high, groups in told if group in groups]
    inside = sum(max(0.0, min(idle.end_s, high) - max(idle.begin_s, low)) for low, high in spans)
    return inside > 0.5 * (idle.end_s - idle.begin_s)


def held_beside_room(history: Happened, cluster: Cluster, seed: int = 0) -> NDArray[np.bool_]:
    """Return which jobs waited mostly while a node that was surely up, since it was partly in use, had room for them.

    Something else held them: a limit, a throttle, a reservation. They tell neither which nodes were down nor the order.
    """
    held = np.zeros(len(history), dtype=np.bool_)
    use = NodeUse.of(history)
    place = match_nodes(use, history, cluster)
    known = [(place[name], rows) for name, rows in zip(use.names, use.jobs, strict=True) if name in place]
    late = np.flatnonzero(history.start_s - history.ready_s >= WAITED_S)
    if not known or not len(late):
        return held
    most = max(MOST_LOOKS // len(known), 1)
    late = np.sort(np.random.default_rng(seed).permutation(late)[:most])
    moments = np.linspace(history.ready_s[late], history.start_s[late], LOOKS + 2)[1:-1]
    on_nodes = np.bincount(np.concatenate([rows for _, rows in known]), minlength=len(history))
    gpus = np.repeat([g.gpus for g in cluster.groups], [g.count for g in cluster.groups])
    roomy = np.zeros(moments.shape, dtype=np.bool_)
    for node, rows in known:
        share = np.ceil(history.size[rows] / on_nodes[rows]).astype(np.int64)
        used = Steps.of(history.start_s[rows], history.end_s[rows], share).at(moments)
        roomy |= (used > 0) & (gpus[node] - used >= history.size[late]) & _fits(history, cluster, node, rows)[late]
    held[late] = roomy.mean(axis=0) > MOSTLY
    return held


def _downs(idle: list[Idle]) -> list[SiteFact]:
    if not idle:
        return []
    longest = max(idle, key=lambda s: s.end_s - s.begin_s)
    hours = sum(s.end_s - s.begin_s for s in idle) / 3600
    told = (
        f"{counted(len({s.name for s in idle}), 'node')} idle for {hours:,.0f} node-hours while jobs waited that would "
        f"have fitted; longest {longest.name}, {seconds(longest.end_s - longest.begin_s)}, with {longest.jobs:,} jobs "
        "that began elsewhere meanwhile"
    )
    shown = sorted(idle, key=lambda s: s.begin_s - s.end_s)[:MOST_SHOWN]
    lines = [
        line
        for s in sorted(shown, key=lambda s: (s.begin_s, s.node))
        for line in (
            f"[[outage]]  # {s.name}",
            f"node = {s.node}",
            f"down_s = {s.begin_s:.1f}",
            f"up_s = {s.end_s:.1f}",
        )
    ]
    return [SiteFact("nodes that were down", told, tuple(lines))]


def match_nodes(use: NodeUse, history: Happened, cluster: Cluster) -> dict[str, int]:
    """Return the number of each recorded node in the cluster, by group, partitions and size, in order of names."""
    free, first = [group.count for group in cluster.groups], 0
    begins = []
    for group in cluster.groups:
        begins.append(first)
        first += group.count
    place: dict[str, int] = {}
    for name, rows in zip(use.names, use.jobs, strict=True):
        fitting = [g for g, group in enumerate(cluster.groups) if free[g] and _may_be(rows, history, group)]
        if fitting:
            best = max(fitting, key=lambda g: bool(cluster.groups[g].name) and name.startswith(cluster.groups[g].name))
            group = cluster.groups[best]
            place[name] = begins[best] + group.count - free[best]
            free[best] -= 1
    return place


def _may_be(rows: NDArray[np.intp], history: Happened, group: NodeGroup) -> bool:
    """Return whether jobs on a node could all have run in a group."""
    vcs = history.jobs.vc
    asked = {vcs.names[code].casefold() for code in np.unique(vcs.codes[rows]).tolist() if code >= 0}
    mine = {vc.casefold() for vc in group.vc}
    with_gpus = bool((history.size[rows] > 0).any())
    return (not mine or asked <= mine) and (group.gpus > 0 or not with_gpus)


def _idle(
    history: Happened, cluster: Cluster, node: int, name: str, rows: NDArray[np.intp], held: NDArray[np.bool_]
) -> list[Idle]:
    """Find the stretches in which a node was down, by the jobs that waited beside it.

    A node may be kept free for a large job. So a job counts only if it would have ended, by its limit, before the node
    had its next job; and if no limit of its user held it. If more such jobs started at once, there was room elsewhere,
    and those that waited were held by something else.
    """
    begin, end = history.span_s
    start, stop = history.start_s[rows], history.end_s[rows]
    order = np.argsort(start, kind="stable")
    until = np.maximum.accumulate(np.concatenate([[begin], stop[order]]))
    gaps = np.stack([until, np.concatenate([start[order], [end]])], axis=1)
    long = gaps[gaps[:, 1] - gaps[:, 0] >= SHORTEST_S]
    if not len(long):
        return []
    fits = np.flatnonzero(_fits(history, cluster, node, rows) & ~held)
    limit = np.where(np.isnan(history.jobs.limit_s), history.jobs.duration_s, history.jobs.limit_s)[fits]
    ready, began = history.ready_s[fits], history.start_s[fits]
    found = []
    for low, high in long.tolist():
        waited = np.minimum(began, high) - np.maximum(ready, low)
        over = np.maximum(ready, low) + limit <= high
        inside = (began >= low) & (began < high) & over
        jobs = int(((waited >= WAITED_S) & inside).sum())
        at_once = int(((began - ready < AT_ONCE_S) & (ready >= low) & inside).sum())
        if jobs >= max(FEWEST_JOBS, at_once):
            found.append(Idle(node, name, low, high, jobs))
    return found


def _fits(history: Happened, cluster: Cluster, node: int, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return which jobs the empty node could have taken: those of a partition seen on it that fit on it alone."""
    edges = np.cumsum([group.count for group in cluster.groups])
    group = cluster.groups[int(np.searchsorted(edges, node, "right"))]
    seen = np.unique(history.jobs.vc.codes[rows])
    types = history.jobs.gpu_types
    named = np.array([*(group.gpu_type.casefold() in t.casefold().split("|") for t in types.names), True])
    small = (history.size > 0) & (history.size <= group.gpus) & (history.jobs.nodes <= 1)
    fits: NDArray[np.bool_] = small & np.isin(history.jobs.vc.codes, seen) & named[types.codes]
    return fits


def _was_full(history: Happened, cluster: Cluster, known: list[tuple[int, str, NDArray[np.intp]]]) -> bool:
    """Return whether the nodes that were seen were nearly all in use at some time while jobs waited."""
    sizes = np.repeat([g.gpus for g in cluster.groups], [g.count for g in cluster.groups])
    seen = int(sizes[[node for node, _, _ in known]].sum())
    waited: Floats = history.start_s - history.ready_s
    return history.peak >= 0.95 * seen and bool((waited >= WAITED_S).sum() >= FEWEST_JOBS)

"""The cluster over time: GPUs in use, GPUs free by node, jobs waiting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rltune.cluster import Cluster
    from rltune.jobs import Floats
    from rltune.metrics.timetable import Timetable

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Timeline:
    """State from time_s[i] to time_s[i + 1]; before the first time nothing runs or waits."""

    time_s: Floats  # ascending, ties allowed
    busy: Counts  # GPUs in use
    free: Counts  # GPUs of nodes that are up and not in use
    free_squared: Counts  # sum over nodes of the square of their free GPUs
    waiting: Counts  # jobs that want GPUs, are submitted and not started

    def held_s(self, begin_s: float, end_s: float) -> Floats:
        """Return how long each state lasted within [begin_s, end_s]."""
        if not len(self.time_s):
            return np.zeros(0)
        edges = np.append(np.clip(self.time_s, begin_s, end_s), end_s)
        return np.diff(edges)

    def averaged(self, values: Counts, edges: Floats) -> Floats:
        """Average a quantity over time within each interval, so that no peak is drawn longer than it was."""
        return averaged(self.time_s, values, edges)


def averaged(time_s: Floats, values: Floats | Counts, edges: Floats) -> Floats:
    """Average values that hold from their time to the next one's within each interval; 0 before the first time."""
    if not len(time_s):
        return np.zeros(len(edges) - 1)
    finite = np.isfinite(time_s)
    times, held = time_s[finite], values[finite]
    total = np.concatenate([[0.0], np.cumsum(held[:-1] * np.diff(times))])
    averages: Floats = np.diff(np.interp(edges, times, total)) / np.diff(edges)
    return averages


@dataclass(frozen=True)
class _Changes:
    """Things that change free GPUs of a node; those at one time are in this order."""

    time_s: Floats
    node: Counts
    free: Counts
    busy: Counts


def timeline(schedule: Timetable) -> Timeline:
    """Follow a schedule through time, from the spells of each job: its last attempt, unless jobs take turns.

    A node that is down counts as having no free GPU.
    """
    changes = _changes(schedule)
    since, start = _waits(schedule)
    # Starts before submits: a job that starts when it is submitted never waits, whatever the order within the moment.
    times = np.concatenate([changes.time_s, start, since])
    waits = np.concatenate([np.zeros(len(changes.time_s)), -np.ones(len(start)), np.ones(len(since))])
    order = np.argsort(times, kind="stable")
    free, squared = _free_steps(changes, schedule.cluster, order)
    busy = np.concatenate([changes.busy, np.zeros(len(waits) - len(changes.busy), dtype=np.int64)])[order]
    sizes = node_gpus(schedule.cluster)
    return Timeline(
        time_s=times[order],
        busy=np.cumsum(busy),
        free=int(sizes.sum()) + np.cumsum(free),
        free_squared=int((sizes**2).sum()) + np.cumsum(squared),
        waiting=np.cumsum(waits[order].astype(np.int64)),
    )


def _waits(schedule: Timetable) -> tuple[Floats, Floats]:
    """Return from when to when jobs wait for GPUs: from their submission to a spell, and from one spell to the next."""
    spells = schedule.spells
    follows = np.diff(spells.job, prepend=-1) == 0
    since = schedule.jobs.submit_s[spells.job]
    since[follows] = spells.end_s[np.flatnonzero(follows) - 1]
    wants = schedule.jobs.gpus[spells.job] > 0
    return since[wants], spells.start_s[wants]


def node_gpus(cluster: Cluster) -> Counts:
    """Return the GPUs of each node."""
    return np.repeat([g.gpus for g in cluster.groups], [g.count for g in cluster.groups]).astype(np.int64)


def _changes(schedule: Timetable) -> _Changes:
    spells = schedule.spells
    placed = spells.placements
    spell = np.repeat(np.arange(len(placed)), np.diff(placed.ptr))
    node, gpus = placed.node.astype(np.int64), placed.gpus.astype(np.int64)
    down = [o for o in schedule.cluster.outages if o.down_s < np.inf]
    down_node = np.array([o.node for o in down], dtype=np.int64)
    lost = node_gpus(schedule.cluster)[down_node] if down else np.zeros(0, dtype=np.int64)
    nothing = np.zeros(2 * len(down), dtype=np.int64)
    # Ends before starts: what ends at a moment is free for what starts at it.
    return _Changes(
        time_s=np.concatenate(
            [spells.end_s[spell], [o.up_s for o in down], spells.start_s[spell], [o.down_s for o in down]]
        ),
        node=np.concatenate([node, down_node, node, down_node]),
        free=np.concatenate([gpus, lost, -gpus, -lost]),
        busy=np.concatenate([-gpus, nothing[: len(down)], gpus, nothing[len(down) :]]),
    )


def _free_steps(changes: _Changes, cluster: Cluster, order: NDArray[np.intp]) -> tuple[Counts, Counts]:
    """Return, in the order of time, by how much the sums over nodes of free GPUs and of their squares change."""
    free, squared = np.zeros(len(order), dtype=np.int64), np.zeros(len(order), dtype=np.int64)
    in_time = np.flatnonzero(order < len(changes.time_s))
    if not len(in_time):
        return free, squared
    which = order[in_time]
    by_node = np.argsort(changes.node[which], kind="stable")
    node, step = changes.node[which][by_node], changes.free[which][by_node]
    first = np.flatnonzero(np.diff(node, prepend=-1))
    running = np.cumsum(step)
    offset = (running - step)[first]
    after = running - np.repeat(offset, np.diff(first, append=len(node))) + node_gpus(cluster)[node]
    # Outages of one node may overlap; it cannot have less than nothing free.
    before, after = np.maximum(after - step, 0), np.maximum(after, 0)
    free[in_time[by_node]] = after - before
    squared[in_time[by_node]] = after**2 - before**2
    return free, squared

"""Stretches in which hardly any job started although there was room: a closed partition, a stop, a reservation.

What tells them apart from a busy machine is room: jobs waited for whole hours although as many GPUs were free as they
wanted, in the nodes that they may use, while far fewer started than usually do, than came, and than a replay starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rltune.calibration.finding import SiteFact
from rltune.calibration.free_room import FreeRoom, Groups
from rltune.calibration.history import Happened
from rltune.calibration.moments import from_to
from rltune.calibration.node_use import NodeUse, match_nodes
from rltune.cluster import Cluster
from rltune.jobs import Floats
from rltune.text import counted, number

Counts = NDArray[np.int64]
Mask = NDArray[np.bool_]

HOUR_S = 3600.0
MOST_HOURS = 40_000
SHORTEST = 6  # hours
AROUND = 2  # hours before and after, with which the starts of an hour are averaged
GAP = 8  # hours within a stretch in which more started, or nobody waited with room
FELL = 0.25  # of the starts that are usual, of the jobs that came, and of the starts in the replay
FEWEST_WAITING = 5  # jobs for which there was room, in each hour
MOSTLY = 0.3  # of the time: what goes on for longer is how the site is, and no stretch
ANNOUNCED = 0.1  # of the jobs of the day before may have had limits that reach into a stop that they knew of
DAY_S = 86_400.0
MOST_PARTITIONS = 3
MOST_TOLD = 5


@dataclass(frozen=True)
class SlowStretch:
    """A time in which hardly any of the jobs of one kind started."""

    kind: int  # of `FreeRoom`
    begin_s: float
    end_s: float
    started: int
    usual: float  # starts in a time as long
    waiting: int  # the most jobs that waited for a whole hour with room

    def inside(self, time_s: Floats) -> Mask:
        """Return which moments lie in it."""
        return (time_s >= self.begin_s) & (time_s < self.end_s)

    def overlaps(self, low_s: float, high_s: float) -> float:
        """Return for how long it has a time in common with another stretch."""
        return max(0.0, min(self.end_s, high_s) - max(self.begin_s, low_s))


def slow_stretches(history: Happened, free: FreeRoom, held: Mask, replayed_s: Floats) -> list[SlowStretch]:
    """Find the stretches, by the nodes that jobs may use; jobs that a limit held do not count as waiting."""
    begin, end = history.span_s
    width = max(HOUR_S, (end - begin) / MOST_HOURS)
    edges: Floats = np.asarray(begin + width * np.arange(int((end - begin) / width) + 2), dtype=np.float64)
    found = []
    for kind in range(len(free.gpus)):
        mine = (free.kind == kind) & (history.size > 0)
        starts, came, replayed = (
            np.histogram(time_s[mine & ~np.isnan(time_s)], edges)[0]
            for time_s in (history.start_s, history.ready_s, replayed_s)
        )
        waiting = _waiting_with_room(history, free, kind, mine & ~held, edges)
        own = [_to_the_start(s, history.start_s[mine]) for s in _runs(kind, edges, (starts, came, replayed), waiting)]
        if sum(s.end_s - s.begin_s for s in own) <= MOSTLY * (end - begin):
            found += own
    return _told_once(found, free)


def _to_the_start(one: SlowStretch, start_s: Floats) -> SlowStretch:
    """Let a stretch end as the next job starts: an hour in which many start is no part of it, but its beginning is."""
    later = start_s[start_s >= one.end_s]
    return replace(one, end_s=float(later.min())) if len(later) else one


def _told_once(found: list[SlowStretch], free: FreeRoom) -> list[SlowStretch]:
    """Keep the longer of two that are mostly at one time, of jobs that may use the same nodes."""
    kept: list[SlowStretch] = []
    for one in sorted(found, key=lambda s: s.begin_s - s.end_s):
        alike = [s for s in kept if free.pools[s.kind] & free.pools[one.kind]]
        if not any(s.overlaps(one.begin_s, one.end_s) > MOSTLY * (one.end_s - one.begin_s) for s in alike):
            kept.append(one)
    return sorted(kept, key=lambda s: (s.begin_s, s.kind))


def _waiting_with_room(history: Happened, free: FreeRoom, kind: int, rows: Mask, edges: Floats) -> Counts:
    """Count the jobs that waited all of an hour while as many GPUs as they want were free at each moment of it."""
    use = free.users[kind].use
    at = np.clip(np.searchsorted(edges, use.time_s, "right") - 1, 0, len(edges) - 2)
    most = use.at(edges[:-1])
    np.maximum.at(most, at, use.value)
    room = free.gpus[kind] - most
    first = np.searchsorted(edges, history.ready_s[rows])
    last = np.searchsorted(edges, history.start_s[rows], "right") - 1  # the hour in which it starts is no whole one
    count = np.zeros(len(room), dtype=np.int64)
    for size in np.unique(history.size[rows]).tolist():
        long = (history.size[rows] == size) & (last > first)
        change = np.bincount(first[long], minlength=len(edges)) - np.bincount(last[long], minlength=len(edges))
        count += np.where(room >= size, np.cumsum(change)[: len(room)], 0)
    return count


def _runs(kind: int, edges: Floats, events: tuple[Counts, Counts, Counts], waiting: Counts) -> Iterator[SlowStretch]:
    starts, came, replayed = events
    usual = float(starts.mean())
    width = 2 * AROUND + 1
    around = np.convolve(starts, np.ones(width), "full")[AROUND : AROUND + len(starts)]  # "same" fails on a few hours
    few = around <= FELL * usual * width
    closed = few & (waiting >= FEWEST_WAITING)
    hours = np.flatnonzero(closed)
    for run in np.split(hours, np.flatnonzero(np.diff(hours) > GAP + 1) + 1):
        if len(run) < SHORTEST:
            continue
        low, high = int(run[0]), int(run[-1]) + 1
        while low > 0 and few[low - 1] and waiting[low - 1] > 0:  # at first the queue is short, and little is free
            low -= 1
        while high < len(starts) and high - run[-1] <= AROUND + 1 and starts[high] <= usual and waiting[high] > 0:
            high += 1  # the hour in which all start is not averaged with those before it
        started, asked = int(starts[low:high].sum()), min(int(came[low:high].sum()), int(replayed[low:high].sum()))
        if asked >= FEWEST_WAITING and started <= FELL * min(asked, usual * (high - low)):
            most = int(waiting[low:high].max())
            yield SlowStretch(kind, float(edges[low]), float(edges[high]), started, usual * (high - low), most)


def find_slow_starts(
    history: Happened, cluster: Cluster, free: FreeRoom, stretches: Sequence[SlowStretch], origin_s: float | None
) -> list[SiteFact]:
    """Name the stretches with their dates and partitions, and offer lines that close the nodes for that time."""
    if not stretches:
        return []
    longest = sorted(stretches, key=lambda s: s.begin_s - s.end_s)
    told = "; ".join(_told(history, free, one, origin_s) for one in longest[:MOST_TOLD])
    more = f"; and {len(longest) - MOST_TOLD:,} shorter ones" if len(longest) > MOST_TOLD else ""
    lines = [_lines(history, cluster, free, one) for one in stretches]
    without = sum(not some for some in lines)
    why = "it was not announced, by the limits of jobs that began before, and where jobs ran is not recorded"
    lacks = f" (no lines for {counted(without, 'stretch', 'stretches')}: {why})"
    told = f"{told}{more}{lacks if without else ''}"
    return [SiteFact("starts nearly stopped with room", told, tuple(line for some in lines for line in some))]


def _told(history: Happened, free: FreeRoom, one: SlowStretch, origin_s: float | None) -> str:
    when = from_to(one.begin_s, one.end_s, origin_s)
    usual = number(round(one.usual))
    starts = f"{counted(one.started, 'job')} started where {usual} usually do"
    return f"{when}{_where(history, free, one.kind)}: {starts}, while {one.waiting:,} waited with room"


def _where(history: Happened, free: FreeRoom, kind: int) -> str:
    """Name the partitions of the jobs of a kind; nothing if those are all there are."""
    vc = history.jobs.vc
    codes, count = np.unique(vc.codes[(free.kind == kind) & (vc.codes >= 0)], return_counts=True)
    if not len(codes) or len(codes) == len(np.unique(vc.codes[vc.codes >= 0])):
        return ""
    names = [vc.names[code] for code in codes[np.argsort(-count, kind="stable")].tolist()]
    more = f" and {len(names) - MOST_PARTITIONS} more" if len(names) > MOST_PARTITIONS else ""
    return f" in {'partition' if len(names) == 1 else 'partitions'} {', '.join(names[:MOST_PARTITIONS])}{more}"


def _lines(history: Happened, cluster: Cluster, free: FreeRoom, one: SlowStretch) -> list[str]:
    """Close the nodes: as maintenance if jobs were kept from running into it, else each node when it was empty."""
    groups = free.pools[one.kind]
    if was_known(history, free, one):
        some = sorted(groups) if len(groups) < len(cluster.groups) else []
        also = [f"groups = {some}"] if some else []
        return ["[[maintenance]]", f"start_s = {one.begin_s:.1f}", f"end_s = {one.end_s:.1f}", *also]
    return [line for node in _emptied(history, cluster, groups, one) for line in node]


def was_known(history: Happened, free: FreeRoom, one: SlowStretch) -> bool:
    """Return whether the jobs that started on the day before were kept from running into it, by their limits."""
    start, limit = history.start_s, np.nan_to_num(history.jobs.limit_s, nan=np.inf)
    before = (free.kind == one.kind) & (start < one.begin_s) & (start >= one.begin_s - DAY_S)
    return bool(before.any()) and float(np.mean((start + limit > one.begin_s)[before])) <= ANNOUNCED


def _emptied(history: Happened, cluster: Cluster, groups: Groups, one: SlowStretch) -> Iterator[tuple[str, ...]]:
    """Return an outage for each node, from when its jobs had ended, but for as many as those took that did start.

    The nodes that stay open are those that these jobs used most.
    """
    use = NodeUse.of(history)
    place = match_nodes(use, history, cluster)
    edges = np.cumsum([group.count for group in cluster.groups])
    named = [(name, rows) for name, rows in zip(use.names, use.jobs, strict=True) if name in place]
    mine = [(place[n], n, rows) for n, rows in named if int(np.searchsorted(edges, place[n], "right")) in groups]
    worked = [_worked(history, rows, one) for _, _, rows in mine]
    left_open = int(np.ceil(sum(worked) / (one.end_s - one.begin_s)))
    order = np.argsort(-np.array(worked), kind="stable")[left_open:]
    for node, name, rows in (mine[i] for i in sorted(order.tolist())):
        before = history.end_s[rows][history.start_s[rows] < one.begin_s]
        down = float(before.max(initial=one.begin_s))
        if down < one.end_s:
            yield f"[[outage]]  # {name}", f"node = {node}", f"down_s = {down:.1f}", f"up_s = {one.end_s:.1f}"


def _worked(history: Happened, rows: NDArray[np.intp], one: SlowStretch) -> float:
    """Return for how long the jobs that started in a stretch had the whole node in it, on one node each."""
    began = rows[one.inside(history.start_s[rows])]
    lasted = np.minimum(history.end_s[began], one.end_s) - history.start_s[began]
    return float((lasted * np.minimum(history.size[began] / max(int(history.size[rows].max(initial=1)), 1), 1.0)).sum())

"""Why a replay differs from what happened: causes that the history itself shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rltune.calibration.finding import SiteFact
from rltune.calibration.free_room import FreeRoom
from rltune.calibration.history import Happened, Steps
from rltune.calibration.moments import from_to
from rltune.calibration.seen_limits import FEWEST_HOURS, seen_limit
from rltune.calibration.slow_starts import SlowStretch, find_slow_starts, was_known
from rltune.cluster import Cluster
from rltune.jobs import Floats, Jobs
from rltune.metrics.recorded import recorded_held_s
from rltune.schedule import Schedule
from rltune.text import counted, percent, seconds

Span = tuple[float, float]  # from, to
SHORTEST_STOP_S = 2 * 3600.0  # of the whole machine
NEARLY_IDLE = 0.05  # of the GPUs that were ever in use
FEWEST_WAITING = 5
WAITED_S = 600.0
MOST_NAMED = 20  # arrays
_SAMPLE = 2000
_PARTS = 10  # of the span, in which the machine may have been smaller


def find_causes(
    history: Happened,
    given: Jobs,
    cluster: Cluster,
    replay: Schedule,
    seed: int = 0,
    *,
    free: FreeRoom,
    slow: Sequence[SlowStretch] = (),
    origin_s: float | None = None,
) -> list[SiteFact]:
    """List what can be found without knowing where jobs ran; the jobs given have their own submit times."""
    return [
        *_rejected(replay),
        *_held(given),
        *_arrays(history, free),
        *_before_the_export(history),
        *_capacity(history, cluster),
        *_stops(history, free, slow, origin_s),
        *find_slow_starts(history, cluster, free, slow, origin_s),
        *_with_room(history, free, slow, seed),
    ]


def _rejected(replay: Schedule) -> Iterator[SiteFact]:
    """Return the jobs that the cluster could never run: their GPU type, partition or size is not in its file."""
    if replay.rejected.any():
        labels = replay.reject_reason
        code = int(np.bincount(labels.codes[replay.rejected & (labels.codes >= 0)]).argmax())
        n = int(replay.rejected.sum())
        told = f"{n:,} of {len(replay.jobs):,} jobs that ran do not fit the cluster, mostly: {labels.names[code]}"
        yield SiteFact("jobs that do not fit", told)


def _held(jobs: Jobs) -> Iterator[SiteFact]:
    held = recorded_held_s(jobs)
    late = int((held > 0).sum())
    if late > 0.01 * len(jobs):
        mean = seconds(float(held[held > 0].mean()))
        told = f"{counted(late, 'job')} could not start when submitted, for {mean} on average"
        whole = seconds(float((jobs.recorded_start_s - jobs.submit_s).mean()))
        then = f"their waits are counted from when they could; from submit the recorded mean is {whole}"
        yield SiteFact("dependencies, begin times, throttles", f"{told}; {then}")
    elif np.isnan(jobs.recorded_eligible_s).all() and not len(jobs.after):
        told = "the history does not say when jobs could first start, so waits may hold dependencies and begin times"
        yield SiteFact("dependencies not recorded", told)


def _arrays(history: Happened, free: FreeRoom) -> Iterator[SiteFact]:
    """Count the arrays whose tasks were held at a number although there was room."""
    jobs, throttled = history.jobs, []
    open_rows = np.flatnonzero((jobs.array >= 0) & (jobs.array_limit == 0))
    if not len(open_rows):
        return
    room = free.before(history.ready_s)
    order = open_rows[np.argsort(jobs.array[open_rows], kind="stable")]
    for rows in np.split(order, np.flatnonzero(np.diff(jobs.array[order])) + 1):
        if len(rows) < FEWEST_WAITING:
            continue
        most, _, _ = seen_limit(history, rows, "max_running", room)
        late = history.start_s[rows] - history.ready_s[rows] > WAITED_S
        roomy = room[rows] >= history.size[rows]
        if most < len(rows) and int((late & roomy).sum()) >= min(FEWEST_HOURS, len(rows) - most):
            throttled.append(f"{jobs.array[rows[0]]}={most}")
    if throttled:
        told = f"{counted(len(throttled), 'array')} ran no more than a few tasks at once although there was room"
        first = f"--array-limit {','.join(throttled[:MOST_NAMED])}"
        yield SiteFact("arrays throttled", told, convert=first, named=tuple(throttled))


def _before_the_export(history: Happened) -> Iterator[SiteFact]:
    """See whether the machine fills up in the beginning, as it does if jobs from before were left out."""
    begin, end = history.span_s
    first = min(86_400.0, 0.1 * (end - begin))
    edges = np.linspace(begin, end, max(int((end - begin) / max(first, 1.0)), 2) + 1)
    means = history.use.averaged(edges)
    usual = float(np.median(means))
    if means[0] < 0.5 * usual:
        told = (
            f"{means[0]:,.0f} GPUs in use in the first {seconds(first)}, {usual:,.0f} usually: earlier jobs are missing"
        )
        yield SiteFact("jobs from before the export", f"{told}; leave the beginning out of comparisons")


def _capacity(history: Happened, cluster: Cluster) -> Iterator[SiteFact]:
    """Compare the most GPUs ever in use with those of the cluster, over all time and by parts of it."""
    gpus, peak = cluster.gpu_count, history.peak
    if peak > gpus:
        told = f"{peak:,} GPUs were in use at once, the cluster has {gpus:,}: its file is of a smaller machine"
        yield SiteFact("cluster too small", told)
        return
    if history.jobs.recorded_nodes.names:
        return  # known by node
    edges = np.linspace(*history.span_s, _PARTS + 1)
    spans: list[tuple[int, float, float]] = []  # the most in use, from, to
    small = []
    for low, high in pairwise(edges.tolist()):
        inside = (history.use.time_s >= low) & (history.use.time_s < high)
        most = int(history.use.value[inside].max(initial=0))
        waited = np.minimum(history.start_s, high) - np.maximum(history.ready_s, low)
        would_fit = (waited >= WAITED_S) & (history.size <= gpus - most) & (history.start_s < high)
        if most < 0.95 * gpus and int(would_fit.sum()) >= 4 * FEWEST_WAITING:
            small.append(most)
            goes_on = bool(spans) and spans[-1][0] == most and spans[-1][2] == low
            begin = spans.pop()[1] if goes_on else low
            spans.append((most, begin, high))
    if small:
        lines = [line for most, low, high in spans for line in _down(cluster, gpus - most, low, high)]
        peaks = f"{min(small):,}" if min(small) == max(small) else f"{min(small):,} to {max(small):,}"
        seen = f"at most {peaks} of {gpus:,} GPUs were in use though smaller jobs waited"
        told = f"in {len(small)} of {_PARTS} parts of the history {seen}"
        yield SiteFact("nodes down or not there yet", told, tuple(lines))


def _down(cluster: Cluster, gpus: int, low: float, high: float) -> list[str]:
    """Take so many GPUs' worth of nodes away for a time, where all nodes are alike."""
    if len(cluster.groups) != 1 or not cluster.groups[0].gpus:
        return []
    group = cluster.groups[0]
    nodes = range(group.count - gpus // group.gpus, group.count)
    return [x for n in nodes for x in ("[[outage]]", f"node = {n}", f"down_s = {low:.1f}", f"up_s = {high:.1f}")]


def _stops(
    history: Happened, free: FreeRoom, slow: Sequence[SlowStretch], origin_s: float | None
) -> Iterator[SiteFact]:
    """Tell when the whole machine was idle while jobs waited, where it is not told from when nothing was started."""
    stops = [(span, rows) for span, rows in _stopped(history) if not _is_told(history, free, slow, span, rows)]
    spans = [span for span, _ in stops]
    if stops:
        lines = [line for span, rows in stops for line in _window(free, span, _stood(history, free, span, rows))]
        longest = max(spans, key=lambda span: span[1] - span[0])
        whole = seconds(sum(high - low for low, high in spans))
        told = f"the machine stood still {counted(len(spans), 'time')} for {whole} in all while jobs waited"
        which = "it was" if len(spans) == 1 else "the longest was"
        where = "; the lines close the nodes that jobs waited for" if any("groups" in line for line in lines) else ""
        told = f"{told}; {which} {from_to(*longest, origin_s)}{where}"
        yield SiteFact("reservations or maintenance", told, tuple(lines))


def _is_told(
    history: Happened, free: FreeRoom, slow: Sequence[SlowStretch], span: Span, rows: NDArray[np.bool_]
) -> bool:
    """Return whether the lines of stretches in which starts nearly stopped say it all.

    They do not where others waited as well, nor where a stop that was known of lies in a longer stretch that was not:
    jobs were kept from running into it, and that made the stretch.
    """
    told = [one for one in slow if one.overlaps(*span) > 0]
    groups = frozenset[int]().union(*(free.pools[one.kind] for one in told))
    others = np.array([bool(pool - groups) for pool in free.pools])[free.kind]
    if not told or int((rows & others).sum()) >= FEWEST_WAITING:
        return False
    known = any(was_known(history, free, one) for one in told)
    inner = [replace(one, begin_s=span[0]) for one in told if one.begin_s < span[0]]
    return known or not any(was_known(history, free, one) for one in inner)


def _stood(history: Happened, free: FreeRoom, span: Span, rows: NDArray[np.bool_]) -> frozenset[int]:
    """Return the groups of nodes for which jobs waited; not those on which others started meanwhile."""
    began = (history.start_s >= span[0]) & (history.start_s < span[1] - 60)
    waiting = np.unique(free.kind[rows])
    still = np.setdiff1d(waiting, free.kind[began])
    return frozenset[int]().union(*(free.pools[kind] for kind in (still if len(still) else waiting)))


def _window(free: FreeRoom, span: Span, stood: frozenset[int]) -> list[str]:
    every = frozenset[int]().union(*free.pools)
    some = [f"groups = {sorted(stood)}"] if stood != every else []
    return ["[[maintenance]]", f"start_s = {span[0]:.1f}", f"end_s = {span[1]:.1f}", *some]


def _stopped(history: Happened) -> Iterator[tuple[Span, NDArray[np.bool_]]]:
    """Return from when to when the whole machine was as good as idle although jobs waited all the time, and which."""
    use = history.use
    idle = use.value <= NEARLY_IDLE * history.peak
    first = np.flatnonzero(idle & ~np.concatenate([[False], idle[:-1]]))
    last = np.flatnonzero(idle & ~np.concatenate([idle[1:], [False]]))
    ends = np.append(use.time_s, use.time_s[-1:])
    for low, high in zip(use.time_s[first], ends[last + 1], strict=True):
        waiting = (history.ready_s <= low + WAITED_S) & (history.start_s >= high - 60)
        if high - low >= SHORTEST_STOP_S and waiting.sum() >= FEWEST_WAITING:
            yield (float(low), float(high)), waiting


def _with_room(history: Happened, room: FreeRoom, slow: Sequence[SlowStretch], seed: int) -> Iterator[SiteFact]:
    """Measure which share of all waiting for GPUs happened while as many as the job wanted were free."""
    wait = np.where(history.size > 0, history.start_s - history.ready_s, 0.0)
    if not (wait > 0).any():
        return
    rows = np.flatnonzero(wait > 0)
    rng = np.random.default_rng(seed)
    drawn = rows[rng.choice(len(rows), min(_SAMPLE, 4 * len(rows)), p=wait[rows] / wait[rows].sum())]
    moment = history.ready_s[drawn] + rng.random(len(drawn)) * wait[drawn]
    roomy = room.at(moment, drawn) >= history.size[drawn]
    share = float(np.mean(roomy))
    if share > 0.3:
        told = f"in {percent(share)} of all time waited as many GPUs were free as the job wanted"
        inside = (
            np.any([one.inside(moment) & (room.kind[drawn] == one.kind) for one in slow], axis=0) if slow else roomy
        )
        within = float(np.mean(inside[roomy]))
        where = f" ({percent(within)} of that in the stretches in which starts nearly stopped)" if slow else ""
        yield SiteFact("waiting with room", f"{told}{where}: something other than GPUs held jobs back")


def queue_of(ready_s: Floats, start_s: Floats) -> Steps:
    """Return how many jobs wait over time."""
    return Steps.of(ready_s, start_s, np.ones(len(ready_s), dtype=np.int64))

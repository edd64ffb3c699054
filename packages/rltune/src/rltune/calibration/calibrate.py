"""Replay a history under the site's own policy, and say how far that is from what happened, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rltune.calibration.causes import find_causes
from rltune.calibration.closeness import Nearness, distance
from rltune.calibration.cluster_file import dated, not_told_twice, taken_over
from rltune.calibration.finding import SiteFact
from rltune.calibration.free_room import FreeRoom
from rltune.calibration.history import Happened
from rltune.calibration.node_use import find_nodes, held_beside_room
from rltune.calibration.seen_limits import find_limits
from rltune.calibration.slow_starts import slow_stretches
from rltune.calibration.weights import HIDDEN, find_weights
from rltune.cluster import Cluster
from rltune.engine.parse_pipeline import read_pipeline
from rltune.engine.pipeline import Pipeline
from rltune.engine.run import run_pipeline
from rltune.errors import InputError
from rltune.estimate import get_estimator, sites_estimator
from rltune.jobs import Floats, Jobs
from rltune.schedule import Schedule
from rltune.trials.groups import Groups
from rltune.trials.shares import BY_KIND
from rltune.trials.site_pipeline import site_pipeline

OTHERS = ("fcfs + easy", "multifactor + easy")  # also replayed if nothing says what the site has
MUCH_NEARER = 0.1  # of `distance`
MOST_ROWS = 12
Told = Callable[[str], None]


@dataclass(frozen=True)
class GroupRow:
    """The mean waits of one group of jobs."""

    name: str
    jobs: int
    recorded_s: float
    simulated_s: float
    with_lines_s: float = np.nan  # in the replay with all that was found; NaN if nothing can be taken over


@dataclass(frozen=True)
class Calibration:
    """A replay beside what happened, what was found, and the replay with all of it taken over."""

    history: Happened
    cluster: Cluster
    pipeline: str
    chosen: str  # how the pipeline was chosen, in words
    estimator: str
    start_s: Floats  # of the jobs of the history in the replay
    close: Nearness
    findings: tuple[SiteFact, ...]
    after_pipeline: str
    after: Nearness | None  # with all that was found; None if nothing can be taken over
    groups: dict[str, tuple[GroupRow, ...]]
    after_start_s: Floats | None = None  # of the jobs of the history in that replay
    cut: dict[str, int] = field(default_factory=dict)  # of kinds of which not all groups are told, how many there are
    origin_s: float | None = None  # the clock at time 0, in seconds since 1970


def calibrate(
    jobs: Jobs,
    cluster: Cluster,
    pipeline: str | None = None,
    estimator: str | None = None,
    seed: int = 0,
    progress: Told | None = None,
    *,
    origin_s: float | None = None,
) -> Calibration:
    """Replay a history and compare it with what it records.

    Args:
        jobs: The history; starts must be recorded.
        cluster: The machine; its file may name the scheduler.
        pipeline: What ran, as "multifactor + easy"; by the cluster's file, or else what `tune` takes, if not told.
        estimator: What is known of run times; the limits asked, if most jobs have one, else "history".
        seed: For what is drawn.
        progress: Called with what is being done.
        origin_s: The clock at the history's time 0, in seconds since 1970, so that waits can be told by the hour of
            the day and maintenance by its date; they are not if it is not known.

    Returns the calibration: what the replay is good for, by which evidence, and what was found.
    """
    tell = progress or (lambda _: None)
    rows = np.flatnonzero(jobs.recorded_start_s >= jobs.submit_s)
    if not len(rows):
        raise InputError("no starts are recorded in this history, so there is nothing to calibrate by")
    ready = jobs.from_when_ready()
    history = Happened.of(ready)
    guess = get_estimator(estimator or sites_estimator(jobs))

    def replay(on: Cluster, how: Pipeline) -> tuple[Schedule, Nearness]:
        tell(f"replaying under {how.label}")
        made = run_pipeline(ready, on, how, guess)
        return made, Nearness.of(history, made.start_s[rows], float(made.rejected.mean()))

    how, chosen = _site(jobs, cluster, pipeline)
    schedule, close = replay(cluster, how)
    if pipeline is None and cluster.scheduler is None:
        others = [other for other in map(read_pipeline, OTHERS) if other.label != how.label]
        chosen += "".join(_nearer(other.label, close, replay(cluster, other)[1]) for other in others)
    tell("looking for causes")
    free = FreeRoom.of(history, cluster)
    limits, held = find_limits(history, free)
    beside_room = held | held_beside_room(history, cluster, seed)
    slow = slow_stretches(history, free, held, schedule.start_s[rows])
    found = [
        *find_causes(history, jobs.take(rows), cluster, schedule, seed, free=free, slow=slow, origin_s=origin_s),
        *find_nodes(history, cluster, beside_room, [(one.begin_s, one.end_s, free.pools[one.kind]) for one in slow]),
        *limits,
    ]
    tell("fitting weights")
    found += _weights(history, (held, beside_room), seed, known=cluster.scheduler is not None)
    found = [dated(not_told_twice(one, cluster), origin_s) for one in found]
    after_pipeline, after, after_start = how.label, None, None
    if any(one.toml for one in found):
        better = taken_over(cluster, found)
        then = how if pipeline is not None and better.scheduler is None else site_pipeline(jobs, better)[0]
        again, after = replay(better, then)
        after_pipeline, after_start = then.label, again.start_s[rows]
    start = schedule.start_s[rows]
    groups, cut = _groups(history, start, after_start, origin_s)
    return Calibration(
        history, cluster, how.label, chosen, guess.name, start, close, tuple(found), after_pipeline, after,
        groups, after_start, cut, origin_s,
    )  # fmt: skip


def _weights(history: Happened, held: Sequence[NDArray[np.bool_]], seed: int, *, known: bool) -> list[SiteFact]:
    """Fit weights without the jobs that limits held; if they explain too little, without all that something held."""
    made = [find_weights(history, who, seed, known=known) for who in held]
    return next((facts for facts in made if all(one.cause != HIDDEN for one in facts)), made[0])


def _site(jobs: Jobs, cluster: Cluster, pipeline: str | None) -> tuple[Pipeline, str]:
    return site_pipeline(jobs, cluster) if pipeline is None else (read_pipeline(pipeline), "as told")


def _nearer(label: str, close: Nearness, other: Nearness) -> str:
    """Return that another pipeline comes nearer to what happened than the one that is taken, if it does by far."""
    if distance(other) > distance(close) - MUCH_NEARER:
        return ""
    return f"; {label} is nearer to what happened: if you have that, say so (--pipeline, or [scheduler] in the file)"


def _groups(
    history: Happened, start_s: Floats, after_s: Floats | None, origin_s: float | None
) -> tuple[dict[str, tuple[GroupRow, ...]], dict[str, int]]:
    """Return the rows by kind, and of the kinds with too many groups how many there are.

    Sizes and hours stand in their order, all others by who waited longest in all.
    """
    jobs = history.jobs
    hour = ((jobs.submit_s + (origin_s or 0.0)) // 3600).astype(np.int64) % 24
    hours = Groups(tuple(f"{h:02d}" for h in range(24)), hour if origin_s is not None else np.full(len(history), -1))
    nothing = np.full(len(history), np.nan)
    waits = [start - history.ready_s for start in (history.start_s, start_s, nothing if after_s is None else after_s)]
    rows = {name: _rows(groups_of(jobs), waits) for name, groups_of in BY_KIND.items()}
    longest = {n: sorted(of, key=lambda r: -r.recorded_s * r.jobs)[:MOST_ROWS] for n, of in rows.items() if n != "size"}
    few = {**rows, **{name: tuple(some) for name, some in longest.items()}, "hour": _rows(hours, waits)}
    return few, {name: len(of) for name, of in rows.items() if len(of) > len(few[name])}


def _rows(groups: Groups, waits: Sequence[Floats]) -> tuple[GroupRow, ...]:
    """Return the mean waits of each group that has jobs."""
    known = (groups.of_job >= 0) & ~np.isnan(waits[1])
    codes = groups.of_job[known]
    count = np.bincount(codes, minlength=len(groups.names))
    sums = [np.bincount(codes, wait[known], minlength=len(groups.names)) for wait in waits]
    return tuple(
        GroupRow(groups.names[i], int(count[i]), *(float(total[i] / count[i]) for total in sums))
        for i in np.flatnonzero(count).tolist()
    )

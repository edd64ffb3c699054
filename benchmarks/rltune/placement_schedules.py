"""What the schedules of placements are worth at an unchanged order, on parts of traces that keep apart."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from rltune.cluster import Cluster, Slowdown
from rltune.engine.pipeline import Pipeline
from rltune.jobs import Jobs
from rltune.metrics import summarise
from rltune.parallel import spread_over
from rltune.placement.placers import get_placement
from rltune.trace import read_trace, synthesise
from rltune.trials.contention import fcfs_wait_s, is_contended
from rltune.trials.intervals import Course, over_time, ratio
from rltune.trials.measures import metric_of
from rltune.trials.parts import Part
from rltune.trials.pipelines import line_up
from rltune.trials.trial import Trial

METRICS = ("wait", "large-wait", "utilisation", "fragmentation")
POLICIES = ("fcfs", "sjf", "saf")
BACKFILLS = ("none", "fit-first", "easy")
BASE, OURS = "best-fit", "milp:8"
TRAIN_SHARE = 0.8  # of the time of a real trace; what was looked at of the rest is in docs/results/placement.md
CONTENDED_S = 600.0  # windows in which FCFS waits so long on average
LOOKED_AT = 4  # windows for each that is run


@dataclass(frozen=True)
class Workload:
    """A trace, a cluster, and the rows that windows are taken from; what learns may know all rows before."""

    trace: str
    jobs: Jobs
    cluster: Cluster
    rows: tuple[int, int] = field(default=(0, 0))

    @property
    def about(self) -> dict[str, Any]:
        return {"trace": self.trace, "extra_node": self.cluster.slowdown.extra_node}


def synthetic(kind: str, jobs: int, seed: int) -> Workload:
    cluster = Cluster.preset(f"{kind}-slice")
    made = synthesise(kind, jobs, seed=seed, cluster=cluster, load=0.9)
    return Workload(f"{kind}-like", made, cluster, (0, len(made)))


def real(kind: str, path: Path, part: str) -> Workload:
    """Return the first 80 % of a trace's time, or the rest."""
    jobs = read_trace(path)
    jobs = jobs.take(np.argsort(jobs.submit_s, kind="stable"))
    first, last = jobs.submit_s[0], jobs.submit_s[-1]
    cut = int(np.searchsorted(jobs.submit_s, first + TRAIN_SHARE * (last - first)))
    rows = (0, cut) if part == "train" else (cut, len(jobs))
    return Workload(kind, jobs, Cluster.preset(f"{kind}-slice"), rows)


def workloads(part: str, kinds: list[str], files: dict[str, Path], windows: int, size: int) -> Iterator[Workload]:
    """Return synthetic traces, of other seeds for the other part, and the real ones that there are."""
    for kind in kinds:
        yield synthetic(kind, 2 * LOOKED_AT * windows * size, seed=1 if part == "train" else 2)
    for kind, path in files.items():
        yield real(kind, path, part)


def schedules(
    part: str,
    kinds: list[str],
    files: dict[str, Path],
    estimators: list[str],
    placements: list[str],
    windows: int,
    size: int,
    workers: int,
    change: Callable[[Cluster], Cluster] = lambda cluster: cluster,
) -> Iterator[dict[str, Any]]:
    print(f"\nSchedules, {part}: mean wait against {BASE} at the same order, {windows} windows of {size:,} jobs")
    for work in workloads(part, kinds, files, windows, size):
        changed = replace(work, cluster=change(work.cluster))
        for estimator in estimators:
            for row in cells(changed, estimator, placements, windows, size, workers):
                print(_line(row), flush=True)
                yield {"part": part, **row}


def slower(extra_node: float) -> Callable[[Cluster], Cluster]:
    """Let a node more cost something."""
    return lambda cluster: replace(cluster, slowdown=Slowdown(extra_node=extra_node))


def in_racks(nodes: int, extra_rack: float) -> Callable[[Cluster], Cluster]:
    """Put so many nodes in a rack, and let a rack more cost something."""

    def change(cluster: Cluster) -> Cluster:
        groups = tuple(group.model_copy(update={"nodes_per_rack": nodes}) for group in cluster.groups)
        return replace(cluster, groups=groups, slowdown=Slowdown(extra_rack=extra_rack))

    return change


@dataclass(frozen=True)
class Measured:
    """Called with the row at which a window starts: the metrics of every pipeline."""

    trial: Trial
    pipelines: tuple[Pipeline, ...]
    size: int

    def __call__(self, first: int) -> np.ndarray:
        made = (self.trial.run(pipeline, first, self.size) for pipeline in self.pipelines)
        return np.array([[metric_of(m).of(told) for m in METRICS] for told in map(summarise, made)])


def queues(work: Workload, first: int, size: int) -> bool:
    """Return whether jobs of a window wait."""
    return is_contended(fcfs_wait_s(work.jobs.window(first, size), work.cluster), CONTENDED_S)


def thinned(starts: list[int], count: int) -> list[int]:
    """Keep so many, evenly spaced."""
    if not starts:
        raise SystemExit("no window of this part is contended")
    return [starts[i] for i in np.unique(np.linspace(0, len(starts) - 1, count).round().astype(int))]


def cells(
    work: Workload, estimator: str, placements: list[str], windows: int, size: int, workers: int
) -> Iterator[dict[str, Any]]:
    """Run every policy, backfilling and placement, and give a row for each of the first two."""
    names = [BASE, *placements]
    pipelines = line_up(POLICIES, BACKFILLS, names)
    part = Part("", *work.rows)
    every = max(1, (len(part) - size) // (LOOKED_AT * windows))
    grid = part.starts(size, every)
    starts = thinned([first for first in grid if queues(work, first, size)], windows)
    begin = perf_counter()
    with spread_over(workers) as spread:
        values = np.array(
            spread.map(Measured(Trial(work.jobs, work.cluster, estimator), pipelines, size), starts)
        )  # [window, pipeline, metric]
    seconds = perf_counter() - begin
    steps = (np.array(starts) - part.first) // every
    course = Course(steps, len(grid), max(size // every, 1), part.disjoint(starts, size))
    for at in range(0, len(pipelines), len(names)):
        who = pipelines[at]
        yield {
            **work.about,
            "estimator": estimator,
            "policy": who.policy_name,
            "backfill": who.backfill,
            "windows": len(starts),
            "disjoint": course.disjoint,
            "auto": get_placement("auto").placer(work.jobs, work.cluster, who.backfill).name,
            "placements": {n: against(values[:, at + i], values[:, at], course) for i, n in enumerate(names)},
            "seconds": round(seconds / len(pipelines) * len(names), 1),
        }


def against(ours: np.ndarray, theirs: np.ndarray, course: Course) -> dict[str, Any]:
    """Return every metric with its ratio to best fit's and the interval."""
    told: dict[str, Any] = {"better_in": int((ours[:, 0] < theirs[:, 0]).sum())}
    for m, metric in enumerate(METRICS):
        interval = over_time(ours[:, m], theirs[:, m], course, ratio, confidence=0.95, resamples=5000, seed=0)
        told[metric] = {
            "value": float(ours[:, m].mean()),
            "change": [float(x - 1) for x in (interval.estimate, interval.low, interval.high)],
        }
    return told


def _line(row: dict[str, Any]) -> str:
    told = ", ".join(
        f"{name} {percent(cell['wait']['change'])}" for name, cell in row["placements"].items() if name != BASE
    )
    cell = f"{row['trace']}, {row['estimator']}, {row['policy']} + {row['backfill']}"
    return f"{cell:48} {told} (auto: {row['auto']}; {row['seconds']} s)"


def percent(change: list[float]) -> str:
    middle, low, high = change
    return f"{middle:+.1%} [{low:+.1%}, {high:+.1%}]"

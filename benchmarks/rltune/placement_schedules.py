"""What the schedules of placements are worth at an unchanged order, on parts of traces that keep apart."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from rltune.cluster import Cluster, Slowdown
from rltune.evaluate import WindowSpec
from rltune.evaluate.bootstrap import over_windows, ratio
from rltune.evaluate.compare import line_up, warmable
from rltune.evaluate.metric import metric_of
from rltune.evaluate.runs import Bench, Run, perform
from rltune.evaluate.windows import Window, choose_windows
from rltune.jobs import Jobs
from rltune.placement.registry import get_placer
from rltune.trace import read_trace, synthesise

METRICS = ("wait", "large-wait", "utilisation", "fragmentation")
POLICIES = ("fcfs", "sjf", "saf")
BACKFILLS = ("none", "fit-first", "easy")
BASE, OURS = "best-fit", "milp:8"
TRAIN_SHARE = 0.8  # of the time of a real trace; what `auto` does was chosen on it
CONTENDED_S = 600.0  # windows in which FCFS waits so long on average
SYNTHETIC = ("philly", "helios", "pai")


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
    """Give the first 80 % of a trace's time, or the rest."""
    jobs = read_trace(path)
    jobs = jobs.take(np.argsort(jobs.submit_s, kind="stable"))
    first, last = jobs.submit_s[0], jobs.submit_s[-1]
    cut = int(np.searchsorted(jobs.submit_s, first + TRAIN_SHARE * (last - first)))
    rows = (0, cut) if part == "train" else (cut, len(jobs))
    return Workload(kind, jobs, Cluster.preset(f"{kind}-slice"), rows)


def workloads(part: str, files: dict[str, Path], windows: int, size: int) -> Iterator[Workload]:
    """Give synthetic traces, of other seeds for the other part, and the real ones that there are."""
    for kind in SYNTHETIC:
        yield synthetic(kind, 8 * windows * size, seed=1 if part == "train" else 2)
    for kind, path in files.items():
        yield real(kind, path, part)


def schedules(
    part: str,
    files: dict[str, Path],
    estimators: list[str],
    placements: list[str],
    windows: int,
    size: int,
    workers: int,
    slow: float = 1.0,
) -> list[dict[str, Any]]:
    print(f"\nSchedules, {part}: mean wait against {BASE} at the same order, {windows} windows of {size:,} jobs")
    rows: list[dict[str, Any]] = []
    for work in workloads(part, files, windows, size):
        slowed = Cluster(work.cluster.groups, work.cluster.name, slowdown=Slowdown(extra_node=slow))
        one = Workload(work.trace, work.jobs, slowed, work.rows)
        chosen = contended(one, WindowSpec(windows, size, min_wait_s=CONTENDED_S))
        for estimator in estimators:
            for row in cells(one, chosen, estimator, placements, workers):
                rows.append({"part": part, **row})
                print(_line(rows[-1]), flush=True)
    return rows


def contended(work: Workload, spec: WindowSpec) -> tuple[Window, ...]:
    """Choose windows of the part, apart from one another."""
    first, last = work.rows
    bench = Bench(work.jobs, work.cluster, (), (), {})

    def fcfs_wait_s(window: Window) -> float:
        made = bench.simulate(Window(first + window.first, window.count), policy="fcfs")
        return float(made.wait_s[made.ran].mean()) if made.ran.any() else 0.0

    chosen, _ = choose_windows(work.jobs.window(first, last - first), spec, fcfs_wait_s)
    return tuple(Window(first + w.first, w.count) for w in chosen)


def cells(
    work: Workload, windows: tuple[Window, ...], estimator: Any, placements: list[str], workers: int
) -> Iterator[dict[str, Any]]:
    """Run every policy, backfilling and placement, and give a row for each of the first two."""
    names = [BASE, *placements]
    contenders = line_up(POLICIES, BACKFILLS, names)
    warm = estimator == "history"
    if warm:
        contenders, estimator, _ = warmable(contenders, estimator, WindowSpec(1, 1))
    begin = perf_counter()
    bench = Bench(work.jobs, work.cluster, windows, contenders, {"estimator": estimator}, warm=warm)
    tasks = [(w, c) for w in range(len(windows)) for c in range(len(contenders))]
    runs = {(r.window, r.contender): r for r in perform(bench, tasks, workers)}
    seconds = perf_counter() - begin
    name = estimator if isinstance(estimator, str) else estimator.name
    for at in range(0, len(contenders), len(names)):
        who = contenders[at]
        auto = get_placer("auto", work.jobs, work.cluster, who.backfill).name
        table = [[runs[w, at + i] for w in range(len(windows))] for i in range(len(names))]
        yield {
            **work.about,
            "estimator": name,
            "policy": who.policy_name,
            "backfill": who.backfill,
            "windows": len(windows),
            "auto": auto,
            "placements": {n: against(ours, table[0]) for n, ours in zip(names, table, strict=True)},
            "seconds": round(seconds / len(contenders) * len(names), 1),
        }


def against(ours: list[Run], theirs: list[Run]) -> dict[str, Any]:
    """Give every metric with its ratio to best fit's and the interval over windows."""
    told: dict[str, Any] = {}
    for metric in METRICS:
        a, b = (np.array([metric_of(metric).of(r.summary) for r in runs]) for runs in (ours, theirs))
        interval = over_windows(a, b, ratio, confidence=0.95, resamples=5000, seed=0)
        told[metric] = {
            "value": float(a.mean()),
            "change": [float(x - 1) for x in (interval.estimate, interval.low, interval.high)],
        }
        if metric == "wait":
            told["better_in"] = int((a < b).sum())
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

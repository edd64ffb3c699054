"""Is a policy safe anywhere? Ratios to the best rule in hindsight, workload by workload.

python benchmarks/rltune/safe.py --traces DIR [--minutes 9] [--only NAME,NAME]

The workloads stand in safe_workloads.toml, which was there before the policy. A cell is a workload with an estimator, a
backfilling and a metric, and has at least 10 disjoint windows in which jobs queue. The first 60 % of each workload are
history, as is all that comes before a window. What has been run is kept in a folder, so that the command may be ended
and started again; it writes docs/results/safe.md from what is there. Two quiet cores: about half an hour.
"""

import argparse
import json
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rltune.cluster import Cluster, NodeGroup
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.jobs import Jobs
from rltune.trace import load, synthesise
from rltune.trials.contention import fcfs_wait_s
from rltune.trials.intervals import Interval, over_windows, ratio
from rltune.trials.measures import MEASURED, measures_of
from rltune.trials.trial import Trial

LIST = Path(__file__).with_name("safe_workloads.toml")
HISTORY = 0.6  # of the jobs come before the windows that count
FEWEST, MOST = 10, 10  # windows of a cell
CALM_S = (600.0, 60.0, 0.0)  # a window counts if FCFS waits longer; the first of these under which there are enough
ABOVE = 1.05  # no interval may lie wholly above
OURS = {"wait": "portfolio", "slowdown": "portfolio:slowdown"}
LEARNED = "learned"
SLOW = "predicted"  # is run last
BEGIN, END = "<!-- made by benchmarks/rltune/safe.py: begin -->", "<!-- end -->"


@dataclass(frozen=True)
class Workload:
    """One entry of the list."""

    name: str
    trace: str
    cluster: str
    size: int
    estimators: tuple[str, ...]
    jobs: int = 0
    seed: int = 0
    load: float | None = None

    def machine(self) -> Cluster:
        """Return the cluster: a preset, or nodes x GPUs."""
        if self.cluster in Cluster.presets():
            return Cluster.load(self.cluster)
        kinds = [tuple(map(int, kind.split("x"))) for kind in self.cluster.split("+")]
        return Cluster(groups=tuple(NodeGroup(count=nodes, gpus=gpus) for nodes, gpus in kinds))

    def read(self, folder: Path) -> Jobs:
        """Return the jobs in order of submit, at the load that is asked."""
        machine = self.machine()
        if self.trace.startswith("synth:"):
            return synthesise(self.trace.removeprefix("synth:"), self.jobs, self.seed, self.load, machine).sorted()
        jobs = load(next(iter(sorted(folder.rglob(self.trace))))).jobs.sorted()
        jobs = jobs.take(np.arange(max(0, len(jobs) - self.jobs) if self.jobs else 0, len(jobs)))
        if not jobs.gpus.any():
            asked = np.nan_to_num(jobs.cpus, nan=1.0).astype(np.int64)
            jobs = jobs.with_columns(gpus=asked, cpus=np.full(len(jobs), np.nan))
        return jobs if self.load is None else at_load(jobs, machine.gpu_count, self.load)


def at_load(jobs: Jobs, gpus: int, load: float) -> Jobs:
    """Stretch the time between submissions, and not recorded waits: so much GPU time is asked of what there is."""
    fits = jobs.gpus <= gpus
    span = float(jobs.submit_s[-1] - jobs.submit_s[0])
    stretch = float((jobs.gpus * jobs.duration_s)[fits].sum()) / (gpus * load) / span
    submit = jobs.submit_s[0] + (jobs.submit_s - jobs.submit_s[0]) * stretch
    return jobs.with_columns(submit_s=submit, recorded_start_s=submit + (jobs.recorded_start_s - jobs.submit_s))


def read_list(path: Path = LIST) -> tuple[dict, list[Workload]]:
    """Return what holds for all workloads, and the workloads."""
    whole = tomllib.loads(path.read_text())
    entries = whole.pop("workload")
    common = tuple(whole["estimators"])
    made = [Workload(**{**entry, "estimators": (*common, *entry.get("estimators", ()))}) for entry in entries]
    return whole, made


def contended(jobs: Jobs, machine: Cluster, size: int) -> list[int]:
    """Return where the windows that count start, evenly spread if there are many."""
    starts = range(-(-int(HISTORY * len(jobs)) // size) * size, len(jobs) - size + 1, size)
    waits = {first: fcfs_wait_s(jobs.window(first, size), machine) for first in starts}
    for calm in CALM_S:
        found = [first for first, wait in waits.items() if wait > calm]
        if len(found) >= FEWEST:
            break
    if len(found) < FEWEST:
        raise SystemExit(f"only {len(found)} windows have a queue")
    return [found[i] for i in np.unique(np.linspace(0, len(found) - 1, MOST).round().astype(int))]


def run_timed(work: Workload, estimator: str, folder: Path, common: dict) -> dict:
    """Run a workload with an estimator, and say how long that took."""
    begin, jobs = time.monotonic(), work.read(folder)
    made = run(work, jobs, estimator, contended(jobs, work.machine(), work.size), common)
    print(work.name, estimator, f"{time.monotonic() - begin:.1f} s", flush=True)
    return made


def run(work: Workload, jobs: Jobs, estimator: str, windows: list[int], common: dict) -> dict:
    """Return what every policy made of every window under every backfilling: by metric, and what portfolios took."""
    trial, found = Trial(jobs, work.machine(), estimator), {}
    policies = [*common["rules"], LEARNED]
    columns = [MEASURED.index(metric) for metric in common["metrics"]]
    for backfill in common["backfills"]:
        pipelines = [parse_pipeline(policy, backfill) for policy in policies]
        ours = [parse_pipeline(OURS[metric], backfill) for metric in common["metrics"]]
        values, taken = [], []
        for first in windows:
            settled = [trial.settled(pipeline, first, work.size).policy.name for pipeline in ours]
            taken.append([name.partition("=")[2] for name in settled])
            values.append([measures_of(trial.run(p, first, work.size))[columns].tolist() for p in pipelines])
        found[backfill] = {"values": values, "taken": taken}
    return {"policies": policies, "windows": windows, "backfills": found}


@dataclass(frozen=True)
class Cell:
    """One line of one table: what a portfolio and the shipped network have of the best rule in hindsight."""

    workload: str
    estimator: str
    backfill: str
    metric: str
    best: str  # rule in hindsight
    portfolio: Interval
    learned: Interval
    means: dict[str, float]  # by policy
    taken: tuple[str, ...]

    def is_unsafe(self, who: Interval) -> bool:
        """Return whether an interval lies wholly above the bar."""
        return bool(who.low > ABOVE)


def cells_of(name: str, estimator: str, found: dict, common: dict) -> list[Cell]:
    """Return the cells of a workload with an estimator."""
    made = []
    for backfill, kept in found["backfills"].items():
        values = np.array(kept["values"])  # [window, policy, metric]
        for column, metric in enumerate(common["metrics"]):
            of = {policy: values[:, i, column] for i, policy in enumerate(found["policies"])}
            taken = tuple(t[column] for t in kept["taken"])
            # a portfolio's schedule is that of what it takes, which has been run
            of[OURS[metric]] = np.array([of[policy][i] for i, policy in enumerate(taken)])
            best = min(common["rules"], key=lambda rule: of[rule].mean())
            who = [over_windows(of[p], of[best], ratio, confidence=0.95) for p in (OURS[metric], LEARNED)]
            means = {policy: float(v.mean()) for policy, v in of.items()}
            made.append(Cell(name, estimator, backfill, metric, best, *who, means, taken))
    return made


def gmean(values: Iterable[float]) -> float:
    """Return the geometric mean of ratios."""
    return float(np.exp(np.mean(np.log(list(values)))))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lay out a table in markdown."""
    return [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows)]


def told(found: Interval) -> str:
    """Write a ratio with its interval."""
    return f"{found.estimate:.2f} [{found.low:.2f}, {found.high:.2f}]"


def standing(cells: Sequence[Cell], of: Callable[[Cell], Interval]) -> list[str]:
    """Return how one policy stands over some cells: the middle, the worst, and how many it is unsafe in."""
    worst = max(cells, key=lambda cell: of(cell).estimate)
    unsafe = sum(cell.is_unsafe(of(cell)) for cell in cells)
    return [f"{gmean(of(c).estimate for c in cells):.3f}", told(of(worst)), str(unsafe)]


def of_rule(cell: Cell, rule: str) -> float:
    """Return a rule's mean over that of the best rule in hindsight."""
    return cell.means[rule] / cell.means[cell.best]


def page(cells: Sequence[Cell], common: dict, missing: int) -> list[str]:
    """Return the tables."""
    ours, theirs = (lambda c: c.portfolio), (lambda c: c.learned)
    rules = {rule: gmean(of_rule(c, rule) for c in cells) for rule in common["rules"]}
    single = min(rules, key=rules.__getitem__)
    workloads = list(dict.fromkeys(c.workload for c in cells))
    left = f" {missing} pairs of workload and estimator were not run." if missing else ""
    lines = [f"{len(cells)} cells of {len(workloads)} workloads, {FEWEST} windows each.{left}", ""]
    heads = ["over all cells", "ratio to the best rule in hindsight", "worst cell", f"wholly above {ABOVE}"]
    rows = [["portfolio", *standing(cells, ours)], ["`learned`, as shipped", *standing(cells, theirs)]]
    rows += [
        [f"`{rule}` always", f"{rules[rule]:.3f}", f"{max(of_rule(c, rule) for c in cells):.2f}", ""]
        for rule in sorted(rules, key=rules.__getitem__)
    ]
    lines += table(heads, rows)
    against = gmean(c.portfolio.estimate / of_rule(c, single) for c in cells)
    lines += ["", f"The portfolio has {against:.3f} of `{single}`, the best single rule, in the geometric mean.", ""]
    parts = [("workload", workloads, lambda c: c.workload)]
    parts += [(what, common[f"{what}s"], lambda c, what=what: getattr(c, what)) for what in ("backfill", "metric")]
    parts += [("estimator", list(dict.fromkeys(c.estimator for c in cells)), lambda c: c.estimator)]
    for what, names, part in parts:
        lines += [*by_part(what, names, [[c for c in cells if part(c) == name] for name in names], single), ""]
    bad = sorted((c for c in cells if c.portfolio.estimate > ABOVE), key=lambda c: -c.portfolio.estimate)
    lines += [f"Cells in which the portfolio's ratio is above {ABOVE} ({len(bad)}), whatever the interval:", ""]
    lines += table(["workload", "estimator", "backfilling", "metric", "portfolio", "took", "best"], map(row_of, bad))
    return lines


def by_part(what: str, names: Sequence[str], groups: Sequence[Sequence[Cell]], single: str) -> list[str]:
    """Lay out how both stand by one part of a cell."""
    heads = [
        what,
        "cells",
        "portfolio",
        "worst",
        "above",
        "learned",
        "worst",
        "above",
        f"`{single}`",
        "best most often",
    ]
    rows = []
    for name, cells in zip(names, groups, strict=True):
        most, _ = Counter(c.best for c in cells).most_common(1)[0]
        sides = [*standing(cells, lambda c: c.portfolio), *standing(cells, lambda c: c.learned)]
        rows.append([name, str(len(cells)), *sides, f"{gmean(of_rule(c, single) for c in cells):.3f}", most])
    return table(heads, rows)


def row_of(cell: Cell) -> list[str]:
    """Return one cell as a row."""
    took = ", ".join(f"{name} {count}" for name, count in Counter(cell.taken).most_common())
    return [cell.workload, cell.estimator, cell.backfill, cell.metric, told(cell.portfolio), took, cell.best]


def write_page(path: Path, lines: Sequence[str]) -> None:
    """Put the tables between the marks of the page."""
    before, _, rest = path.read_text().partition(BEGIN)
    path.write_text(before + BEGIN + "\n\n" + "\n".join(lines) + "\n\n" + END + rest.partition(END)[2])


def main() -> None:
    """Run what is missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True, help="the folder of the public traces")
    parser.add_argument("--only", default="", help="workloads, with commas")
    parser.add_argument("--estimators", default="", help="with commas; all if not told")
    parser.add_argument("--kept", type=Path, default=Path("out/safe"), help="where runs are kept")
    parser.add_argument("--minutes", type=float, default=np.inf, help="after which nothing new is begun")
    parser.add_argument("--page", type=Path, default=Path("docs/results/safe.md"))
    given = parser.parse_args()
    common, workloads = read_list()
    begin = time.monotonic()
    given.kept.mkdir(parents=True, exist_ok=True)
    wanted = [w for w in workloads if not given.only or w.name in given.only.split(",")]
    names = (
        given.estimators.split(",")
        if given.estimators
        else list(dict.fromkeys(e for w in wanted for e in w.estimators))
    )
    for estimator in sorted(names, key=lambda name: name == SLOW):
        for work in wanted:
            file = given.kept / f"{work.name}+{estimator}.json"
            if estimator in work.estimators and not file.exists() and time.monotonic() - begin < 60 * given.minutes:
                file.write_text(json.dumps(run_timed(work, estimator, given.traces, common)))
    pairs = [(w.name, e, given.kept / f"{w.name}+{e}.json") for w in workloads for e in w.estimators]
    there = [(name, e, json.loads(file.read_text())) for name, e, file in pairs if file.exists()]
    cells = [cell for name, e, found in there for cell in cells_of(name, e, found, common)]
    if cells:
        write_page(given.page, page(cells, common, len(pairs) - len(there)))


if __name__ == "__main__":
    main()

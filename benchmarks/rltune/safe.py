"""Is a policy safe anywhere? Ratios to the best rule in hindsight, workload by workload.

python benchmarks/rltune/safe.py --traces DIR [--minutes 9] [--only NAME] [--estimator NAME] [--part 1/2]

The workloads stand in safe_workloads.toml, which was there before the policy. A cell is a workload with an estimator, a
backfilling and a metric, and has at least 10 disjoint windows in which jobs queue. The first 60 % of each workload are
history, as is all that comes before a window. What has been run is kept in a folder, so that the command may be ended
and started again; it writes docs/results/safe.md from what is there. One quiet core: about half an hour for all but the
estimators `last2` and `predicted`; `--part 1/2` and `--part 2/2` share the workloads between two.
"""

import argparse
import json
import textwrap
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rltune.cluster import Cluster, NodeGroup
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.errors import InputError
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
PORTFOLIO = "portfolio"
OURS = {"wait": PORTFOLIO, "slowdown": "portfolio:slowdown"}
NETWORKS = ("learned:anywhere", "learned:mixed")
WHO = (PORTFOLIO, *NETWORKS)
NEW = ("gaia", "openb", "ctc-sp2", "hpc2n", "lublin-256")  # families of which `learned:anywhere` has seen nothing
MOST_LISTED = 25  # cells of one table
SLOW = ("last2", "predicted")  # are run last
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


@dataclass
class Readings:
    """The jobs of the workload that was read last, with its windows: every estimator asks for both."""

    folder: Path
    name: str = ""

    def of(self, work: Workload) -> tuple[Jobs, list[int]]:
        """Return a workload's jobs and where its windows start."""
        if work.name != self.name:
            self.name, jobs = work.name, work.read(self.folder)
            self._found = jobs, contended(jobs, work.machine(), work.size)
        return self._found


def run_timed(work: Workload, estimator: str, readings: Readings, common: dict) -> dict:
    """Run a workload with an estimator, and say how long that took."""
    begin = time.monotonic()
    made = run(work, *readings.of(work), estimator, common)
    print(work.name, estimator, f"{time.monotonic() - begin:.1f} s", flush=True)
    return made


def run(work: Workload, jobs: Jobs, windows: list[int], estimator: str, common: dict) -> dict:
    """Return what every policy made of every window under every backfilling: by metric, and what portfolios took."""
    trial, found = Trial(jobs, work.machine(), estimator), {}
    policies = [*common["rules"], *NETWORKS]
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
    """One line of one table: what a portfolio and shipped networks have of the best rule in hindsight."""

    workload: str
    estimator: str
    backfill: str
    metric: str
    best: str  # rule in hindsight
    ratios: dict[str, Interval]  # of the portfolio and of each network
    means: dict[str, float]  # by policy
    taken: tuple[str, ...]

    def is_unsafe(self, who: str) -> bool:
        """Return whether a policy's interval lies wholly above the bar."""
        return bool(self.ratios[who].low > ABOVE)


def cells_of(name: str, estimator: str, found: dict, common: dict) -> list[Cell]:
    """Return the cells of a workload with an estimator."""
    made = []
    for backfill, kept in found["backfills"].items():
        values = np.array(kept["values"])  # [window, policy, metric]
        for column, metric in enumerate(common["metrics"]):
            of = {policy: values[:, i, column] for i, policy in enumerate(found["policies"])}
            taken = tuple(t[column] for t in kept["taken"])
            # a portfolio's schedule is that of what it takes, which has been run
            of[PORTFOLIO] = np.array([of[policy][i] for i, policy in enumerate(taken)])
            best = min(common["rules"], key=lambda rule: of[rule].mean())
            who = {p: over_windows(of[p], of[best], ratio, confidence=0.95) for p in (PORTFOLIO, *NETWORKS)}
            means = {policy: float(v.mean()) for policy, v in of.items()}
            made.append(Cell(name, estimator, backfill, metric, best, who, means, taken))
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


def standing(cells: Sequence[Cell], who: str) -> list[str]:
    """Return how one policy stands over some cells: the middle, the worst, and how many it is unsafe in."""
    worst = max((cell.ratios[who] for cell in cells), key=lambda found: found.estimate)
    unsafe = sum(cell.is_unsafe(who) for cell in cells)
    return [f"{gmean(c.ratios[who].estimate for c in cells):.3f}", told(worst), str(unsafe)]


def of_rule(cell: Cell, rule: str) -> float:
    """Return a rule's mean over that of the best rule in hindsight."""
    return cell.means[rule] / cell.means[cell.best]


def page(cells: Sequence[Cell], common: dict, missing: int) -> list[str]:
    """Return the tables."""
    rules = {rule: gmean(of_rule(c, rule) for c in cells) for rule in common["rules"]}
    single = min(rules, key=rules.__getitem__)
    workloads = list(dict.fromkeys(c.workload for c in cells))
    left = f" {missing} pairs of workload and estimator were not run." if missing else ""
    lines = [f"{len(cells)} cells of {len(workloads)} workloads, {FEWEST} windows each.{left}", ""]
    wholly = [f"wholly above {ABOVE}", "above 1", "below 1"]
    heads = ["over all cells", "ratio to the best rule in hindsight", "worst cell", *wholly, "estimate below 1"]
    rows = [
        [f"`{who}`", *standing(cells, who), *shown(cells, who), below(c.ratios[who].estimate for c in cells)]
        for who in WHO
    ]
    rows += [
        [
            f"`{rule}` always",
            f"{rules[rule]:.3f}",
            f"{max(of_rule(c, rule) for c in cells):.2f}",
            *[""] * (len(wholly) + 1),
        ]
        for rule in sorted(rules, key=rules.__getitem__)
    ]
    lines += [*table(heads, rows), "", *against_rule(cells, single), ""]
    parts = [("workload", workloads, lambda c: c.workload)]
    parts += [(what, common[f"{what}s"], lambda c, what=what: getattr(c, what)) for what in ("backfill", "metric")]
    parts += [("estimator", list(dict.fromkeys(c.estimator for c in cells)), lambda c: c.estimator)]
    families = ["seen", "new"]
    parts += [("family, to the network", families, lambda c: families[c.workload.startswith(NEW)])]
    for what, names, part in parts:
        groups = {name: [c for c in cells if part(c) == name] for name in names}
        there = {name: group for name, group in groups.items() if group}
        lines += [*by_part(what, list(there), list(there.values()), single), ""]
    for who in WHO:
        lines += [*worst_cells(cells, who), ""]
    return lines[:-1]


def shown(cells: Sequence[Cell], who: str) -> list[str]:
    """Return in how many cells an interval lies wholly above 1, and wholly below."""
    found = [cell.ratios[who] for cell in cells]
    return [str(sum(one.low > 1 for one in found)), str(sum(one.high < 1 for one in found))]


def below(ratios: Iterable[float]) -> str:
    """Return the share of cells in which a ratio is below 1."""
    found = np.array(list(ratios))
    return f"{(found < 1).mean():.0%}"


def against_rule(cells: Sequence[Cell], single: str) -> list[str]:
    """Return what each has of the single rule that is best over all cells."""
    shares = (f"`{who}` {gmean(c.ratios[who].estimate / of_rule(c, single) for c in cells):.3f}" for who in WHO)
    return [f"Of `{single}`, the best single rule over all cells, in the geometric mean: {', '.join(shares)}."]


def worst_cells(cells: Sequence[Cell], who: str) -> list[str]:
    """List the cells in which a policy's ratio is farthest above the bar, whatever the interval."""
    bad = sorted((c for c in cells if c.ratios[who].estimate > ABOVE), key=lambda c: -c.ratios[who].estimate)
    some = f", the worst {MOST_LISTED}" if len(bad) > MOST_LISTED else ""
    heads = ["workload", "estimator", "backfilling", "metric", "ratio", "took", "best"]
    rows = (row_of(cell, who) for cell in bad[:MOST_LISTED])
    return [f"Cells in which the ratio of `{who}` is above {ABOVE}: {len(bad)}{some}.", "", *table(heads, rows)]


def by_part(what: str, names: Sequence[str], groups: Sequence[Sequence[Cell]], single: str) -> list[str]:
    """Lay out how each stands by one part of a cell."""
    heads = [
        what,
        "cells",
        *(h for who in WHO for h in (f"`{who}`", "worst", "above")),
        f"`{single}`",
        "best most often",
    ]
    rows = []
    for name, cells in zip(names, groups, strict=True):
        most, _ = Counter(c.best for c in cells).most_common(1)[0]
        sides = [text for who in WHO for text in standing(cells, who)]
        rows.append([name, str(len(cells)), *sides, f"{gmean(of_rule(c, single) for c in cells):.3f}", most])
    return table(heads, rows)


def row_of(cell: Cell, who: str) -> list[str]:
    """Return one cell as a row."""
    took = ", ".join(f"{name} {count}" for name, count in Counter(cell.taken).most_common()) if who == PORTFOLIO else ""
    return [cell.workload, cell.estimator, cell.backfill, cell.metric, told(cell.ratios[who]), took, cell.best]


def write_page(path: Path, lines: Sequence[str]) -> None:
    """Put the tables between the marks of the page."""
    before, _, rest = path.read_text().partition(BEGIN)
    short = [line if line.startswith("|") else "\n".join(textwrap.wrap(line, 118)) for line in lines]
    path.write_text(before + BEGIN + "\n\n" + "\n".join(short) + "\n\n" + END + rest.partition(END)[2])


def main() -> None:
    """Run what is missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True, help="the folder of the public traces")
    parser.add_argument("--only", default="", help="one workload")
    parser.add_argument("--estimator", default="", help="one of them; all if not told")
    parser.add_argument("--part", default="1/1", help="of the workloads, for several processes: 1/2 and 2/2")
    parser.add_argument("--kept", type=Path, default=Path("out/safe"), help="where runs are kept")
    parser.add_argument("--minutes", type=float, default=np.inf, help="after which nothing new is begun")
    parser.add_argument("--page", type=Path, default=Path("docs/results/safe.md"))
    given = parser.parse_args()
    common, workloads = read_list()
    given.kept.mkdir(parents=True, exist_ok=True)
    run_missing(given, common, workloads)
    pairs = [(w.name, e, given.kept / f"{w.name}+{e}.json") for w in workloads for e in w.estimators]
    there = [(name, e, json.loads(file.read_text())) for name, e, file in pairs if file.exists()]
    cells = [cell for name, e, found in there if "refused" not in found for cell in cells_of(name, e, found, common)]
    if cells:
        refused = [f"{name} with {e}: {found['refused']}" for name, e, found in there if "refused" in found]
        write_page(
            given.page,
            [
                *page(cells, common, len(pairs) - len(there)),
                *(part for r in refused for part in ("", f"Not possible: {r}")),
            ],
        )


def run_missing(given: argparse.Namespace, common: dict, workloads: Sequence[Workload]) -> None:
    """Run what is asked for and is not kept, and begin nothing new when the time is over.

    In an order that is drawn once, slow estimators last: what has been run by then is a fair sample.
    """
    begin, readings = time.monotonic(), Readings(given.traces)
    turn, of = map(int, given.part.split("/"))
    pairs = [(w, e) for w in workloads for e in w.estimators]
    drawn = [pairs[i] for i in np.random.default_rng(0).permutation(len(pairs))][turn - 1 :: of]
    for work, estimator in sorted(drawn, key=lambda pair: pair[1] in SLOW):
        asked = given.only in ("", work.name) and given.estimator in ("", estimator)
        file = given.kept / f"{work.name}+{estimator}.json"
        if asked and not file.exists() and time.monotonic() - begin < 60 * given.minutes:
            try:
                made = run_timed(work, estimator, readings, common)
            except InputError as error:  # such as limits that nobody asked for
                made = {"refused": str(error)}
            file.write_text(json.dumps(made))


if __name__ == "__main__":
    main()

"""How much an order could still gain, and how much of it learned orders reach: exact run times, EASY, mean wait.

    python benchmarks/rltune/headroom.py --traces DIR --tries 1500

Three contended windows of the last tenth of each trace. The best of nine rules on these very windows is where a local
search begins that knows all run times and all arrivals: one job after the other is put before or behind another one in
the list of priorities, and stays there if the mean wait does not grow. It has not converged, so there is more. Reached
is the share of the way from the best rule to the search; below 0 an order is worse than the best rule.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rltune import Cluster, read_trace
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import run_pipeline
from rltune.estimate import Estimates, Oracle
from rltune.evaluation import evaluate
from rltune.opt_in import for_replay

TRACES = {
    "philly": ("philly/philly_jobs.csv.gz", "philly-slice"),
    "helios": ("helios/venus_gpu_jobs.csv.gz", "helios-slice"),
    "pai": ("alibaba_pai_2020/pai_tasks_sample.csv.gz", "pai-slice"),
}
RULES = ("saf", "sjf", "f1", "srf", "unicep", "wfp3", "qssf", "fcfs", "multifactor")
LEARNED = ("learned:anywhere", "learned:philly", "learned:philly-easy", "learned:helios-easy", "learned:pai")
SIZE = 1024
KEYS = {"saf": lambda jobs: jobs.gpus * jobs.duration_s, "sjf": lambda jobs: jobs.duration_s}


@dataclass(frozen=True)
class InOrder:
    """Exact run times for reservations, and places in a list for the order."""

    rank_s: np.ndarray
    name: str = "in-order"

    def estimate(self, jobs, seed):  # noqa: ARG002
        """Return both."""
        return Estimates(jobs.duration_s, rank_s=self.rank_s)


class Search:
    """Moves single jobs in a list of priorities, and keeps what does not make the mean wait longer."""

    def __init__(self, jobs, cluster, seed):
        self.jobs, self.cluster, self.rng = jobs, cluster, np.random.default_rng(seed)
        self.pipeline = parse_pipeline("sjf", "easy")  # by `rank_s`

    def run(self, place):
        """Return the waits under a list; `place` is one number a job, lowest first."""
        return run_pipeline(self.jobs, self.cluster, self.pipeline, InOrder(place)).wait_s

    def climb(self, place, tries):
        """Return the mean wait after so many tries."""
        waits = self.run(place)
        best = np.nanmean(waits)
        for _ in range(tries):
            tried = self._moved(place, waits)
            found = self.run(tried)
            if np.nanmean(found) <= best:
                place, waits, best = tried, found, np.nanmean(found)
        return float(best)

    def _moved(self, place, waits):
        """Put a job just before or just behind another that waited at the same time."""
        one = int(self.rng.choice(np.flatnonzero(waits > 0)))
        begin, end = self.jobs.submit_s[one], self.jobs.submit_s[one] + waits[one]
        beside = np.flatnonzero((waits > 0) & (self.jobs.submit_s <= end) & (self.jobs.submit_s + waits >= begin))
        other = int(self.rng.choice(beside))
        moved = place.copy()
        moved[one] = place[other] + (-0.5 if self.rng.random() < 0.7 else 0.5)
        return np.argsort(np.argsort(moved, kind="stable"), kind="stable").astype(float) + 1.0


def spread_out(count, some=3):
    """Return the numbers of some windows of many, evenly."""
    return np.unique(np.linspace(0, count - 1, some).round().astype(int))


def row(name, folder, tries):
    """Return the cells of a trace."""
    path, machine = TRACES[name]
    cluster = Cluster.load(machine)
    jobs = for_replay(read_trace(folder / path), cluster).sorted()
    made = evaluate(jobs, cluster, [*RULES, *LEARNED], ["easy"], estimator=Oracle(), size=SIZE, every=SIZE).test
    which = spread_out(len(made.starts))
    waits = {pipeline.policy.name: made.values[i, which, 0].mean() for i, pipeline in enumerate(made.pipelines)}
    rule = min(RULES, key=waits.__getitem__)
    searched = []
    for at, k in enumerate(which):
        window = jobs.window(made.starts[k], SIZE)
        begin = [np.argsort(np.argsort(key(window), kind="stable"), kind="stable") + 1.0 for key in KEYS.values()]
        search = Search(window, cluster, at)
        searched.append(search.climb(min(begin, key=lambda place: np.nanmean(search.run(place))), tries))
    found, best = float(np.mean(searched)), waits[rule]
    learned = [f"{n.partition(':')[2]} {(best - waits[n]) / (best - found):.0%}" for n in LEARNED]
    cells = (
        name,
        str(len(which)),
        f"{rule} {best:,.0f} s",
        f"{found:,.0f} s",
        f"{found / best:.3f}",
        ", ".join(learned),
    )
    return "| " + " | ".join(cells) + " |"


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="the folder of the public traces")
    parser.add_argument("--tries", type=int, default=1500, help="moves that are tried in each window")
    parser.add_argument("--only", default=",".join(TRACES))
    given = parser.parse_args()
    print("| trace | windows | best rule + EASY | search | of the rule's | reached by |")
    print("|" + " --- |" * 6, flush=True)
    for name in given.only.split(","):
        print(row(name, given.traces, given.tries), flush=True)


if __name__ == "__main__":
    main()

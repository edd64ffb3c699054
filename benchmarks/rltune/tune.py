"""Is what `rltune tune` recommends borne out on jobs that it has never seen, and how far from the best in hindsight?

Each history is cut: the first 80 % of the jobs are given to `tune`, the last 20 % are kept. On those all pipelines that
reached the last round are run, so that the best in hindsight is known. `--offset` takes other pieces of the histories
than the first. Two cores, about half an hour for all.
"""

import argparse
from pathlib import Path

import numpy as np

from rltune.metrics.formats import seconds
from rltune.parallel import spread_over
from rltune.reproduce.workloads import find_origins, load_workload
from rltune.tune import tune
from rltune.tune.stretches import HistoryStretch, StretchRunner

KEPT_BACK = 0.2
TRACES = ("philly-steady", "helios-steady", "pai-steady", "ctc-sp2", "hpc2n")


def row(name, jobs, cluster, given, spread):
    """Tune on the first part, then look at the rest."""
    cut = int((1 - KEPT_BACK) * len(jobs))
    how = {"minutes": given.minutes, "learn": given.learn.split(",") if given.learn else ()}
    made = tune(jobs.window(0, cut), cluster, spread=spread, threads=given.workers, **how)
    runner, later = StretchRunner(jobs, cluster, "wait", 0), HistoryStretch(cut, len(jobs))
    tried = [candidate for candidate, _ in made.finalists]
    means = [o.mean for o in spread.map(runner, [(candidate, later) for candidate in tried])]
    by_label = dict(zip((c.label for c in tried), means, strict=True))
    best = min(by_label, key=by_label.get)
    now, taken = by_label[made.now.label], by_label[made.recommended.label]
    return [
        name,
        f"{given.offset:+,}",
        made.answer.value,
        made.chosen.label,
        f"{made.testing.estimate:.3f} {made.testing.ends('{:.3f}'.format)}",
        seconds(now),
        f"{taken / now:.3f}",
        f"{by_label[made.chosen.label] / now:.3f}",
        f"{taken / by_label[best]:.3f}",
        best,
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="the folder of the public traces")
    parser.add_argument("--only", default=",".join(TRACES))
    parser.add_argument("--jobs", type=int, default=40_000, help="of each history")
    parser.add_argument("--offset", type=int, default=0, help="the first of them; below 0 counts from the end")
    parser.add_argument("--learn", default="", help="ways to learn, with commas: evolve, train")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    columns = ["history", "from job", "answer", "chosen on the middle part", "of now on the last part", "now, later"]
    columns += ["recommended of now, later", "chosen of now, later", "recommended of best, later"]
    columns += ["best in hindsight, later"]
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}", flush=True)
    found = find_origins(given.traces, given.jobs)
    with spread_over(given.workers) as spread:
        for name in given.only.split(","):
            work = load_workload(found[name])
            first = given.offset if given.offset >= 0 else max(0, len(work.jobs) + given.offset)
            jobs = work.jobs.take(np.arange(first, min(first + given.jobs, len(work.jobs))))
            print(f"| {' | '.join(row(name, jobs, work.cluster, given, spread))} |", flush=True)


if __name__ == "__main__":
    main()

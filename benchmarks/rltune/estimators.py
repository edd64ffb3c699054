"""What estimates of run times are worth in waits: smallest area first with EASY on held-out windows of each trace.

One table: the mean wait under every estimator, its ratio to `history`'s on the same windows with an interval, how much
of the distance from `history` to the truth is left, and how many jobs the 80 % intervals hold as told at submission.
Made-up sites are of seeds that nothing was tuned on. Two quiet cores, about five minutes for all.
"""

import argparse
from pathlib import Path

from rltune.cluster import Cluster
from rltune.evaluation import evaluate
from rltune.evaluation.predictability import told_at_submission, waits
from rltune.trace import load, synthesise

PUBLIC = {
    "philly": ("philly/philly_jobs.csv.gz", "philly-slice"),
    "helios": ("helios/venus_gpu_jobs.csv.gz", "helios-slice"),
    "pai": ("alibaba_pai_2020/pai_tasks_sample.csv.gz", "pai-slice"),
    "ctc-sp2": ("hpc_swf/CTC-SP2-1996-3.1-cln.swf.gz", 338),
    "hpc2n": ("hpc_swf/HPC2N-2002-2.2-cln.swf.gz", 240),
}
MADE_UP = ("habits-11", "habits-12", "campaigns-11")
LIMITS = ("user", "last2", "blend:user+predicted")  # where jobs have limits and users


def workload(name: str, folder: Path, jobs: int):
    """Return the jobs of a trace, the machine, and the estimators to try."""
    usual = ("history", "predicted", "oracle")
    if name not in PUBLIC:
        kind, _, seed = name.partition("-")
        cluster = Cluster.load("philly-slice")
        return synthesise(kind, jobs, int(seed), 1.0, cluster), cluster, (*usual, "user")
    path, machine = PUBLIC[name]
    cluster = Cluster.load(machine) if isinstance(machine, str) else Cluster.uniform(1, machine)
    return load(folder / path).jobs.sorted(), cluster, usual if isinstance(machine, str) else (*usual, *LIMITS)


def easy_plus_plus(jobs, cluster, every: int) -> float:
    """Return the mean wait under EASY++, by the user's last two run times, on the same windows."""
    made = evaluate(jobs, cluster, [], pipelines=["easy++"], estimator="last2", every=every)
    return made.test.mean(len(made.labels) - 1, "wait")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="the folder of the public traces")
    parser.add_argument("--only", default=",".join((*PUBLIC, *MADE_UP)))
    parser.add_argument("--jobs", type=int, default=30_000, help="of the made-up sites")
    parser.add_argument("--every", type=int, default=256, help="jobs from the start of one window to that of the next")
    given = parser.parse_args()
    print("| trace | windows | estimator | mean wait (s) | of history's | left | 80 % intervals hold |")
    print("|" + " --- |" * 7, flush=True)
    for name in given.only.split(","):
        jobs, cluster, estimators = workload(name, given.traces, given.jobs)
        found, windows = waits(jobs, cluster, estimators, every=given.every)
        held = told_at_submission(jobs).coverage
        first, truth = found[0].wait_s, next(w.wait_s for w in found if w.estimator == "oracle")
        for w in found:
            span = f"{w.ratio.estimate:.3f} [{w.ratio.low:.3f}, {w.ratio.high:.3f}]"
            left = f"{(w.wait_s - truth) / (first - truth):.2f}" if first != truth else ""
            holds = f"{held:.1%}" if w.estimator == "predicted" else ""
            print(f"| {name} | {windows} | {w.estimator} | {w.wait_s:,.0f} | {span} | {left} | {holds} |", flush=True)

        if "last2" in estimators:
            wait_s = easy_plus_plus(jobs, cluster, given.every)
            print(f"| {name} | {windows} | EASY++ | {wait_s:,.0f} | {wait_s / first:.3f} | | |", flush=True)


if __name__ == "__main__":
    main()

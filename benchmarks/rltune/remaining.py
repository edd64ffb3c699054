"""What it is worth to reservations to know what running jobs have left, on held-out windows of the public traces.

python benchmarks/rltune/remaining.py --traces DIR

Each rule runs with reservations that take a job past its estimate to end now, and with the remainders of history. Rows
are ratios of the mean wait, paired by window, with 95 % intervals.
"""

import argparse
from pathlib import Path

import rltune

TRACES = {
    "Philly": ("philly_jobs.csv.gz", "philly-slice"),
    "Helios (Venus)": ("venus_gpu_jobs.csv.gz", "helios-slice"),
    "PAI": ("pai_tasks_sample.csv.gz", "pai-slice"),
}
RULES = ("saf", "sjf", "fcfs")
BACKFILLS = ("easy", "conservative")


def rows(name: str, jobs: rltune.Jobs, cluster: rltune.Cluster, every: int) -> list[str]:
    left = [f"{rule}+remaining:history" for rule in RULES]
    made = rltune.evaluate(jobs, cluster, [*RULES, *left], BACKFILLS, windows=f"1024:every={every}")
    test, told = made.test, []
    for rule in RULES:
        for backfill in BACKFILLS:
            now = test.index(f"{rule} + {backfill}")
            then = test.index(f"{rule}+remaining:history + {backfill}")
            ratio, p99 = test.ratio(then, now), test.ratio(then, now, "wait-p99")
            told.append(
                f"| {name} | {test.disjoint} | {rule} + {backfill} | {test.mean(now, 'wait'):,.0f} s "
                f"| {ratio.estimate:.3f} [{ratio.low:.3f}, {ratio.high:.3f}] "
                f"| {p99.estimate:.3f} [{p99.low:.3f}, {p99.high:.3f}] |"
            )
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True, metavar="DIR", help="where the traces lie, at any depth")
    parser.add_argument("--every", type=int, default=256, help="jobs between the starts of two windows")
    args = parser.parse_args()
    print("| trace | disjoint windows | pipeline | mean wait, ends now | with remainders | p99 of the wait |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, (file, preset) in TRACES.items():
        found = sorted(args.traces.rglob(file))
        if not found:
            parser.error(f"{file} is not in {args.traces}")
        for row in rows(name, rltune.read_trace(found[0]), rltune.Cluster.load(preset), args.every):
            print(row, flush=True)


if __name__ == "__main__":
    main()

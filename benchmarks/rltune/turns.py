"""What taking turns is worth beside the best that can be done without, on held-out windows of the public traces.

python benchmarks/rltune/turns.py --traces DIR

Disjoint contended windows of 1,024 jobs of the last tenth, estimates from history, restarts of 120 s, checkpoints every
600 s. The pipeline without turns is the best in hindsight: of all rules and the shipped model, under three ways of
backfilling, the one with the least mean delay on these very windows. Ratios are to it, paired by window, with 95 %
intervals.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import rltune
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.opt_in import opted_in
from rltune.policy.by_name import LEARNED, policy_table
from rltune.preemption_rules import PreemptionRule
from rltune.schedule import Schedule
from rltune.trials.contention import fcfs_wait_s, is_contended
from rltune.trials.intervals import over_windows, ratio
from rltune.trials.parts import split
from rltune.trials.trial import Trial, in_order

TRACES = {
    "Philly": ("philly_jobs.csv.gz", "philly-slice"),
    "Helios (Venus)": ("venus_gpu_jobs.csv.gz", "helios-slice"),
    "PAI": ("pai_tasks_sample.csv.gz", "pai-slice"),
}
SIZE, CONTENDED_S = 1024, 600.0
WITHOUT = [
    (policy, backfill)
    for policy in (*(rule.name for rule in policy_table()), LEARNED)
    for backfill in ("none", "fit-first", "easy")
]
WITH = [
    (f"{policy}+preempt:{order}", backfill)
    for policy, order in (("fcfs", "las"), ("saf", "las"), ("fcfs", "gittins"), ("saf", "srsf"))
    for backfill in ("fit-first", "easy")
]
SHARES = (1.0, 0.3)
SHOWN = 3  # of the best without turns
DELAY, P99, LOST, PREEMPTIONS = range(4)


def measures(schedule: Schedule) -> np.ndarray:
    """Return mean delay, its 99th percentile, the share of GPU time that was lost, and preemptions a job."""
    ran = schedule.ran
    gpus, lost = schedule.jobs.gpus[ran], schedule.lost_s[ran]
    held = gpus @ (schedule.jobs.duration_s[ran] + lost)
    delay = schedule.delay_s[ran]
    return np.array([delay.mean(), np.percentile(delay, 99), gpus @ lost / held, schedule.preemptions[ran].mean()])


def willing(jobs: rltune.Jobs, cluster: rltune.Cluster, share: float) -> rltune.Jobs:
    """Return the jobs of which such a share, by lot, may be displaced, and nobody else."""
    rules = (PreemptionRule(share=share, checkpoint=600.0, restart=120.0), PreemptionRule(preemptible=False))
    return opted_in(jobs, replace(cluster, preemption=rules))


def contended(jobs: rltune.Jobs, cluster: rltune.Cluster, most: int) -> list[int]:
    """Return where up to so many disjoint contended windows of the last tenth start, evenly spread."""
    starts = split(len(jobs), 0.1).test.starts(SIZE, SIZE)
    good = [s for s in starts if is_contended(fcfs_wait_s(jobs.window(s, SIZE), cluster), CONTENDED_S)]
    return [good[i] for i in np.unique(np.linspace(0, len(good) - 1, min(most, len(good))).round().astype(int))]


def run(trial: Trial, pipelines: list[tuple[str, str]], starts: list[int], guard: str | None) -> np.ndarray:
    """Return [pipeline, window, measure]."""
    read = [parse_pipeline(policy, backfill, guard=guard) for policy, backfill in pipelines]
    by_window = [[measures(trial.run(pipeline, start, SIZE)) for pipeline in read] for start in starts]
    return np.array(by_window).swapaxes(0, 1)


def compared(values: np.ndarray, best: np.ndarray) -> str:
    """Tell the mean delay, and it and its 99th percentile as ratios to the best without turns."""
    delay, p99 = (over_windows(values[:, m], best[:, m], ratio, confidence=0.95) for m in (DELAY, P99))
    told = (f"{r.estimate:.2f} [{r.low:.2f}, {r.high:.2f}]" for r in (delay, p99))
    return f"{values[:, DELAY].mean():,.0f} s | {' | '.join(told)}"


def rows(name: str, jobs: rltune.Jobs, cluster: rltune.Cluster, most: int, guard: str | None) -> Iterator[str]:
    """Yield the best without turns, then every pipeline with them, by share."""
    ordered, _ = in_order(jobs, None)
    starts = contended(ordered, cluster, most)
    nobody = Trial(willing(ordered, cluster, 0.0), cluster, "history")
    without = run(nobody, WITHOUT, starts, None)
    order = without[:, :, DELAY].mean(axis=1).argsort(kind="stable")
    best = without[order[0]]
    start = f"| {name} | {len(starts)} |"
    for at in order[:SHOWN]:
        yield f"{start} - | {' + '.join(WITHOUT[at])} | {compared(without[at], best)} | | |"
    for share in SHARES:
        trial = Trial(willing(ordered, cluster, share), cluster, "history")
        for (policy, backfill), values in zip(WITH, run(trial, WITH, starts, guard), strict=True):
            cost = f"{values[:, PREEMPTIONS].mean():.2f} | {values[:, LOST].mean():.1%}"
            yield f"{start} {share:.0%} | {policy} + {backfill} | {compared(values, best)} | {cost} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True, metavar="DIR", help="where the traces lie, at any depth")
    parser.add_argument("--windows", type=int, default=100, help="the most windows of a trace")
    parser.add_argument("--guard", help="a bound around the pipelines with turns, such as 24h")
    args = parser.parse_args()
    print(
        "| trace | windows | willing | pipeline | mean delay | ratio | p99 of the delay | turns a job | GPU time lost |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, (file, preset) in TRACES.items():
        found = sorted(args.traces.rglob(file))
        if not found:
            parser.error(f"{file} is not in {args.traces}")
        jobs, cluster = rltune.read_trace(found[0]), rltune.Cluster.load(preset)
        for row in rows(name, jobs, cluster, args.windows, args.guard):
            print(row, flush=True)


if __name__ == "__main__":
    main()

"""Speed of the simulator against a pure-Python yardstick, in one run. `python benchmarks/rltune/speed.py`.

Single core, compiled code warm. The yardstick is timed before and after every case, and the ratio is to the faster one's median.
"""

import argparse
import resource
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent))
from yardstick import fcfs

from rltune import Cluster
from rltune.estimate import get_estimator
from rltune.policy import get_policy
from rltune.schedule import Settings
from rltune.sim import Machine
from rltune.trace.synthetic import synthesise

BARS = {("fcfs", "none"): 6.0, ("saf", "none"): 4.0, ("fcfs", "easy"): 2.0, ("wfp3", "easy"): 0.5}
OTHERS = [("sjf", "none"), ("qssf", "none"), ("multifactor", "easy"), ("unicep", "easy"), ("saf", "easy"), ("fcfs", "fit-first")]


def machine(jobs, cluster, policy, backfill, estimator="oracle"):
    settings = Settings(policy=policy, backfill=backfill, estimator=estimator)
    return Machine.of(jobs, cluster, get_policy(policy), get_estimator(estimator), settings)


def seconds(jobs, cluster, policy, backfill, repeat=3):
    """Give the best of a few runs, from prepared arrays to the last end, and the last run's state."""
    best = float("inf")
    for _ in range(repeat):
        m = machine(jobs, cluster, policy, backfill)
        begun = time.perf_counter()
        m.run()
        best = min(best, time.perf_counter() - begun)
    return best, m


def yardstick_seconds(jobs, cluster):
    nodes = [g.gpus for g in cluster.groups for _ in range(g.count)]
    columns = jobs.submit_s.tolist(), jobs.duration_s.tolist(), jobs.gpus.tolist()
    begun = time.perf_counter()
    start = fcfs(*columns, nodes)
    return time.perf_counter() - begun, np.array(start)


def against_yardstick(console):
    """Give the table of ratios; FCFS must also give the yardstick's very schedule."""
    cluster = Cluster.uniform(nodes=36, gpus=8)
    jobs = synthesise("philly", 100_000, seed=1, load=0.9, cluster=cluster)
    table = Table(title="100,000 Philly-like jobs, 36 nodes of 8, load 0.9", caption="ratio: jobs/s over the yardstick's")
    for column in ("policy", "backfill", "jobs/s", "yardstick jobs/s", "ratio", "bar", "mean queue"):
        table.add_column(column, justify="left" if column in {"policy", "backfill"} else "right")
    for policy, backfill in [*BARS, *OTHERS]:
        before, start = yardstick_seconds(jobs, cluster)
        took, m = seconds(jobs, cluster, policy, backfill)
        after, _ = yardstick_seconds(jobs, cluster)
        schedule = m.schedule(jobs, np.arange(len(jobs)))
        if (policy, backfill) == ("fcfs", "none"):
            assert np.array_equal(schedule.start_s, start), "the yardstick schedules otherwise"
        span = schedule.end_s.max() - jobs.submit_s.min()
        queue = schedule.wait_s.sum() / span
        ratio = min(before, after) / took
        bar = BARS.get((policy, backfill))
        table.add_row(
            policy,
            backfill,
            f"{len(jobs) / took:,.0f}",
            f"{len(jobs) / min(before, after):,.0f}",
            f"{ratio:.2f}",
            "" if bar is None else f"{bar:g} {'met' if ratio >= bar else 'MISSED'}",
            f"{queue:,.0f}",
        )
    console.print(table)


def deep_queue(console):
    """Time one pass with 10,000 jobs waiting on a full cluster in which one GPU at a time comes free."""
    from rltune.core.decide import decide
    from rltune.core.loop import advance

    table = Table(title="One pass with 10,000 jobs waiting (bar: 5 ms)")
    for column in ("policy", "backfill", "median ms", "worst ms"):
        table.add_column(column, justify="left" if column in {"policy", "backfill"} else "right")
    cluster = Cluster.uniform(nodes=36, gpus=8)
    jobs = synthesise("philly", 11_000, seed=2, load=0.9, cluster=cluster)
    jobs = jobs.with_columns(submit_s=np.zeros(len(jobs)))
    for policy in ("fcfs", "sjf", "saf", "f1", "wfp3", "unicep", "multifactor", "qssf"):
        for backfill in ("none", "fit-first", "easy"):
            m = machine(jobs, cluster, policy, backfill)
            took = []
            while advance(m.w, m.s, m.options) and len(took) < 400:
                begun = time.perf_counter()
                decide(m.w, m.s, m.options)
                took.append(1e3 * (time.perf_counter() - begun))
            table.add_row(policy, backfill, f"{np.median(took[1:]):.3f}", f"{max(took):.3f}")
    console.print(table)


def million(console):
    """Show that time grows linearly with jobs, and what memory a million jobs on 10,000 nodes take."""
    cluster = Cluster.uniform(nodes=10_000, gpus=8)
    table = Table(title="10,000 nodes of 8, load 0.9, FCFS with EASY (bars: 1.2 times linear, 4 GiB)")
    for column in ("jobs", "seconds", "jobs/s", "peak memory GiB"):
        table.add_column(column, justify="right")
    took = {}
    for n in (100_000, 1_000_000):
        jobs = synthesise("philly", n, seed=3, load=0.9, cluster=cluster)
        took[n], _ = seconds(jobs, cluster, "fcfs", "easy", repeat=3 if n < 10**6 else 1)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        table.add_row(f"{n:,}", f"{took[n]:.2f}", f"{n / took[n]:,.0f}", f"{peak:.2f}")
    console.print(table)
    console.print(f"growth: {took[1_000_000] / took[100_000] / 10:.2f} times linear")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["yardstick", "deep", "million"])
    parts = parser.parse_args().parts
    console = Console(width=110)
    for name, part in {"yardstick": against_yardstick, "deep": deep_queue, "million": million}.items():
        if name in parts:
            part(console)


if __name__ == "__main__":
    main()

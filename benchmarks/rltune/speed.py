"""Speed of the simulator against a pure-Python yardstick, in one run. `python benchmarks/rltune/speed.py`.

Single core, compiled code warm. The yardstick is timed before and after every case, and the ratio is to its faster run.
"""

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent))
from yardstick import fcfs

from rltune import Cluster, Jobs
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import Machine
from rltune.estimate import get_estimator
from rltune.trace.synthetic import synthesise

BARS = {
    ("fcfs", "none"): 6.0,
    ("saf", "none"): 4.0,
    ("fcfs", "easy"): 2.0,
    ("wfp3", "easy"): 0.5,
}
OTHERS = [
    ("sjf", "none"),
    ("qssf", "none"),
    ("saf", "easy"),
    ("unicep", "easy"),
    ("multifactor", "easy"),
    ("fcfs", "fit-first"),
]
TURNS_BAR = 0.5
TURNS = [
    ("fcfs+preempt:las", "fit-first"),
    ("fcfs+preempt:las:late=off", "fit-first"),
    ("saf+preempt:las", "easy"),
    ("saf+preempt:srsf", "fit-first"),
    ("fcfs+preempt:gittins", "fit-first"),
]


def machine(jobs, cluster, policy, backfill, estimator="oracle"):
    return Machine.of(jobs, cluster, parse_pipeline(policy, backfill), get_estimator(estimator))


def seconds(jobs, cluster, policy, backfill, repeat=3):
    """Return the best of a few runs, from prepared arrays to the last end, and the last run's state."""
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


def philly_like(cluster):
    """Give the jobs of both tables; all may be displaced, which matters to those who preempt alone."""
    jobs = synthesise("philly", 100_000, seed=1, load=0.9, cluster=cluster)
    everybody = np.ones(len(jobs), dtype=bool)
    return jobs.with_columns(
        preemptible=everybody, checkpoint_s=np.full(len(jobs), 600.0), restart_s=np.full(len(jobs), 120.0)
    )


def taking_turns(console):
    """Give the table of those who preempt, in CPU time: other programs may be at work."""
    cluster = Cluster.uniform(nodes=36, gpus=8)
    jobs = philly_like(cluster)
    columns = jobs.submit_s.tolist(), jobs.duration_s.tolist(), jobs.gpus.tolist()
    table = Table(title=f"100,000 Philly-like jobs that take turns, 36 nodes of 8, load 0.9 (bar: {TURNS_BAR:g})")
    for column in ("policy", "backfill", "CPU s", "yardstick s", "ratio", "passes", "turns a job"):
        table.add_column(column, justify="left" if column in {"policy", "backfill"} else "right")
    for policy, backfill in TURNS:
        begun = time.process_time()
        fcfs(*columns, [8] * 36)
        beside = time.process_time() - begun
        took = float("inf")
        for _ in range(2):
            m = machine(jobs, cluster, policy, backfill)
            begun = time.process_time()
            m.run()
            took = min(took, time.process_time() - begun)
        schedule = m.schedule(jobs, np.arange(len(jobs)))
        ratio = f"{beside / took:.2f} {'met' if beside >= TURNS_BAR * took else 'MISSED'}"
        turns = f"{schedule.preemptions.mean():.2f}"
        table.add_row(policy, backfill, f"{took:.2f}", f"{beside:.2f}", ratio, f"{schedule.passes:,}", turns)
    console.print(table)


def against_yardstick(console):
    """Return the table of ratios; FCFS must also give the yardstick's very schedule."""
    cluster = Cluster.uniform(nodes=36, gpus=8)
    jobs = philly_like(cluster)
    table = Table(title="100,000 Philly-like jobs, 36 nodes of 8, load 0.9")
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
    """Time passes with 10,000 jobs waiting, in CPU time: another program's turn is not the pass's."""
    from rltune.kernel.backfill.scheduling_pass import make_pass
    from rltune.kernel.rollout.event_loop import advance

    table = Table(title="One pass with 10,000 jobs waiting, 36 nodes of 8 (bar: 5 ms)")
    for column in ("policy", "backfill", "median ms", "p99 ms", "first pass ms"):
        table.add_column(column, justify="left" if column in {"policy", "backfill"} else "right")
    cluster = Cluster.uniform(nodes=36, gpus=8)
    jobs = synthesise("philly", 11_000, seed=2, load=0.9, cluster=cluster)
    jobs = jobs.with_columns(submit_s=np.zeros(len(jobs)))
    first = machine(jobs, cluster, "fcfs", "none")
    advance(first.w, first.s, first.options)
    make_pass(first.w, first.s, first.options)  # loads the compiled code, so that no timed pass does
    for policy in ("fcfs", "sjf", "saf", "f1", "wfp3", "unicep", "multifactor", "qssf"):
        for backfill in ("none", "fit-first", "easy"):
            m = machine(jobs, cluster, policy, backfill)
            took = []
            while advance(m.w, m.s, m.options) and len(took) < 700:
                begun = time.thread_time()
                make_pass(m.w, m.s, m.options)
                took.append(1e3 * (time.thread_time() - begun))
            later = took[1:]
            table.add_row(
                policy, backfill, f"{np.median(later):.3f}", f"{np.percentile(later, 99):.3f}", f"{took[0]:.3f}"
            )
    console.print(table)


def ten_times(jobs):
    """Repeat a trace end to end, so that load, bursts and queues stay what they are."""
    span = jobs.submit_s.max() - jobs.submit_s.min()
    shift = np.repeat(np.arange(10) * span, len(jobs))
    return Jobs.from_arrays(np.tile(jobs.submit_s, 10) + shift, np.tile(jobs.duration_s, 10), np.tile(jobs.gpus, 10))


def growth(console):
    """Show that time grows linearly with the number of jobs where load and queues are the same."""
    cluster = Cluster.uniform(nodes=36, gpus=8)
    table = Table(title="36 nodes of 8, load 0.9 (bar: 1.2 times linear)")
    for column in ("policy", "backfill", "100,000 jobs", "1,000,000 jobs", "times linear"):
        table.add_column(column, justify="left" if column in {"policy", "backfill"} else "right")
    few = synthesise("philly", 100_000, seed=3, load=0.9, cluster=cluster)
    many = ten_times(few)
    for policy, backfill in (("fcfs", "none"), ("saf", "none"), ("saf", "easy"), ("wfp3", "easy")):
        small, _ = seconds(few, cluster, policy, backfill)
        large, _ = seconds(many, cluster, policy, backfill, repeat=3)
        table.add_row(policy, backfill, f"{small:.2f} s", f"{large:.2f} s", f"{large / small / 10:.2f}")
    console.print(table)


def large(console):
    """Show what a million jobs on 10,000 nodes take, in a process that has done nothing else."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import speed; speed.one_large_run(sys.argv[2], sys.argv[3])"
    table = Table(title="1,000,000 jobs, 10,000 nodes of 8, load 0.9 (bar: 4 GiB)")
    for column in ("policy", "backfill", "seconds", "jobs/s", "peak memory GiB"):
        table.add_column(column, justify="left" if column in {"policy", "backfill"} else "right")
    for policy, backfill in (("fcfs", "none"), ("saf", "easy")):
        call = [sys.executable, "-c", code, str(Path(__file__).parent), policy, backfill]
        took, peak = subprocess.run(call, check=True, capture_output=True, text=True).stdout.split()
        table.add_row(policy, backfill, f"{float(took):.1f}", f"{1e6 / float(took):,.0f}", f"{float(peak):.2f}")
    console.print(table)


def one_large_run(policy, backfill):
    cluster = Cluster.uniform(nodes=10_000, gpus=8)
    jobs = synthesise("philly", 1_000_000, seed=3, load=0.9, cluster=cluster)
    took, _ = seconds(jobs, cluster, policy, backfill, repeat=1)
    print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


PARTS = {"yardstick": against_yardstick, "turns": taking_turns, "deep": deep_queue, "growth": growth, "large": large}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"which of: {', '.join(PARTS)}")
    console = Console(width=110)
    for part in parser.parse_args().parts:
        PARTS[part](console)


if __name__ == "__main__":
    main()

"""Depth and mass against the yardstick, in one run: deep queues, a million jobs at once, RLScheduler's machine.

python benchmarks/rltune/depth.py [--traces DIR] [PART ...]

Every time is told as a ratio to what yardstick.py takes for as many jobs, timed before and after, so that a slow
machine changes little; all are CPU time of one thread, so that a busy one does not either. Compiled code is warm. DIR
holds HPC2N-2002-2.2-cln.swf.gz and lublin_256.swf (see docs/reference/traces.md); parts that need a file that is not
there are left out, and that is said.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent))
from lublin import STARTS
from speed import machine
from yardstick import fcfs

from rltune import Cluster, read_trace
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import Machine
from rltune.estimate import get_estimator
from rltune.trace.synthetic import synthesise

NODES = Cluster.uniform(nodes=36, gpus=8)
HPC2N, LUBLIN = "HPC2N-2002-2.2-cln.swf.gz", "lublin_256.swf"
MINUTE_S = 60.0
# What the pure-Python original takes for the ten windows, in times of the yardstick for as many jobs: 0.29, 0.33 and
# 0.17 s as reported, over 0.0127 s for the yardstick. The two were timed apart, so these bars are only about right.
ORIGINAL = {"fcfs": 22.8, "sjf": 26.0, "saf": 13.4}


def at_once(count):
    """Make jobs that are all submitted at one moment."""
    jobs = synthesise("philly", count, seed=2, load=0.9, cluster=NODES)
    return jobs.with_columns(submit_s=np.zeros(len(jobs)))


def timed(work):
    """Return the CPU seconds that some work takes."""
    begun = time.thread_time()
    work()
    return time.thread_time() - begun


def seconds(jobs, cluster, policy, backfill, estimator="oracle", repeat=3):
    """Return the best of a few runs, from prepared arrays to the last end."""
    ready = (machine(jobs, cluster, policy, backfill, estimator) for _ in range(repeat))
    return min(timed(run.run) for run in ready)


def yardstick_seconds(jobs, cluster):
    """Return what the yardstick takes for these jobs."""
    nodes = [g.gpus for g in cluster.groups for _ in range(g.count)]
    columns = jobs.submit_s.tolist(), jobs.duration_s.tolist(), jobs.gpus.tolist()
    return timed(lambda: fcfs(*columns, nodes))


def beside_yardstick(jobs, cluster, *how, repeat=3):
    """Return the seconds that a run takes, and the yardstick's for these jobs: the faster of before and after."""
    before = yardstick_seconds(jobs, cluster)
    took = seconds(jobs, cluster, *how, repeat=repeat)
    return took, min(before, yardstick_seconds(jobs, cluster))


def conservative(_traces):
    """Time 20,000 jobs that wait at once, and how the time grows from 5,000."""
    took = {}
    for count in (1_000, 5_000, 20_000):  # the first loads the compiled code
        jobs = at_once(count)
        took[count], yardstick = beside_yardstick(jobs, NODES, "fcfs", "conservative")
    yield "conservative, 20,000 jobs at once, 36 nodes of 8", took[20_000], yardstick, took[20_000] / yardstick, 200.0
    yield "the same, times the time of 5,000 jobs", took[20_000], took[5_000], took[20_000] / took[5_000], 6.0


def hpc2n(traces):
    """Time all of HPC2N under conservative backfilling, with the truth and with what users asked; in minutes."""
    jobs = read_trace(traces / HPC2N).sorted()
    cluster = Cluster.uniform(nodes=1, gpus=240)
    for estimator in ("oracle", "user"):
        took, yardstick = beside_yardstick(jobs, cluster, "fcfs", "conservative", estimator, repeat=1)
        yield f"conservative, all of HPC2N, {estimator}, in minutes", took, yardstick, took / MINUTE_S, 20.0


def million(_traces):
    """Time a million jobs submitted at one moment under saf, in times of FCFS."""
    jobs = at_once(1_000_000)
    warm = at_once(1_000)
    for policy in ("fcfs", "saf"):
        seconds(warm, NODES, policy, "none", repeat=1)
    by_age, by_area = (seconds(jobs, NODES, policy, "none") for policy in ("fcfs", "saf"))
    yield "saf, a million jobs at once, times FCFS's time", by_area, by_age, by_area / by_age, 5.0


def multifactor(_traces):
    """Time multifactor with EASY on the workload of speed.py."""
    jobs = synthesise("philly", 100_000, seed=1, load=0.9, cluster=NODES)
    seconds(jobs.window(0, 1_000), NODES, "multifactor", "easy", repeat=1)
    took, yardstick = beside_yardstick(jobs, NODES, "multifactor", "easy")
    yield "multifactor + easy, 100,000 jobs", took, yardstick, took / yardstick, 1.0


def commit(traces):
    """Time RLScheduler's machine with shadow backfilling on ten windows: at most a third of the original's time."""
    trace = read_trace(traces / LUBLIN)
    cluster = Cluster.uniform(nodes=1, gpus=256)
    windows = [trace.window(first, 1024) for first in STARTS]

    def once(policy):
        pipeline = parse_pipeline(policy, "shadow", head="global", commit=True)
        ready = [Machine.of(w, cluster, pipeline, get_estimator("oracle")) for w in windows]
        return timed(lambda: [window.run() for window in ready])

    def all_yardsticks():
        return sum(yardstick_seconds(window, cluster) for window in windows)

    for policy, original in ORIGINAL.items():
        once(policy)
        before = all_yardsticks()
        took = min(once(policy) for _ in range(3))
        yardstick = min(before, all_yardsticks())
        yield f"commit + shadow, {policy}, ten windows of lublin_256", took, yardstick, took / yardstick, original / 3


PARTS = {
    "conservative": conservative,
    "hpc2n": hpc2n,
    "million": million,
    "multifactor": multifactor,
    "commit": commit,
}
NEEDS = {"hpc2n": HPC2N, "commit": LUBLIN}


def main():
    """Print a row a bar."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, default=Path(), help=f"the folder of {HPC2N} and {LUBLIN}")
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"which of: {', '.join(PARTS)}")
    options = parser.parse_args()
    console = Console(width=120)
    table = Table(title="Depth and mass: figures are at most their bars")
    for column in ("what", "seconds", "beside", "figure", "bar", ""):
        table.add_column(column, justify="left" if column in {"what", ""} else "right")
    for part in options.parts:
        needed = NEEDS.get(part)
        if needed and not (options.traces / needed).exists():
            console.print(f"{part}: left out, there is no {options.traces / needed}")
            continue
        for what, took, beside, figure, bar in PARTS[part](options.traces):
            met = "met" if figure <= bar else "MISSED"
            table.add_row(what, f"{took:.3f}", f"{beside:.3f}", f"{figure:.2f}", f"{bar:.2f}", met)
    console.print(table)


if __name__ == "__main__":
    main()

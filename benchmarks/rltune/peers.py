"""Speed beside AccaSim on the same jobs, in one run. `python benchmarks/rltune/peers.py --accasim PYTHON`.

PYTHON is that of an environment of its own: `python3 -m venv peers && peers/bin/pip install accasim==1.1.3`.
Jobs of one to eight GPUs, whole seconds, exact run times, best fit. AccaSim's EASY is run beside our `fit-first` and
beside our `easy`: version 1.1.3 hands its allocator no reserved nodes, so it starts whatever fits. A run of rltune is
the whole call of `simulate`, with the compiled code warm; a run of AccaSim is its `start_simulation`, which writes its
schedule to a file.
"""

import argparse
import json
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from rltune import Cluster, Jobs, simulate
from rltune.trace.synthetic import synthesise

LARGEST = 8  # GPUs of a job
MACHINES = ((1, 288), (36, 8))  # nodes, GPUs of each
PAIRS = (("none", "fcfs"), ("fit-first", "easy"), ("easy", "easy"))  # our backfilling, their dispatcher


def same_jobs(count):
    """Make jobs that mean the same to both: they fit one node, times are whole seconds, and no two come at once."""
    made = synthesise("philly", 2 * count, seed=1, load=1.6, cluster=Cluster.uniform(nodes=36, gpus=8))
    small = np.flatnonzero((made.gpus >= 1) & (made.gpus <= LARGEST))[:count]
    place = np.arange(len(small))
    submit = np.maximum.accumulate(np.floor(made.submit_s[small]) - place) + place
    run = np.maximum(np.ceil(made.duration_s[small]), 1.0)
    return Jobs.from_arrays(submit, run, made.gpus[small])


def write_accasim(jobs, nodes, gpus, folder):
    rows = zip(jobs.submit_s.astype(int), jobs.duration_s.astype(int), jobs.gpus, strict=True)
    lines = [f"{i} {s} -1 {r} {n} -1 -1 {n} {r} -1 1 1 1 1 1 1 -1 -1" for i, (s, r, n) in enumerate(rows, start=1)]
    (folder / "jobs.swf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    system = {
        "groups": {"all": {"core": gpus, "mem": gpus}},
        "resources": {"all": nodes},
        "equivalence": {"processor": {"core": 1}},
        "start_time": 0,
    }
    (folder / "system.json").write_text(json.dumps(system), encoding="utf-8")


def accasim_starts(folder, count):
    """Read the starts from AccaSim's own output: id;user;queued__nodes__start;end;..."""
    start = np.full(count, np.nan)
    for line in (folder / "sched-jobs.swf").read_text(encoding="utf-8").splitlines():
        at = datetime.fromisoformat(line.split("__")[2].split(";")[0]).replace(tzinfo=UTC)
        start[int(line.split(";")[0]) - 1] = at.timestamp()
    return start


def run_accasim(python, jobs, nodes, gpus, rule):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_accasim(jobs, nodes, gpus, folder)
        script = str(Path(__file__).with_name("peers_accasim.py"))
        environment = {"TZ": "UTC", "PATH": "/usr/bin:/bin"}
        told = subprocess.run(
            [python, script, name, rule], check=True, capture_output=True, text=True, env=environment
        ).stdout
        return float(told), accasim_starts(folder, len(jobs)) - jobs.submit_s


def run_rltune(jobs, nodes, gpus, backfill, repeat=3):
    cluster = Cluster.uniform(nodes=nodes, gpus=gpus)
    simulate(jobs.window(0, 100), cluster, "fcfs", backfill, estimator="oracle")  # loads the compiled code
    best = float("inf")
    for _ in range(repeat):
        begun = time.perf_counter()
        made = simulate(jobs, cluster, "fcfs", backfill, estimator="oracle")
        best = min(best, time.perf_counter() - begun)
    return best, made.wait_s


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--accasim", required=True, metavar="PYTHON", help="the Python that AccaSim is installed in")
    parser.add_argument("--jobs", type=int, default=5000)
    given = parser.parse_args()
    jobs = same_jobs(given.jobs)
    table = Table(title=f"{len(jobs):,} jobs of 1 to {LARGEST} GPUs, exact run times, best fit")
    for column in ("nodes x GPUs", "rltune: fcfs with", "jobs/s", "mean wait, s"):
        table.add_column(column, justify="right" if column in {"jobs/s", "mean wait, s"} else "left")
    for column in ("AccaSim", "jobs/s", "mean wait, s", "same start"):
        table.add_column(column, justify="left" if column == "AccaSim" else "right")
    for nodes, gpus in MACHINES:
        for backfill, rule in PAIRS:
            ours_s, ours = run_rltune(jobs, nodes, gpus, backfill)
            theirs_s, theirs = run_accasim(given.accasim, jobs, nodes, gpus, rule)
            left = f"{nodes} x {gpus}", backfill, f"{len(jobs) / ours_s:,.0f}", f"{ours.mean():,.1f}"
            right = rule, f"{len(jobs) / theirs_s:,.0f}", f"{theirs.mean():,.1f}", f"{np.mean(ours == theirs):.1%}"
            table.add_row(*left, *right)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()

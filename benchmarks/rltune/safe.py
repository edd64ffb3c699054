"""Is a policy safe anywhere? Ratios to the best rule in hindsight, workload by workload.

The workloads stand in safe_workloads.toml, which was there first.
"""

import argparse
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rltune.cluster import Cluster, NodeGroup
from rltune.jobs import Jobs
from rltune.trace import load, synthesise
from rltune.trials.contention import fcfs_wait_s

LIST = Path(__file__).with_name("safe_workloads.toml")
HISTORY = 0.6  # of the jobs come before the windows that count
FEWEST = 10  # windows
CALM_S = (600.0, 60.0, 0.0)  # a window counts if FCFS waits longer; the first of these under which there are enough


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
            jobs = jobs.with_columns(gpus=np.nan_to_num(jobs.cpus, nan=1.0).astype(np.int64), cpus=np.full(len(jobs), np.nan))
        return jobs if self.load is None else at_load(jobs, machine.gpu_count, self.load)


def at_load(jobs: Jobs, gpus: int, load: float) -> Jobs:
    """Stretch the time between submissions, and recorded waits not: so much GPU time is asked of what there is."""
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


def contended(jobs: Jobs, machine: Cluster, size: int) -> tuple[list[int], float]:
    """Return where the windows that count start, and what FCFS waits at least in them."""
    starts = range(-(-int(HISTORY * len(jobs)) // size) * size, len(jobs) - size + 1, size)
    waits = {first: fcfs_wait_s(jobs.window(first, size), machine) for first in starts}
    for calm in CALM_S:
        found = [first for first, wait in waits.items() if wait > calm]
        if len(found) >= FEWEST:
            return found, calm
    raise SystemExit(f"only {len(found)} windows have a queue")


def main() -> None:
    """Print what there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="the folder of the public traces")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    _, workloads = read_list()
    for work in workloads:
        if given.only and work.name not in given.only.split(","):
            continue
        jobs, machine = work.read(given.traces), work.machine()
        try:
            found, calm = contended(jobs, machine, work.size)
            print(work.name, f"{len(jobs):,}", machine.gpu_count, len(found), calm, flush=True)
        except SystemExit as e:
            print(work.name, len(jobs), e, flush=True)


if __name__ == "__main__":
    main()

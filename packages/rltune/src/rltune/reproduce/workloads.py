"""The traces of the experiments: the public files where a folder holds them, calibrated synthetic ones otherwise."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.labels import Labels
from rltune.trace import load, synthesise
from rltune.trials.parts import split

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rltune.jobs import Jobs

HOLDOUT = 0.1
GPU_TRACES = ("philly", "helios", "pai")
WITH_VCS = "helios-vc"
CPU_TRACES = ("hpc2n", "ctc-sp2", "sdsc-sp2")
LOAD = 1.3  # of synthetic traces: the slices of the paper get more work than they can do, too
STEADY = "-steady"  # after a trace's name: so many of its jobs that the cluster can do their work
STEADY_LOAD = 0.9
BURST_S = 60.0
VC_SEED, BURST_SEED = 0, 1

TITLES = {
    "philly": "Philly",
    "helios": "Helios",
    "helios-vc": "Helios with VCs",
    "pai": "Alibaba",
    "hpc2n": "HPC2N",
    "ctc-sp2": "CTC-SP2",
    "sdsc-sp2": "SDSC-SP2",
}
_FILES = {  # our copies' names first, then those of the original public files
    "philly": ("philly_jobs.csv*", "cluster_job_log*"),
    "helios": ("venus_gpu_jobs.csv*", "Venus/cluster_log.csv*"),
    "pai": ("pai_tasks_sample.csv*", "pai_task_table.csv*"),
    "hpc2n": ("HPC2N*.swf*",),
    "ctc-sp2": ("CTC-SP2*.swf*",),
    "sdsc-sp2": ("SDSC-SP2*.swf*",),
}
_PRESET = {"philly": "philly-slice", "helios": "helios-slice", "pai": "pai-slice"}
_PROFILE = {"philly": "philly", "helios": "helios", "pai": "pai"}
_PROCESSORS = {"hpc2n": 240, "ctc-sp2": 338, "sdsc-sp2": 128}


@dataclass(frozen=True)
class Origin:
    """Where a workload comes from: a file, or a generator with a number of jobs."""

    name: str
    path: Path | None
    jobs: int  # of a synthetic trace

    @property
    def synthetic(self) -> bool:
        """Return whether the jobs are made up."""
        return self.path is None

    @property
    def title(self) -> str:
        """Name the trace as plots do; made-up jobs are always called so."""
        title = TITLES[self.name.removesuffix(STEADY)]
        return f"{title} (synthetic)" if self.synthetic else title

    @property
    def told(self) -> str:
        """Return what is run."""
        return f"synthetic, {self.jobs:,} jobs, load {LOAD}" if self.path is None else self.path.name

    def digest(self) -> str:
        """Return what a result depends on: the file's bytes, or the generator's settings."""
        if self.path is None:
            return f"synthetic:{self.name}:{self.jobs}"
        return _file_hash(self.path, self.path.stat().st_mtime_ns)


@dataclass(frozen=True)
class PaperWorkload:
    """Jobs in order of submit, on the cluster that the paper runs them on."""

    origin: Origin
    jobs: Jobs
    cluster: Cluster


def find_origins(folder: Path | None, synthetic_jobs: int) -> dict[str, Origin]:
    """Look for the public files under a folder; without one, or where one is missing, jobs are made up."""
    if folder is not None and not folder.is_dir():
        raise InputError(f"--traces {folder} is no folder")
    found = {name: Origin(name, _find(folder, _FILES[name]), synthetic_jobs) for name in _FILES}
    if folder is not None and all(origin.synthetic for origin in found.values()):
        names = ", ".join(patterns[0].rstrip("*") for patterns in _FILES.values())
        raise InputError(f"--traces {folder} holds none of the traces: {names} were looked for")
    also = {WITH_VCS: "helios", **{name + STEADY: name for name in GPU_TRACES}}
    return {**found, **{name: replace(found[of], name=name) for name, of in also.items()}}


@cache
def load_workload(origin: Origin) -> PaperWorkload:
    """Read or make the jobs; once in each process."""
    name = "helios" if origin.name == WITH_VCS else origin.name.removesuffix(STEADY)
    if name in _PRESET:
        cluster = Cluster.load(_PRESET[name])
        jobs = _gpu_jobs(origin, name, cluster)
        if origin.name == WITH_VCS:
            jobs = _with_vcs(jobs, cluster)
        return PaperWorkload(origin, _thinned(jobs, cluster) if origin.name.endswith(STEADY) else jobs, cluster)
    processors = _PROCESSORS[name]
    cluster = Cluster.uniform(nodes=processors, gpus=1)
    jobs = load(origin.path).jobs if origin.path else synthesise("lublin", origin.jobs, 0, LOAD, cluster)
    return PaperWorkload(origin, jobs.sorted(), cluster)


def _gpu_jobs(origin: Origin, name: str, cluster: Cluster) -> Jobs:
    if origin.path is None:
        return synthesise(_PROFILE[name], origin.jobs, 0, LOAD, cluster).sorted()
    return load(origin.path).jobs.sorted()


def _with_vcs(jobs: Jobs, cluster: Cluster) -> Jobs:
    """Draw a VC for each job, as likely as the VC has GPUs; one too large for a VC is never put into it."""
    sizes: dict[str, int] = {}
    for group in cluster.groups:
        for name in group.vc:
            sizes[name] = sizes.get(name, 0) + group.count * group.gpus
    names, room = tuple(sizes), np.array(list(sizes.values()), dtype=np.float64)
    fits = jobs.gpus[:, None] <= room[None, :]
    weight = np.where(fits | ~fits.any(axis=1, keepdims=True), room, 0.0)
    edges = np.cumsum(weight / weight.sum(axis=1, keepdims=True), axis=1)
    lot = np.random.default_rng(VC_SEED).random(len(jobs))
    codes = (lot[:, None] > edges[:, :-1]).sum(axis=1).astype(np.int32)
    return replace(jobs, vc=Labels(codes, names))


def _thinned(jobs: Jobs, cluster: Cluster) -> Jobs:
    """Keep so many bursts, drawn by lot, that the cluster is asked for STEADY_LOAD of what it gives at the end.

    The slices of the paper get several times the work they can do, so a queue would grow without end.
    """
    burst = _bursts(jobs)
    lot = np.random.default_rng(BURST_SEED).random(int(burst[-1]) + 1)[burst]
    end = split(len(jobs), HOLDOUT).validation.first
    work = np.where(jobs.gpus <= cluster.gpu_count, jobs.gpus * jobs.duration_s, 0.0)[end:]
    asked = STEADY_LOAD * cluster.gpu_count * float(jobs.submit_s[-1] - jobs.submit_s[end])
    order = np.argsort(lot[end:], kind="stable")
    kept = int(np.searchsorted(np.cumsum(work[order]), asked))
    most = 1.0 if kept >= len(order) else float(lot[end:][order[kept]])
    return jobs.take(np.flatnonzero(lot < most))


def _bursts(jobs: Jobs) -> NDArray[np.int64]:
    """Return the number of each job's burst: jobs of one size and VC that follow each other within a minute."""
    alike = (np.diff(jobs.gpus) == 0) & (np.diff(jobs.vc.codes) == 0) & (np.diff(jobs.submit_s) < BURST_S)
    return np.concatenate([[0], np.cumsum(~alike)])


def _find(folder: Path | None, patterns: tuple[str, ...]) -> Path | None:
    if folder is None:
        return None
    return next((path for pattern in patterns for path in sorted(folder.rglob(pattern)) if path.is_file()), None)


@cache
def _file_hash(path: Path, _changed_ns: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]

"""Schedules made by hand, and by a toy scheduler that shares no code with the engine."""

from collections.abc import Callable

import numpy as np
import pytest

from rltune.cluster import Cluster
from rltune.jobs import Jobs
from rltune.labels import Labels
from rltune.schedule import Placements, Schedule, Settings

Make = Callable[..., Schedule]


def make_schedule(jobs: Jobs, cluster: Cluster, start_s, chunks, reasons=None, requeues=None) -> Schedule:
    """State a schedule: starts (NaN = rejected) and (node, GPUs) pairs per job."""
    start = np.asarray(start_s, dtype=np.float64)
    ptr = np.concatenate([[0], np.cumsum([len(c) for c in chunks])]).astype(np.int64)
    flat = [pair for c in chunks for pair in c]
    return Schedule(
        jobs=jobs,
        cluster=cluster,
        settings=Settings(),
        start_s=start,
        end_s=start + jobs.duration_s,
        estimate_s=jobs.duration_s,
        rejected=np.isnan(start),
        reject_reason=Labels.of(reasons, len(jobs)),
        requeues=np.zeros(len(jobs), dtype=np.int32) if requeues is None else np.asarray(requeues, dtype=np.int32),
        placements=Placements(
            ptr, np.array([n for n, _ in flat], dtype=np.int32), np.array([g for _, g in flat], dtype=np.int32)
        ),
        passes=len(jobs),
        work={},
    )


def run_toy(jobs: Jobs, cluster: Cluster, rank) -> Schedule:
    """Start, at every submit and end, whatever fits, in the order of `rank`; a job may be split over nodes at will."""
    free = np.repeat([g.gpus for g in cluster.groups], [g.count for g in cluster.groups])
    start, chunks = np.full(len(jobs), np.nan), [()] * len(jobs)
    todo, running, now = sorted(range(len(jobs)), key=lambda j: rank[j]), [], 0.0
    while todo:
        for j in list(todo):
            if jobs.submit_s[j] > now or free.sum() < jobs.gpus[j]:
                continue
            taken, left = [], int(jobs.gpus[j])
            for node in range(len(free)):
                take = min(left, int(free[node]))
                if take:
                    taken.append((node, take))
                    free[node] -= take
                    left -= take
            start[j], chunks[j] = now, tuple(taken)
            running.append(j)
            todo.remove(j)
        later = [jobs.submit_s[j] for j in todo] + [start[j] + jobs.duration_s[j] for j in running]
        now = min((t for t in later if t > now), default=now)
        for j in [j for j in running if start[j] + jobs.duration_s[j] <= now]:
            running.remove(j)
            for node, gpus in chunks[j]:
                free[node] += gpus
    return make_schedule(jobs, cluster, start, chunks)


@pytest.fixture
def make() -> Make:
    return make_schedule


@pytest.fixture(scope="session")
def toy() -> Make:
    return run_toy

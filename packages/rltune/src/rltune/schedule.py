"""What a simulation gives: when and where every job ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from rltune.kernel.score.slowdown import bounded_slowdown

if TYPE_CHECKING:
    from rltune.cluster import Cluster
    from rltune.jobs import Floats, Ints, Jobs
    from rltune.labels import Labels
    from rltune.metrics import Summary

Chunk = tuple[int, int]  # node, GPUs


@dataclass(frozen=True)
class Settings:
    """How a schedule was made; two schedules compare fairly if all but the policy agree."""

    policy: str = "fcfs"
    backfill: str = "none"
    placement: str = "best-fit"
    estimator: str = "oracle"
    head: str = "pool"
    commit: bool = False
    view: int = 0
    seed: int = 0
    guard: str = "off"
    search: str = "off"
    cycle_s: float = 0.0  # the policy is asked this often; 0 = in every pass

    @property
    def label(self) -> str:
        """Name the pipeline as every table, report and file does: `saf + easy, spread`."""
        backfill = f" + {self.backfill}" if self.backfill != "none" else ""
        where = f", {self.placement}" if self.placement != "best-fit" else ""
        return f"{self.policy}{backfill}{where}"


@dataclass(frozen=True)
class Placements(Sequence[tuple[Chunk, ...]]):
    """Per job the (node, GPUs) pairs of its last attempt; empty if it never ran."""

    ptr: NDArray[np.int64]
    node: Ints
    gpus: Ints

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @overload
    def __getitem__(self, index: int) -> tuple[Chunk, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[Chunk, ...]]: ...
    def __getitem__(self, index: int | slice) -> tuple[Chunk, ...] | list[tuple[Chunk, ...]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"job {index} of {len(self)}")
        part = slice(self.ptr[index % len(self)], self.ptr[index % len(self) + 1])
        return tuple(zip(self.node[part].tolist(), self.gpus[part].tolist(), strict=True))

    def __iter__(self) -> Iterator[tuple[Chunk, ...]]:
        return (self[i] for i in range(len(self)))


@dataclass(frozen=True)
class Schedule:
    """One run of a workload on a cluster; every array is in the order of the jobs given."""

    jobs: Jobs
    cluster: Cluster
    settings: Settings
    start_s: Floats  # of the last attempt; NaN if rejected
    end_s: Floats
    estimate_s: Floats  # what policies and backfilling saw
    rejected: NDArray[np.bool_]
    reject_reason: Labels
    requeues: Ints
    placements: Placements
    passes: int  # scheduling passes made
    work: dict[str, Any]  # counters of the engine and the placer

    @property
    def ran(self) -> NDArray[np.bool_]:
        """Return which jobs ran to their end."""
        return ~self.rejected

    @property
    def wait_s(self) -> Floats:
        """Return each job's wait; NaN if rejected."""
        return self.start_s - self.jobs.submit_s

    @property
    def jct_s(self) -> Floats:
        """Return each job's completion time since its submission; NaN if rejected."""
        return self.end_s - self.jobs.submit_s

    @property
    def bounded_slowdown(self) -> Floats:
        """Return max(1, (wait + run) / max(run, 10)); NaN if rejected."""
        values: Floats = bounded_slowdown(self.jct_s, self.end_s - self.start_s)
        return values

    def summary(self) -> Summary:
        """Sum the schedule up: every metric with mean, percentiles and worst case."""
        from rltune.metrics import summarise

        return summarise(self)

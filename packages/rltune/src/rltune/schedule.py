"""What a simulation gives: when and where every job ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from rltune.kernel.score.slowdown import bounded_slowdown
from rltune.metrics import Summary, summarise
from rltune.text import counted, html_facts, number, seconds

if TYPE_CHECKING:
    import polars as pl

    from rltune.cluster import Cluster
    from rltune.jobs import Floats, Ints, Jobs
    from rltune.labels import Labels

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
    preempt: str = "off"
    cycle_s: float = 0.0  # the policy is asked this often; 0 = in every pass
    remaining: str = "ends-now"  # what reservations took running jobs to have left

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

    def take(self, rows: NDArray[np.intp]) -> Placements:
        """Keep the rows of an index, in its order."""
        count = np.diff(self.ptr)[rows]
        ptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        at = np.repeat(self.ptr[:-1][rows] - ptr[:-1], count) + np.arange(ptr[-1])
        return Placements(ptr, self.node[at], self.gpus[at])

    @classmethod
    def joined(cls, parts: Sequence[Placements]) -> Placements:
        """Put several behind one another."""
        count = np.concatenate([np.diff(part.ptr) for part in parts])
        ptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        return cls(ptr, *(np.concatenate([getattr(part, name) for part in parts]) for name in ("node", "gpus")))


@dataclass(frozen=True)
class Spells:
    """Spells of jobs, by job and then by time: a job that was stopped before its end has several."""

    job: NDArray[np.int64]  # row of the job table
    start_s: Floats
    end_s: Floats
    placements: Placements

    def __len__(self) -> int:
        return len(self.job)

    @classmethod
    def none(cls) -> Spells:
        """Return no spell at all."""
        no = np.zeros(0, dtype=np.int32)
        nowhere = Placements(np.zeros(1, dtype=np.int64), no, no)
        return cls(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), nowhere)

    @classmethod
    def joined(cls, parts: Sequence[Spells]) -> Spells:
        """Put several lists into one."""
        if not parts:
            return cls.none()
        job, start_s, end_s = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("job", "start_s", "end_s")
        )
        return cls(job, start_s, end_s, Placements.joined([part.placements for part in parts])).in_order()

    def in_order(self) -> Spells:
        """Order them by job and start; of equal starts the one that ends first."""
        return self.take(np.lexsort((self.end_s, self.start_s, self.job)))

    def take(self, rows: NDArray[np.intp]) -> Spells:
        """Keep the rows of an index, in its order."""
        return Spells(self.job[rows], self.start_s[rows], self.end_s[rows], self.placements.take(rows))

    def of_jobs(self, kept: NDArray[np.bool_], row: NDArray[np.intp]) -> Spells:
        """Keep the spells of some jobs, and name each job by its row in another order."""
        mine = self.take(np.flatnonzero(kept[self.job]))
        return Spells(row[mine.job].astype(np.int64), mine.start_s, mine.end_s, mine.placements).in_order()


@dataclass(frozen=True)
class TurnsTaken:
    """What a schedule has beside starts and ends if jobs took turns; in the order of the jobs given."""

    preemptions: NDArray[np.int64]
    lost_s: Floats
    last_start_s: Floats
    cut_short: Spells  # the spells that ended before their jobs did


@dataclass(frozen=True)
class Schedule:
    """One run of a workload on a cluster; every array is in the order of the jobs given."""

    jobs: Jobs
    cluster: Cluster
    settings: Settings
    start_s: Floats  # of the last attempt, of the first spell if jobs take turns; NaN if rejected
    end_s: Floats
    estimate_s: Floats  # what policies and backfilling saw
    rejected: NDArray[np.bool_]
    reject_reason: Labels
    requeues: Ints
    placements: Placements
    passes: int  # scheduling passes made
    work: dict[str, Any]  # counters of the engine and the placer
    turns: TurnsTaken | None = None  # None: who has started runs to its end

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
    def delay_s(self) -> Floats:
        """Return each job's completion time beyond its duration: its wait, and all that stopping it cost."""
        return self.jct_s - self.jobs.duration_s

    @property
    def preemptions(self) -> NDArray[np.int64]:
        """Return how often each job was displaced by another; outages are `requeues`."""
        return np.zeros(len(self.jobs), dtype=np.int64) if self.turns is None else self.turns.preemptions

    @property
    def lost_s(self) -> Floats:
        """Return the work that each job did again, and its restarts, in seconds at speed 1; NaN if rejected."""
        return np.where(self.rejected, np.nan, 0.0) if self.turns is None else self.turns.lost_s

    @property
    def spells(self) -> Spells:
        """Return when and where each job ran, spell by spell: several of one that was stopped before its end.

        If jobs do not take turns only the last attempt of one whose node went down is known.
        """
        ran = np.flatnonzero(self.ran)
        start_s = self.start_s if self.turns is None else self.turns.last_start_s
        last = Spells(ran.astype(np.int64), start_s[ran], self.end_s[ran], self.placements.take(ran))
        return last if self.turns is None else Spells.joined([self.turns.cut_short, last])

    @property
    def run_s(self) -> Floats:
        """Return how long each job ran; if jobs take turns, how long it would have without; NaN if rejected."""
        return self.end_s - self.start_s if self.turns is None else np.where(self.ran, self.jobs.duration_s, np.nan)

    @property
    def bounded_slowdown(self) -> Floats:
        """Return max(1, (wait + run) / max(run, 10)); NaN if rejected."""
        values: Floats = bounded_slowdown(self.jct_s, self.run_s)
        return values

    def summary(self) -> Summary:
        """Sum the schedule up: every metric with mean, percentiles and worst case."""
        return summarise(self)

    def to_polars(self) -> pl.DataFrame:
        """Return one row a job: who, what, when, where, and why not.

        `start_s`, `end_s`, `wait_s`, `jct_s` and `bounded_slowdown` are null for a job that never ran; `rejected` and
        `reject_reason` say so. `nodes` and `node_gpus` list the nodes of its last attempt and the GPUs on each.
        """
        import polars as pl

        jobs = self.jobs
        return pl.DataFrame(
            {
                "id": pl.Series(jobs.id.tolist(), dtype=None if jobs.id.dtype.kind in "iu" else pl.String),
                "user": pl.Series(jobs.user.to_list(), dtype=pl.String),
                "vc": pl.Series(jobs.vc.to_list(), dtype=pl.String),
                "gpus": jobs.gpus,
                "submit_s": jobs.submit_s,
                "start_s": pl.Series(self.start_s, nan_to_null=True),
                "end_s": pl.Series(self.end_s, nan_to_null=True),
                "estimate_s": self.estimate_s,
                "wait_s": pl.Series(self.wait_s, nan_to_null=True),
                "jct_s": pl.Series(self.jct_s, nan_to_null=True),
                "bounded_slowdown": pl.Series(self.bounded_slowdown, nan_to_null=True),
                "requeues": self.requeues,
                "rejected": self.rejected,
                "reject_reason": pl.Series(self.reject_reason.to_list(), dtype=pl.String),
                "nodes": self._by_job(self.placements.node),
                "node_gpus": self._by_job(self.placements.gpus),
            }
        )

    def _by_job(self, values: Ints) -> pl.Series:
        """Return a list a job of the values of its chunks."""
        import polars as pl

        count = np.diff(self.placements.ptr)
        listed = pl.DataFrame({"job": np.repeat(np.arange(len(count)), count), "value": values})
        by_job = listed.group_by("job", maintain_order=True).agg("value")
        every = pl.DataFrame({"job": np.arange(len(count))})
        return every.join(by_job, on="job", how="left", maintain_order="left")["value"]

    def __repr__(self) -> str:
        lines = [f"Schedule: {self._pipeline()}", *(f"  {name}: {told}" for name, told in self._facts())]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_facts(f"Schedule: {self._pipeline()}", self._facts())

    def _pipeline(self) -> str:
        s = self.settings
        around = "".join(
            f", {name} {value}"
            for name, value in (("guard", s.guard), ("search", s.search), ("preempt", s.preempt))
            if value != "off"
        )
        return f"{s.policy}, backfill {s.backfill}, placement {s.placement}, estimates {s.estimator}{around}"

    def _facts(self) -> list[tuple[str, str]]:
        """Return in a few words how the jobs fared; `summary()` says more, and takes longer."""
        where = f"{counted(self.cluster.node_count, 'node')}, {counted(self.cluster.gpu_count, 'GPU')}"
        jobs = ("jobs", f"{int(self.ran.sum()):,} ran, {int(self.rejected.sum()):,} rejected, on {where}")
        if not self.ran.any():
            return [jobs]
        wait, slowdown = self.wait_s[self.ran], self.bounded_slowdown[self.ran]
        waits = f"mean {seconds(wait.mean())}, p99 {seconds(np.percentile(wait, 99))}, longest {seconds(wait.max())}"
        return [jobs, ("wait", waits), ("mean bounded slowdown", number(slowdown.mean()))]

"""The newest look that a controller's journal holds, taken apart once for all who ask."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from rltune.errors import InputError
from rltune.explain import Explainer, Reason
from rltune.live.control_settings import ControlSettings
from rltune.live.decide.decide import Situation
from rltune.live.decide.decision import Decision, Waiting
from rltune.live.journal.packing import unpack_decision, unpack_estimates, unpack_holdings, unpack_snapshot
from rltune.live.journal.store import ControllerRun, CycleRecord, Journal
from rltune.live.present_of_slurm import present_of_cycle
from rltune.live.see.snapshot import LiveJob, LiveNode, Snapshot
from rltune.present import Why
from rltune.serve.job_rows import JobRow, RowChoices, SearchedRows, SortKey, in_order, job_row

T = TypeVar("T")
_MISSING: Any = object()


@dataclass(frozen=True)
class Sight:
    """One cycle: what the cluster looked like, and what was decided."""

    cycle: CycleRecord = field(repr=False)
    run: ControllerRun = field(repr=False)
    situation: Situation = field(repr=False)
    decision: Decision = field(repr=False)
    estimates: Mapping[int, float] = field(repr=False)
    explained: ExplainedCycle = field(repr=False)

    @classmethod
    def of(cls, journal: Journal, number: int = 0) -> Sight:
        """Take a cycle of the journal apart; 0 = the newest."""
        cycle = journal.cycle(number)
        situation = Situation(unpack_snapshot(cycle.snapshot), unpack_holdings(cycle.holdings))
        return cls(
            cycle,
            journal.run(cycle.run),
            situation,
            unpack_decision(cycle.decision),
            unpack_estimates(cycle.estimates),
            ExplainedCycle.of(journal, cycle.id, situation.snapshot),
        )

    @property
    def snapshot(self) -> Snapshot:
        """Return the look itself."""
        return self.situation.snapshot

    @property
    def taken_s(self) -> float:
        """Return when it was taken, by the cluster's clock."""
        return self.snapshot.taken_s

    @cached_property
    def settings(self) -> ControlSettings:
        """Return how the controller was set."""
        return ControlSettings.model_validate_json(self.run.settings)

    @cached_property
    def jobs(self) -> tuple[LiveJob, ...]:
        """Return the jobs that wait or run, waiting ones first and in their order."""
        waiting = {part.job: at for at, part in enumerate(self.decision.waiting)}
        alive = [job for job in self.snapshot.jobs if not job.ended]
        return tuple(sorted(alive, key=lambda job: (not job.pending, waiting.get(job.id, len(waiting)), job.id)))

    @cached_property
    def rows(self) -> tuple[JobRow, ...]:
        """Return a row for each of these jobs."""
        return tuple(job_row(self, job) for job in self.jobs)

    @cached_property
    def row_by_id(self) -> dict[int, JobRow]:
        """Find a job's row."""
        return {row.id: row for row in self.rows}

    @cached_property
    def searched(self) -> SearchedRows:
        """Return what a search looks at."""
        return SearchedRows(self.rows)

    @cached_property
    def _orders(self) -> dict[SortKey, tuple[JobRow, ...]]:
        return {}

    def in_order(self, sort: SortKey) -> tuple[JobRow, ...]:
        """Return the rows in an order; each is made once."""
        if sort not in self._orders:
            self._orders[sort] = in_order(self.rows, sort)
        return self._orders[sort]

    @cached_property
    def choices(self) -> RowChoices:
        """Return what the rows can be chosen by."""
        return RowChoices.of(self.rows)

    def part(self, job: int) -> Waiting | None:
        """Return what was decided of a waiting job."""
        return self.decision.by_job.get(job)

    @cached_property
    def jobs_by_node(self) -> dict[str, list[tuple[LiveJob, int]]]:
        """Return who runs on each node, with how many GPUs of it."""
        on: dict[str, list[tuple[LiveJob, int]]] = {}
        for job in self.snapshot.jobs:
            if job.on_nodes:
                gpus = job.gpus_by_node or (0,) * len(job.node_names)
                for node, count in zip(job.node_names, gpus, strict=True):
                    on.setdefault(node, []).append((job, count))
        return on

    @cached_property
    def gpus_by_type(self) -> dict[str, GpuCount]:
        """Return how many GPUs of each type there are, and what they do."""
        made: dict[str, GpuCount] = {}
        for node in self.snapshot.nodes:
            if node.gpus:
                kind = node.gpu_type or "gpu"
                made[kind] = made.get(kind, GpuCount()).with_node(node)
        return made

    def reason(self, job: LiveJob) -> Reason:
        """Return why a waiting job waits, in the order that is in force."""
        return self.explained.reasons[job.id]

    @cached_property
    def pending_reasons(self) -> Counter[str]:
        """Count the waiting jobs by the kind of their reason."""
        counted: Counter[str] = Counter()
        for (reason, _, _), count in self.pending_kinds.items():
            counted[reason] += count
        return counted

    @cached_property
    def pending_kinds(self) -> Counter[tuple[str, str, str]]:
        """Count the waiting jobs by kind of reason, partition and GPU type; tasks of an array count each."""
        counted: Counter[tuple[str, str, str]] = Counter()
        for job in self.snapshot.pending:
            kind = self.reason(job).why.value, ",".join(job.partitions), "|".join(job.gpu_types) or "any"
            counted[kind] += max(1, job.array_waiting)
        return counted


@dataclass(frozen=True)
class ExplainedCycle:
    """Why everybody waits in a cycle, in the order that is in force: one pass of the core, asked about all of them."""

    reasons: Mapping[int, Reason]
    planned_s: Mapping[int, float]  # when the core has reserved a start, where it has
    backfill: str  # by which rule the queue in force is filled
    explainer: Explainer | None  # not for two threads at once; None if the cycle cannot be explained
    why_not: str = ""

    @classmethod
    def of(cls, journal: Journal, cycle: int, snapshot: Snapshot) -> ExplainedCycle:
        """Explain a cycle of the journal; where that cannot be done, every reason says so."""
        try:
            explainer = Explainer(present_of_cycle(journal, cycle))
            every, planned = explainer.all_reasons(), explainer.planned_starts()
            for name in explainer.present.waiting_names[:1]:  # loads what only a job's page asks of the core: it may
                explainer.explain(name, changes=False)  # take seconds, and here nobody waits for it
        except InputError as error:
            unknown = Reason(Why.LEFT, f"why is not known: {error}")
            return cls({job.id: unknown for job in snapshot.pending}, {}, "easy", None, str(error))
        unknown = Reason(Why.LEFT, "why is not known: it is not in the queue that was explained")
        named = [(job.id, job.command_name) for job in snapshot.pending]
        return cls(
            {number: every.get(name, unknown) for number, name in named},
            {number: planned[name] for number, name in named if name in planned},
            explainer.present.pipeline.backfill,
            explainer,
        )


@dataclass(frozen=True)
class GpuCount:
    """GPUs of one type. `free` ones lie on nodes that take jobs; `whole_free` ones on nodes that are empty."""

    total: int = 0
    used: int = 0
    free: int = 0
    whole_free: int = 0
    down: int = 0
    most_on_a_node: int = 0

    @property
    def fragmented(self) -> int:
        """Return how many are free beside others that are used."""
        return self.free - self.whole_free

    def with_node(self, node: LiveNode) -> GpuCount:
        """Return the count with one more node."""
        used = min(node.gpus_used, node.gpus)
        free = node.gpus - used if node.up else 0
        return GpuCount(
            self.total + node.gpus,
            self.used + used,
            self.free + free,
            self.whole_free + (free if not used else 0),
            self.down + (node.gpus - used if not node.up else 0),
            max(self.most_on_a_node, free),
        )


class Watch:
    """Keeps the newest cycle at hand; a cycle is taken apart once.

    Whoever asks first takes it apart, unless `refresh` is called from time to time: then nobody waits for that.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._journal, self._events = Journal.read(path), Journal.read(path)
        self._lock = threading.RLock()  # who has the journal may also ask for the newest cycle
        self._sight: Sight | None = None
        self._is_refreshed = False
        self._kept: dict[tuple[int, str], Any] = {}  # by cycle and name
        self._making = threading.RLock()

    @contextmanager
    def journal(self) -> Iterator[Journal]:
        """Lend the journal to one thread at a time, for a short question."""
        with self._lock:
            yield self._journal

    @contextmanager
    def own_journal(self) -> Iterator[Journal]:
        """Open the journal once more, for a long question."""
        journal = Journal.read(self.path)
        try:
            yield journal
        finally:
            journal.close()

    def newest(self) -> int:
        """Return the number of the newest cycle that can be shown; 0 = there is none."""
        if (sight := self.sight_at_hand) is not None:
            return sight.cycle.id
        with self.journal() as journal:
            return journal.last_cycle()

    def newest_event(self) -> int:
        """Return the number of the newest event; asked of a connection of its own, so that nobody waits for others."""
        return int(self._events.rows("SELECT coalesce(max(id), 0) FROM event")[0][0])

    @property
    def sight_at_hand(self) -> Sight | None:
        """Return the newest cycle if `refresh` has taken it apart: nobody waits for that."""
        return self._sight if self._is_refreshed else None

    def sight(self) -> Sight:
        """Return the newest cycle."""
        if (sight := self.sight_at_hand) is not None:
            return sight
        with self.journal() as journal:
            last = journal.last_cycle()
            if not last:
                raise InputError(f"{self.path}: holds no cycle yet; `rltune control` writes one in every cycle")
            if self._sight is None or self._sight.cycle.id != last:
                self._sight = Sight.of(journal, last)
            return self._sight

    def refresh(self, prepare: Callable[[Sight], object] = lambda _: None) -> None:
        """Take the newest cycle apart, if it is new, and prepare what all will ask; others look at the one before."""
        self._is_refreshed = True
        with self.journal() as journal:
            last = journal.last_cycle()
        if last and (self._sight is None or self._sight.cycle.id != last):
            try:
                with self.own_journal() as journal:
                    made = Sight.of(journal, last)
                _ = made.row_by_id, made.gpus_by_type, made.pending_reasons, made.choices, made.searched
            except BaseException:
                self._is_refreshed = False  # who asks takes it apart, and is told that it cannot be
                raise
            try:
                prepare(made)
            finally:
                self._sight = made

    def once_a_cycle(self, name: str, sight: Sight, make: Callable[[], T]) -> T:
        """Return what `make` makes of a cycle; it is made once, and kept until the cycle after the next.

        `make` may borrow the journal, so nobody asks this who has it: the two locks are taken in this order alone.
        """
        key = (sight.cycle.id, name)
        made = self._kept.get(key, _MISSING)
        if made is _MISSING:
            with self._making:
                made = self._kept.get(key, _MISSING)
                if made is _MISSING:
                    made = make()
                    kept = {old: of for old, of in self._kept.items() if old[0] >= sight.cycle.id - 1}
                    self._kept = {**kept, key: made}  # another thread may drop it before this one returns
        found: T = made
        return found

    def close(self) -> None:
        """Close the journal."""
        with self.journal() as journal:
            journal.close()
        self._events.close()

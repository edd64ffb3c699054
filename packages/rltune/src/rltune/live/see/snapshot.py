"""What a running cluster looks like at one moment: values only, whoever read them.

Times are seconds since the epoch by the cluster's own clock; NaN means that there is none. Memory is in GiB.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

PENDING = "PENDING"
RUNNING = "RUNNING"
ON_NODES = frozenset({RUNNING, "COMPLETING", "CONFIGURING", "SUSPENDED", "STAGE_OUT", "SIGNALING"})  # it holds GPUs
NOT_ENDED = ON_NODES | {PENDING, "RESIZING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
NAN = float("nan")
LOWEST = 1  # priority of a job that may run, whatever its factors come to: Slurm shows 1 for all below


class Lever(StrEnum):
    """Which of a job's own numbers carries what is added to its priority: what `site_factor` is read from."""

    SITE_FACTOR = "SiteFactor"
    NICE = "Nice"  # with its sign turned, where no SiteFactor is told


@dataclass(frozen=True, slots=True)
class PriorityParts:
    """What Slurm holds of a waiting job's priority."""

    priority: int
    site: int
    others: int  # all other factors less Nice; with the site's they may come to less than Slurm shows
    by_hand: bool  # somebody set the priority itself


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveJob:
    """A job, or the waiting tasks of an array that are still one record.

    `gpus`, `cpus` and `mem_gib` are totals over all its nodes; for an array record they are those of one task.
    """

    id: int
    ref: str = ""  # how the scheduler's own commands name it if not by its id: 12_3, 12_[1-5]
    name: str = ""
    user: str = ""
    account: str = ""
    partitions: tuple[str, ...] = ()  # several = wherever it starts first; of a running job the one it runs in
    qos: str = ""
    state: str  # Slurm's base state, in capitals
    reason: str = ""  # why it waits, in Slurm's word: Resources, Priority, Dependency, JobHeldUser, ...

    submit_s: float
    eligible_s: float = NAN
    start_s: float = NAN  # of a running or ended job; NaN while it waits (a forecast is not a start)
    end_s: float = NAN  # of an ended job
    limit_s: float = NAN  # NaN = unlimited

    gpus: int = 0
    gpu_types: tuple[str, ...] = ()  # acceptable; none = any
    nodes: int = 0  # asked for; 0 = the scheduler's choice. Of a running job: those it has
    gpus_per_node: int = 0  # asked for; 0 = the scheduler's choice
    cpus: float = NAN
    mem_gib: float = NAN  # NaN = not asked for
    exclusive: bool = False  # takes whole nodes
    shares_gpu: bool = False  # asks for a MIG slice, a shard or an MPS share: left to the scheduler

    node_names: tuple[str, ...] = ()  # where it runs
    gpus_by_node: tuple[int, ...] = ()  # in the order of node_names; () = not told

    priority: int = 0
    priority_by_hand: bool | None = None  # somebody set Priority itself, so that no factor counts; None = not told
    site_factor: int | None = None  # None = not told
    other_factors: int | None = None  # all the others added up, less Nice; None = not told
    nice: int = 0
    held: bool = False  # by its user or an administrator

    dependency: str = ""  # what is still to be awaited
    array_id: int = 0  # 0 = no array
    array_tasks: str = ""  # those of this record that wait: "1-5%2"; "" for a single task
    array_waiting: int = 0  # how many those are
    array_throttle: int = 0  # how many tasks may run at once; 0 = any number
    het_id: int = 0  # 0 = no heterogeneous job

    features: str = ""  # the constraint as given: "p100|v100"
    required_nodes: tuple[str, ...] = ()
    excluded_nodes: tuple[str, ...] = ()
    reservation: str = ""
    begin_s: float = NAN  # not to be started before; NaN = at once
    restarts: int = 0
    requeue: bool = False  # Slurm may put it back into the queue: its default, so no consent to give way
    comment: str = ""  # its user's
    admin_comment: str = ""  # an administrator's, or ours

    # What the scheduler forgets when it puts a job back into the queue, and the controller remembers.
    first_submit_s: float = NAN  # NaN = submit_s
    served_s: float = 0.0  # for which it ran in earlier spells
    displaced: int = 0  # how often the controller made it give way
    displaced_today: int = 0  # in the last 24 hours
    toll_s: float = 0.0  # by how much later it will end for having given way, see paid_tolls.py
    due_s: float = math.inf  # when it comes first, if it gave way and has not started since
    settled: bool = False  # it has come first once, and gives way no more

    @property
    def came_s(self) -> float:
        """Return when it was submitted first."""
        return self.submit_s if math.isnan(self.first_submit_s) else self.first_submit_s

    @property
    def ready_s(self) -> float:
        """Return from when it could have started: from its submission, or when it became eligible."""
        return max(self.submit_s, self.eligible_s)  # in this order: NaN is larger than nothing

    @property
    def spell(self) -> tuple[float, int]:
        """Return what tells one spell of a job from the next."""
        return self.start_s, self.restarts

    @property
    def pending(self) -> bool:
        """Return whether it waits."""
        return self.state == PENDING

    @property
    def on_nodes(self) -> bool:
        """Return whether it holds nodes now."""
        return self.state in ON_NODES

    @property
    def ended(self) -> bool:
        """Return whether it will never run again."""
        return self.state not in NOT_ENDED

    @property
    def own_priority(self) -> int:
        """Return its priority without a site factor, also where that is below what Slurm shows."""
        site = self.site_factor or 0
        if self.priority > LOWEST or self.other_factors is None:
            return self.priority - site
        return min(self.other_factors, LOWEST - site)

    @property
    def priority_parts(self) -> PriorityParts | None:
        """Return what its priority is made of; None if it is not told."""
        if self.site_factor is None or self.other_factors is None:
            return None
        return PriorityParts(self.priority, self.site_factor, self.other_factors, bool(self.priority_by_hand))

    def with_priority(self, parts: PriorityParts) -> LiveJob:
        """Return the job with a priority that was read later."""
        return replace(
            self,
            priority=parts.priority,
            site_factor=parts.site,
            other_factors=parts.others,
            priority_by_hand=parts.by_hand,
        )

    @property
    def command_name(self) -> str:
        """Return what the scheduler's commands call it."""
        return self.ref or str(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveNode:
    """A node: what it has and what of it is in use. A node with GPUs of several types joins them by "+"."""

    name: str
    gpu_type: str = ""
    gpus: int = 0
    cpus: float = 0.0
    mem_gib: float = 0.0
    gpus_used: int = 0
    cpus_used: float = 0.0
    mem_used_gib: float = 0.0
    state: str = ""  # Slurm's base state and flags, in capitals, joined by "+": "MIXED+DRAIN"
    up: bool = True  # takes new jobs: neither down, drained, draining, failing, powered off nor in maintenance
    partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    reservation: str = ""
    shares_gpus: bool = False  # its GPUs are cut into MIG slices, shards or MPS shares
    rack: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition. Of two that share nodes, jobs of the higher tier always come first."""

    name: str
    node_names: tuple[str, ...] = ()
    priority_tier: int = 1
    up: bool = True
    max_time_s: float = NAN


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Nodes set aside from start to end, for some people or for maintenance."""

    name: str
    start_s: float
    end_s: float
    node_names: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()

    @property
    def maintenance(self) -> bool:
        """Return whether nobody may run there."""
        return "MAINT" in self.flags


@dataclass(frozen=True, slots=True)
class RecordJob:
    """A held job in which a controller keeps what it owns: see `see/record_text.py` for the text."""

    id: int
    user: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Everything that one cycle reads. `jobs` holds waiting, running and recently ended ones."""

    taken_s: float  # by the cluster's clock
    version: str  # of the scheduler: "22.05.8"
    jobs: tuple[LiveJob, ...] = field(repr=False)
    nodes: tuple[LiveNode, ...] = field(repr=False)
    partitions: tuple[Partition, ...] = field(default=(), repr=False)
    reservations: tuple[Reservation, ...] = field(default=(), repr=False)
    mem_counts: bool = True  # memory is a resource that jobs use up
    kill_wait_s: float = 30.0  # from the polite end of a job to the certain one
    records: tuple[RecordJob, ...] = field(default=(), repr=False)  # controllers' own jobs, which are not in `jobs`
    caution: str = ""  # why it may have been misread: nothing should be changed by it
    lever: Lever = Lever.SITE_FACTOR

    @cached_property
    def job_by_id(self) -> dict[int, LiveJob]:
        """Find a job by its id."""
        return {job.id: job for job in self.jobs}

    @cached_property
    def array_running(self) -> dict[int, int]:
        """Count the tasks of each array that hold nodes."""
        return dict(Counter(job.array_id for job in self.jobs if job.array_id and job.on_nodes))

    @cached_property
    def array_members(self) -> dict[int, list[LiveJob]]:
        """List by array the tasks that have numbers of their own."""
        members: dict[int, list[LiveJob]] = {}
        for job in self.jobs:
            if job.array_id and job.id != job.array_id:
                members.setdefault(job.array_id, []).append(job)
        return members

    @cached_property
    def partition_by_name(self) -> dict[str, Partition]:
        """Find a partition by its name."""
        return {partition.name: partition for partition in self.partitions}

    @cached_property
    def pending(self) -> tuple[LiveJob, ...]:
        """List the jobs that wait."""
        return tuple(job for job in self.jobs if job.pending)

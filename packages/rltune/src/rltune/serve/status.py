"""The state of the whole in a few numbers: queue, GPUs by type, controller."""

from __future__ import annotations

from pydantic import BaseModel, Field

from rltune.live.controller import CALLS
from rltune.live.journal.store import Journal
from rltune.serve.sight import Sight, Watch
from rltune.serve.tokens import Caller


class GpuState(BaseModel):
    """The GPUs of one type."""

    gpu_type: str
    total: int
    used: int
    free: int = Field(description="On nodes that take jobs.")
    fragmented: int = Field(description="Free ones that lie beside used ones.")
    down: int
    most_on_a_node: int = Field(description="The most free ones on one node.")


class NodeState(BaseModel):
    """One node, and who is on it."""

    name: str
    gpu_type: str
    gpus: int
    gpus_used: int
    cpus: float
    cpus_used: float
    up: bool
    state: str
    partitions: list[str]
    jobs: list[int] = Field(description="Ids of the jobs that run there and may be seen.")


class Status(BaseModel):
    """What the newest cycle came to."""

    cycle: int
    taken_s: float = Field(description="By the cluster's clock.")
    at_s: float = Field(description="By the controller's.")
    mode: str
    acting: bool
    policy: str
    waiting: int
    running: int
    decide_s: float
    held: int = Field(description="Jobs that carry a change of the controller's.")
    reasons: dict[str, int] = Field(description="Waiting jobs by reason.")
    gpus: list[GpuState]
    mean_wait_s: float | None = Field(description="Of those that wait now.")


class EventRow(BaseModel):
    """Something that is no job's: a trip, a release, a verdict."""

    id: int
    at_s: float
    kind: str
    text: str


def status_of(watch: Watch, sight: Sight) -> Status:
    """Sum up a cycle; it is done once."""
    return watch.once_a_cycle("status", sight, lambda: _status(sight))


def _status(sight: Sight) -> Status:
    waits = [sight.taken_s - job.came_s for job in sight.snapshot.pending]
    pipeline = sight.settings.pipeline
    return Status(
        cycle=sight.cycle.id,
        taken_s=sight.taken_s,
        at_s=sight.cycle.at_s,
        mode=sight.settings.mode.value,
        acting=bool(sight.cycle.acting),
        policy=f"{pipeline.policy} + {pipeline.backfill}",
        waiting=sight.cycle.waiting,
        running=sight.cycle.running,
        decide_s=sight.cycle.decide_s,
        held=len(sight.situation.holdings.by_job),
        reasons=dict(sight.pending_reasons.most_common()),
        gpus=gpu_states(sight),
        mean_wait_s=sum(waits) / len(waits) if waits else None,
    )


def gpu_states(sight: Sight) -> list[GpuState]:
    """Count the GPUs by type."""
    return [
        GpuState(
            gpu_type=kind,
            total=count.total,
            used=count.used,
            free=count.free,
            fragmented=count.fragmented,
            down=count.down,
            most_on_a_node=count.most_on_a_node,
        )
        for kind, count in sorted(sight.gpus_by_type.items())
    ]


def node_states(sight: Sight, caller: Caller) -> list[NodeState]:
    """Describe every node; of other people's jobs a caller sees only what they use."""
    return [
        NodeState(
            name=node.name,
            gpu_type=node.gpu_type,
            gpus=node.gpus,
            gpus_used=node.gpus_used,
            cpus=node.cpus,
            cpus_used=node.cpus_used,
            up=node.up,
            state=node.state,
            partitions=list(node.partitions),
            jobs=[job.id for job, _ in sight.jobs_by_node.get(node.name, ()) if caller.may_see(job.user)],
        )
        for node in sight.snapshot.nodes
    ]


def news_of(journal: Journal, most: int, *, calls: bool = False) -> list[EventRow]:
    """Return the newest events that are news: no gains, and no counts of Slurm's commands unless asked for.

    Gains are replays without an interval; whether the policy is better is answered by the page of policies.
    """
    left_out = "gain" if calls else CALLS
    rows = journal.rows(
        "SELECT id, at_s, kind, text FROM event WHERE kind NOT IN ('gain', ?) ORDER BY id DESC LIMIT ?", left_out, most
    )
    return [EventRow(id=i, at_s=at_s, kind=kind, text=text) for i, at_s, kind, text in rows]


def events_of(journal: Journal, before: int, most: int) -> list[EventRow]:
    """Return the newest events before one, newest first; 0 = before none."""
    rows = journal.rows(
        "SELECT id, at_s, kind, text FROM event WHERE id < ? ORDER BY id DESC LIMIT ?", before or 1 << 62, most
    )
    return [EventRow(id=i, at_s=at_s, kind=kind, text=text) for i, at_s, kind, text in rows]

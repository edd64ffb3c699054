"""Who may be touched, and who can start at all: what the controller leaves to Slurm, each with its reason."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from rltune.live.control_settings import Canary, Channel, ControlSettings, Scope
from rltune.live.decide.node_layout import is_understood
from rltune.live.see.holdings import Holdings
from rltune.live.see.snapshot import LiveJob, Snapshot

# Slurm's words for a job that waits only for its turn, for nodes, or that was not looked at yet.
TURN = frozenset({"", "None", "Priority", "Resources", "WaitingForScheduling", "JobArrayTaskLimit", "BadConstraints"})
UNAVAILABLE = ("ReqNodeNotAvail", "Nodes required for job", "NodeDown")
EVERYBODY = "*"
NOT_CANARY = "it is not among the canary's jobs"
_BUCKETS = 10_000


@dataclass(frozen=True, slots=True)
class JobStanding:
    """What a waiting job is to the controller; `left` says why it takes no part, `kept` why it is not touched."""

    left: str = ""
    kept: str = ""
    movable: bool = True  # others may be put before it: it is ours, or would be if the canary's share were larger

    @property
    def competes(self) -> bool:
        """Return whether it is in the core's queue."""
        return not self.left

    @property
    def ours(self) -> bool:
        """Return whether it may be touched."""
        return not self.left and not self.kept


def standing(job: LiveJob, snapshot: Snapshot, settings: ControlSettings, holdings: Holdings) -> JobStanding:
    """Judge one waiting job."""
    kept = not_touched(job, settings, holdings)
    return JobStanding(left_to_slurm(job, snapshot, holdings), kept, not kept or kept == NOT_CANARY)


def left_to_slurm(job: LiveJob, snapshot: Snapshot, holdings: Holdings) -> str:
    """Return why a job cannot start whatever its place in the queue, or is not for the core to decide; "" if it can."""
    if job.held:
        return "held"
    if job.dependency:
        return "waits for other jobs"
    if job.begin_s > snapshot.taken_s:
        return "is not to begin yet"
    if job.shares_gpu:
        return "asks for a part of a GPU, which is left to Slurm"
    if job.het_id:
        return "is part of a heterogeneous job, which is left to Slurm"
    if job.reservation:
        return f"is for reservation {job.reservation}, which is left to Slurm"
    if job.required_nodes and len(job.required_nodes) != max(1, job.nodes):
        return "asks for some nodes by name and for others besides, which is left to Slurm"
    if not is_understood(job.features):
        return f"has the constraint {job.features}, which is left to Slurm"
    if job.array_throttle and _array_running(job, snapshot) >= job.array_throttle:
        return "waits for other tasks of its array"
    if not _waits_for_its_turn(job, holdings):
        return f"Slurm says {job.reason}"
    return ""


def _waits_for_its_turn(job: LiveJob, holdings: Holdings) -> bool:
    if job.reason == "BadConstraints":
        return holdings.steers(job)  # by our own doing, and undone in this cycle
    return job.reason in TURN or job.reason.startswith(UNAVAILABLE)


def _array_running(job: LiveJob, snapshot: Snapshot) -> int:
    return snapshot.array_running.get(job.array_id, 0)


def not_touched(job: LiveJob, settings: ControlSettings, holdings: Holdings) -> str:
    """Return why a job is not to be changed; "" if it may be."""
    reason = out_of_scope(job, settings.scope)
    if reason:
        return reason
    if not in_canary(job, settings.canary):
        return NOT_CANARY
    if job.priority_by_hand and not holdings.sets_priority(job):
        return "its priority was set by hand"
    if job.site_factor and not holdings.sets_site_factor(job):
        return f"it has a {'Nice' if settings.slurm.rest else 'SiteFactor'} that is not ours"
    if job.nice and settings.numbers.channel is Channel.PRIORITY:
        return "it has a Nice, which Slurm forgets when a Priority is set"
    if holdings.is_given_up(job):
        return "it was changed by another hand"
    return ""


def out_of_scope(job: LiveJob, scope: Scope) -> str:
    """Return whose jobs are not to be touched; "" if this one has opted in."""
    for what, having, wanted, unwanted in (
        ("partition", job.partitions, scope.partitions, scope.not_partitions),
        ("account", (job.account,), scope.accounts, scope.not_accounts),
        ("QOS", (job.qos,), scope.qos, scope.not_qos),
    ):
        for name in having:
            if name in unwanted or (wanted and EVERYBODY not in wanted and name not in wanted):
                return f"{what} {name or '(none)'} has not opted in"
    return ""


def in_canary(job: LiveJob, canary: Canary) -> bool:
    """Return whether a job is among those acted on first; tasks of one array are together."""
    if canary.partition and canary.partition not in job.partitions:
        return False
    digest = hashlib.sha256(str(job.array_id or job.id).encode()).digest()
    return int.from_bytes(digest[:4], "big") % _BUCKETS < round(canary.share * _BUCKETS)


def tasks_that_may_start(job: LiveJob, snapshot: Snapshot, most: int) -> int:
    """Count the tasks of a record that could start now: 1, or what an array and its throttle allow."""
    waiting = max(1, job.array_waiting)
    allowed = job.array_throttle - _array_running(job, snapshot) if job.array_throttle else math.inf
    return int(max(1, min(waiting, allowed, most)))

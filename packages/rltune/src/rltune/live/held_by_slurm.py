"""Why Slurm itself keeps a job from the queue: its word for it in plain ones, with what the look tells beside it."""

from __future__ import annotations

import math
import re

from rltune.live.see.snapshot import LiveJob, Snapshot
from rltune.present.present import THROTTLE_STEP, Aside, Why, told_time
from rltune.text import counted, seconds

_HELD_BY_LIMIT = ("Limit", "QOS", "Assoc", "MaxJobs", "MaxNodes", "MaxCpu", "MaxGRES", "MaxTRES", "Grp")
_BAD_REQUEST = {  # with what to do
    "BadConstraints": ("asks for what no node has", ""),
    "InvalidAccount": ("names an account that its user may not use", "take another account"),
    "InvalidQOS": ("names a QOS that it may not use", "take another QOS"),
    "QOSNotAllowed": ("its partition does not take its QOS", "take another QOS or partition"),
    "AccountNotAllowed": ("its partition does not take its account", "take another account or partition"),
}
_WHATS = (  # in Slurm's words, the longer ones first
    ("SubmitJobs", "on jobs submitted at once"),
    ("Jobs", "on jobs that run at once"),
    ("RunMin", "on what its running jobs may still use"),
    ("CPUMin", "on CPU time"),
    ("WallDuration", "on run time"),
    ("Wall", "on run time"),
    ("GRES", "on GPUs"),
    ("Cpu", "on CPUs"),
    ("CPU", "on CPUs"),
    ("Mem", "on memory"),
    ("Node", "on nodes"),
    ("Billing", "on billing units"),
)
_OF_ONE_JOB = ("PerJob", "MaxWall", "MinCPU", "MinGRES")  # waiting does not help: what it asks for is too much
_DEPENDS = re.compile(r"(\d+)(?:_\d+|_\*)?(?:\+\d+)?\(")


def aside_of(job: LiveJob, text: str, snapshot: Snapshot) -> Aside:
    """Name the kind of what keeps a job out of the queue, and say it; `text`: why it takes no part."""
    if job.held:
        who = "its user" if job.reason == "JobHeldUser" else "an administrator"
        return Aside(Why.HOLD, f"held by {who if job.reason.startswith('JobHeld') else 'its user or an administrator'}")
    if job.dependency:
        return _dependent(job, snapshot)
    if job.begin_s > snapshot.taken_s:
        return Aside(Why.NOT_YET, f"is not to begin before {told_time(job.begin_s, snapshot.taken_s)}")
    if text.startswith("waits for other tasks"):
        return Aside(Why.LIMIT, f"{text}: at most {job.array_throttle} may run at once", THROTTLE_STEP)
    if job.reservation:
        return _for_reservation(job, text, snapshot)
    if job.reason.startswith("Partition"):
        return _refused_by_partition(job, snapshot)
    if job.reason in _BAD_REQUEST:
        told, step = _BAD_REQUEST[job.reason]
        return Aside(Why.NEVER, f"{told} (Slurm says {job.reason})", step)
    if job.reason == "Licenses":
        told = "the licenses that it asks for are in use, or set aside (Slurm says Licenses)"
        return Aside(Why.LIMIT, told, "wait until a job that has them ends, or ask for fewer: scontrol show licenses")
    if any(word in job.reason for word in _HELD_BY_LIMIT):
        return _limited(job, snapshot)
    return Aside(Why.LEFT, text)


def _dependent(job: LiveJob, snapshot: Snapshot) -> Aside:
    """Return which jobs it waits for, and how far they are."""
    if "Never" in job.reason:
        told = f"waits for other jobs that did not end as it asks, so it will never start: {job.dependency}"
        return Aside(
            Why.DEPENDENCY, told, "cancel it, or remove the dependency: scontrol update JobId={job} Dependency="
        )
    numbers = dict.fromkeys(map(int, _DEPENDS.findall(job.dependency)))
    known = [snapshot.job_by_id[number] for number in numbers if number in snapshot.job_by_id]
    how_far = "; ".join(f"job {other.command_name} {_how_far(other, snapshot)}" for other in known)
    return Aside(Why.DEPENDENCY, f"waits for other jobs: {job.dependency}{f' ({how_far})' if how_far else ''}")


def _how_far(job: LiveJob, snapshot: Snapshot) -> str:
    end_s = job.start_s + job.limit_s
    if job.on_nodes:
        return f"runs, at most until {told_time(end_s, snapshot.taken_s)}" if math.isfinite(end_s) else "runs"
    return "waits" if job.pending else job.state.lower()


def _for_reservation(job: LiveJob, text: str, snapshot: Snapshot) -> Aside:
    """Return when the reservation begins that a job is for."""
    found = next((one for one in snapshot.reservations if one.name == job.reservation), None)
    if found is None or found.end_s <= snapshot.taken_s:
        told = f"is for reservation {job.reservation}, which is over or was deleted, so it will never start"
        step = "cancel it, or take it out of the reservation: scontrol update JobId={job} ReservationName="
        return Aside(Why.NEVER, told, step)
    if found.start_s <= snapshot.taken_s:
        until = told_time(found.end_s, snapshot.taken_s)
        return Aside(Why.RESERVED, f"is for reservation {job.reservation}, which lasts until {until}: {text}")
    begins = f"which begins {told_time(found.start_s, snapshot.taken_s)}"
    return Aside(Why.RESERVED, f"is for reservation {job.reservation}, {begins}", "wait until the reservation begins")


def _refused_by_partition(job: LiveJob, snapshot: Snapshot) -> Aside:
    """Return what its partition does not allow."""
    own = [one for one in snapshot.partitions if one.name in job.partitions]
    names = f"partition {', '.join(job.partitions)}"
    says = f"(Slurm says {job.reason})"
    longest = max((one.max_time_s for one in own), default=math.nan)
    if job.reason.startswith("PartitionTimeLimit"):
        most = f" allows {seconds(longest)}," if math.isfinite(longest) else " allows less:"
        step = f"ask for at most {seconds(longest)}" if math.isfinite(longest) else "ask for less time"
        return Aside(Why.NEVER, f"{names}{most} and it asks for {seconds(job.limit_s)} {says}", step)
    if job.reason.startswith("PartitionNodeLimit"):
        nodes = len({name for one in own for name in one.node_names})
        told = f"it asks for {counted(job.nodes, 'node')}, and {names} has {nodes} or allows fewer {says}"
        return Aside(Why.NEVER, told, "ask for fewer nodes")
    if job.reason.startswith("PartitionConfig"):  # of a refused QOS Slurm says this and QOSNotAllowed, in turns
        told = f"{names} does not take its QOS, its account or what it asks for {says}"
        return Aside(Why.NEVER, told, "take another QOS or partition")
    return Aside(Why.LEFT, f"{names} starts no jobs {says}", "wait until the partition is up, or take another")


def _limited(job: LiveJob, snapshot: Snapshot) -> Aside:
    """Return whose limit is reached, on what, and what its user, account and QOS use now."""
    word = job.reason
    whose = f"QOS {job.qos}" if word.startswith("QOS") and job.qos else f"account {job.account}" if job.account else ""
    what = next((text for key, text in _WHATS if key in word), "")
    of = f" of {whose}" if whose else ""
    if any(part in word for part in _OF_ONE_JOB):
        asks = f": it asks for {_asks(job)}" if what in {"on GPUs", "on nodes", "on run time"} else ""
        told = (
            f"one job may not have as much: the limit{of} {what or 'on its request'} is lower{asks} (Slurm says {word})"
        )
        return Aside(Why.LIMIT, told, "ask for less, or for a higher limit; waiting does not help")
    each = " for each user" if "PerUser" in word else " for each account" if "PerAcc" in word else ""
    told = f"the limit{of} {what}{each} is reached".replace("  ", " ")
    return Aside(Why.LIMIT, f"{told}; {_in_use(job, snapshot)} (Slurm says {word})")


def _asks(job: LiveJob) -> str:
    parts = [counted(job.gpus, "GPU")] if job.gpus else []
    parts += [counted(job.nodes, "node")] if job.nodes > 1 else []
    return ", ".join([*parts, f"{seconds(job.limit_s)} at most" if math.isfinite(job.limit_s) else "unlimited time"])


def _in_use(job: LiveJob, snapshot: Snapshot) -> str:
    """Return what runs of those whom the limit counts together."""
    word = job.reason
    whose = ["account"] if "Grp" in word or "PerAcc" in word else ["user"]
    if word.startswith("QOS"):
        whose = [*(whose if "Per" in word else []), "qos"]
    mine = [one for one in snapshot.jobs if one.on_nodes and all(getattr(one, w) == getattr(job, w) for w in whose)]
    who = " in ".join(f"{'QOS' if w == 'qos' else w} {getattr(job, w) or '(none)'}" for w in whose)
    return f"{who} has {counted(len(mine), 'job')} with {counted(sum(one.gpus for one in mine), 'GPU')} running"

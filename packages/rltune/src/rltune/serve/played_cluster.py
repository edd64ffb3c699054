"""A cluster that is only simulated, for trying the service and the controller without one.

A history is simulated once; what a Slurm would show at a time is cut out of its schedule. Jobs start when the schedule
says so, whatever the controller finds: it watches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rltune.jobs import TYPE_SEPARATOR
from rltune.live.clock import Clock
from rltune.live.see.backend import BackendError, Change, ChangeKind, ChangeOutcome
from rltune.live.see.snapshot import PENDING, RUNNING, LiveJob, LiveNode, Partition, PriorityParts, Snapshot
from rltune.schedule import Schedule

_REMEMBERED_S = 300.0  # for which a Slurm usually shows ended jobs
_EVERYBODY = "gpu"
_SLURM = "22.05.8"  # whose answers these are like
_HIGHEST = 1_000_000
_UNLIMITED = 1e6  # of what the cluster does not model


class PlayedCluster:
    """A schedule, played to whoever looks."""

    def __init__(self, schedule: Schedule, clock: Clock, begin_s: float, remembered_s: float = _REMEMBERED_S) -> None:
        """Play from `begin_s` of the schedule on, the clock's present; ended jobs are shown for `remembered_s`."""
        self.calls: Counter[str] = Counter()
        self._schedule, self._clock = schedule, clock
        self._shift_s = clock.now_s() - begin_s
        self._nodes = _nodes(schedule)
        self._remembered_s = remembered_s

    def observe(self) -> Snapshot:
        """Show what waits, runs and has just ended."""
        self.calls["squeue"] += 1
        now = self._clock.now_s()
        at, s = now - self._shift_s, self._schedule
        seen = (s.jobs.submit_s <= at) & (s.end_s > at - self._remembered_s)
        jobs = tuple(self._job(int(row), at) for row in np.flatnonzero(seen))
        return Snapshot(
            taken_s=now,
            version=_SLURM,
            jobs=jobs,
            nodes=_with_use(self._nodes, jobs),
            partitions=_partitions(self._nodes),
        )

    def _job(self, row: int, at: float) -> LiveJob:
        s, jobs, shift = self._schedule, self._schedule.jobs, self._shift_s
        started, ended = s.start_s[row] <= at, s.end_s[row] <= at
        placed = s.placements[row] if started else ()
        state = "COMPLETED" if ended else RUNNING if started else PENDING
        return LiveJob(
            id=row + 1,
            name=jobs.name.name_of(row),
            user=jobs.user.name_of(row),
            account=jobs.account.name_of(row),
            partitions=(jobs.vc.name_of(row) or _EVERYBODY,),
            qos=jobs.qos.name_of(row) or "normal",
            state=state,
            reason="None" if started else "Priority",
            submit_s=jobs.submit_s[row] + shift,
            eligible_s=jobs.submit_s[row] + shift,
            start_s=s.start_s[row] + shift if started else np.nan,
            end_s=s.end_s[row] + shift if ended else np.nan,
            limit_s=float(jobs.limit_s[row]),
            gpus=int(jobs.gpus[row]),
            gpu_types=tuple(filter(None, jobs.gpu_types.name_of(row).split(TYPE_SEPARATOR))),
            nodes=len(placed),
            cpus=float(jobs.cpus[row]),
            mem_gib=float(jobs.mem_gib[row]),
            node_names=tuple(self._nodes[node].name for node, _ in placed),
            gpus_by_node=tuple(gpus for _, gpus in placed),
            priority=max(1, _HIGHEST - row),
            site_factor=0,
            other_factors=max(1, _HIGHEST - row),
            priority_by_hand=False,
        )

    def priorities(self) -> Mapping[int, PriorityParts]:
        """Return nothing: nobody changes them."""
        return {}

    def apply(self, changes: Sequence[Change]) -> tuple[ChangeOutcome, ...]:
        """Refuse: a schedule that is played cannot be changed."""
        return tuple(ChangeOutcome(change, "this cluster is played, not run") for change in changes)

    def cannot(self) -> frozenset[ChangeKind]:
        """Name nothing in advance: all is refused."""
        return frozenset()

    def user(self) -> str:
        """Return whose account it is: nobody's."""
        return "demo"

    def may_drive(self, user: str) -> bool:  # noqa: ARG002  as the protocol has it
        """Return True: whoever plays may do everything."""
        return True

    def open_record(self, text: str, partition: str) -> int:  # noqa: ARG002  as the protocol has it
        """Refuse: nothing is changed, so nothing has to be remembered."""
        raise BackendError("this cluster is played, not run")

    def write_records(self, texts: Mapping[int, str]) -> None:  # noqa: ARG002
        """Refuse."""
        raise BackendError("this cluster is played, not run")

    def close_records(self, jobs: Sequence[int]) -> None:
        """Have none to close."""

    def commands(self, changes: Sequence[Change]) -> tuple[str, ...]:
        """Spell nothing."""
        return tuple(f"# job {change.job}: this cluster is played, not run" for change in changes)


def _nodes(schedule: Schedule) -> tuple[LiveNode, ...]:
    """Return the cluster's nodes as a Slurm would name them."""
    made: list[LiveNode] = []
    for at, group in enumerate(schedule.cluster.groups):
        kind = group.gpu_type or "gpu"
        made += [
            LiveNode(
                name=f"{kind.lower()}-{chr(97 + at % 26)}{number + 1:02d}",
                gpu_type=kind,
                gpus=group.gpus,
                cpus=float(group.cpus or _UNLIMITED),
                mem_gib=float(group.mem_gib or _UNLIMITED),
                state="IDLE",
                partitions=tuple(group.vc or ()) or _all_partitions(schedule),
            )
            for number in range(group.count)
        ]
    return tuple(made)


def _all_partitions(schedule: Schedule) -> tuple[str, ...]:
    vcs = sorted(set(schedule.jobs.vc.names))
    return tuple(vcs) or (_EVERYBODY,)


def _with_use(nodes: Sequence[LiveNode], jobs: Sequence[LiveJob]) -> tuple[LiveNode, ...]:
    used: Counter[str] = Counter()
    for job in jobs:
        if job.on_nodes:
            used.update(dict(zip(job.node_names, job.gpus_by_node, strict=True)))
    return tuple(replace(n, gpus_used=used[n.name], state="ALLOCATED" if used[n.name] else "IDLE") for n in nodes)


def _partitions(nodes: Sequence[LiveNode]) -> tuple[Partition, ...]:
    members: dict[str, list[str]] = {}
    for node in nodes:
        for name in node.partitions:
            members.setdefault(name, []).append(node.name)
    return tuple(Partition(name=name, node_names=tuple(names)) for name, names in members.items())

"""Small clusters for the tests of live/: snapshots by hand, and a cluster in memory that keeps Backend's promises."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

from rltune.live.control_settings import ControlSettings
from rltune.live.control_settings_file import load_settings
from rltune.live.decide.decide import Known, Situation, decide
from rltune.live.decide.decision import Decision
from rltune.live.holder import this_process
from rltune.live.pinned_pipeline import pin_pipeline
from rltune.live.see.backend import RECORD_CHARACTERS, BackendError, Change, ChangeKind, ChangeOutcome
from rltune.live.see.record_text import Holder
from rltune.live.see.snapshot import LiveJob, LiveNode, Partition, PriorityParts, RecordJob, Reservation, Snapshot

NOW = 1_700_000_000.0


def job(id: int, gpus: int = 1, minutes: float = 60, **more) -> LiveJob:  # noqa: A002
    """Make a waiting job; the id tells its age."""
    values = {
        "partitions": ("gpu",),
        "state": "PENDING",
        "reason": "Resources",
        "submit_s": NOW - 1000.0 + id,
        "limit_s": minutes * 60,
        "gpus": gpus,
        "cpus": float(max(1, gpus)),
        "priority": 20_000,
        "site_factor": 0,
        "user": "ann",
        "name": f"job{id}",
    }
    values |= more
    values.setdefault("other_factors", values["priority"] - (values["site_factor"] or 0))
    return LiveJob(id=id, **values)


def running(id: int, node: str, gpus: int, minutes: float = 60, ran_s: float = 600.0, **more) -> LiveJob:  # noqa: A002
    """Make a job that runs on one node."""
    where = {"node_names": (node,), "gpus_by_node": (gpus,), "nodes": 1, "reason": "None"}
    return job(id, gpus, minutes, state="RUNNING", start_s=NOW - ran_s, **{**where, **more})


def nodes(*sizes: int, gpu_type: str = "p100", **more) -> tuple[LiveNode, ...]:
    """Make nodes n0, n1, ... with so many GPUs."""
    each = {"partitions": ("gpu", "sla"), "cpus": 32.0, "mem_gib": 128.0, "gpu_type": gpu_type}
    return tuple(LiveNode(name=f"n{i}", gpus=gpus, **{**each, **more}) for i, gpus in enumerate(sizes))


def snapshot(
    jobs: Sequence[LiveJob],
    on: Sequence[LiveNode] | None = None,
    at: float = NOW,
    reservations: Sequence[Reservation] = (),
    **more,
) -> Snapshot:
    """Look at a cluster of two 4-GPU nodes, or at the one given; nodes count what the jobs use."""
    used: Counter[str] = Counter()
    for one in jobs:
        if one.on_nodes:
            used.update(dict(zip(one.node_names, one.gpus_by_node, strict=True)))
    members = nodes(4, 4) if on is None else on
    return Snapshot(
        taken_s=at,
        version="22.05.8",
        jobs=tuple(jobs),
        nodes=tuple(replace(n, gpus_used=max(n.gpus_used, used[n.name])) for n in members),
        partitions=(Partition(name="gpu"), Partition(name="sla", priority_tier=100)),
        reservations=tuple(reservations),
        mem_counts=False,
        **more,
    )


def dead() -> Holder:
    """Make a holder on this machine whose process is gone: no process has such a number."""
    return replace(this_process(), pid=2**22 + 1)


def settings(**sections) -> ControlSettings:
    """Act on partition gpu by smallest area first, unless told otherwise."""
    pipeline = {"policy": "saf", **sections.pop("pipeline", {})}
    return load_settings(None, {"mode": "act", "scope": {"partitions": ["gpu"]}, "pipeline": pipeline, **sections})


def decide_by(
    settings: ControlSettings,
    situation: Situation,
    known: Known | None = None,
    timer: Callable[[], float] = lambda: 0.0,
) -> Decision:
    """Decide as a controller with these settings does."""
    return decide(situation, settings, pin_pipeline(settings), known or Known(), timer)


def impatient(tries: int) -> Callable[[], float]:
    """Make a timer that runs out after so many looks at it."""
    ticks = count()
    return lambda: 0.0 if next(ticks) <= tries else 1e9


class MemoryCluster:
    """A cluster that only remembers: changes are seen in the next snapshot, as Slurm would show them."""

    def __init__(self, first: Snapshot) -> None:
        self.now = first
        self.calls: Counter[str] = Counter()
        self.batches: list[tuple[Change, ...]] = []
        self.refuse: dict[int, str] = {}  # job: why
        self.broken: str = ""
        self.powerless: set[str] = set()  # accounts that may not change others' jobs
        self.records: dict[int, RecordJob] = {}
        self.ids = count(1_000_000)  # of records

    def _answer(self) -> None:
        if self.broken:
            raise BackendError(self.broken)

    def observe(self) -> Snapshot:
        self.calls.update(("squeue", "sinfo", "scontrol", "sprio"))
        self._answer()
        return replace(self.now, records=tuple(self.records.values()))

    def apply(self, changes: Sequence[Change]) -> tuple[ChangeOutcome, ...]:
        self.calls["scontrol"] += 1
        self._answer()
        self.batches.append(tuple(changes))
        return tuple(self._make(change) for change in changes)

    def priorities(self) -> dict[int, PriorityParts]:
        self.calls["sprio"] += 1
        self._answer()
        return {j.id: parts for j in self.now.pending if (parts := j.priority_parts)}

    def cannot(self) -> frozenset[ChangeKind]:
        return frozenset()

    def user(self) -> str:
        return "rltune"

    def may_drive(self, user: str) -> bool:
        self.calls["sacctmgr"] += 1
        return user not in self.powerless

    def open_record(self, text: str, partition: str) -> int:  # noqa: ARG002  as a Backend has it
        self.calls["sbatch"] += 1
        self._answer()
        assert len(text) <= RECORD_CHARACTERS
        job = next(self.ids)
        self.records[job] = RecordJob(job, self.user(), text)
        return job

    def write_records(self, texts) -> None:
        self.calls["scontrol"] += 1
        self._answer()
        for job, text in texts.items():
            if job not in self.records:
                raise BackendError("Invalid job id specified")
            self.records[job] = replace(self.records[job], text=text)

    def close_records(self, jobs: Sequence[int]) -> None:
        self.calls["scancel"] += 1
        self._answer()
        for job in jobs:
            self.records.pop(job, None)

    def commands(self, changes: Sequence[Change]) -> tuple[str, ...]:
        return tuple(f"{c.job} {c.kind} {c.value or ','.join(c.nodes)}" for c in changes)

    def _make(self, change: Change) -> ChangeOutcome:
        if change.job in self.refuse:
            return ChangeOutcome(change, self.refuse[change.job])
        one = self.now.job_by_id.get(change.job)
        if one is None:
            return ChangeOutcome(change, "Invalid job id specified")
        self.now = replace(self.now, jobs=tuple(_changed(j, change) if j is one else j for j in self.now.jobs))
        return ChangeOutcome(change)

    def edit(self, job_id: int, **values) -> None:
        """Change a job from outside."""
        self.now = replace(self.now, jobs=tuple(replace(j, **values) if j.id == job_id else j for j in self.now.jobs))

    def pass_time(self, seconds: float) -> None:
        """Let the cluster's clock go on."""
        self.now = replace(self.now, taken_s=self.now.taken_s + seconds)


def _changed(one: LiveJob, change: Change) -> LiveJob:
    match change.kind:
        case ChangeKind.SITE_FACTOR:
            priority = max(1, one.own_priority + change.value)  # as Slurm does, which knows none below 1
            return replace(one, site_factor=change.value, priority=priority)
        case ChangeKind.PRIORITY:
            return replace(one, priority=change.value, priority_by_hand=True)
        case ChangeKind.RELEASE:
            return replace(one, priority=20_000, priority_by_hand=False)
        case ChangeKind.EXCLUDE_NODES:
            return replace(one, excluded_nodes=change.nodes)
        case ChangeKind.REQUIRE_NODES:
            return replace(one, required_nodes=change.nodes)
        case ChangeKind.REQUEUE:
            return replace(one, state="COMPLETING", restarts=one.restarts + 1)
        case ChangeKind.BEGIN_NOW:
            return replace(one, begin_s=float("nan"))
        case ChangeKind.ADMIN_COMMENT:
            return replace(one, admin_comment=change.text)

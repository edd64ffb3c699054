"""What the controller has changed and not yet given back, with what was there before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from rltune.live.see.backend import Change, ChangeKind
from rltune.live.see.snapshot import LiveJob, Snapshot

# Nothing is left of these that a hold would have to remember; an AdminComment names itself as ours.
DONE_AND_OVER = frozenset({ChangeKind.REQUEUE, ChangeKind.BEGIN_NOW, ChangeKind.ADMIN_COMMENT})
STEERING = frozenset({ChangeKind.EXCLUDE_NODES, ChangeKind.REQUIRE_NODES})
Value = int | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Intent:
    """A change about to be made, with what it replaces."""

    change: Change
    submit_s: float  # of the job: ids may come again, after a Slurm was set up anew
    before: Value
    undo: bool = False  # it puts back what was there

    @property
    def value(self) -> Value:
        """Return what the job is to have."""
        return self.change.nodes if self.change.kind in STEERING else self.change.value


@dataclass(frozen=True, slots=True)
class Hold:
    """One thing changed of one job. A change whose outcome is not known counts as made."""

    kind: ChangeKind
    value: Value
    before: Value
    submit_s: float


_NOTHING: Mapping[ChangeKind, Hold] = MappingProxyType({})


@dataclass
class Holdings:
    """All of it, by job and kind; a job in `given_up` was changed by another hand after us and is left to it."""

    by_job: dict[int, dict[ChangeKind, Hold]] = field(default_factory=dict)
    given_up: dict[int, float] = field(default_factory=dict)  # job: its submit time

    def __len__(self) -> int:
        return sum(len(holds) for holds in self.by_job.values())

    def __iter__(self) -> Iterator[tuple[int, Hold]]:
        return ((job, hold) for job, holds in self.by_job.items() for hold in holds.values())

    def of(self, job: LiveJob) -> Mapping[ChangeKind, Hold]:
        """Return what is held of a job."""
        holds = self.by_job.get(job.id)
        if not holds:
            return _NOTHING
        return holds if all(hold.submit_s == job.submit_s for hold in holds.values()) else _NOTHING

    def steers(self, job: LiveJob) -> bool:
        """Return whether the job's nodes were narrowed here."""
        return any(kind in STEERING for kind in self.of(job))

    def sets_priority(self, job: LiveJob) -> bool:
        """Return whether the job's Priority was set here."""
        return ChangeKind.PRIORITY in self.of(job)

    def sets_site_factor(self, job: LiveJob) -> bool:
        """Return whether the job's SiteFactor was set here."""
        return ChangeKind.SITE_FACTOR in self.of(job)

    def is_given_up(self, job: LiveJob) -> bool:
        """Return whether somebody else has changed what was set here."""
        return self.given_up.get(job.id) == job.submit_s

    def take(self, intent: Intent) -> None:
        """Note a change that was made, or may have been."""
        if intent.change.kind in DONE_AND_OVER:
            return
        job, kind = intent.change.job, held_kind(intent.change.kind)
        if intent.undo:
            self.by_job.get(job, {}).pop(kind, None)
            if not self.by_job.get(job):
                self.by_job.pop(job, None)
        else:
            holds = self.by_job.setdefault(job, {})
            if any(hold.submit_s != intent.submit_s for hold in holds.values()):
                holds.clear()  # of a job that had this number before
            holds[kind] = Hold(kind, intent.value, intent.before, intent.submit_s)

    def give_up(self, job: LiveJob, kind: ChangeKind) -> None:
        """Leave a job's number to whoever changed it after us."""
        self.drop(job.id, kind)
        self.given_up[job.id] = job.submit_s

    def drop(self, job: int, kind: ChangeKind) -> None:
        """Forget one thing held."""
        self.by_job.get(job, {}).pop(kind, None)
        if not self.by_job.get(job):
            self.by_job.pop(job, None)

    def follow_requeues(self, snapshot: Snapshot) -> None:
        """Go on holding what a requeued job keeps: Slurm gives it a new submit time, and all that was set stays."""
        for job_id, holds in self.by_job.items():
            job = snapshot.job_by_id.get(job_id)
            if job is not None and job.restarts and not job.ended:
                for kind, hold in holds.items():
                    holds[kind] = replace(hold, submit_s=max(hold.submit_s, job.submit_s))
        for job_id, submit_s in self.given_up.items():
            job = snapshot.job_by_id.get(job_id)
            if job is not None and job.restarts:
                self.given_up[job_id] = max(submit_s, job.submit_s)

    def follow_splits(self, snapshot: Snapshot, last: Snapshot | None) -> None:
        """Hold of tasks that have left their array since the last look what the array had: they took it along."""
        for array, members in snapshot.array_members.items():
            numbers = {kind: hold for kind, hold in self.by_job.get(array, {}).items() if kind not in STEERING}
            for job in members if numbers else ():
                if job.id not in self.by_job and (last is None or job.id not in last.job_by_id):
                    self.by_job[job.id] = {k: replace(hold, submit_s=job.submit_s) for k, hold in numbers.items()}

    def add(self, others: Holdings) -> None:
        """Take over what another table holds; where both know of a job, the other one is right."""
        for job, hold in others:
            holds = self.by_job.setdefault(job, {})
            if any(known.submit_s != hold.submit_s for known in holds.values()):
                holds.clear()
            holds[hold.kind] = hold

    def forget_ended(self, snapshot: Snapshot) -> list[tuple[int, float]]:
        """Forget jobs that will never wait again, and name them; one that runs may be requeued and is kept."""
        forgotten = []
        for job_id, holds in list(self.by_job.items()):
            job = snapshot.job_by_id.get(job_id)
            if job is None or job.ended or not self.of(job):
                del self.by_job[job_id]
                forgotten += [(job_id, submit_s) for submit_s in {hold.submit_s for hold in holds.values()}]
        for job_id, submit_s in list(self.given_up.items()):
            job = snapshot.job_by_id.get(job_id)
            if job is None or job.submit_s != submit_s:
                del self.given_up[job_id]
        return forgotten

    def copy(self) -> Holdings:
        """Return one that can be changed alone."""
        return Holdings({job: dict(holds) for job, holds in self.by_job.items()}, dict(self.given_up))

    @classmethod
    def after(cls, intents: Iterable[Intent]) -> Holdings:
        """Return what is held after these, in order."""
        holdings = cls()
        for intent in intents:
            holdings.take(intent)
        return holdings


def held_kind(kind: ChangeKind) -> ChangeKind:
    """Return under which kind a change is held: a release gives a priority back."""
    return ChangeKind.PRIORITY if kind is ChangeKind.RELEASE else kind

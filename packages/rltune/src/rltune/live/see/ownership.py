"""What of a cluster is ours, told from what its scheduler shows and from records: values in, values out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rltune.errors import InputError
from rltune.live.see.backend import ChangeKind
from rltune.live.see.holdings import DONE_AND_OVER, STEERING, Hold, Holdings, Intent, Value, held_kind
from rltune.live.see.record_text import Claim, Lock, Page, RecordError, is_record, mark_of, read_lock, read_page
from rltune.live.see.snapshot import Lever, LiveJob, RecordJob, Snapshot

EVERYWHERE = "*"
Alive = Callable[[Lock], str]  # why the holder of a lock is known to be dead; "" = it may live


_WAYS = {
    Lever.SITE_FACTOR: "by Slurm's commands: leave slurm.rest out of the settings",
    Lever.NICE: "through slurmrestd: name it as slurm.rest in the file of --config",
}


class LeverError(InputError):
    """Some numbers of ours are not seen by this way of reaching Slurm."""

    def __init__(self, what: str, lever: Lever) -> None:
        super().__init__(f"{what} numbers written as {lever}; release them the same way, {_WAYS[lever]}")


@dataclass(frozen=True)
class LockJob:
    """A lock, and the job that it is kept in: of two, the one with the lower number holds."""

    id: int
    user: str
    lock: Lock


@dataclass(frozen=True)
class PageJob:
    """A page, and the job that it is kept in."""

    id: int
    user: str
    page: Page


@dataclass(frozen=True)
class OwnRecords:
    """All records of a cluster, read."""

    locks: tuple[LockJob, ...] = ()
    pages: tuple[PageJob, ...] = ()
    damaged: tuple[tuple[RecordJob, str], ...] = ()  # and why

    @classmethod
    def of(cls, snapshot: Snapshot) -> OwnRecords:
        """Read the records of a snapshot; what cannot be read is named."""
        locks, pages, damaged = [], [], []
        for job in snapshot.records:
            if not is_record(job.text):
                damaged.append((job, "somebody has overwritten its text"))
                continue
            try:
                if lock := read_lock(job.text):
                    locks.append(LockJob(job.id, job.user, lock))
                elif page := read_page(job.text):
                    pages.append(PageJob(job.id, job.user, page))
                else:
                    damaged.append((job, "it is neither lock nor page"))
            except RecordError as error:
                damaged.append((job, str(error)))
        return cls(tuple(sorted(locks, key=lambda one: one.id)), tuple(pages), tuple(damaged))

    def pages_of(self, lock: LockJob) -> list[PageJob]:
        """Return the pages of a lock: an account can write pages for its own locks only."""
        return [page for page in self.pages if page.page.lock == lock.id and page.user == lock.user]

    def orphans(self) -> list[PageJob]:
        """Return the pages whose lock is gone."""
        of = {(lock.id, lock.user) for lock in self.locks}
        return [page for page in self.pages if (page.page.lock, page.user) not in of]


def overlap(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two lists of partitions have one in common."""
    return EVERYWHERE in one or EVERYWHERE in other or bool(set(one) & set(other))


def claims_of(holdings: Holdings, intents: Iterable[Intent] = ()) -> list[Claim]:
    """Return what a record must say before these changes are made: the old and the new value of each."""
    claims = {(job, hold.kind): Claim(job, hold.kind, (mark_of(hold.value),), hold.before) for job, hold in holdings}
    for intent in intents:
        kind = held_kind(intent.change.kind)
        if intent.undo or kind in DONE_AND_OVER:
            continue
        key = (intent.change.job, kind)
        old = claims[key].marks if key in claims else ()
        marks = tuple(dict.fromkeys((*old, mark_of(intent.value))))
        claims[key] = Claim(*key, marks, intent.before)
    return list(claims.values())


def owned(pages: Iterable[Page], snapshot: Snapshot) -> Holdings:
    """Return what jobs have of what pages say is ours: another value is another's, and the value before is nobody's.

    Where the scheduler does not tell a value, the page is believed. A page of another lever is not for us: LeverError.
    """
    holdings = Holdings()
    for page in pages:
        if page.lever is not snapshot.lever:
            raise LeverError(f"the record of job {page.lock} is of", page.lever)
        for claim in page.claims:
            for job in _jobs_of(claim, page, snapshot):
                hold = _hold(claim, job)
                if hold is not None and hold.kind not in holdings.by_job.get(job.id, {}):
                    holdings.by_job.setdefault(job.id, {})[hold.kind] = hold
    return holdings


def _jobs_of(claim: Claim, page: Page, snapshot: Snapshot) -> Iterator[LiveJob]:
    """Find the job of a claim, and the tasks that have left its array since and took along what it had."""
    jobs = [job for job in (snapshot.job_by_id.get(claim.job),) if job is not None]
    jobs += snapshot.array_members.get(claim.job, ()) if claim.kind not in STEERING else ()
    for job in jobs:
        same = job.submit_s <= page.written_s or job.restarts > 0  # a requeue gives a new submit time
        if same and not job.ended:
            yield job


def _hold(claim: Claim, job: LiveJob) -> Hold | None:
    value: Value
    if claim.kind in STEERING:
        value = job.excluded_nodes if claim.kind is ChangeKind.EXCLUDE_NODES else job.required_nodes
        mine = bool(value) and mark_of(value) in claim.marks
    elif claim.kind is ChangeKind.PRIORITY:
        value = job.priority
        mine = not job.held and job.priority_by_hand is not False and value in claim.marks
    else:
        value = claim.marks[-1] if job.site_factor is None else job.site_factor
        mine = value in claim.marks
    return Hold(claim.kind, value, claim.before, job.submit_s) if mine and value != claim.before else None

"""The record in Slurm: a lock, and pages that say what is ours before it is so. A crash at any point leaves both.

The lock is a held job. Slurm numbers jobs one after the other, so of two controllers that submit one at the same time
both know who was first: the lower number. A lock whose holder is dead is taken over with its pages, which are copied
before they are cancelled.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from rltune.errors import InputError
from rltune.live.holder import this_process, why_dead
from rltune.live.see.backend import Backend, BackendError, ChangeKind, UnreachableError
from rltune.live.see.holdings import Holdings
from rltune.live.see.ownership import EVERYWHERE, LockJob, OwnRecords, claims_of, overlap, owned
from rltune.live.see.record_text import Claim, Holder, Lock, RecordError, lock_text, page_texts, read_lock
from rltune.live.see.snapshot import Lever, Snapshot

LEASE_S = 600.0  # twice what the clocks of machines that share munge may differ
_RENEWED = 4  # times within a lease
FORGED = "an account that may not change jobs holds no lock"


class LockedError(InputError):
    """Another controller is at work."""


@dataclass(frozen=True)
class Taken:
    """What came with a lock: what earlier controllers left, and sentences for the operator."""

    holdings: Holdings
    told: tuple[str, ...] = ()


@dataclass
class Keeper:
    """Keeps one controller's record."""

    backend: Backend
    partitions: tuple[str, ...] = (EVERYWHERE,)  # that it drives
    lease_s: float = LEASE_S
    me: Holder = field(default_factory=this_process)
    lock: int = 0  # the job; 0 = we have none
    _since_s: float = 0.0
    _renewed_s: float = 0.0
    _lever: Lever = Lever.SITE_FACTOR
    _pages: dict[int, str] = field(default_factory=dict)  # job: text, by number of the page
    _copies: list[int] = field(default_factory=list)  # pages that are still to be cancelled

    def take(self, *, by_force: bool = False) -> Taken:
        """Take the lock, or raise LockedError; take over what dead controllers of this account left."""
        self.forget()
        seen = self.backend.observe()
        self._refuse_rivals(seen, by_force=by_force)
        self._since_s = self._renewed_s = seen.taken_s
        self._lever = seen.lever
        lock = self._open(self._lock_text(seen.taken_s))
        try:
            snapshot = self.backend.observe()
            self._refuse_rivals(snapshot, before=lock, by_force=by_force)
            return self._take_over(lock, snapshot)
        except BaseException:
            self.lock = lock
            with suppress(BackendError):  # what stays is a lock of ours that the next one takes over
                self.close()  # pages that it may have are copies: nothing was cancelled yet
            self.forget()
            raise

    def loss(self, snapshot: Snapshot) -> str:
        """Return why the record is not ours any more; "" if all is well. Texts that Slurm lost are written again."""
        texts = {record.id: record.text for record in snapshot.records}
        if self.lock not in texts:
            by = "".join(f", and {one.lock.holder} has taken over" for one in self._successors(snapshot))
            return f"the lock (job {self.lock}) is gone from Slurm{by}"
        missing = [job for job in self._pages if job not in texts]
        if missing:
            return f"page {missing[0]} of the record is gone from Slurm"
        if self._differs(texts):
            self._write(snapshot.taken_s, self._pages)
        return ""

    def recorded(self, snapshot: Snapshot) -> Holdings:
        """Return what jobs are seen to have of what our record, as Slurm shows it, says is ours.

        Slurm may have come back with an older record and older numbers than were written last. They are ours, too.
        """
        user = self.backend.user()
        pages = [one.page for one in OwnRecords.of(snapshot).pages if (one.page.lock, one.user) == (self.lock, user)]
        held = owned(pages, snapshot)
        for job, hold in list(held):
            if hold.kind is ChangeKind.SITE_FACTOR and snapshot.job_by_id[job].site_factor is None:
                held.drop(job, hold.kind)  # not seen: it may have been given back since the page was written
        return held

    def taken_over(self, snapshot: Snapshot) -> bool:
        """Return whether another controller holds what was ours, so that it is not for us to give back."""
        return bool(self._successors(snapshot))

    def _successors(self, snapshot: Snapshot) -> list[LockJob]:
        """Return the later locks of this account: they have taken over our pages."""
        user = self.backend.user()
        return [one for one in self._rivals(snapshot) if one.id > self.lock and one.user == user]

    def _rivals(self, snapshot: Snapshot) -> list[LockJob]:
        """Return the locks of others that cover a partition of ours."""
        locks = OwnRecords.of(snapshot).locks
        return [one for one in locks if one.id != self.lock and overlap(one.lock.partitions, self.partitions)]

    def _is_forged(self, one: LockJob) -> bool:
        """Return whether a lock is of an account that could not act: anybody can submit a job that looks like one."""
        return one.user != self.backend.user() and not self.backend.may_drive(one.user)

    def note(self, claims: Iterable[Claim], at_s: float, now_s: float) -> None:
        """Write down what is ours or about to be, as of a time; raise BackendError if Slurm does not take all of it."""
        listed = list(claims)
        if self._copies:
            self._cancel()
        if not listed and not self._pages:
            self.renew(now_s)
            return
        try:
            texts = page_texts(listed, self.lock, at_s, max(1, len(self._pages)), self._lever)
        except RecordError as error:
            raise BackendError(str(error)) from None
        if len(texts) > len(self._pages):
            self._open_pages(texts, now_s)
        else:
            pairs = zip(self._pages.items(), texts, strict=True)
            self._write(now_s, {job: new for (job, old), new in pairs if _body(old) != _body(new)})

    def renew(self, now_s: float) -> None:
        """Let the others know that we live, if it is time."""
        if abs(now_s - self._renewed_s) >= self.lease_s / _RENEWED:  # a clock may have been set back
            self._write(now_s, {})

    def close(self) -> None:
        """Give up lock and pages, pages first."""
        self.backend.close_records([*self._copies, *self._pages, self.lock] if self.lock else [])
        self.forget()

    def forget(self) -> None:
        """Know that the record is gone, damaged or somebody else's."""
        self.lock, self._pages, self._copies = 0, {}, []

    def _refuse_rivals(self, snapshot: Snapshot, before: int = 1 << 62, *, by_force: bool) -> None:
        for one in () if by_force else self._rivals(snapshot):
            living = one.id < before and not why_dead(one.lock, snapshot.taken_s, self.me)
            if living and not self._is_forged(one):
                raise LockedError(alive(one))

    def _take_over(self, lock: int, snapshot: Snapshot) -> Taken:
        """Copy what is left of dead controllers to pages of our own, and only then cancel theirs."""
        mine = next((record for record in snapshot.records if record.id == lock), None)
        if mine is None:
            raise BackendError(f"the lock, job {lock}, is not to be seen in Slurm")
        records, told = OwnRecords.of(snapshot), []
        others = [one for one in self._rivals(snapshot) if one.id != lock]
        # One with a higher number came later, unless Slurm has begun to count its jobs anew.
        dead = [one for one in others if one.id < lock or why_dead(one.lock, snapshot.taken_s, self.me)]
        pages = [page for page in records.orphans() if page.user == mine.user]
        for one in dead:
            why = why_dead(one.lock, snapshot.taken_s, self.me)
            if not why:
                why = FORGED if self._is_forged(one) else "by force"
            if one.user == mine.user:
                pages += records.pages_of(one)
                told.append(f"lock of job {one.id} was taken over: {why}")
            else:
                told.append(f"job {one.id} of user {one.user} is the lock of another account ({why}); left alone")
        for record, why in records.damaged:
            told.append(f"job {record.id} of user {record.user} is a record that cannot be read: {why}")
        holdings = owned((page.page for page in pages), snapshot)
        self.lock = lock
        self.note(claims_of(holdings), as_of(snapshot), snapshot.taken_s)
        gone = [one.id for one in dead if one.user == mine.user]
        with suppress(BackendError):  # what stays is a copy, and the next controller will find its holder dead
            self.backend.close_records([*(page.id for page in pages), *gone])
        return Taken(holdings, tuple(told))

    def _open(self, text: str) -> int:
        """Submit a record; what Slurm says if it takes none is told with what follows from it."""
        try:
            return self.backend.open_record(text, self._submitted_to())
        except UnreachableError:
            raise
        except BackendError as error:
            raise BackendError(f"Slurm takes no record, without which nothing is changed: {error}") from None

    def _open_pages(self, texts: list[str], now_s: float) -> None:
        """Make as many new pages; the old ones are cancelled when all of them are there."""
        new: dict[int, str] = {}
        try:
            for text in texts:
                new[self._open(text)] = text
        except BaseException:
            self._cancel(new)
            raise
        old, self._pages = list(self._pages), new
        self._cancel(old)
        self.renew(now_s)

    def _cancel(self, pages: Iterable[int] = ()) -> None:
        """Cancel pages that are copies; what Slurm does not let go does no harm, and is tried again later."""
        self._copies += pages
        with suppress(BackendError):
            self.backend.close_records(self._copies)
            self._copies = []

    def _write(self, now_s: float, pages: dict[int, str]) -> None:
        self.backend.write_records({self.lock: self._lock_text(now_s), **pages})
        self._renewed_s = now_s
        self._pages |= pages

    def _differs(self, texts: dict[int, str]) -> bool:
        """Return whether Slurm holds other texts than were written, as after a restart that lost the last seconds."""
        try:
            lock = read_lock(texts[self.lock])
        except RecordError:
            return True
        return lock is None or lock.holder != self.me or any(texts[job] != text for job, text in self._pages.items())

    def _lock_text(self, now_s: float) -> str:
        try:
            return lock_text(Lock(self.me, self.partitions, self._since_s, now_s, self.lease_s))
        except RecordError as error:
            raise InputError(str(error)) from None

    def _submitted_to(self) -> str:
        """Return in which partition records wait: the first that is named, or Slurm's default one."""
        return "" if self.partitions[0] == EVERYWHERE else self.partitions[0]


def alive(one: LockJob) -> str:
    """Return what to tell whoever finds a lock whose holder may live."""
    return (
        f"another controller is at work: {one.lock.holder} (user {one.user}) holds the lock of partition "
        f"{','.join(one.lock.partitions)}, job {one.id}; stop it first, or add --take-over if you know that it is dead"
    )


def as_of(snapshot: Snapshot) -> float:
    """Return a time by which all jobs of a snapshot were submitted, whoever's clock is ahead."""
    return max((job.submit_s for job in snapshot.jobs), default=snapshot.taken_s)


def _body(text: str) -> str:
    """Return a page without the time at which it was written."""
    head, _, packed = text.partition(";;")
    return head.partition(";at=")[0] + packed

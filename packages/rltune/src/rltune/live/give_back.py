"""Giving back: needs Slurm and nothing else. No disk, no journal, no policy, no settings.

What is ours is told from the record in Slurm, and from a journal or a memory if there is one. What was given back is
read back: only what Slurm, asked again, does not hold any more counts as given back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rltune.errors import InputError
from rltune.live.holder import this_process, why_dead
from rltune.live.keeper import alive
from rltune.live.see.admin_comment import is_ours
from rltune.live.see.backend import Backend, BackendError, Change, ChangeKind, ChangeOutcome
from rltune.live.see.drift import drifted
from rltune.live.see.holdings import STEERING, Hold, Holdings, Intent
from rltune.live.see.ownership import EVERYWHERE, LockJob, OwnRecords, PageJob, overlap, owned
from rltune.live.see.record_text import Holder
from rltune.live.see.snapshot import LOWEST, Lever, LiveJob, Snapshot
from rltune.live.see.undoing import undo_all

NOWHERE: tuple[str, ...] = ()
_NAMED = 5  # jobs of a sentence
_AT_A_TIME = 250
_TRIES = 3  # a job may change its state between a look and a write


@dataclass(frozen=True)
class GivenBack:
    """What came of it."""

    intents: tuple[Intent, ...] = ()  # what was tried last of each job and kind
    outcomes: tuple[ChangeOutcome, ...] = ()  # and what Slurm said
    held: Holdings = field(default_factory=Holdings)  # what it still has of ours
    left: tuple[str, ...] = ()  # what Slurm still holds of ours and would not give up, as sentences
    running: tuple[int, ...] = ()  # jobs whose list of nodes cannot be cleared before they wait again
    foreign: tuple[str, ...] = ()  # users of other accounts whose records were found
    forgers: tuple[str, ...] = ()  # users whose jobs look like records, but who may change nobody's jobs
    unexplained: tuple[int, ...] = ()  # jobs with a number that no record explains: the site's, or of a lost record

    @property
    def changes(self) -> int:
        """Count what was given back."""
        return sum(outcome.done for outcome in self.outcomes)

    @property
    def all_back(self) -> bool:
        """Return whether Slurm holds nothing of ours."""
        return not (self.left or self.running or self.foreign)

    def __str__(self) -> str:
        told = [f"{self.changes} changes given back"]
        if self.left:
            told.append(f"{len(self.left)} could not be: {'; '.join(self.left[:3])}")
        if self.running:
            keep = f"{len(self.running)} running jobs keep a list of nodes until they wait again or end"
            told.append(f"{keep}: {_listed(self.running)}")
        told += [f"user {user} keeps a record here: run as {user}, or with --owner {user}" for user in self.foreign]
        told += ["Slurm holds nothing of ours"] if self.all_back else []
        told += [f"what user {user} keeps looks like a record, but is none: left alone" for user in self.forgers]
        if self.unexplained:
            have = f"{len(self.unexplained)} jobs have a SiteFactor that no record explains, which was left alone"
            told.append(f"{have}: {_listed(self.unexplained)}")
        return "; ".join(told)


@dataclass
class GiveBack:
    """Takes back what is ours on a cluster."""

    backend: Backend
    owner: str = ""  # whose records count; "" = those of the account that the commands run under
    partitions: tuple[str, ...] = (EVERYWHERE,)  # records for others are left alone
    me: Holder = field(default_factory=this_process)
    by_force: bool = False  # though a holder may live

    def __call__(self, known: Holdings | None = None) -> GivenBack:
        """Give back what the records and this knowledge say is ours; cancel the records if nothing is left."""
        snapshot = self.backend.observe()
        records = OwnRecords.of(snapshot)
        locks, pages = self._ours(records, snapshot)
        holdings = owned((page.page for page in pages), snapshot)
        _add(holdings, known or Holdings(), snapshot)
        told, snapshot = self._undo(holdings, snapshot)
        told = replace(told, left=(*told.left, *self._unread(records)))
        running = tuple(job.id for job in snapshot.jobs if _keeps_nodes(job, holdings))
        if not told.left and not running:
            told = replace(told, left=self._close([*(page.id for page in pages), *(lock.id for lock in locks)]))
        foreign, forgers = self._others(records)
        believed = (*foreign, self.owner or self.backend.user())
        others = [one for one in records.pages if one not in pages and one.user in believed]
        theirs = owned((one.page for one in others if one.page.lever is snapshot.lever), snapshot)
        unexplained = _unexplained(snapshot, holdings, theirs)
        return replace(told, running=running, foreign=foreign, forgers=forgers, unexplained=unexplained)

    def _apply(self, changes: Sequence[Change]) -> tuple[ChangeOutcome, ...]:
        """Make changes some at a time: what Slurm did not answer to in time leaves those before it done and known."""
        made: list[ChangeOutcome] = []
        for at in range(0, len(changes), _AT_A_TIME):
            try:
                made += self.backend.apply(changes[at : at + _AT_A_TIME])
            except BackendError as error:
                made += [ChangeOutcome(change, str(error)) for change in changes[at:]]
                break
        return tuple(made)

    def _close(self, jobs: Sequence[int]) -> tuple[str, ...]:
        """Cancel records; return what to tell if that is refused."""
        try:
            self.backend.close_records(jobs)
        except BackendError as error:
            return (str(error),)
        return ()

    def _ours(self, records: OwnRecords, snapshot: Snapshot) -> tuple[list[LockJob], list[PageJob]]:
        """Return the records that we answer for; refuse if another controller lives."""
        owner = self.owner or self.backend.user()
        locks = [one for one in records.locks if one.user == owner and overlap(one.lock.partitions, self.partitions)]
        for one in () if self.by_force else locks:
            if not why_dead(one.lock, snapshot.taken_s, self.me):
                raise InputError(alive(one))
        pages = [page for lock in locks for page in records.pages_of(lock)]
        return locks, pages + [page for page in records.orphans() if page.user == owner]

    def _unread(self, records: OwnRecords) -> tuple[str, ...]:
        """Name our records that cannot be read: what they say is ours is not known to be given back."""
        owner = self.owner or self.backend.user()
        return tuple(f"record {job.id} ({why})" for job, why in records.damaged if job.user == owner)

    def _others(self, records: OwnRecords) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Name other accounts with records, which are not ours to believe: who may change jobs, and who may not."""
        owner = self.owner or self.backend.user()
        others = sorted({page.user for page in records.pages if page.user != owner})
        foreign = tuple(user for user in others if self.backend.may_drive(user))
        return foreign, tuple(user for user in others if user not in foreign)

    def _undo(self, holdings: Holdings, snapshot: Snapshot) -> tuple[GivenBack, Snapshot]:
        """Give back, look, and give back again what is still there."""
        tried: dict[tuple[int, ChangeKind], tuple[Intent | None, ChangeOutcome]] = {}
        left: tuple[str, ...] = ()
        for _ in range(_TRIES):
            intents = undo_all(snapshot, holdings)
            comments = _comments(snapshot)
            if not intents and not comments:
                break
            outcomes = self._apply([*(intent.change for intent in intents), *comments])
            for intent, outcome in zip((*intents, *(None for _ in comments)), outcomes, strict=True):
                tried[outcome.change.job, outcome.change.kind] = intent, outcome
            before, snapshot = snapshot, self.backend.observe()
            errors = {key: outcome.error for key, (_, outcome) in tried.items() if not outcome.done}
            _forget_given_back(holdings, before, snapshot, outcomes)
            left = _left(holdings, snapshot, errors)
            if not left:
                break
        noted = [(intent, outcome) for intent, outcome in tried.values() if intent is not None]
        return GivenBack(tuple(i for i, _ in noted), tuple(o for _, o in noted), holdings, left), snapshot


def _unexplained(snapshot: Snapshot, ours: Holdings, theirs: Holdings) -> tuple[int, ...]:
    """Return the jobs with a SiteFactor that no controller's record explains; a Nice is its user's own matter."""
    if snapshot.lever is not Lever.SITE_FACTOR:
        return ()
    known = ours.by_job.keys() | theirs.by_job.keys()
    return tuple(job.id for job in snapshot.pending if job.site_factor and job.id not in known)


def _listed(jobs: Sequence[int]) -> str:
    return ", ".join(map(str, jobs[:_NAMED])) + (", ..." if len(jobs) > _NAMED else "")


def _add(holdings: Holdings, known: Holdings, snapshot: Snapshot) -> None:
    """Add what a journal or a memory knows, as far as Slurm still shows it."""
    known = known.copy()
    known.follow_requeues(snapshot)
    known.forget_ended(snapshot)
    for drift in drifted(snapshot, known):
        known.drop(drift.job.id, drift.kind)
    for job, hold in known:
        holdings.by_job.setdefault(job, {}).setdefault(hold.kind, hold)


def _forget_given_back(
    holdings: Holdings, before: Snapshot, after: Snapshot, outcomes: Sequence[ChangeOutcome]
) -> None:
    """Keep what is still held, by what Slurm shows now; where it shows nothing, by whether it took the change."""
    done = {(outcome.change.job, outcome.change.kind) for outcome in outcomes if outcome.done}
    holdings.follow_requeues(after)
    holdings.forget_ended(after)
    for job_id, hold in list(holdings):
        was, now = before.job_by_id.get(job_id), after.job_by_id.get(job_id)
        assert now is not None, "jobs that are gone were forgotten"
        if not _still(hold, was, now, taken=(job_id, _written(hold)) in done):
            holdings.drop(job_id, hold.kind)


def _written(hold: Hold) -> ChangeKind:
    return ChangeKind.RELEASE if hold.kind is ChangeKind.PRIORITY else hold.kind


def _still(hold: Hold, was: LiveJob | None, now: LiveJob, *, taken: bool) -> bool:
    """Return whether a job still has what we gave it."""
    match hold.kind:
        case ChangeKind.EXCLUDE_NODES:
            return set(now.excluded_nodes) == set(hold.value)  # type: ignore[arg-type]
        case ChangeKind.REQUIRE_NODES:
            return set(now.required_nodes) == set(hold.value)  # type: ignore[arg-type]
        case ChangeKind.PRIORITY:
            return not now.held and now.priority_by_hand is not False and now.priority == hold.value
    if now.site_factor is not None:
        return now.site_factor == hold.value
    if not taken:
        return True
    # sprio is silent on jobs that run, are held or have a begin time; squeue's priority of them moves with the factor.
    told = was is not None and was.pending == now.pending and not now.held and was.priority > LOWEST
    return told and was is not None and now.priority == was.priority and was.site_factor is None


def _left(holdings: Holdings, snapshot: Snapshot, errors: dict[tuple[int, ChangeKind], str]) -> tuple[str, ...]:
    """Name what should have been given back and was not; lists of nodes of running jobs are told apart."""
    left = []
    for job_id, hold in holdings:
        if hold.kind in STEERING and not snapshot.job_by_id[job_id].pending:
            continue
        why = errors.get((job_id, _written(hold)), "Slurm took the change and still shows it")
        left.append(f"{hold.kind} of job {job_id} ({why})")
    for job in snapshot.jobs:
        if is_ours(job.admin_comment) and not job.ended:
            why = errors.get((job.id, ChangeKind.ADMIN_COMMENT), "Slurm took the change and still shows it")
            left.append(f"AdminComment of job {job.id} ({why})")
    return tuple(left)


def _keeps_nodes(job: LiveJob, holdings: Holdings) -> bool:
    return not job.pending and not job.ended and holdings.steers(job)


def _comments(snapshot: Snapshot) -> list[Change]:
    """Clear what we told users in AdminComment; it names itself as ours."""
    return [
        Change(job.id, ChangeKind.ADMIN_COMMENT, ref=job.ref)
        for job in snapshot.jobs
        if is_ours(job.admin_comment) and not job.ended
    ]

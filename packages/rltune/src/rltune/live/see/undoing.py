"""How what is held of a job is given back. Needs no settings, no policy and no journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rltune.live.see.backend import Change, ChangeKind
from rltune.live.see.holdings import STEERING, Hold, Holdings, Intent, Value
from rltune.live.see.snapshot import LiveJob, Snapshot


def undo_all(snapshot: Snapshot, holdings: Holdings) -> tuple[Intent, ...]:
    """Return what gives back all that can be: a running job's list of nodes cannot."""
    waiting = (intent for job in snapshot.pending for hold in holdings.of(job).values() for intent in undo(job, hold))
    return (*waiting, *undo_running(snapshot, holdings))


def undo_running(snapshot: Snapshot, holdings: Holdings) -> Iterator[Intent]:
    """Give back the numbers of jobs that have started: they would count again if such a job were requeued."""
    for job in snapshot.jobs:
        if not job.pending and not job.ended:
            for kind, hold in holdings.of(job).items():
                if kind not in STEERING:
                    yield from undo(job, hold)


def undo(job: LiveJob, hold: Hold) -> Iterable[Intent]:
    """Restore what a job had; a held job's priority is Slurm's again already."""
    if hold.kind is ChangeKind.PRIORITY:
        change = Change(job.id, ChangeKind.RELEASE, ref=job.ref)
        return () if job.held else (Intent(change, job.submit_s, hold.before, undo=True),)
    return (intent_of(job, hold.kind, hold.before, before=hold.before, undo=True),)


def intent_of(job: LiveJob, kind: ChangeKind, value: Value, before: Value, *, undo: bool = False) -> Intent:
    """Return the intent to give a job a value."""
    if isinstance(value, tuple):
        return Intent(Change(job.id, kind, nodes=value, ref=job.ref), job.submit_s, before, undo)
    return Intent(Change(job.id, kind, value=value, ref=job.ref), job.submit_s, before, undo)

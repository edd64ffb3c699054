"""Whether a job still has what was set here. Needs no settings."""

from __future__ import annotations

from dataclasses import dataclass

from rltune.live.see.backend import ChangeKind
from rltune.live.see.holdings import Holdings, Intent, Value, held_kind
from rltune.live.see.snapshot import LiveJob, Snapshot


@dataclass(frozen=True)
class Drift:
    """Something set here that is not so any more: never made or lost again, or changed by another hand."""

    job: LiveJob
    kind: ChangeKind
    by_hand: bool


def drifted(snapshot: Snapshot, holdings: Holdings) -> list[Drift]:
    """Find what is no longer as it was set here."""
    found = []
    for job in snapshot.pending:
        for hold in holdings.of(job).values():
            now = _seen(job, hold.kind)
            if hold.kind is ChangeKind.PRIORITY and job.priority_by_hand is False and not job.held:
                found.append(Drift(job, hold.kind, by_hand=False))
            elif now is not None and now != _comparable(hold.value):
                found.append(Drift(job, hold.kind, by_hand=now != _comparable(hold.before)))
    return found


def is_in_effect(job: LiveJob, intent: Intent) -> bool:
    """Return whether a job has what an intent would give it."""
    return job.pending and _seen(job, held_kind(intent.change.kind)) == _comparable(intent.value)


def _seen(job: LiveJob, kind: ChangeKind) -> int | frozenset[str] | None:
    """Return what a job has; None = it is not told, or a hold hides it."""
    match kind:
        case ChangeKind.SITE_FACTOR:
            return job.site_factor
        case ChangeKind.PRIORITY:
            return job.priority if job.priority_by_hand and not job.held else None
        case ChangeKind.EXCLUDE_NODES:
            return frozenset(job.excluded_nodes)
        case _:
            return frozenset(job.required_nodes)


def _comparable(value: Value) -> int | frozenset[str]:
    return frozenset(value) if isinstance(value, tuple) else value

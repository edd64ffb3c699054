"""Whether what the controller sees can be trusted. Each check gives a sentence, or nothing if all is well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rltune.live.control_settings import Health
from rltune.live.see.backend import ChangeKind
from rltune.live.see.holdings import Holdings, Intent, Value, held_kind
from rltune.live.see.snapshot import LiveJob, Snapshot

_REMEMBERED_S = (
    240.0  # Slurm shows an ended job for MinJobAge, 300 s unless configured; after less than that none is lost
)


@dataclass(frozen=True)
class Look:
    """A snapshot, and between which times it was taken, by a clock that never jumps."""

    snapshot: Snapshot
    elapsed_s: float  # when the look was over
    took_s: float = 0.0


@dataclass(frozen=True)
class Drift:
    """Something set here that is not so any more: never made or lost again, or changed by another hand."""

    job: LiveJob
    kind: ChangeKind
    by_hand: bool


def problems(last: Look | None, look: Look, health: Health) -> Iterator[str]:
    """Return what is wrong with a look, by itself and after the last one."""
    if not look.snapshot.nodes:
        yield "Slurm shows no nodes"
    if last is not None:
        yield from _clock(last, look, health)
        yield from _lost_jobs(last, look, health)
        yield from _lost_gpus(last, look, health)


def too_slow(seconds: float, health: Health) -> Iterator[str]:
    """Return a sentence if a decision took too long."""
    if seconds > health.max_decision_s:
        yield f"a decision took {seconds:.1f} s, more than {health.max_decision_s:g} s"


def _clock(last: Look, look: Look, health: Health) -> Iterator[str]:
    """Compare the cluster's clock with ours: one that stands still means old data, one that jumps means wrong times.

    A look takes a while, and its snapshot is of some moment within it.
    """
    passed = look.snapshot.taken_s - last.snapshot.taken_s
    ours = look.elapsed_s - last.elapsed_s
    least, most = ours - look.took_s, ours + last.took_s
    if passed <= 0 < least:
        yield f"the data are stale: the cluster's clock went {passed:+.0f} s while {ours:.0f} s passed"
    elif not least - health.max_clock_jump_s <= passed <= most + health.max_clock_jump_s:
        yield f"the cluster's clock jumped: {passed:.0f} s by it, {ours:.0f} s by ours"


def _lost_jobs(last: Look, look: Look, health: Health) -> Iterator[str]:
    """Look for jobs that are gone without having been seen to end."""
    if look.elapsed_s - last.elapsed_s > _REMEMBERED_S:
        return
    alive = [job.id for job in last.snapshot.jobs if not job.ended]
    gone = sum(job not in look.snapshot.job_by_id for job in alive)
    if gone >= health.lost_matter_from and gone > health.max_lost_share * len(alive):
        yield f"{gone} of {len(alive)} jobs are gone without having ended"


def _lost_gpus(last: Look, look: Look, health: Health) -> Iterator[str]:
    """Look for nodes that are no longer listed at all; one that is down still is."""
    before = sum(node.gpus for node in last.snapshot.nodes)
    now = sum(node.gpus for node in look.snapshot.nodes)
    if before - now > health.max_lost_share * before:
        yield f"Slurm lists {now} GPUs, {before} a moment ago"


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


def too_much_meddling(count: int, holdings: Holdings, health: Health) -> Iterator[str]:
    """Return a sentence if another hand is at work on more than a few jobs."""
    held = sum(hold.kind in {ChangeKind.SITE_FACTOR, ChangeKind.PRIORITY} for _, hold in holdings)
    if count >= health.lost_matter_from and count > health.max_lost_share * held:
        yield f"{count} of {held} numbers set here were changed by another hand: is there a second controller?"

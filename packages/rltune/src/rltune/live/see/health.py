"""Whether what the controller sees can be trusted. Each check gives a sentence, or nothing if all is well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rltune.live.control_settings import Health
from rltune.live.see.backend import ChangeKind
from rltune.live.see.holdings import Holdings
from rltune.live.see.snapshot import Snapshot

_REMEMBERED_S = (
    240.0  # Slurm shows an ended job for MinJobAge, 300 s unless configured; after less than that none is lost
)


@dataclass(frozen=True)
class Look:
    """A snapshot, and between which times it was taken, by a clock that never jumps."""

    snapshot: Snapshot
    elapsed_s: float  # when the look was over
    took_s: float = 0.0


def problems(last: Look | None, look: Look, health: Health) -> Iterator[str]:
    """Return what is wrong with a look, by itself and after the last one."""
    if look.snapshot.caution:
        yield look.snapshot.caution
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


def too_many_refused(count: int, holdings: Holdings, health: Health) -> Iterator[str]:
    """Return a sentence if Slurm refuses changes of more than a few jobs that still wait."""
    held = len(holdings.by_job)
    if count >= health.lost_matter_from and count > health.max_lost_share * (held + count):
        yield f"Slurm refuses changes of {count} jobs and has taken those of {held}"


def too_much_meddling(count: int, holdings: Holdings, health: Health) -> Iterator[str]:
    """Return a sentence if another hand is at work on more than a few jobs."""
    held = sum(hold.kind in {ChangeKind.SITE_FACTOR, ChangeKind.PRIORITY} for _, hold in holdings)
    if count >= health.lost_matter_from and count > health.max_lost_share * held:
        yield f"{count} of {held} numbers set here were changed by another hand: is there a second controller?"

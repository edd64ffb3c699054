"""What users are told of jobs whose number was changed: in AdminComment, where rights allow it."""

from __future__ import annotations

from collections.abc import Iterable

from rltune.live.decide.decision import Decision
from rltune.live.see.admin_comment import JobNotice, is_ours
from rltune.live.see.backend import Change, ChangeKind
from rltune.live.see.snapshot import Lever, Snapshot

_NUMBERS = {ChangeKind.SITE_FACTOR, ChangeKind.PRIORITY}


def notices(
    made: Iterable[Change], decision: Decision, snapshot: Snapshot, by: str, cycle: int, who: str
) -> list[Change]:
    """Return what to write for changes that were made; an administrator's own comment is left alone."""
    places = {part.job: place for place, part in enumerate((w for w in decision.waiting if w.competes), 1)}
    told = []
    for change in made:
        job, part = snapshot.job_by_id.get(change.job), decision.by_job.get(change.job)
        if change.kind not in _NUMBERS or job is None or (job.admin_comment and not is_ours(job.admin_comment)):
            continue
        if part is None or part.job not in places:
            continue
        why = f"{_number(change, snapshot.lever)}, expected run time {part.estimate_s / 60:.0f} min"
        notice = JobNotice(places[part.job], len(places), part.slurm_rank + 1, why, by, cycle, who)
        told.append(Change(job.id, ChangeKind.ADMIN_COMMENT, text=str(notice), ref=job.ref))
    return told


def _number(change: Change, lever: Lever) -> str:
    """Spell a number as the user finds it in Slurm."""
    if change.kind is ChangeKind.PRIORITY:
        return f"Priority {change.value}"
    return f"Nice {-change.value}" if lever is Lever.NICE else f"SiteFactor {change.value}"

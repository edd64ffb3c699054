"""Who comes first in a tier whatever the policy says: jobs of an SLA's QOS, then jobs that are owed their start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rltune.engine.guard import Guard
from rltune.live.see.snapshot import LiveJob

Turn = tuple[int, float, int]


@dataclass(frozen=True)
class Claims:
    """Jobs that a guard puts first: SLA jobs before all, then those owed their start; each the oldest first."""

    sla: frozenset[int] = frozenset()
    owed_since_s: Mapping[int, float] = field(default_factory=dict)

    def __contains__(self, job: int) -> bool:
        return job in self.sla or job in self.owed_since_s

    def turn(self, job: LiveJob) -> Turn:
        """Order jobs that have a claim."""
        return (0 if job.id in self.sla else 1, job.submit_s, job.id)


def claims_of(jobs: Iterable[LiveJob], guard: Guard, estimates: Mapping[int, float], now_s: float) -> Claims:
    """Find the jobs that have a claim now, by the core's own rule."""
    if not guard:
        return Claims()
    waiting = list(jobs)
    sla = frozenset(job.id for job in waiting if job.qos in guard.sla)
    grace_s = {job.id: max(guard.grace_s, (guard.times or 0.0) * estimates[job.id]) for job in waiting}
    owed = [job for job in waiting if job.id not in sla and now_s - job.submit_s >= grace_s[job.id]]
    return Claims(sla, {job.id: job.submit_s + grace_s[job.id] for job in owed})

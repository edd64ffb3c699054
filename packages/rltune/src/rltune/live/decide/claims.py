"""Who comes first in a tier whatever the policy says: jobs of an SLA's QOS, then jobs that are owed their start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Claims:
    """Jobs that the core's guard puts first: SLA jobs before all, then those owed their start."""

    sla: frozenset[int] = frozenset()
    owed_since_s: Mapping[int, float] = field(default_factory=dict)

    def __contains__(self, job: int) -> bool:
        return job in self.sla or job in self.owed_since_s


@dataclass(frozen=True)
class QueueOrder:
    """The queue as the core orders it, guard and all; what it scored before the guard; and who has a claim."""

    jobs: tuple[int, ...]  # best first
    score: Mapping[int, float]  # lower is sooner
    claims: Claims

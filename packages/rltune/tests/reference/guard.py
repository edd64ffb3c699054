"""What a guard grants."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Guard:
    hours: float | None = None
    times: float | None = None
    sla: tuple[str, ...] = ()
    sla_by_base: tuple[str, ...] = ()
    base: str = ""

    def grace(self, estimate: float) -> float:
        """Say for how long a job may be overtaken: the longest of what is given, for ever if nothing is."""
        given = []
        if self.hours is not None:
            given.append(self.hours * 3600.0)
        if self.times is not None:
            given.append(self.times * estimate)
        return max(given, default=math.inf)

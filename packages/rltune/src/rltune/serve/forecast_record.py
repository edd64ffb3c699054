"""Forecasts that were made here, and what then happened: how far they can be trusted on this cluster."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from rltune.forecast import Forecast, JobForecast
from rltune.live.see.snapshot import LiveJob

_NEWEST = 1000  # starts that the median error is of
AT_ONCE_S = 60.0  # until p50: such a forecast is hardly one, and would make the others look better than they are
INSIDE, BEFORE, AFTER = "inside", "before", "after"


@dataclass
class ForecastRecord:
    """The first forecast of each job that waits, until it starts; then where in its 80 % interval it did.

    Jobs that were to start at once are counted apart.
    """

    open: dict[str, JobForecast] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    at_once: Counter[str] = field(default_factory=Counter)
    _soon: set[str] = field(default_factory=set)  # of the open ones, those that are to start at once
    errors_s: deque[float] = field(default_factory=lambda: deque(maxlen=_NEWEST))

    def note(self, made: Forecast) -> None:
        """Keep the forecasts of jobs that have none yet; one that is not seen to start is no forecast."""
        for one in made.jobs:
            if math.isfinite(one.p90_s) and one.job not in self.open:
                self.open[one.job] = one
                if one.p50_s - made.now_s < AT_ONCE_S:
                    self._soon.add(one.job)

    def look(self, jobs: Iterable[LiveJob]) -> None:
        """Judge the forecasts of jobs that have started; forget those of jobs that are gone."""
        seen = {job.command_name: job for job in jobs}
        for name, made in list(self.open.items()):
            job = seen.get(name)
            if job is not None and job.pending:
                continue
            del self.open[name]
            soon = name in self._soon
            self._soon.discard(name)
            if job is not None and not math.isnan(job.start_s):
                self._judge(made, job.start_s, soon=soon)

    def _judge(self, made: JobForecast, start_s: float, *, soon: bool) -> None:
        where = BEFORE if start_s < made.p10_s else AFTER if start_s > made.p90_s else INSIDE
        if soon:
            self.at_once[where] += 1
        else:
            self.counts[where] += 1
            self.errors_s.append(abs(start_s - made.p50_s))

    @property
    def starts(self) -> int:
        """Return how many forecasts of jobs that were to wait were judged."""
        return self.counts.total()

    @property
    def covered(self) -> float | None:
        """Return the share of starts inside the interval; None if there are none."""
        return self.counts[INSIDE] / self.starts if self.starts else None

    @property
    def median_error_s(self) -> float | None:
        """Return the median distance of p50 from the start, over the newest starts."""
        return median(self.errors_s) if self.errors_s else None

"""How much of the cluster was in use, over a span that is always stated."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.metrics.distribution import Distribution

if TYPE_CHECKING:
    from rltune.jobs import Floats
    from rltune.metrics.timeline import Timeline
    from rltune.metrics.timetable import Timetable

Span = tuple[float, float]


@dataclass(frozen=True)
class Utilisation:
    """Busy GPU-seconds / (GPUs x span), and the share of GPUs in use as a quantity over time."""

    share: float
    over_time: Distribution
    busy_gpu_s: float
    gpus: int
    span_s: Span

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def span_of(schedule: Timetable) -> Span:
    """Return the first submit and the last end of the jobs that ran; their difference is the makespan."""
    ran = schedule.ran
    if not ran.any():
        return (0.0, 0.0)
    return (float(schedule.jobs.submit_s[ran].min()), float(schedule.end_s[ran].max()))


def share_in_use(schedule: Timetable) -> float:
    """Return busy GPU-seconds / (GPUs x makespan), without looking at the course of it."""
    spells, (begin_s, end_s) = schedule.spells, span_of(schedule)
    busy = float(schedule.jobs.gpus[spells.job] @ (spells.end_s - spells.start_s))
    room = schedule.cluster.gpu_count * (end_s - begin_s)
    return busy / room if room > 0 else float("nan")


def utilisation(line: Timeline, held_s: Floats, gpus: int, span_s: Span) -> Utilisation:
    """Average the GPUs in use over the span; `held_s` says how long each state of the timeline lasted within it."""
    busy = float(line.busy @ held_s)
    room = gpus * (span_s[1] - span_s[0])
    over_time = Distribution.over_time(line.busy, held_s).scaled(1 / gpus if gpus else np.nan)
    return Utilisation(busy / room if room > 0 else np.nan, over_time, busy, gpus, span_s)

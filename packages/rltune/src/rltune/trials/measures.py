"""What pipelines can be compared by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rltune.errors import InputError
from rltune.metrics.formats import number, percent, seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from rltune.jobs import Floats
    from rltune.metrics.summary import Summary
    from rltune.schedule import Schedule


@dataclass(frozen=True)
class Metric:
    """A number of a summary; where it is a mean over jobs, also the jobs' values."""

    title: str
    of: Callable[[Summary], float]
    write: Callable[[float], str]
    per_job: Callable[[Schedule], Floats] | None = None
    higher_is_better: bool = False


METRICS = {
    "wait": Metric("mean wait", lambda s: s.wait_s.mean, seconds, lambda s: s.wait_s),
    "jct": Metric("mean JCT", lambda s: s.jct_s.mean, seconds, lambda s: s.jct_s),
    "slowdown": Metric(
        "mean bounded slowdown", lambda s: s.bounded_slowdown.mean, number, lambda s: s.bounded_slowdown
    ),
    "wait-p99": Metric("99th percentile of wait", lambda s: s.wait_s.p99, seconds),
    "wait-max": Metric("longest wait", lambda s: s.wait_s.max, seconds),
    "large-wait": Metric("mean wait of large jobs", lambda s: s.large_wait_s.mean, seconds),
    "utilisation": Metric("utilisation", lambda s: s.utilisation.share, percent, higher_is_better=True),
    "makespan": Metric("makespan", lambda s: s.makespan_s, seconds),
    "fragmentation": Metric("fragmentation while jobs wait", lambda s: s.fragmentation.while_waiting.mean, number),
    "fairness": Metric("Jain's index over users", lambda s: s.fairness.users.jain, number, higher_is_better=True),
}


def metric_of(name: str) -> Metric:
    """Look a metric up by its name."""
    if name not in METRICS:
        raise InputError(f"no metric {name!r}; there are: {', '.join(METRICS)}")
    return METRICS[name]

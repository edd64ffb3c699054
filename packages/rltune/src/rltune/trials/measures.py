"""What pipelines can be compared by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from rltune import plugins
from rltune.errors import InputError, told, unknown
from rltune.metrics.formats import number, percent, seconds
from rltune.metrics.turns_cost import lost_share
from rltune.metrics.utilisation import share_in_use
from rltune.plugins import short_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from rltune.engine.pipeline import Pipeline
    from rltune.jobs import Floats
    from rltune.metrics.summary import Summary
    from rltune.schedule import Schedule


def _points(value: float) -> str:
    return f"{100 * value:.1f} points"


@dataclass(frozen=True)
class Metric:
    """A number of a summary; where it is a mean over jobs, also the jobs' values."""

    title: str
    of: Callable[[Summary], float] | None = None  # None = the mean of the jobs' values
    write: Callable[[float], str] = number
    per_job: Callable[[Schedule], Floats] | None = None  # a number a job; NaN leaves the job out
    higher_is_better: bool = False
    quick: Callable[[Schedule], float] | None = None  # the same number without a summary, where hundreds are needed

    def __post_init__(self) -> None:
        if self.of is None and self.per_job is None:
            raise InputError(f"metric {self.title!r}: give a number of the summary or a number a job")

    @property
    def write_difference(self) -> Callable[[float], str]:
        """Write a difference of two values: of two shares it is in percentage points, not in percent."""
        return _points if self.write is percent else self.write

    def value(self, summary: Summary, schedule: Schedule, counts: NDArray[np.bool_]) -> float:
        """Return the number of the summary, or else the mean over the jobs that count."""
        if self.of is not None:
            return self.of(summary)
        values = self.job_values(schedule)[counts]
        known = values[np.isfinite(values)]
        return float(known.mean()) if len(known) else np.nan

    def job_values(self, schedule: Schedule) -> Floats:
        """Return the jobs' values: what a user's function gives is taken if it is one number a job."""
        assert self.per_job is not None
        try:
            values = np.asarray(self.per_job(schedule), dtype=np.float64)
        except (Exception, SystemExit) as error:  # whatever it raises, the user wrote it
            raise InputError(f"metric {self.title!r} failed: {told(error)}") from error
        if values.shape != (n := len(schedule.jobs),):
            raise InputError(f"metric {self.title!r} gave values of shape {values.shape} for {n} jobs, not ({n},)")
        return values


def _mean_of(per_job: Callable[[Schedule], Floats]) -> Callable[[Schedule], float]:
    return lambda schedule: float(per_job(schedule)[schedule.ran].mean())


METRICS = {
    "wait": Metric(
        "mean wait", lambda s: s.wait_s.mean, seconds, lambda s: s.wait_s, quick=_mean_of(lambda s: s.wait_s)
    ),
    "jct": Metric("mean JCT", lambda s: s.jct_s.mean, seconds, lambda s: s.jct_s, quick=_mean_of(lambda s: s.jct_s)),
    "slowdown": Metric(
        "mean bounded slowdown",
        lambda s: s.bounded_slowdown.mean,
        number,
        lambda s: s.bounded_slowdown,
        quick=_mean_of(lambda s: s.bounded_slowdown),
    ),
    "delay": Metric(
        "mean delay", lambda s: s.turns.delay_s.mean, seconds, lambda s: s.delay_s, quick=_mean_of(lambda s: s.delay_s)
    ),
    "delay-p99": Metric(
        "99th percentile of delay",
        lambda s: s.turns.delay_s.p99,
        seconds,
        quick=lambda s: float(np.percentile(s.delay_s[s.ran], 99)),
    ),
    "preemptions": Metric(
        "times displaced, a job",
        lambda s: s.turns.preemptions.mean,
        number,
        lambda s: s.preemptions.astype(np.float64),
        quick=_mean_of(lambda s: s.preemptions.astype(np.float64)),
    ),
    "lost": Metric(
        "GPU time lost to stopping jobs",
        lambda s: s.turns.lost_share,
        percent,
        quick=lambda s: lost_share(s, s.ran),
    ),
    "goodput": Metric("goodput", lambda s: s.goodput, percent, higher_is_better=True),
    "wait-p99": Metric(
        "99th percentile of wait",
        lambda s: s.wait_s.p99,
        seconds,
        quick=lambda s: float(np.percentile(s.wait_s[s.ran], 99)),
    ),
    "wait-max": Metric("longest wait", lambda s: s.wait_s.max, seconds),
    "large-wait": Metric("mean wait of large jobs", lambda s: s.large_wait_s.mean, seconds),
    "utilisation": Metric(
        "utilisation", lambda s: s.utilisation.share, percent, higher_is_better=True, quick=share_in_use
    ),
    "makespan": Metric("makespan", lambda s: s.makespan_s, seconds),
    "fragmentation": Metric("fragmentation while jobs wait", lambda s: s.fragmentation.while_waiting.mean, number),
    "fairness": Metric("Jain's index over users", lambda s: s.fairness.users.jain, number, higher_is_better=True),
}


MEASURED = tuple(name for name, metric in METRICS.items() if metric.quick)
OF_TURNS = ("delay", "delay-p99", "preemptions", "lost")  # shown where some pipeline lets jobs take turns
COMPARED = tuple(name for name in MEASURED if name not in {"preemptions", "lost"})  # 0 without turns: no ratio


def usual_metric(pipelines: Iterable[Pipeline]) -> str:
    """Return what to compare by if nobody says: the wait, or the delay if some pipeline lets jobs take turns.

    A job that starts at once and is then stopped has no wait, so that waits would flatter taking turns.
    """
    return "delay" if any(pipeline.turns for pipeline in pipelines) else "wait"


def measures_of(schedule: Schedule) -> Floats:
    """Return the numbers that are kept of every window, in the order of MEASURED; NaN if no job ran."""
    if not schedule.ran.any():
        return np.full(len(MEASURED), np.nan)
    return np.array([quick(schedule) for metric in METRICS.values() if (quick := metric.quick)])


def relative_gap(theirs: float, ours: float) -> float:
    """Return (theirs - ours) / max(theirs, ours), the paper's reward: above 0 where ours is less; 0 if both are 0."""
    largest = max(theirs, ours)
    if largest == np.inf:
        return float(np.sign(theirs - ours)) if theirs != ours else 0.0
    return (theirs - ours) / largest if largest > 0 else 0.0


def metric_of(name: str) -> Metric:
    """Look a metric up by its name, or load a user's own: `mine.py:name`, or an entry point's name."""
    if name in METRICS:
        return METRICS[name]
    own = _own(name, plugins.changed_ns(name))
    if own is None:
        raise unknown("metric", name, (*METRICS, *plugins.METRICS.names()), more=", or your own as path.py:name")
    return own


@lru_cache  # a comparison asks for its metric many times
def _own(name: str, _changed_ns: int) -> Metric | None:
    found = plugins.METRICS.find(name)
    if found is None or isinstance(found, Metric):
        return found
    if not callable(found):
        raise InputError(f"metric {name!r}: {found!r} is neither a Metric nor a function of a schedule")
    return Metric(f"mean {short_name(name)}", per_job=found)

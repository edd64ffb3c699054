"""Everything about one schedule in one value that prints itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.metrics.bound import Bound, lower_bound
from rltune.metrics.distribution import Distribution
from rltune.metrics.fairness import Fairness, group_fairness
from rltune.metrics.fragmentation import Fragmentation, fragmentation
from rltune.metrics.recorded import RecordedWait, recorded_wait
from rltune.metrics.timeline import timeline
from rltune.metrics.turns_cost import TurnsCost, turns_cost
from rltune.metrics.utilisation import Span, Utilisation, span_of, utilisation
from rltune.text import html_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from rich.console import Console, ConsoleOptions, RenderResult

    from rltune.metrics.timetable import NamedPipeline, Timetable

LARGE_GPUS = 8


@dataclass(frozen=True)
class Summary:
    """What a schedule did for its jobs and its cluster."""

    settings: NamedPipeline
    jobs: int
    ran: int
    rejected: int
    reject_reasons: dict[str, int]
    requeued: int  # jobs that an outage put back at least once
    passes: int
    wait_s: Distribution
    recorded: RecordedWait  # what the history says of the same jobs
    jct_s: Distribution
    bounded_slowdown: Distribution
    large_wait_s: Distribution  # of jobs on more than one node or of 8 GPUs and more
    makespan_s: float  # last end - first submit
    utilisation: Utilisation
    queue: Distribution  # jobs waiting for GPUs, over time
    fragmentation: Fragmentation
    fairness: Fairness
    bound: Bound
    turns: TurnsCost  # delay, and what stopping jobs cost
    interval_s: Span | None  # if told: only jobs submitted in [begin, end), and the cluster between the two
    work: Mapping[str, Any] = field(default_factory=dict)  # counters of the engine and the placer

    @property
    def goodput(self) -> float:
        """Return the share of the GPUs that did useful work: utilisation less restarts and work that was done again."""
        return self.utilisation.share * (1 - self.turns.lost_share)

    @property
    def gap(self) -> float:
        """Return by which share the mean JCT exceeds the lower bound; NaN if jobs were displaced.

        One part of the bound takes jobs to run in one piece, so it bounds nobody who was stopped and went on.
        """
        return np.nan if self.turns.taken else self.bound.gap(self.jct_s.mean)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; what cannot be told is None."""
        from rltune.metrics.formats import plain

        counted = {name: value for name, value in self.work.items() if "_ms" not in name}  # the same on every machine
        derived = {"work": counted, "gap_to_bound": self.gap, "goodput": self.goodput}
        values: dict[str, Any] = plain({**asdict(self), **derived})
        return values

    def __str__(self) -> str:
        """Print as plain text."""
        from rltune.metrics.formats import as_table

        return text_of(as_table(self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from rltune.metrics.formats import as_table

        return html_of(as_table(self))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rltune.metrics.formats import as_table

        yield as_table(self)


def summarise(schedule: Timetable, interval_s: Span | None = None, bound: Bound | None = None) -> Summary:
    """Sum a schedule up, or the part of it in an interval; a bound of the same jobs may be given to save time."""
    inside = _inside(schedule, interval_s)
    kept = inside & schedule.ran
    wait, slowdown = schedule.wait_s[kept], schedule.bounded_slowdown[kept]
    line = timeline(schedule)
    whole = span_of(schedule)
    span = interval_s or whole
    held = line.held_s(*span)
    gpus = schedule.cluster.gpu_count
    return Summary(
        settings=schedule.settings,
        jobs=int(inside.sum()),
        ran=int(kept.sum()),
        rejected=int((inside & schedule.rejected).sum()),
        reject_reasons=_reasons(schedule, inside & schedule.rejected),
        requeued=int((schedule.requeues[inside] > 0).sum()),
        passes=schedule.passes,
        wait_s=Distribution.of(wait),
        recorded=recorded_wait(schedule.jobs, schedule.wait_s, kept, calibrated=schedule.cluster.calibrated),
        jct_s=Distribution.of(schedule.jct_s[kept]),
        bounded_slowdown=Distribution.of(slowdown),
        large_wait_s=Distribution.of(wait[large_jobs(schedule)[kept]]),
        makespan_s=whole[1] - whole[0],
        utilisation=utilisation(line, held, gpus, span),
        queue=Distribution.over_time(line.waiting, held),
        fragmentation=fragmentation(line, held, gpus),
        fairness=_fairness(schedule, kept),
        bound=bound or lower_bound(schedule.jobs, schedule.cluster, kept),
        turns=turns_cost(schedule, kept),
        interval_s=interval_s,
        work=schedule.work,
    )


def large_jobs(schedule: Timetable) -> NDArray[np.bool_]:
    """Return which jobs are on more than one node or have 8 GPUs and more."""
    large: NDArray[np.bool_] = (np.diff(schedule.placements.ptr) > 1) | (schedule.jobs.gpus >= LARGE_GPUS)
    return large


def _inside(schedule: Timetable, interval_s: Span | None) -> NDArray[np.bool_]:
    submit = schedule.jobs.submit_s
    if interval_s is None:
        return np.ones(len(submit), dtype=np.bool_)
    return (submit >= interval_s[0]) & (submit < interval_s[1])


def _reasons(schedule: Timetable, rejected: NDArray[np.bool_]) -> dict[str, int]:
    labels = schedule.reject_reason
    codes = labels.codes[rejected]
    count = np.bincount(codes[codes >= 0], minlength=len(labels.names))
    reasons = {name: int(n) for name, n in zip(labels.names, count, strict=True) if n}
    unsaid = int((codes < 0).sum())
    return {**reasons, "no reason given": unsaid} if unsaid else reasons


def _fairness(schedule: Timetable, kept: NDArray[np.bool_]) -> Fairness:
    rows = np.flatnonzero(kept)
    wait, slowdown = schedule.wait_s[kept], schedule.bounded_slowdown[kept]
    users, vcs = schedule.jobs.user.take(rows), schedule.jobs.vc.take(rows)
    return Fairness(users=group_fairness(users, wait, slowdown), vcs=group_fairness(vcs, wait, slowdown))

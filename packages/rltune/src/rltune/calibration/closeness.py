"""How near a replay is to what happened, in numbers, and what it is therefore good for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rltune.calibration.causes import queue_of
from rltune.calibration.history import Happened, Steps
from rltune.jobs import Floats
from rltune.metrics.recorded import FAR, SMALL_S, RecordedWait, far_apart, times_apart
from rltune.text import percent

HOUR_S = 3600.0
SIZES, RANKING, NEITHER = "sizes of gains", "ranking", "neither"
# What it takes. Times apart of the mean wait, its p90 and p99; rank correlation of waits; correlation of the queue.
FOR_SIZES = {**FAR, "ranks": 0.5, "queue": 0.6, "rejected": 0.01}
FOR_RANKING = {**{part: 2 * times for part, times in FAR.items()}, "ranks": 0.3, "queue": 0.3, "rejected": 0.05}
_MOST_EDGES = 20_000


@dataclass(frozen=True)
class Nearness:
    """A replay beside what happened, over the jobs that have both."""

    waits: RecordedWait  # from when a job could start
    rank_of_waits: float  # Spearman
    rank_of_starts: float  # Spearman; near 1 for any replay, as time goes one way
    queue: float  # correlation of the hourly queue length
    use: float  # correlation of the hourly GPUs in use
    rejected: float  # share of the jobs that the replay could not run
    waited: float  # share of the jobs that waited over a minute

    @classmethod
    def of(cls, history: Happened, start_s: Floats, rejected: float) -> Nearness:
        """Compare recorded starts with those of a replay, NaN where a job did not run."""
        ran = ~np.isnan(start_s)
        ready, recorded, simulated = history.ready_s[ran], history.start_s[ran], start_s[ran]
        begin, end = history.span_s
        edges = np.linspace(begin, end, min(_MOST_EDGES, max(int((end - begin) / HOUR_S), 2)) + 1)
        run = history.jobs.duration_s[ran]
        size = history.size[ran]
        queues = [queue_of(ready, start).averaged(edges) for start in (recorded, simulated)]
        uses = [Steps.of(start, start + run, size).averaged(edges) for start in (recorded, simulated)]
        return cls(
            waits=RecordedWait.of_waits(recorded - ready, np.zeros(len(ready)), simulated - ready),
            rank_of_waits=_correlation(ranks(recorded - ready), ranks(simulated - ready)),
            rank_of_starts=_correlation(ranks(recorded), ranks(simulated)),
            queue=_correlation(*queues),
            use=_correlation(*uses),
            rejected=rejected,
            waited=float(np.mean(recorded - ready > SMALL_S)) if len(ready) else 0.0,
        )

    @property
    def verdict(self) -> str:
        """Return what the replay is good for."""
        if all(good for good, _ in self.tests(FOR_SIZES)):
            return SIZES
        return RANKING if all(good for good, _ in self.tests(FOR_RANKING)) else NEITHER

    def tests(self, bar: dict[str, float]) -> list[tuple[bool, str]]:
        """Return each test with its outcome in a few words."""
        recorded, simulated = self.waits.recorded_s, self.waits.simulated_s
        made = []
        for part in FAR:
            one, other = getattr(simulated, part), getattr(recorded, part)
            said = "as recorded" if abs(one - other) <= SMALL_S else f"{times_apart(one, other)} recorded"
            made.append((not far_apart(one, other, bar[part]), f"{part} wait {said} (within {bar[part]:g} times)"))
        made.append(
            (
                self.rank_of_waits >= bar["ranks"],
                f"rank correlation of waits {self.rank_of_waits:.2f} (at least {bar['ranks']:g})",
            )
        )
        made.append(
            (
                self.queue >= bar["queue"],
                f"correlation of the hourly queue {self.queue:.2f} (at least {bar['queue']:g})",
            )
        )
        made.append(
            (
                self.rejected <= bar["rejected"],
                f"{percent(self.rejected)} of jobs not run (at most {percent(bar['rejected'])})",
            )
        )
        return made


def ranks(values: Floats) -> Floats:
    """Return ranks; equal values share the mean of theirs."""
    _, inverse, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2.0)[inverse]


def distance(close: Nearness) -> float:
    """Return one number by which replays are compared: how far the mean and the p90 are apart, in logarithms."""
    waits = close.waits
    parts = ((waits.simulated_s.mean, waits.recorded_s.mean), (waits.simulated_s.p90, waits.recorded_s.p90))
    apart = sum(abs(np.log((one + SMALL_S) / (other + SMALL_S))) for one, other in parts)
    return float(apart + 1 - close.rank_of_waits)


def _correlation(one: Floats, other: Floats) -> float:
    """Return Pearson's correlation; of what does not vary 1 if both are alike, else 0."""
    if len(one) < 2 or one.std() == 0 or other.std() == 0:
        return float(np.array_equal(one, other))
    return float(np.corrcoef(one, other)[0, 1])

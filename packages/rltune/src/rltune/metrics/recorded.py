"""The waits that a history records, beside those of a simulation of the same jobs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rltune.metrics.distribution import Distribution
from rltune.text import seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rltune.jobs import Floats, Jobs

# Times: waits that differ by more are far apart, and sizes of gains are not to be read. The one rule of all commands.
FAR = {"mean": 1.5, "p90": 2.0, "p99": 2.0}
SMALL_S = 60.0  # differences below this are not
NEARLY_ALL = 0.99  # of the jobs: the rest is not worth a row of its own
UNBELIEVED = (
    "`rltune calibrate` found replays of your cluster usable neither for ranking nor for sizes (its usable_for)"
)
FOR_RANKING_ONLY = (
    "Do not read sizes of gains from this: `rltune calibrate` found replays of your cluster usable for ranking only "
    "(its usable_for)."
)
UNEXPLAINED = "What `rltune calibrate` found is in the cluster's file and does not explain all of it"
NOTHING_RECORDED = "No starts are recorded in this history, so nothing shows whether simulated waits are right."


def recorded_wait_s(jobs: Jobs) -> Floats:
    """Return how long jobs waited from when they could start, as the source tells it.

    NaN where it tells no start, or one before the submit. This is the one way in which recorded waits are counted.
    """
    return np.where(jobs.recorded_start_s >= jobs.submit_s, jobs.recorded_start_s - jobs.ready_s, np.nan)


def recorded_held_s(jobs: Jobs) -> Floats:
    """Return how long after its submit a job could not have started, as the source tells it; 0 if it does not."""
    return jobs.ready_s - jobs.submit_s


@dataclass(frozen=True)
class RecordedWait:
    """Recorded and simulated waits of the jobs that have both; the simulated ones are of 0 jobs if there are none."""

    of: int  # jobs looked at, with or without a recorded start
    held: int  # jobs that could not start within a minute of their submit
    held_s: float  # mean over all jobs of how long they could not
    recorded_s: Distribution
    simulated_s: Distribution
    calibrated: bool = False  # whether the cluster's file has what calibrate found

    @classmethod
    def of_waits(
        cls, recorded_s: Floats, held_s: Floats, simulated_s: Floats | None = None, *, calibrated: bool = False
    ) -> RecordedWait:
        """Compare one value a job; NaN where a job has none."""
        both = ~np.isnan(recorded_s) & (True if simulated_s is None else ~np.isnan(simulated_s))
        return cls(
            of=len(recorded_s),
            held=int((held_s[both] > SMALL_S).sum()),
            held_s=float(held_s[both].mean()) if both.any() else 0.0,
            recorded_s=Distribution.of(recorded_s[both]),
            simulated_s=Distribution.of(np.zeros(0) if simulated_s is None else simulated_s[both]),
            calibrated=calibrated,
        )

    @property
    def complete(self) -> bool:
        """Return whether as good as all jobs have a recorded start."""
        return self.recorded_s.n >= NEARLY_ALL * self.of

    @property
    def ratio(self) -> float:
        """Return the simulated mean wait over the recorded one; NaN if there is nothing to compare."""
        if not self.simulated_s.n or self.recorded_s.mean == self.simulated_s.mean == 0:
            return math.nan
        return self.simulated_s.mean / self.recorded_s.mean if self.recorded_s.mean > 0 else math.inf

    @property
    def far(self) -> str:
        """Name the first of mean, p90 and p99 in which the two are far apart; "" if they are near."""
        parts = FAR if self.simulated_s.n else {}
        apart = (p for p in parts if far_apart(getattr(self.simulated_s, p), getattr(self.recorded_s, p), FAR[p]))
        return next(apart, "")

    def lines(self) -> list[str]:
        """Return what is recorded, what was simulated, and whether they are far apart, in plain sentences."""
        if not self.recorded_s.n:
            return [NOTHING_RECORDED]
        told = [f"Recorded wait of {self.of_whom()}: {spread(self.recorded_s)}."]
        if self.simulated_s.n:
            told.append(f"Simulated, the same jobs: {spread(self.simulated_s)}.")
        return [*told, *self.warnings()]

    def warnings(self) -> list[str]:
        """Return what a reader of simulated waits must know of the recorded ones; nothing if the two are near."""
        if not self.recorded_s.n:
            return [NOTHING_RECORDED]
        return [*self.held_lines(), *([self._far_sentence()] if self.far else [])]

    def held_lines(self) -> list[str]:
        """Return from when waits are counted, where some jobs could not start when they were submitted."""
        if not self.held:
            return []
        who = f"{self.held:,} of all {self.recorded_s.n:,} jobs could not start when submitted"
        why = "a dependency, a begin time or a throttle held them"
        ready, submit = seconds(self.recorded_s.mean), seconds(self.recorded_s.mean + self.held_s)
        means = f"The recorded mean of all is {ready} so counted, and {submit} from submit"
        return [f"{who} ({why}): waits count from when they could. {means}."]

    def level_lines(self, label: str) -> list[str]:
        """Return that sizes of gains cannot be read from these runs, the nearest of which is named, where it is so."""
        if not self.far:
            return []
        apart = times_apart(getattr(self.simulated_s, self.far), getattr(self.recorded_s, self.far))
        level = f"The level of waiting is not the site's: even under {label} the {self.far} wait is {apart} recorded."
        then = f"{UNEXPLAINED}: do" if self.calibrated else "Before `rltune calibrate` has shown why, do"
        return [f"{level} {then} not read sizes of gains from this."]

    def of_whom(self) -> str:
        """Return whose waits are told and from when: commands that speak of other jobs give other means."""
        of = "" if self.complete else f" of {self.of:,}"
        return f"{self.recorded_s.n:,}{of} jobs, from when each could start"

    def _far_sentence(self) -> str:
        simulated, recorded = getattr(self.simulated_s, self.far), getattr(self.recorded_s, self.far)
        what = {"mean": "Simulated waits are on average"}.get(self.far, f"The {self.far} of simulated waits is")
        why = "either this pipeline differs that much from what ran, or the simulation lacks something the site had"
        then = UNEXPLAINED if self.calibrated else "`rltune calibrate` tells which"
        return f"{what} {times_apart(simulated, recorded)} recorded: {why}. {then}."


def recorded_wait(
    jobs: Jobs,
    wait_s: Floats | None = None,
    counts: NDArray[np.bool_] | None = None,
    *,
    calibrated: bool = False,
) -> RecordedWait:
    """Put recorded waits beside simulated ones, of the jobs that count and have both."""
    wanted = slice(None) if counts is None else counts
    simulated = None if wait_s is None else wait_s[wanted]
    waits = recorded_wait_s(jobs)[wanted], recorded_held_s(jobs)[wanted]
    return RecordedWait.of_waits(*waits, simulated, calibrated=calibrated)


def far_apart(one_s: float, other_s: float, times: float = FAR["mean"]) -> bool:
    """Return whether two waits, means if nothing is told, differ so much that one does not stand for the other."""
    low, high = sorted((one_s, other_s))
    return bool(high - low > SMALL_S and high > times * low)


def times_apart(simulated_s: float, recorded_s: float) -> str:
    """Write how a simulated wait compares with a recorded one: 6.8 times shorter than."""
    low, high = sorted((simulated_s, recorded_s))
    way = "shorter" if simulated_s < recorded_s else "longer"
    return f"{high / low:.1f} times {way} than" if low > 0 else f"far {way} ({seconds(simulated_s)}) than"


def spread(of: Distribution) -> str:
    """Write a distribution of times in one line."""
    parts = {"mean": of.mean, "median": of.p50, "p90": of.p90, "p99": of.p99}
    return ", ".join(f"{name} {seconds(value)}" for name, value in parts.items())

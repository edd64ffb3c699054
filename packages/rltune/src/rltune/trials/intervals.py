"""Confidence intervals of a comparison: Student's t over blocks of time, made for few, dependent, heavy-tailed blocks.

A block is a window, a stretch of a trace's jobs, or a stretch of a part with the windows that start in it. Blocks are
in order of time. A block counts by its level over its level plus a constant that grows with their number: calm blocks
say little, one long queue does not say all, and with many blocks the ratio of means itself is what is estimated.
Neighbours are taken to be alike until enough blocks say otherwise. What is shown is decided first; the interval is then
given more room, but never over 1. docs/adr/0024-intervals-for-few-windows.md says why, docs/results/intervals.md how
often it holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import isnan
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rltune.jobs import Floats

    Counts = NDArray[np.int64]
    Statistic = Callable[[Floats, Floats], Floats]  # from means of ours and of theirs

FEWEST = 3  # with fewer blocks nothing can be said of their spread
FEWEST_TELLING = 2.5  # blocks that are not calm: with fewer nothing is shown, whatever the calm ones say
MOST_WINDOW_BLOCKS = 20  # of windows that overlap
JOB_BLOCKS = (5, 7)  # of one trace, fewest and most: a queue remembers, and more blocks would be more alike
JOBS_A_BLOCK = 4_000  # of one trace, where there are enough for the fewest
LEAST_JOBS_A_BLOCK = 30
MIDDLING = 1 / 12  # times the blocks: the level, in means, at which a block counts half of what the longest queue does
LIKENESS = 0.45  # correlation of neighbours that is believed before any block is seen
BELIEF = 24  # as if so many blocks had shown it
FEW = 10  # blocks: of more, which show by themselves how alike they are, less is believed beforehand
FADING = 1 / 3  # power of FEW over the blocks by which both likeness and belief then fade
MOST_ALIKE = 0.9  # above, a few blocks say nothing at all
MOST_LOG = 100.0  # of a factor, so that it is a number
FURTHEST = 10.0  # times 1, the estimate or the longer wait: an end beyond says no more than that nothing is known
WIDER = 1.25  # power of the ends' distance from the estimate, beyond what decides whether a difference is shown
ROOM = 0.3  # of how unsure the baseline's level is goes to the end away from 1
UNSEEN = 3.0  # over the blocks: how unsure a level is because of longer queues that no block has seen
_UNKNOWN = "unknown"
MOST_UNSURE = 3.0  # half the width of a baseline's level, over the level: more would make of nothing an interval


@dataclass(frozen=True)
class Interval:
    """An estimate, and the interval that holds the truth with the stated confidence; NaN if it cannot be told."""

    estimate: float
    low: float
    high: float
    low_unknown: bool = False  # the end is so far off that it says nothing; the number is where the telling stops
    high_unknown: bool = False

    def ends(self, write: Callable[[float], str]) -> str:
        """Write both ends in brackets; an end that says nothing is unknown."""
        told = self._written(write)
        return "[unknown]" if set(told) == {_UNKNOWN} else f"[{', '.join(told)}]"

    def span(self, write: Callable[[float], str], *, high_first: bool = False) -> str:
        """Write from which end to which, for a sentence; an end that says nothing is unknown."""
        low, high = self._written(write)
        if {low, high} == {_UNKNOWN}:
            return _UNKNOWN
        return f"{high} to {low}" if high_first else f"{low} to {high}"

    def _written(self, write: Callable[[float], str]) -> tuple[str, str]:
        low = _UNKNOWN if self.low_unknown or isnan(self.low) else write(self.low)
        return low, _UNKNOWN if self.high_unknown or isnan(self.high) else write(self.high)

    @property
    def excludes_zero(self) -> bool:
        """Return whether the interval of a difference leaves no doubt of its sign."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Blocks:
    """Sums and counts of both sides by block, in order of time; a mean is a sum over a count."""

    ours: Floats
    our_count: Floats
    theirs: Floats
    their_count: Floats

    @property
    def means(self) -> tuple[float, float]:
        """Return our mean and theirs over all blocks; NaN without a count."""
        return _over(self.ours, self.our_count), _over(self.theirs, self.their_count)

    def with_both(self) -> Blocks:
        """Leave out blocks in which a side has nothing."""
        kept = (self.our_count > 0) & (self.their_count > 0)
        return Blocks(self.ours[kept], self.our_count[kept], self.theirs[kept], self.their_count[kept])

    def weighed(self, weight: Floats) -> Blocks:
        """Let blocks count by a weight."""
        return Blocks(self.ours * weight, self.our_count * weight, self.theirs * weight, self.their_count * weight)

    def __len__(self) -> int:
        return len(self.ours)


def difference(ours: Floats, theirs: Floats) -> Floats:
    """Ours - theirs."""
    return ours - theirs


def ratio(ours: Floats, theirs: Floats) -> Floats:
    """Ours / theirs; NaN where theirs is 0."""
    return np.divide(ours, theirs, out=np.full_like(ours, np.nan), where=theirs != 0)


def over_windows(ours: Floats, theirs: Floats, statistic: Statistic, *, confidence: float) -> Interval:
    """Compare two pipelines by their values on the same windows, given in order of time."""
    one = np.ones(len(ours))
    return over_blocks(Blocks(ours, one, theirs, one), statistic, confidence=confidence)


def job_blocks(jobs: int) -> int:
    """Return into how many blocks of time the jobs of one history are cut."""
    return int(np.clip(jobs // JOBS_A_BLOCK, *JOB_BLOCKS))


def over_jobs(ours: Floats, theirs: Floats, submit_s: Floats, statistic: Statistic, *, confidence: float) -> Interval:
    """Compare two runs of one trace by their values for the same jobs, in blocks of equal time."""
    count = job_blocks(len(ours))
    if len(ours) < count * LEAST_JOBS_A_BLOCK:
        return Interval(_of_means(statistic, _mean(ours), _mean(theirs)), np.nan, np.nan)
    edges = np.linspace(submit_s.min(), submit_s.max(), count + 1)[1:-1]
    block = np.searchsorted(edges, submit_s, side="right")
    jobs = np.bincount(block, minlength=count).astype(np.float64)
    ours, theirs = _summed(block, ours, count), _summed(block, theirs, count)
    return over_blocks(Blocks(ours, jobs, theirs, jobs), statistic, confidence=confidence)


@dataclass(frozen=True)
class Course:
    """Windows along a part of a trace: where each starts, in steps from the part's beginning, and what is alike."""

    step: Counts  # of each window, ascending
    steps: int  # at which a window could start
    window: int  # its length in steps, at least 1
    disjoint: int  # the most windows of which no two share a job

    def totals(self, values: Floats) -> Floats:
        """Sum values of the windows up by the block in which a window starts; a block is at least a window long."""
        length = max(self.window, -(-self.steps // MOST_WINDOW_BLOCKS))
        return _summed(self.step // length, values, -(-self.steps // length))


def over_time(ours: Floats, theirs: Floats, course: Course, statistic: Statistic, *, confidence: float) -> Interval:
    """Compare two pipelines by their values on the same windows, which may overlap."""
    one = np.ones(len(ours))
    return of_sums((ours, one), (theirs, one), course, statistic, confidence=confidence)


def of_sums(
    ours: tuple[Floats, Floats],
    theirs: tuple[Floats, Floats],
    course: Course,
    statistic: Statistic,
    *,
    confidence: float,
) -> Interval:
    """Compare means that are sums over counts, each given by window (such as the waits of one VC's jobs)."""
    blocks = Blocks(*(course.totals(column) for column in (*ours, *theirs)))
    if course.disjoint < FEWEST:
        return Interval(_of_means(statistic, *blocks.means), np.nan, np.nan)
    return over_blocks(blocks, statistic, confidence=confidence)


def over_blocks(blocks: Blocks, statistic: Statistic, *, confidence: float) -> Interval:
    """Compare two pipelines by what blocks of time sum up to."""
    kept = blocks.with_both()
    ours, theirs = kept.means
    estimate = _of_means(statistic, ours, theirs)
    if len(kept) < FEWEST or not np.isfinite(estimate):
        return Interval(estimate, np.nan, np.nan)
    if not (ours > 0 and theirs > 0):
        return _plain_difference(kept, estimate, confidence) if statistic is difference else _unknown(estimate)
    spread = _half_width(kept.theirs / kept.their_count / theirs - 1, confidence, len(kept) - 2.0)
    unsure = min(spread + UNSEEN / len(kept), MOST_UNSURE)
    span = _with_room(ours / theirs, _ratio_span(kept, confidence), unsure)
    if statistic is ratio:
        return _within(estimate, span, min(estimate, 1.0) / FURTHEST, max(estimate, 1.0) * FURTHEST)
    least, most = min(ours / theirs, 1.0) / FURTHEST, max(ours / theirs, 1.0) * FURTHEST
    low, high = ((float(np.clip(bound, least, most)) - 1) * theirs for bound in span)
    more, furthest = float(np.exp(unsure)), FURTHEST * max(ours, theirs)
    low, high = low * more if low < 0 else low / more, high / more if high < 0 else high * more
    found = _within(estimate, (low, high), -furthest, furthest)
    far = (found.low_unknown or span[0] <= least, found.high_unknown or span[1] >= most)
    return _at_most_all_of_it(replace(found, low_unknown=far[0], high_unknown=far[1]), theirs)


def _at_most_all_of_it(found: Interval, theirs: float) -> Interval:
    """Return the interval of a difference with an end below -theirs as unknown: no mean can fall below 0.

    The number stays where it is: theirs may be too low as well, if longer queues were not seen.
    """
    return replace(found, low_unknown=True) if found.low < -theirs else found


@lru_cache(maxsize=4096)
def student(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t: its distribution is an integral of cos^(freedom - 1)."""
    angle = np.linspace(0.0, np.pi / 2, 20_001)
    density = np.cos(angle) ** (freedom - 1)
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    at = float(np.interp(2 * abs(probability - 0.5), mass / mass[-1], angle))
    return float(np.copysign(np.sqrt(freedom) * np.tan(at), probability - 0.5))


def _ratio_span(blocks: Blocks, confidence: float) -> tuple[float, float]:
    """Return the interval that decides what is shown: if it holds 1, nothing is."""
    if np.array_equal(blocks.ours, blocks.theirs) and np.array_equal(blocks.our_count, blocks.their_count):
        return 1.0, 1.0
    n = len(blocks)
    level = n * (blocks.ours / blocks.ours.sum() + blocks.theirs / blocks.theirs.sum()) / 2
    weight = 1 / (level + MIDDLING * n)
    even, plain = (float(np.divide(*some.means)) for some in (blocks.weighed(weight), blocks))
    # Calm blocks add to the number of blocks, not to what is known; a ratio that one queue makes alone has no error.
    telling = float((level * weight).sum() ** 2 / ((level * weight) ** 2).sum())
    if telling < FEWEST_TELLING:
        return 0.0, np.inf
    half = _half_width(_pull(blocks.weighed(weight)), confidence, min(telling - 1, n - 2.0))
    factor = float(np.exp(min(half, MOST_LOG)))
    return min(even / factor, plain), max(even * factor, plain)


def _pull(blocks: Blocks) -> Floats:
    """Return how far each block pulls the ratio of means from where it is."""
    ours, theirs = blocks.means
    up = (blocks.ours - ours * blocks.our_count) / blocks.ours.mean()
    pull: Floats = up - (blocks.theirs - theirs * blocks.their_count) / blocks.theirs.mean()
    return pull


def _with_room(estimate: float, span: tuple[float, float], unsure: float) -> tuple[float, float]:
    """Move both ends from the estimate, the one away from 1 more: long queues may not have been seen.

    A gain or loss that is shown stays shown: the end next to 1 goes at most half of the way to it.
    """
    more = max(WIDER, 1 + ROOM * unsure)
    powers = (more, WIDER) if estimate < 1 else (WIDER, more)
    low, high = (float(estimate * (end / estimate) ** power) for end, power in zip(span, powers, strict=True))
    if span[1] < 1:
        high = min(high, float(np.sqrt(span[1])))
    if span[0] > 1:
        low = max(low, float(np.sqrt(span[0])))
    return low, high


def _within(estimate: float, span: tuple[float, float], least: float, most: float) -> Interval:
    """Return the interval with no end beyond what can be told."""
    low, high = span
    return Interval(estimate, max(low, least), min(high, most), low <= least, high >= most)


def _plain_difference(blocks: Blocks, estimate: float, confidence: float) -> Interval:
    """Return the interval of a difference where one side is 0, so that there is no ratio."""
    ours, theirs = blocks.means
    pull = (blocks.ours - ours * blocks.our_count) / blocks.our_count.sum()
    pull -= (blocks.theirs - theirs * blocks.their_count) / blocks.their_count.sum()
    half = _half_width(len(blocks) * pull, confidence, len(blocks) - 2.0)
    return _at_most_all_of_it(Interval(estimate, estimate - half, estimate + half), theirs)


def _half_width(values: Floats, confidence: float, freedom: float) -> float:
    """Return half the width of Student's interval of a mean over blocks of which neighbours are alike."""
    n, around = len(values), values - values.mean()
    squares = float((around**2).sum())
    if squares <= np.finfo(np.float64).eps ** 2 * n:
        return 0.0
    seen = float((around[1:] * around[:-1]).sum()) / squares
    seen += (1 + 4 * seen) / n  # the mean is taken from the same blocks, which makes neighbours look less alike
    fading = min(1.0, FEW / n) ** FADING
    belief, likeness = BELIEF * fading, LIKENESS * fading
    alike = float(np.clip((n * seen + belief * likeness) / (n + belief), 0.0, MOST_ALIKE))
    lag = np.arange(1, n)
    share = (1 + 2 * float(((1 - lag / n) * alike**lag).sum())) / n  # variance of the mean, over that of one block
    error = np.sqrt(_own_variance(values, alike) * share)
    return float(student(0.5 + confidence / 2, round(max(freedom, 1.0), 1)) * error)


def _own_variance(values: Floats, alike: float) -> float:
    """Return the variance of a block, from what each adds to its neighbour: few blocks that are alike vary little."""
    kept = np.sqrt(1 - alike**2)
    own = np.append(values[:1], (values[1:] - alike * values[:-1]) / kept)
    one = np.append([1.0], np.full(len(values) - 1, (1 - alike) / kept))
    rest = own - one * (own @ one) / (one @ one)
    return float(rest @ rest) / (len(values) - 1)


def _summed(block: Counts, values: Floats, blocks: int) -> Floats:
    return np.bincount(block, weights=values, minlength=blocks).astype(np.float64)


def _over(sums: Floats, counts: Floats) -> float:
    return float(sums.sum() / counts.sum()) if counts.sum() > 0 else np.nan


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else np.nan


def _of_means(statistic: Statistic, ours: float, theirs: float) -> float:
    return float(statistic(np.array([ours]), np.array([theirs]))[0])


def _unknown(estimate: float) -> Interval:
    return Interval(estimate, np.nan, np.nan)

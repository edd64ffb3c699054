"""Confidence intervals of a comparison: Student's t over blocks of time, made for few, dependent, heavy-tailed blocks.

A block is a window, a stretch of a trace's jobs, or a stretch of a part with the windows that start in it. Blocks are
in order of time. Two intervals of the ratio are made and the shortest that holds both is given: one weighs blocks by
what they sum up to, as the ratio of means does, and is upset by a single long queue; the other by about the root of
that, so that calm blocks say little and one long queue not all. Neighbours are taken to be alike until enough blocks
say otherwise. What is gained in long queues shows only if there were some: the end away from 1 has more room where the
level of the baseline is unsure, and so has the difference. docs/adr/0024-intervals-for-few-windows.md says why,
docs/results/intervals.md how often it holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rltune.jobs import Floats

    Counts = NDArray[np.int64]
    Statistic = Callable[[Floats, Floats], Floats]  # from means of ours and of theirs

FEWEST = 3  # with fewer blocks nothing can be said of their spread
MOST_WINDOW_BLOCKS = 20  # of windows that overlap
JOB_BLOCKS = (5, 7)  # of one trace, fewest and most: a queue remembers, and more blocks would be more alike
JOBS_A_BLOCK = 4_000  # of one trace, where there are enough for the fewest
LEAST_JOBS_A_BLOCK = 30
EVENNESS = 0.4  # power of a block's sum that is its weight: 0 counts all blocks alike, 1 by their sums
LIKENESS = 0.45  # correlation of neighbours that is believed before any block is seen
BELIEF = 12  # as if so many blocks had shown it
MOST_ALIKE = 0.9  # above, a few blocks say nothing at all
MOST_RELATIVE = 1.99  # of a relative difference, which ends at 2 where one side is 0: a ratio of 399
MOST_UNSURE = 2.0  # half the width of a baseline's level, over the level: more would make of nothing an interval
ROOM = 0.5  # of that goes to the end away from 1


@dataclass(frozen=True)
class Interval:
    """An estimate, and the interval that holds the truth with the stated confidence; NaN if it cannot be told."""

    estimate: float
    low: float
    high: float

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
    unsure = min(_half_width(kept.theirs / kept.their_count / theirs - 1, confidence), MOST_UNSURE)
    span = _with_room(ours / theirs, _ratio_span(kept, confidence), unsure)
    if statistic is ratio:
        return Interval(estimate, *span)
    low, high = ((bound - 1) * theirs for bound in span)
    room = float(np.exp(unsure))
    return Interval(estimate, low * room if low < 0 else low / room, high / room if high < 0 else high * room)


@lru_cache(maxsize=4096)
def _quantile(probability: float, freedom: float) -> float:
    return student(probability, freedom)


def student(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t: its distribution is an integral of cos^(freedom - 1)."""
    angle = np.linspace(0.0, np.pi / 2, 20_001)
    density = np.cos(angle) ** (freedom - 1)
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    at = float(np.interp(2 * abs(probability - 0.5), mass / mass[-1], angle))
    return float(np.copysign(np.sqrt(freedom) * np.tan(at), probability - 0.5))


def _ratio_span(blocks: Blocks, confidence: float) -> tuple[float, float]:
    """Return the shortest interval that holds the one by sums and the more even one."""
    ours, theirs = blocks.means
    pull = (blocks.ours - ours * blocks.our_count) / blocks.ours.sum()
    pull -= (blocks.theirs - theirs * blocks.their_count) / blocks.theirs.sum()
    # Such pulls have heavy tails, for which Student's t at all degrees of freedom is wide enough.
    by_sums = _half_width(len(blocks) * pull, confidence, freedom=len(blocks) - 1)
    low, high = _even_span(blocks, confidence)
    return min(ours / theirs / (1 + by_sums), low), max(ours / theirs * (1 + by_sums), high)


def _even_span(blocks: Blocks, confidence: float) -> tuple[float, float]:
    """Return the interval from relative differences, weighed more evenly than by what their blocks sum up to."""
    relative, weight = _relative(blocks)
    mean = float((weight * relative).sum() / weight.sum())
    half = _half_width(weight * (relative - mean) / weight.mean(), confidence)
    ends = np.clip([mean - half, mean + half], -MOST_RELATIVE, MOST_RELATIVE)
    low, high = (2 + ends) / (2 - ends)
    return float(low), float(high)


def _relative(blocks: Blocks) -> tuple[Floats, Floats]:
    """Return each block's difference over the mean of both, and its weight; where both are 0, it says nothing."""
    ours, theirs = blocks.ours / blocks.our_count, blocks.theirs / blocks.their_count
    told = ours + theirs > 0
    relative = 2 * (ours - theirs)[told] / (ours + theirs)[told]
    sums = blocks.ours / blocks.our_count.sum() + blocks.theirs / blocks.their_count.sum()
    weight = sums[told] ** EVENNESS
    missing = max(0, FEWEST - len(relative))
    return np.append(relative, np.zeros(missing)), np.append(weight, np.full(missing, weight.mean()))


def _with_room(estimate: float, span: tuple[float, float], unsure: float) -> tuple[float, float]:
    """Move the end away from 1: a gain or loss is larger in long queues, of which few may have been seen."""
    low, high = span
    stretch = 1 + ROOM * unsure
    if estimate < 1:
        return float(estimate * (low / estimate) ** stretch), high
    return low, float(estimate * (high / estimate) ** stretch)


def _plain_difference(blocks: Blocks, estimate: float, confidence: float) -> Interval:
    """Return the interval of a difference where one side is 0, so that there is no ratio."""
    ours, theirs = blocks.means
    pull = (blocks.ours - ours * blocks.our_count) / blocks.our_count.sum()
    pull -= (blocks.theirs - theirs * blocks.their_count) / blocks.their_count.sum()
    half = _half_width(len(blocks) * pull, confidence)
    return Interval(estimate, estimate - half, estimate + half)


def _half_width(values: Floats, confidence: float, freedom: float | None = None) -> float:
    """Return half the width of Student's interval of a mean over blocks of which neighbours are alike."""
    n, around = len(values), values - values.mean()
    squares = float((around**2).sum())
    if squares <= np.finfo(np.float64).eps ** 2 * n:
        return 0.0
    seen = float((around[1:] * around[:-1]).sum()) / squares
    seen += (1 + 4 * seen) / n  # the mean is taken from the same blocks, which makes neighbours look less alike
    alike = float(np.clip((n * seen + BELIEF * LIKENESS) / (n + BELIEF), 0.0, MOST_ALIKE))
    lag = np.arange(1, n)
    share = (1 + 2 * float(((1 - lag / n) * alike**lag).sum())) / n  # variance of the mean, over that of one block
    error = np.sqrt(squares / n * share / (1 - share))
    effective = max(1 / share - 1, 1.0) if freedom is None else freedom
    return float(_quantile(0.5 + confidence / 2, round(effective, 2)) * error)


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

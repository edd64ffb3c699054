"""Confidence intervals without assumptions on the distribution: resample, and see how the answer moves.

Over windows: BCa (Efron 1987), which corrects the percentile interval for bias and skew. Over the jobs of one trace,
which depend on their neighbours in time: circular blocks (Politis, Romano 1992), percentile interval. Over windows that
overlap: blocks of two windows' length, widened by Student's t, because the blocks are few.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rltune.jobs import Floats

    Counts = NDArray[np.int64]
    Statistic = Callable[[Floats, Floats], Floats]  # from means of ours and of theirs

FEWEST = 5  # with fewer windows an interval would promise what it cannot keep
BLOCK_WINDOWS = 2  # windows' lengths in a block of overlapping windows; one is too short, see docs/reference/metrics.md


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


def difference(ours: Floats, theirs: Floats) -> Floats:
    """Ours - theirs."""
    return ours - theirs


def ratio(ours: Floats, theirs: Floats) -> Floats:
    """Ours / theirs; NaN where theirs is 0."""
    return np.divide(ours, theirs, out=np.full_like(ours, np.nan), where=theirs != 0)


def over_windows(
    ours: Floats, theirs: Floats, statistic: Statistic, *, confidence: float, resamples: int, seed: int
) -> Interval:
    """Compare two pipelines by their values on the same windows."""
    n = len(ours)
    estimate = _of_means(statistic, ours, theirs)
    if n < FEWEST or not np.isfinite(estimate):
        return Interval(estimate, np.nan, np.nan)
    pick = np.random.default_rng(seed).integers(0, n, (resamples, n))
    drawn = statistic(ours[pick].mean(axis=1), theirs[pick].mean(axis=1))
    without = statistic((ours.sum() - ours) / (n - 1), (theirs.sum() - theirs) / (n - 1))
    return _bca(estimate, drawn[np.isfinite(drawn)], without[np.isfinite(without)], confidence)


def over_jobs(
    ours: Floats, theirs: Floats, statistic: Statistic, *, confidence: float, resamples: int, seed: int
) -> Interval:
    """Compare two runs of one trace by their values for the same jobs in order of submit."""
    n = len(ours)
    estimate = _of_means(statistic, ours, theirs)
    length = block_length(n)
    if n < FEWEST * length or not np.isfinite(estimate):
        return Interval(estimate, np.nan, np.nan)
    first = np.random.default_rng(seed).integers(0, n, (resamples, -(-n // length)))
    drawn = statistic(_block_means(ours, first, length), _block_means(theirs, first, length))
    drawn = drawn[np.isfinite(drawn)]
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail]).tolist() if len(drawn) else (np.nan, np.nan)
    return Interval(estimate, low, high)


@dataclass(frozen=True)
class Course:
    """Windows along a part of a trace: where each starts, in steps from the part's beginning, and what is alike."""

    step: Counts  # of each window, ascending
    steps: int  # at which a window could start
    window: int  # its length in steps, at least 1
    disjoint: int  # the most windows of which no two share a job

    @property
    def blocks(self) -> float:
        """Count the blocks' worth of independent windows."""
        return self.disjoint / BLOCK_WINDOWS


def over_time(
    ours: Floats, theirs: Floats, course: Course, statistic: Statistic, *, confidence: float, resamples: int, seed: int
) -> Interval:
    """Compare two pipelines by their values on the same windows, which may overlap."""
    one = np.ones(len(ours))
    return of_sums((ours, one), (theirs, one), course, statistic, confidence=confidence, resamples=resamples, seed=seed)


def of_sums(
    ours: tuple[Floats, Floats],
    theirs: tuple[Floats, Floats],
    course: Course,
    statistic: Statistic,
    *,
    confidence: float,
    resamples: int,
    seed: int,
) -> Interval:
    """Compare means that are sums over counts, each given by window (such as the waits of one VC's jobs)."""
    columns = [*ours, *theirs]
    estimate = float(_of_totals(statistic, np.array([[column.sum() for column in columns]]))[0])
    if course.disjoint < FEWEST or not np.isfinite(estimate):
        return Interval(estimate, np.nan, np.nan)
    length = min(BLOCK_WINDOWS * course.window, course.steps)
    first = np.random.default_rng(seed).integers(0, course.steps, (resamples, -(-course.steps // length)))
    totals = np.stack([_block_totals(_laid_out(column, course), first, length) for column in columns], axis=1)
    drawn = _of_totals(statistic, totals)
    drawn = drawn[np.isfinite(drawn)]
    if statistic is not ratio:
        return _widened(estimate, drawn, course.blocks, confidence)
    if not (estimate > 0 and (drawn > 0).all()):
        return Interval(estimate, np.nan, np.nan)
    logs = _widened(float(np.log(estimate)), np.log(drawn), course.blocks, confidence)  # a ratio stays above 0
    return Interval(estimate, float(np.exp(logs.low)), float(np.exp(logs.high)))


def student(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t: its distribution is an integral of cos^(freedom - 1)."""
    angle = np.linspace(0.0, np.pi / 2, 20_001)
    density = np.cos(angle) ** (freedom - 1)
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    at = float(np.interp(2 * abs(probability - 0.5), mass / mass[-1], angle))
    return float(np.copysign(np.sqrt(freedom) * np.tan(at), probability - 0.5))


def _of_totals(statistic: Statistic, totals: Floats) -> Floats:
    """Apply a statistic to rows of (our sum, our count, their sum, their count)."""
    ours = np.divide(totals[:, 0], totals[:, 1], out=np.full(len(totals), np.nan), where=totals[:, 1] > 0)
    theirs = np.divide(totals[:, 2], totals[:, 3], out=np.full(len(totals), np.nan), where=totals[:, 3] > 0)
    return statistic(ours, theirs)


def _laid_out(values: Floats, course: Course) -> Floats:
    """Put values at their steps, 0 where no window is."""
    laid = np.zeros(course.steps)
    laid[course.step] = values
    return laid


def _block_totals(values: Floats, first: Counts, length: int) -> Floats:
    sums = np.concatenate([[0.0], np.cumsum(np.concatenate([values, values[:length]]))])
    totals: Floats = (sums[first + length] - sums[first]).sum(axis=1)
    return totals


def _widened(estimate: float, drawn: Floats, blocks: float, confidence: float) -> Interval:
    """Stretch the percentile interval as few blocks ask: by t over z, and for the variance that a mean takes away."""
    if not len(drawn):
        return Interval(estimate, np.nan, np.nan)
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail]).tolist()
    stretch = student(1 - tail, blocks - 1) / NormalDist().inv_cdf(1 - tail) * (blocks / (blocks - 1)) ** 0.5
    return Interval(estimate, estimate - stretch * (estimate - low), estimate + stretch * (high - estimate))


def block_length(n: int) -> int:
    """Jobs in a block: n^(2/3), long, because a queue remembers; 100,000 jobs make 47 blocks."""
    return int(np.ceil(max(n, 1) ** (2 / 3)))


def _of_means(statistic: Statistic, ours: Floats, theirs: Floats) -> float:
    if not len(ours):
        return np.nan
    return float(statistic(np.array([ours.mean()]), np.array([theirs.mean()]))[0])


def _block_means(values: Floats, first: Counts, length: int) -> Floats:
    sums = np.concatenate([[0.0], np.cumsum(np.concatenate([values, values[:length]]))])
    means: Floats = (sums[first + length] - sums[first]).mean(axis=1) / length
    return means


def _bca(estimate: float, drawn: Floats, without: Floats, confidence: float) -> Interval:
    normal, tail = NormalDist(), (1 - confidence) / 2
    below = (np.sum(drawn < estimate) + 0.5 * np.sum(drawn == estimate)) / max(len(drawn), 1)
    if not 0 < below < 1 or len(without) < FEWEST:
        return Interval(estimate, estimate, estimate) if np.ptp(drawn) == 0 else Interval(estimate, np.nan, np.nan)
    bias = normal.inv_cdf(float(below))
    lean = without.mean() - without
    spread = float((lean**2).sum())
    skew = float((lean**3).sum()) / (6 * spread**1.5) if spread > 0 else 0.0

    def share(tail_share: float) -> float:
        z = bias + normal.inv_cdf(tail_share)
        return normal.cdf(bias + z / (1 - skew * z))

    low, high = np.quantile(drawn, [share(tail), share(1 - tail)]).tolist()
    return Interval(estimate, low, high)

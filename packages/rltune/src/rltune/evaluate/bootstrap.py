"""Confidence intervals without assumptions on the distribution: resample, and see how the answer moves.

Over windows: BCa (Efron 1987), which corrects the percentile interval for bias and skew. Over the jobs of one trace,
which depend on their neighbours in time: circular blocks (Politis, Romano 1992), percentile interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from rltune.jobs import Floats

    Statistic = Callable[[Floats, Floats], Floats]  # from means of ours and of theirs

FEWEST = 5  # with fewer windows an interval would promise what it cannot keep


@dataclass(frozen=True)
class Interval:
    """An estimate, and the interval that holds the truth with the stated confidence; NaN if it cannot be told."""

    estimate: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Tell whether the interval of a difference leaves no doubt of its sign."""
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


def block_length(n: int) -> int:
    """Jobs in a block: n^(2/3), long, because a queue remembers; 100,000 jobs make 47 blocks."""
    return int(np.ceil(max(n, 1) ** (2 / 3)))


def _of_means(statistic: Statistic, ours: Floats, theirs: Floats) -> float:
    if not len(ours):
        return np.nan
    return float(statistic(np.array([ours.mean()]), np.array([theirs.mean()]))[0])


def _block_means(values: Floats, first: np.ndarray[tuple[int, ...], np.dtype[np.int64]], length: int) -> Floats:
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

"""A mean never stands alone: percentiles and the worst case are beside it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rltune.jobs import Floats

PERCENTILES = (50.0, 90.0, 99.0)


@dataclass(frozen=True)
class Distribution:
    """Mean, median, 90th and 99th percentile and maximum of `n` values; NaN if there are none."""

    n: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: NDArray[Any]) -> Distribution:
        """Describe values of equal weight; percentiles interpolate linearly between neighbours."""
        if not len(values):
            return cls(0, *[np.nan] * 5)
        p50, p90, p99 = np.percentile(values, PERCENTILES).tolist()
        return cls(len(values), float(np.mean(values)), p50, p90, p99, float(np.max(values)))

    @classmethod
    def over_time(cls, values: NDArray[Any], held_s: Floats) -> Distribution:
        """Describe a quantity that kept each value for some time; a percentile p is reached p % of the time."""
        held = held_s > 0
        if not held.any():
            return cls(0, *[np.nan] * 5)
        ordered, weight = _ordered(values[held], held_s[held])
        reached = np.cumsum(weight)
        at = np.searchsorted(reached, np.array(PERCENTILES) / 100 * reached[-1])
        p50, p90, p99 = ordered[np.minimum(at, len(ordered) - 1)].tolist()
        mean = float(ordered @ weight) / float(reached[-1])
        return cls(int(held.sum()), mean, p50, p90, p99, float(ordered[-1]))

    def scaled(self, factor: float) -> Distribution:
        """Return the distribution of the values times a factor."""
        parts = (self.mean, self.p50, self.p90, self.p99, self.max)
        return Distribution(self.n, *(part * factor for part in parts))

    def to_dict(self) -> dict[str, float]:
        """Return plain numbers."""
        return asdict(self)


def _ordered(values: NDArray[Any], weight: Floats) -> tuple[NDArray[Any], Floats]:
    """Return the values in ascending order with their weights; small counts are summed up rather than sorted."""
    if values.dtype.kind == "i" and values.min() >= 0 and values.max() < 4 * len(values) + 1000:
        total: Floats = np.bincount(values, weights=weight).astype(np.float64)
        present = np.flatnonzero(total)
        return present, total[present]
    order = np.argsort(values)
    return values[order], weight[order]

"""Whether jobs that are acted on do worse than those that are not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rltune.live.control_settings import CanaryTest

_ONE_SIDED_95 = 1.645


@dataclass(frozen=True)
class Verdict:
    """What the comparison came to; bounded slowdown, lower is better."""

    acted: int
    others: int
    acted_mean: float
    others_mean: float
    worse: bool

    def __str__(self) -> str:
        word = "worse" if self.worse else "not shown to be worse"
        return (
            f"slowdown of the canary's {self.acted} jobs {self.acted_mean:.2f}, "
            f"of {self.others} others {self.others_mean:.2f}: {word}"
        )


def judge_canary(acted: Sequence[float], others: Sequence[float], test: CanaryTest) -> Verdict | None:
    """Judge by Welch's test, one-sided at 95 %, that the canary is worse by more than allowed; None = too few jobs.

    Slowdowns have long tails, so their logarithms are compared; the means told are geometric.
    """
    if min(len(acted), len(others)) < test.min_jobs:
        return None
    a, b = [math.log(x) for x in acted], [math.log(x) for x in others]
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    error = math.sqrt(_variance(a, mean_a) / len(a) + _variance(b, mean_b) / len(b))
    excess = mean_a - mean_b - math.log1p(test.worse_by)
    worse = excess > _ONE_SIDED_95 * error
    return Verdict(len(a), len(b), math.exp(mean_a), math.exp(mean_b), worse)


def _variance(values: Sequence[float], mean: float) -> float:
    return sum((x - mean) ** 2 for x in values) / (len(values) - 1)

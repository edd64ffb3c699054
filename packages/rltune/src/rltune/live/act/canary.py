"""Whether jobs that are acted on do worse than those that are not: by the intervals of every other comparison here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rltune.jobs import Floats
from rltune.live.control_settings import Canary, CanaryTest
from rltune.trials.intervals import Blocks, Interval, over_blocks, ratio

CONFIDENCE = 0.9  # of the interval: each of its ends is passed with 5 %
_BLOCKS = (5, 20)  # of time, fewest and most
_JOBS_A_BLOCK = 10  # of the side that has fewer
_WIDER = 3.0  # times the share, when a canary has shown that it does no worse


@dataclass(frozen=True)
class EndedJob:
    """What of an ended job is compared."""

    submit_s: float
    slowdown: float  # bounded; lower is better


@dataclass(frozen=True)
class Verdict:
    """What the comparison came to: mean bounded slowdown of the canary's jobs over that of the others."""

    acted: int
    others: int
    ratio: Interval
    worse: bool  # shown to be worse by more than allowed: it is rolled back
    fine: bool  # shown to be no worse than allowed: it is widened

    def __str__(self) -> str:
        word = "worse" if self.worse else "no worse than allowed" if self.fine else "not decided yet"
        of = self.ratio
        span = of.ends("{:.2f}".format) if np.isfinite(of.low) else "(too few of both came at the same time)"
        about = f"slowdown of the canary's {self.acted} jobs over that of {self.others} others"
        return f"{about}: {of.estimate:.2f} {span}: {word}"


def judge_canary(
    acted: Sequence[EndedJob], others: Sequence[EndedJob], test: CanaryTest, *, same_time: bool = True
) -> Verdict | None:
    """Judge by the interval of the ratio over blocks of time; None = too few jobs.

    Sides of the same time are compared block by block; else the first block of one with the first of the other.
    """
    fewer = min(len(acted), len(others))
    if fewer < test.min_jobs:
        return None
    count = int(np.clip(fewer // _JOBS_A_BLOCK, *_BLOCKS))
    both = sorted(job.submit_s for job in (*acted, *others))
    sides = [
        _summed(side, both if same_time else sorted(job.submit_s for job in side), count) for side in (acted, others)
    ]
    found = over_blocks(Blocks(*sides[0], *sides[1]), ratio, confidence=CONFIDENCE)
    allowed = 1 + test.worse_by
    return Verdict(len(acted), len(others), found, bool(found.low > allowed), bool(found.high < allowed))


def wider(canary: Canary) -> Canary:
    """Return the next larger canary: from a partition to all, or to three times the share."""
    if canary.partition:
        return Canary()
    return canary.model_copy(update={"share": min(1.0, _WIDER * canary.share)})


def _summed(side: Sequence[EndedJob], times: Sequence[float], count: int) -> tuple[Floats, Floats]:
    """Sum slowdowns up by block, and count them; blocks hold equally many of the times."""
    edges = np.quantile(times, np.linspace(0, 1, count + 1)[1:-1])
    block = np.searchsorted(edges, [job.submit_s for job in side], side="right")
    sums = np.bincount(block, weights=[job.slowdown for job in side], minlength=count)
    return sums.astype(np.float64), np.bincount(block, minlength=count).astype(np.float64)

"""From an order to numbers of Slurm's: few of them change, and those by little.

A job's *height* is the priority that Slurm will see: its own plus SiteFactor, or what is set in its place. Every job
has an ideal by its rank, spread evenly over a band. Among the first, who may start soon, heights fall exactly in the
order wanted; numbers set before stay as long as they do and none is far from its ideal. Behind them a number stays
while its height stands for a place not far, by share, from the job's own: the deeper, the coarser. So neither a job
that starts or arrives nor a policy that changes its mind about the far end renumbers the queue.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rltune.live.decide.rank_bounds import longest_falling

_MARGIN = 100


@dataclass(frozen=True, slots=True)
class RankedJob:
    """A job that is given a number. For the channel Priority, `own` is 0: what Slurm computes counts no more."""

    job: int
    own: int  # height that it has without us
    set_now: int | None  # the number it has; None = none yet


def ideals(n: int, band: int, low: int) -> list[int]:
    """Spread n ranks evenly over a band, best first, highest first."""
    return [low + band * (n - rank) // n for rank in range(n)]


def lowest(owns: Sequence[int], band: int) -> int:
    """Return where a band of SiteFactors begins.

    Around 0, so that the jobs as a whole gain nothing over others; from 0 up where Slurm's own priorities are too
    small to take anything off, since it knows none below 1.
    """
    middle = sorted(owns)[len(owns) // 2] if owns else 0
    return -(band // 2) if middle > band // 2 else 0


def apart(band: int, jobs: int = 1) -> int:
    """Return by how much each of some jobs is put over or under another, where no rank of the band tells.

    All of them together take a hundredth of the band: Slurm's own factors move, and one more is as good as none.
    """
    return max(1, band // (_MARGIN * jobs))


@dataclass(frozen=True, slots=True)
class Precision:
    """How exactly heights follow an order."""

    slack: int  # by which a height of the exact part may be off its ideal
    exact: int  # places, from the first, that are in order without exception
    drift: float = 0.0  # share of its place by which a job behind those may be off
    room: int = 1  # between a height that is new and one that is kept: Slurm's own factors move


def room(band: int, jobs: int) -> int:
    """Return by how much a new height should differ from those kept: a tenth of what ranks are apart by the band."""
    return max(1, band // (10 * max(1, jobs)))


def assign(
    order: Sequence[RankedJob], ideal: dict[int, int], precision: Precision, floor: int = -1 << 40
) -> dict[int, int]:
    """Return every job a number; as many as possible keep the one they have. No height is below the floor."""
    wanted = falling([runner.own + ideal[runner.job] for runner in order])
    now = [None if runner.set_now is None else runner.own + runner.set_now for runner in order]
    heights = _eased(_exactly(wanted, now, precision), now, precision)
    heights = [max(height, floor + len(heights) - place) for place, height in enumerate(heights)]  # still in order
    return {runner.job: height - runner.own for runner, height in zip(order, heights, strict=True)}


def _exactly(wanted: Sequence[int], now: Sequence[int | None], precision: Precision) -> list[int]:
    """Return heights that fall; those kept are near what is wanted, and half the room apart."""
    slack = precision.slack
    kept = [_within(height, aim - slack, aim + slack) for height, aim in zip(now, wanted, strict=True)]
    return _filled(wanted, kept, longest_falling(_with_room(kept, max(1, precision.room // 2))), precision.room)


def _eased(exact: Sequence[int], now: Sequence[int | None], precision: Precision) -> list[int]:
    """Behind the first places let a job keep a height that stands for a place near its own."""
    heights = list(exact)
    first, last = precision.exact, len(exact) - 1
    for place in range(first, last + 1):
        near = max(first, math.ceil((place + 1) / (1 + precision.drift)) - 1)
        far = min(last, math.floor((place + 1) * (1 + precision.drift)) - 1)
        height = _within(now[place], exact[far], exact[near])
        heights[place] = exact[place] if height is None else height
    return heights


def _within(height: int | None, low: int, high: int) -> int | None:
    return height if height is not None and low <= height <= high else None


def _with_room(heights: Sequence[int | None], step: int) -> list[int | None]:
    """Return values of which two fall if the heights do and leave so much room for each that is between them."""
    n = len(heights)
    return [
        None if height is None else (height + step * place) * (n + 1) - place for place, height in enumerate(heights)
    ]


def falling(values: Sequence[int]) -> list[int]:
    """Return the strictly falling numbers nearest to these: neighbours that rise are levelled, then set one apart."""
    pools: list[tuple[int, int]] = []  # total, how many
    for value in values:
        pools.append((value, 1))
        while len(pools) > 1 and pools[-2][0] * pools[-1][1] < pools[-1][0] * pools[-2][1]:
            (a, m), (b, n) = pools[-2:]
            pools[-2:] = [(a + b, m + n)]
    result: list[int] = []
    for total, n in pools:
        top = total // n + (n - 1) // 2
        for i in range(n):
            result.append(min(top - i, result[-1] - 1) if result else top - i)
    return result


def _filled(wanted: Sequence[int], now: Sequence[int | None], kept: Sequence[int], step: int) -> list[int]:
    """Put heights between those kept, of which any two leave room for them."""
    heights = list(wanted)
    for place in kept:
        heights[place] = now[place] or 0
    for left, right in pairwise([-1, *kept, len(now)]):
        if right - left > 1:
            _fill(heights, left, right, step)
    return heights


def _fill(heights: list[int], left: int, right: int, step: int) -> None:
    """Set the heights between two places that are settled: as wanted if that falls, else evenly apart."""
    count = right - left - 1
    lowest_top = _at(heights, right, -1 << 60) + step * count
    above = heights[left] if left >= 0 else max(heights[left + 1], lowest_top) + step
    below = heights[right] if right < len(heights) else min(heights[right - 1], above - step * count) - step
    apart_enough = min(step, (above - below) // (count + 1))  # two that are kept may leave less
    if above - heights[left + 1] >= apart_enough and heights[right - 1] - below >= apart_enough:
        return
    for i in range(count):
        heights[left + 1 + i] = above - (above - below) * (i + 1) // (count + 1)


def _at(heights: Sequence[int], place: int, otherwise: int) -> int:
    return heights[place] if place < len(heights) else otherwise

"""From an order to numbers of Slurm's: few of them change, and those by little.

A job's *height* is the priority that Slurm will see: its own plus SiteFactor, or what is set in its place. Every job
has an ideal by its rank, spread evenly over a band. Numbers set before stay as long as the heights still fall in the
right order and none is far from its ideal, so a job that starts or arrives does not renumber the queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rltune.live.order import longest_falling


@dataclass(frozen=True, slots=True)
class Runner:
    """A job that is given a number. For the channel Priority, `own` is 0: what Slurm computes counts no more."""

    job: int
    own: int  # height that it has without us
    set_now: int | None  # the number it has; None = none yet


def ideals(n: int, band: int, low: int) -> list[int]:
    """Spread n ranks evenly over a band, best first, highest first."""
    return [low + band * (n - rank) // n for rank in range(n)]


def lowest(owns: Sequence[int], band: int) -> int:
    """Give where a band of SiteFactors begins.

    Around 0, so that the jobs as a whole gain nothing over others; from 0 up where Slurm's own priorities are too
    small to take anything off, since it knows none below 1.
    """
    middle = sorted(owns)[len(owns) // 2] if owns else 0
    return -(band // 2) if middle > band // 2 else 0


def assign(order: Sequence[Runner], ideal: dict[int, int], slack: int) -> dict[int, int]:
    """Give every job a number, so that heights fall along the order; as many as possible keep the one they have."""
    wanted = falling([runner.own + ideal[runner.job] for runner in order])
    kept = longest_falling([_height_kept(runner, height, slack) for runner, height in zip(order, wanted, strict=True)])
    heights = _filled(order, wanted, kept)
    return {runner.job: height - runner.own for runner, height in zip(order, heights or wanted, strict=True)}


def _height_kept(runner: Runner, wanted: int, slack: int) -> int | None:
    if runner.set_now is None:
        return None
    height = runner.own + runner.set_now
    return height if abs(height - wanted) <= slack else None


def falling(values: Sequence[int]) -> list[int]:
    """Give the strictly falling numbers nearest to these: neighbours that rise are levelled, then set one apart."""
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


def _filled(order: Sequence[Runner], wanted: Sequence[int], kept: Sequence[int]) -> list[int] | None:
    """Put heights between those kept; None if there is no room, and all must be numbered anew."""
    heights = list(wanted)
    for place in kept:
        heights[place] = order[place].own + (order[place].set_now or 0)
    edges = [-1, *kept, len(order)]
    for left, right in pairwise(edges):
        if right - left > 1 and not _fill(heights, left, right):
            return None
    return heights


def _fill(heights: list[int], left: int, right: int) -> bool:
    """Set the heights between two places that are settled: as wanted if that falls, else evenly apart."""
    count = right - left - 1
    above = heights[left] if left >= 0 else max(heights[left + 1], _at(heights, right, -1 << 60) + 1) + count
    below = heights[right] if right < len(heights) else min(heights[right - 1], above - 1) - count
    if above > heights[left + 1] and heights[right - 1] > below:
        return True
    if above - below <= count:
        return False
    for i in range(count):
        heights[left + 1 + i] = above - (above - below) * (i + 1) // (count + 1)
    return True


def _at(heights: Sequence[int], place: int, otherwise: int) -> int:
    return heights[place] if place < len(heights) else otherwise

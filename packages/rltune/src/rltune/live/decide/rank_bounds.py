"""Whose turn it is: the policy's order, no further from Slurm's own than allowed."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Sequence


def within_reach(wanted: Sequence[int], home: Sequence[int], reach: int) -> list[int]:
    """Return the order nearest to `wanted` in which nobody is more than `reach` places from home; 0 = anywhere.

    Place by place: whoever has been overtaken as often as allowed is due, and at most one is; else the best of those
    who may be here already.
    """
    if reach <= 0:
        return list(wanted)
    rank = {item: place for place, item in enumerate(wanted)}
    order: list[int] = []
    placed: set[int] = set()
    may: list[tuple[int, int]] = [(rank[item], item) for item in home[:reach]]
    heapq.heapify(may)
    for place in range(len(home)):
        if place + reach < len(home):
            arrives = home[place + reach]
            heapq.heappush(may, (rank[arrives], arrives))
        due = home[place - reach] if place >= reach else None
        taken = due if due is not None and due not in placed else _best(may, placed)
        placed.add(taken)
        order.append(taken)
    return order


def _best(may: list[tuple[int, int]], placed: set[int]) -> int:
    while True:
        _, item = heapq.heappop(may)
        if item not in placed:
            return item


def longest_falling(values: Sequence[int | None]) -> list[int]:
    """Return the places of a longest strictly falling run of values, in order; None takes no part."""
    tails: list[int] = []  # of the runs by length: minus their last values, kept rising
    ends: list[int] = []  # and the places of those
    before: list[int] = []
    for place, value in enumerate(values):
        before.append(-1)
        if value is None:
            continue
        length = bisect_left(tails, -value)
        before[place] = ends[length - 1] if length else -1
        tails[length : length + 1] = [-value]
        ends[length : length + 1] = [place]
    run: list[int] = []
    place = ends[-1] if ends else -1
    while place >= 0:
        run.append(place)
        place = before[place]
    return run[::-1]

"""Lines over time as an SVG that is drawn here, so that a page needs no script for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH, HEIGHT = 600, 150
MOST_POINTS = 300
_MOST_WHOLE = 8  # marks of an axis of whole numbers
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
Point = tuple[float, float]


@dataclass(frozen=True)
class ChartLine:
    """A named line in coordinates of the SVG; `colour` is one of the eight of the style sheet."""

    name: str
    colour: int
    path: str


@dataclass(frozen=True)
class LineChart:
    """Lines from x = `first` to `last` and from `bottom` (0, or below) to `top`."""

    lines: tuple[ChartLine, ...]
    first: float
    last: float
    top: float
    bottom: float = 0.0
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def middle(self) -> float:
        """Return the y between the ends."""
        return (self.bottom + self.top) / 2

    @property
    def marks(self) -> tuple[float, ...]:
        """Return x at the ends and at the quarters between."""
        return tuple(self.first + (self.last - self.first) * part / 4 for part in range(5))

    @property
    def whole_marks(self) -> tuple[tuple[int, float], ...]:
        """Return marks of an axis of whole numbers, each where it belongs."""
        return whole_marks(self.first, self.last)


def whole_marks(first: float, last: float) -> tuple[tuple[int, float], ...]:
    """Return whole numbers at even steps between two, each with where it is in percent of the width."""
    steps = (step * 10**power for power in range(12) for step in (1, 2, 5))
    step = next(step for step in steps if (last - first) / step < _MOST_WHOLE)
    marks = range(math.ceil(first / step) * step, math.floor(last) + 1, step)
    return tuple((mark, round(100 * (mark - first) / (last - first), 3)) for mark in marks)


def line_chart(series: Sequence[tuple[str, int, Sequence[Point]]], top: float = 0.0) -> LineChart | None:
    """Draw series of a name, a colour and points in order of x, up to `top` (0 = a round number above all).

    None if no x lies after another.
    """
    points = [point for *_, points in series for point in points]
    first, last = min((x for x, _ in points), default=0.0), max((x for x, _ in points), default=0.0)
    if last <= first:
        return None
    low = min(0.0, *(y for _, y in points))
    high = max(y for _, y in points)
    above = 0.0 if low < 0 >= high else round_above(high)
    frame = _Frame(first, last, -round_above(-low) if low < 0 else 0.0, top or above)
    lines = tuple(ChartLine(name, colour, frame.path(_thinned(some))) for name, colour, some in series if some)
    return LineChart(lines, first, last, frame.top, frame.bottom)


@dataclass(frozen=True)
class _Frame:
    first: float
    last: float
    bottom: float
    top: float

    def path(self, points: Sequence[Point]) -> str:
        return "M" + " L".join(self._at(*point) for point in points)

    def _at(self, x: float, y: float) -> str:
        across = (x - self.first) / (self.last - self.first)
        up = (min(y, self.top) - self.bottom) / (self.top - self.bottom)
        return f"{WIDTH * across:.1f} {HEIGHT * (1 - up):.1f}"


def round_above(value: float) -> float:
    """Return a round number that is not below a value, and above 0."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in _STEPS if step * power >= value * (1 - 1e-9))


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Keep at most so many points, each the mean of its neighbours, so that no peak is made wider than it was."""
    each = -(-len(points) // MOST_POINTS)
    if each <= 1:
        return list(points)
    edges = [*range(0, len(points), each), len(points)]
    parts = [points[a:b] for a, b in pairwise(edges)]
    return [(sum(x for x, _ in part) / len(part), sum(y for _, y in part) / len(part)) for part in parts]

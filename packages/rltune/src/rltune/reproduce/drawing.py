"""Plots as SVG text: lines, points, and values with their spread. Colours are those of the other reports."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, FOOT = 520, 250, 62, 14, 26, 42
COLOURS = ("#2a78d6", "#d2500f", "#128a5e", "#7a4fc4", "#b07800", "#c43d6f", "#4a6b1c", "#5f6b78")
DASHES = ("", "6 3", "2 3")
_INK, _LINE = "#6b6a64", "#d5d3cc"  # read on a light and on a dark ground
_LEGEND_STEP = 15


@dataclass(frozen=True)
class Series:
    """A named line or cloud of points."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: int = 0
    dash: int = 0


@dataclass(frozen=True)
class SpreadRow:
    """One row of a plot of distributions: values, and where their mean lies."""

    name: str
    values: Sequence[float]
    colour: int = 0


@dataclass(frozen=True)
class Axes:
    """What is on the axes, and whether by powers of ten."""

    title: str
    x: str
    y: str = ""
    log_x: bool = False
    log_y: bool = False


def lines(axes: Axes, series: Sequence[Series]) -> str:
    """Draw lines, with a legend below."""
    return _plot(axes, series, lambda s, at_x, at_y: [_path(s, at_x, at_y)])


def points(axes: Axes, series: Sequence[Series]) -> str:
    """Draw points, each series in its colour."""

    def dots(s: Series, at_x: _Scale, at_y: _Scale) -> list[str]:
        fill = COLOURS[s.colour % len(COLOURS)]
        return [
            f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="3.5" fill="{fill}" fill-opacity=".75"/>'
            for x, y in zip(s.x, s.y, strict=True)
            if _can(x, axes.log_x) and _can(y, axes.log_y)
        ]

    return _plot(axes, series, dots)


def spreads(axes: Axes, rows: Sequence[SpreadRow]) -> str:
    """Draw a row for each distribution: its range, its middle half, its median and its mean."""
    kept = [(row, sorted(v for v in row.values if _can(v, axes.log_x))) for row in rows]
    kept = [(row, values) for row, values in kept if values]
    height = TOP + 26 * len(kept) + FOOT
    left = 170
    at = _scale([v for _, values in kept for v in values], (left, WIDTH - RIGHT), log=axes.log_x)
    parts = [_open(axes.title, height), *_grid_x(at, axes, height, left)]
    for i, (row, values) in enumerate(kept):
        parts += _box(row, values, TOP + 26 * i + 13, at, left)
    return "\n".join([*parts, "</svg>", ""])


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float
    log: bool

    def __call__(self, value: float) -> float:
        low, high, value = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (value - low) / (high - low or 1.0) * (self.end - self.start)

    def ticks(self) -> list[float]:
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            return [10.0**e for e in range(first, last + 1) if self.low <= 10.0**e <= self.high]
        step = _step((self.high - self.low) / 4)
        first = math.ceil(self.low / step)
        return [i * step for i in range(first, math.floor(self.high / step) + 1)]


def _scale(values: Sequence[float], room: tuple[float, float], *, log: bool) -> _Scale:
    kept = [v for v in values if _can(v, log)] or [1.0, 10.0]
    low, high = min(kept), max(kept)
    if log:
        low, high = low / 1.3, high * 1.3
    else:
        margin = 0.06 * (high - low) or abs(high) or 1.0
        low, high = (low - margin if low < 0 or low > 0.3 * high else 0.0), high + margin
    return _Scale(low, high, *room, log)


def _step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough or 1.0))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough)


def _can(value: float, log: bool) -> bool:
    return math.isfinite(value) and (value > 0 or not log)


def _open(title: str, height: float) -> str:
    font = 'font-family="system-ui, sans-serif" font-size="11"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img" {font}>'
    shown = f'<text x="8" y="16" fill="{_INK}" font-weight="600">{escape(title)}</text>'
    return f"{head}\n<title>{escape(title)}</title>\n{shown}"


def _plot(axes: Axes, series: Sequence[Series], draw: Callable[[Series, _Scale, _Scale], list[str]]) -> str:
    legend = -(-len(series) // 3) * _LEGEND_STEP
    height = HEIGHT + legend
    at_x = _scale([v for s in series for v in s.x], (LEFT, WIDTH - RIGHT), log=axes.log_x)
    at_y = _scale([v for s in series for v in s.y], (HEIGHT - FOOT, TOP), log=axes.log_y)
    parts = [_open(axes.title, height), *_grid_x(at_x, axes, HEIGHT, LEFT), *_grid_y(at_y, axes)]
    for s in series:
        parts += draw(s, at_x, at_y)
    return "\n".join([*parts, *_legend(series), "</svg>", ""])


def _grid_x(at: _Scale, axes: Axes, height: float, left: float) -> Iterator[str]:
    for tick in at.ticks():
        x = f"{at(tick):.1f}"
        yield f'<path d="M{x} {TOP}V{height - FOOT:.0f}" stroke="{_LINE}"/>'
        yield f'<text x="{x}" y="{height - FOOT + 14:.0f}" text-anchor="middle" fill="{_INK}">{_short(tick)}</text>'
    middle = (left + WIDTH - RIGHT) / 2
    place = f'x="{middle:.0f}" y="{height - FOOT + 30:.0f}"'
    yield f'<text {place} text-anchor="middle" fill="{_INK}">{escape(axes.x)}</text>'


def _grid_y(at: _Scale, axes: Axes) -> Iterator[str]:
    for tick in at.ticks():
        y = f"{at(tick):.1f}"
        yield f'<path d="M{LEFT} {y}H{WIDTH - RIGHT}" stroke="{_LINE}"/>'
        yield f'<text x="{LEFT - 5}" y="{float(y) + 4:.1f}" text-anchor="end" fill="{_INK}">{_short(tick)}</text>'
    middle = (TOP + HEIGHT - FOOT) / 2
    turned = f'transform="rotate(-90 12 {middle:.0f})"'
    yield f'<text x="12" y="{middle:.0f}" text-anchor="middle" fill="{_INK}" {turned}>{escape(axes.y)}</text>'


def _path(s: Series, at_x: _Scale, at_y: _Scale) -> str:
    pairs = [(x, y) for x, y in zip(s.x, s.y, strict=True) if _can(x, at_x.log) and _can(y, at_y.log)]
    course = "L".join(f"{at_x(x):.1f} {at_y(y):.1f}" for x, y in pairs)
    dash = f' stroke-dasharray="{DASHES[s.dash % len(DASHES)]}"' if s.dash else ""
    colour = COLOURS[s.colour % len(COLOURS)]
    return f'<path d="M{course}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>' if pairs else ""


def _box(row: SpreadRow, values: list[float], y: float, at: _Scale, left: float) -> Iterator[str]:
    colour = COLOURS[row.colour % len(COLOURS)]
    low, quarter, middle, three, high = (at(_quantile(values, q)) for q in (0, 0.25, 0.5, 0.75, 1))
    yield f'<text x="{left - 8}" y="{y + 4}" text-anchor="end" fill="{_INK}">{escape(row.name)}</text>'
    yield f'<path d="M{low:.1f} {y}H{high:.1f}" stroke="{colour}" stroke-width="1.5"/>'
    size = f'width="{max(1.0, three - quarter):.1f}" height="12"'
    yield f'<rect x="{quarter:.1f}" y="{y - 6}" {size} fill="{colour}" fill-opacity=".35" stroke="{colour}"/>'
    yield f'<path d="M{middle:.1f} {y - 6}v12" stroke="{colour}" stroke-width="2"/>'
    mean = at(sum(values) / len(values))
    yield f'<path d="M{mean:.1f} {y - 4}l4 4l-4 4l-4 -4z" fill="{colour}"/>'


def _legend(series: Sequence[Series]) -> Iterator[str]:
    for i, s in enumerate(series):
        x, y = LEFT + (i % 3) * 150, HEIGHT + (i // 3) * _LEGEND_STEP
        dash = f' stroke-dasharray="{DASHES[s.dash % len(DASHES)]}"' if s.dash else ""
        yield f'<path d="M{x} {y}h16" stroke="{COLOURS[s.colour % len(COLOURS)]}" stroke-width="2.5"{dash}/>'
        yield f'<text x="{x + 21}" y="{y + 4}" fill="{_INK}">{escape(s.name)}</text>'


def _quantile(ordered: list[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _short(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"

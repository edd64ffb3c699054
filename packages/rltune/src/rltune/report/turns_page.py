"""One HTML file that shows what taking turns would be worth: a curve over the share of jobs that agree to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rltune.evaluation.turns_tables import HEADS, cells_of, worth_notes
from rltune.report.comparison_page import page_of, write_page
from rltune.report.page_tables import Row, Table
from rltune.text import percent, seconds

if TYPE_CHECKING:
    from rltune.evaluation.turns_verdict import ConsentWorth, TurnsWorth

_APART = 4.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 60.0, 700.0, 15.0, 300.0  # of the chart's frame, in its own units


@dataclass(frozen=True)
class Point:
    """One consent in the chart: where it lies, and its interval."""

    x: float
    y: float
    low: float
    high: float
    text: str


@dataclass(frozen=True)
class Curve:
    """The points of one length of restarts, by share."""

    name: str
    colour: int
    points: tuple[Point, ...]

    @property
    def path(self) -> str:
        """Return the line through the points."""
        return " ".join(f"{point.x:.1f},{point.y:.1f}" for point in self.points)


def write_turns(made: TurnsWorth, path: str | Path, about: str = "") -> Path:
    """Write the page; `about` names the trace and the cluster."""
    return write_page(render_turns(made, about), Path(path))


def render_turns(made: TurnsWorth, about: str = "") -> str:
    """Return the page as text."""
    top = _top(made)
    rows = tuple(Row(str(cell.consent), _colour(made, cell), 0, cells_of(cell)[2:]) for cell in made.cells)
    return page_of(
        "turns.html.j2",
        (),
        {},
        title="What would taking turns be worth here?",
        trace=about,
        lead=made.verdict,
        curves=_curves(made, top),
        shares=[(_x(share), percent(share)) for share in sorted({cell.consent.share for cell in made.cells})],
        levels=[(_y(level, top), f"{level:g}") for level in _levels(top)],
        frame=(_LEFT, _RIGHT, _TOP, _BOTTOM),
        one=_y(1.0, top),
        results=Table(HEADS[2:], rows, head="who is willing"),
        notes=worth_notes(made),
    )


def _curves(made: TurnsWorth, top: float) -> list[Curve]:
    curves = []
    for number, restart_s in enumerate(_restarts(made)):
        cells = [cell for cell in made.cells if cell.consent.restart_s == restart_s]
        points = tuple(_point(cell, top, number * _APART) for cell in cells)  # else whiskers hide one another
        curves.append(Curve(f"restarts of {seconds(restart_s)}", number, points))
    return curves


def _point(cell: ConsentWorth, top: float, shift: float) -> Point:
    ratio = cell.ratio
    low, high = (value if math.isfinite(value) else ratio.estimate for value in (ratio.low, ratio.high))
    told = f"{cell.consent}: {ratio.estimate:.3f} {ratio.ends('{:.3f}'.format)}"
    return Point(_x(cell.consent.share) + shift, _y(ratio.estimate, top), _y(low, top), _y(min(high, top), top), told)


def _restarts(made: TurnsWorth) -> list[float]:
    return sorted({cell.consent.restart_s for cell in made.cells})


def _colour(made: TurnsWorth, cell: ConsentWorth) -> int:
    return _restarts(made).index(cell.consent.restart_s)


def _top(made: TurnsWorth) -> float:
    """Return where the scale ends: above all intervals, but not so far that a wild one flattens the rest."""
    highest = max((c.ratio.high for c in made.cells if math.isfinite(c.ratio.high)), default=1.0)
    return min(3.0, max(1.2, 1.05 * highest))


def _levels(top: float) -> list[float]:
    step = 0.25 if top <= 2 else 0.5
    return [step * i for i in range(int(top / step) + 1)]


def _x(share: float) -> float:
    return _LEFT + share * (_RIGHT - _LEFT)


def _y(ratio: float, top: float) -> float:
    return _BOTTOM - min(ratio, top) / top * (_BOTTOM - _TOP)

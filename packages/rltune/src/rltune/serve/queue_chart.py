"""Queue length over time as a line of an SVG."""

from __future__ import annotations

from dataclasses import dataclass

from rltune.live.journal.store import Journal

WIDTH, HEIGHT = 600, 120
_MOST_POINTS = 600
_SPAN_S = 86_400.0


@dataclass(frozen=True)
class QueueChart:
    """Two lines over the last day by the cluster's clock, in coordinates of an SVG."""

    waiting: str
    running: str
    from_s: float
    until_s: float
    most: int
    width: int = WIDTH
    height: int = HEIGHT


def queue_chart(journal: Journal) -> QueueChart | None:
    """Draw how many jobs waited and ran in the last day of cycles; None if there are fewer than two."""
    rows = journal.rows(
        "SELECT taken_s, waiting, running FROM cycle WHERE taken_s > (SELECT max(taken_s) FROM cycle) - ? ORDER BY id",
        _SPAN_S,
    )
    if len(rows) < 2 or rows[-1][0] <= rows[0][0]:
        return None
    kept = rows[:: -(-len(rows) // _MOST_POINTS)]
    first, last = rows[0][0], rows[-1][0]
    most = max(1, *(max(row[1], row[2]) for row in kept))
    waiting, running = (_line([(row[0], row[at]) for row in kept], first, last, most) for at in (1, 2))
    return QueueChart(waiting, running, from_s=first, until_s=last, most=most)


def _line(points: list[tuple[float, int]], first: float, last: float, most: int) -> str:
    def at(time_s: float, count: int) -> str:
        return f"{WIDTH * (time_s - first) / (last - first):.1f} {HEIGHT - HEIGHT * count / most:.1f}"

    return "M" + " L".join(at(*point) for point in points)

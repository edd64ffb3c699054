"""Runs as a picture: a line a GPU, a bar a job, one panel an arm, all on the same axis of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape

import numpy as np

from rltune.metrics.timeline import node_gpus
from rltune.report.gantt_bars import bars
from rltune.schedule import Schedule

WIDTH, LANE, LEFT, GAP, FOOT = 900, 7, 10, 22, 24
COLOURS = {1: "#9ecae1", 2: "#4292c6", 4: "#08519c"}  # by GPUs; blues that print in grey, too
OTHER = "#fd8d3c"
LEGIBLE = 12  # lines this high have room for a job's name
MINUTE_S, HOUR_S = 60.0, 3600.0
SHORT_S = 6 * HOUR_S  # a picture of less than this counts minutes


def picture(schedules: Mapping[str, Schedule]) -> str:
    """Draw the schedules of several arms, by name, as SVG."""
    span_s = max(float(np.nanmax(s.end_s)) for s in schedules.values())
    one = GAP + lanes_of(next(iter(schedules.values()))) * LANE
    height = one * len(schedules) + FOOT
    parts = list(axis(span_s, height))
    for i, (name, schedule) in enumerate(schedules.items()):
        parts += panel(name, schedule, i * one, span_s)
    return svg(parts, height)


def svg(parts: Iterable[str], height: int) -> str:
    """Wrap what was drawn."""
    font = 'font-family="sans-serif" font-size="11"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {font}>'
    return "\n".join([head, *parts, "</svg>", ""])


def lanes_of(schedule: Schedule) -> int:
    """Count the lines of a panel: one a GPU."""
    return int(node_gpus(schedule.cluster).sum())


def scale_of(span_s: float) -> float:
    """Return how wide a second is drawn."""
    return (WIDTH - 2 * LEFT) / span_s


def axis(span_s: float, height: int) -> Iterator[str]:
    """Draw the axis: a line and a number every two hours, or every ten or thirty minutes if it is short."""
    minutes = 10 if span_s < SHORT_S / 2 else 30
    step, unit_s, unit = (minutes, MINUTE_S, "min") if span_s < SHORT_S else (2, HOUR_S, "h")
    for moment in range(0, int(span_s / unit_s) + 1, step):
        x = round(LEFT + moment * unit_s * scale_of(span_s), 1)
        yield f'<path d="M{x} {GAP - 4}V{height - FOOT}" stroke="#ddd"/>'
        told = f"{moment} {unit}" if moment else "0"
        yield f'<text x="{x}" y="{height - 8}" text-anchor="middle" fill="#555">{told}</text>'


def panel(name: str, schedule: Schedule, top: int, span_s: float, lane_height: int = LANE) -> Iterator[str]:
    """Draw one arm: its name and how long jobs waited, a frame, and the bars, with names where there is room."""
    end_s = float(np.nanmax(schedule.end_s))
    wait = f"mean wait {schedule.wait_s.mean() / MINUTE_S:.0f} min"
    told = f"{name}: {wait}, the last job ends after {_long(end_s, span_s)}"
    yield f'<text x="{LEFT}" y="{top + GAP - 7}">{escape(told)}</text>'
    frame = f'width="{WIDTH - 2 * LEFT}" height="{lanes_of(schedule) * lane_height}" fill="none" stroke="#ccc"'
    yield f'<rect x="{LEFT}" y="{top + GAP}" {frame}/>'
    drawn = bars(schedule, np.arange(len(schedule.jobs)))
    for job, lane, count in zip(drawn.job.tolist(), drawn.lane.tolist(), drawn.lanes.tolist(), strict=True):
        x = LEFT + schedule.start_s[job] * scale_of(span_s)
        width = max(0.5, (schedule.end_s[job] - schedule.start_s[job]) * scale_of(span_s) - 0.3)
        y, high = top + GAP + lane * lane_height, count * lane_height - 1
        fill = COLOURS.get(int(schedule.jobs.gpus[job]), OTHER)
        yield f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{high}" fill="{fill}"/>'
        if lane_height >= LEGIBLE:
            ink = "#fff" if fill == COLOURS[4] else "#000"
            yield f'<text x="{x + 4:.1f}" y="{y + high / 2 + 4:.1f}" fill="{ink}">{_name(schedule, job)}</text>'


def _name(schedule: Schedule, job: int) -> str:
    return escape(schedule.jobs.name.name_of(job) or str(schedule.jobs.id[job]))


def _long(time_s: float, span_s: float) -> str:
    return f"{time_s / MINUTE_S:.0f} min" if span_s < SHORT_S else f"{time_s / HOUR_S:.1f} h"

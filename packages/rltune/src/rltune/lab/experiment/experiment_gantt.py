"""The runs of one seed as a picture: a line a GPU, a bar a job, one panel an arm, all on the same axis of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

import numpy as np

from rltune.metrics.timeline import node_gpus
from rltune.report.gantt_bars import bars
from rltune.schedule import Schedule

WIDTH, LANE, LEFT, GAP, FOOT = 900, 7, 10, 22, 24
COLOURS = {1: "#9ecae1", 2: "#4292c6", 4: "#08519c"}  # by GPUs; blues that print in grey, too
OTHER = "#fd8d3c"
HOUR_S = 3600.0


def picture(schedules: Mapping[str, Schedule]) -> str:
    """Draw the schedules of several arms, by name, as SVG."""
    span_s = max(float(np.nanmax(s.end_s)) for s in schedules.values())
    lanes = int(node_gpus(next(iter(schedules.values())).cluster).sum())
    panel = GAP + lanes * LANE
    height = panel * len(schedules) + FOOT
    scale = (WIDTH - 2 * LEFT) / span_s
    font = 'font-family="sans-serif" font-size="11"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {font}>']
    parts += _hours(span_s, scale, height)
    for i, (name, schedule) in enumerate(schedules.items()):
        parts += _panel(name, schedule, i * panel, lanes, scale)
    return "\n".join([*parts, "</svg>", ""])


def _hours(span_s: float, scale: float, height: int) -> Iterator[str]:
    """Draw the axis: a line and a number every two hours."""
    for hour in range(0, int(span_s / HOUR_S) + 1, 2):
        x = round(LEFT + hour * HOUR_S * scale, 1)
        yield f'<path d="M{x} {GAP - 4}V{height - FOOT}" stroke="#ddd"/>'
        yield f'<text x="{x}" y="{height - 8}" text-anchor="middle" fill="#555">{hour} h</text>'


def _panel(name: str, schedule: Schedule, top: int, lanes: int, scale: float) -> Iterator[str]:
    """Draw one arm: its name and how long jobs waited, a frame, and the bars."""
    end_s = float(np.nanmax(schedule.end_s))
    told = f"{name}: mean wait {schedule.wait_s.mean() / 60:.0f} min, the last job ends after {end_s / HOUR_S:.1f} h"
    yield f'<text x="{LEFT}" y="{top + GAP - 7}">{escape(told)}</text>'
    frame = f'width="{WIDTH - 2 * LEFT}" height="{lanes * LANE}" fill="none" stroke="#ccc"'
    yield f'<rect x="{LEFT}" y="{top + GAP}" {frame}/>'
    drawn = bars(schedule, np.arange(len(schedule.jobs)))
    for job, lane, count in zip(drawn.job.tolist(), drawn.lane.tolist(), drawn.lanes.tolist(), strict=True):
        x = LEFT + schedule.start_s[job] * scale
        width = max(0.5, (schedule.end_s[job] - schedule.start_s[job]) * scale - 0.3)
        where = f'x="{x:.1f}" y="{top + GAP + lane * LANE}" width="{width:.1f}" height="{count * LANE - 1}"'
        yield f'<rect {where} fill="{COLOURS.get(int(schedule.jobs.gpus[job]), OTHER)}"/>'

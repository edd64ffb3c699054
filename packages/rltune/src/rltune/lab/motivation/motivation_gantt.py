"""An arm of section 2 as a picture: below the GPUs' lines one line a job, from its submission through its wait."""

from __future__ import annotations

from collections.abc import Iterator

from rltune.lab.experiment.experiment_gantt import FOOT, GAP, LEFT, axis, lanes_of, panel, scale_of, svg
from rltune.schedule import Schedule

LANE = 16
WAITING, RUNNING = "#c5b0d5", "#bbb"


def arm_picture(title: str, schedule: Schedule, span_s: float) -> str:
    """Draw one arm as SVG; pictures of one span can be laid over each other."""
    below = GAP + lanes_of(schedule) * LANE
    height = below + GAP + len(schedule.jobs) * LANE + FOOT
    return svg(
        [*axis(span_s, height), *panel(title, schedule, 0, span_s, LANE), *_waits(schedule, below, span_s)], height
    )


def _waits(schedule: Schedule, top: int, span_s: float) -> Iterator[str]:
    """Draw for every job how long it waited, and how long it ran."""
    told = f"the jobs: waiting ({schedule.wait_s.sum() / 60:.0f} min in all), then running"
    yield f'<text x="{LEFT}" y="{top + GAP - 7}">{told}</text>'
    for row in range(len(schedule.jobs)):
        y = top + GAP + row * LANE
        submit_s, start_s, end_s = schedule.jobs.submit_s[row], schedule.start_s[row], schedule.end_s[row]
        yield _bar(submit_s, start_s, y, WAITING, span_s)
        yield _bar(start_s, end_s, y, RUNNING, span_s)
        x = LEFT + submit_s * scale_of(span_s) + 4
        yield f'<text x="{x:.1f}" y="{y + LANE - 4}">{schedule.jobs.name.name_of(row)}</text>'


def _bar(begin_s: float, end_s: float, y: int, fill: str, span_s: float) -> str:
    x, width = LEFT + begin_s * scale_of(span_s), (end_s - begin_s) * scale_of(span_s)
    return f'<rect x="{x:.1f}" y="{y + 1}" width="{width:.1f}" height="{LANE - 3}" fill="{fill}"/>'

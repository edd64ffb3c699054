"""GPUs in use over time, one line an arm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from rltune.lab.deployment.deployment_result import UseOverTime
from rltune.lab.experiment.experiment_gantt import FOOT, GAP, LEFT, WIDTH, axis, scale_of, svg

HEIGHT = 220
COLOURS = ("#d62728", "#7f7f7f", "#08519c", "#2ca02c", "#ff7f0e")


def draw_use(use: Sequence[UseOverTime]) -> str:
    """Draw the arms of the first seed as SVG."""
    shown = [one for one in use if one.seed == use[0].seed]
    span_s = max(one.step_s * len(one.share) for one in shown)
    lines = [part for i, one in enumerate(shown) for part in _line(i, one, span_s)]
    return svg([*axis(span_s, HEIGHT + FOOT), *_frame(use[0].seed), *lines], HEIGHT + FOOT)


def _frame(seed: int) -> Iterator[str]:
    """Draw the frame, with what its height means."""
    size = f'width="{WIDTH - 2 * LEFT}" height="{HEIGHT - GAP}"'
    yield f'<rect x="{LEFT}" y="{GAP}" {size} fill="none" stroke="#ccc"/>'
    right = f'x="{WIDTH - LEFT}" text-anchor="end" fill="#555"'
    yield f'<text {right} y="{GAP - 8}">GPUs in use, 0 to 100 %, seed {seed}</text>'


def _line(i: int, one: UseOverTime, span_s: float) -> Iterator[str]:
    """Draw one arm: its name in its colour, and a step a value; the frame's top is all GPUs."""
    colour = COLOURS[i % len(COLOURS)]
    step = one.step_s * scale_of(span_s)
    path = "".join(
        f"{'L' if n else 'M'}{LEFT + n * step:.1f} {GAP + (1 - share) * (HEIGHT - GAP):.1f}h{step:.1f}"
        for n, share in enumerate(one.share)
    )
    yield f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    yield f'<text x="{LEFT + 170 * i}" y="{GAP - 8}" fill="{colour}">{escape(one.arm)}</text>'

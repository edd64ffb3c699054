"""Draws a replayed step as one self-contained HTML page."""

from html import escape

from tencache.plan.virtual_clock import StepCost, TimelineBar
from tencache.quantity import show_bytes

LANES = ("compute", "stall", "host", "up", "down")
LANE_HEIGHT = 34
LEFT = 80
WIDTH = 1400
COLOURS = {
    "forward": "#4c78a8",
    "backward": "#f58518",
    "optimizer": "#54a24b",
    "wait": "#e45756",
    "up": "#72b7b2",
    "down": "#b279a2",
}

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 14px system-ui, sans-serif; margin: 24px; color: #222; }}
table {{ border-collapse: collapse; margin: 12px 0 20px; }}
td {{ padding: 2px 18px 2px 0; }}
#scroll {{ overflow-x: auto; border: 1px solid #ddd; }}
rect:hover {{ stroke: #000; stroke-width: 1; }}
#note {{ height: 1.4em; font-family: monospace; }}
</style></head><body>
<h1>{title}</h1>
<table>{rows}</table>
<p><label>Zoom <input id="zoom" type="range" min="1" max="20" value="1"></label> <span>{legend}</span></p>
<p id="note">Point at a bar.</p>
<div id="scroll"><svg id="chart" width="{width}" height="{height}" viewBox="0 0 {width} {height}"
preserveAspectRatio="none">{bars}</svg></div>
<script>
const chart = document.getElementById("chart");
document.getElementById("zoom").oninput = (event) => chart.setAttribute("width", {width} * event.target.value);
chart.onmouseover = (event) => {{
  if (event.target.dataset.note) document.getElementById("note").textContent = event.target.dataset.note;
}};
</script></body></html>
"""


def draw(result: StepCost, title: str) -> str:
    """Return the page."""
    scale = (WIDTH - LEFT - 10) / result.step_s if result.step_s else 1.0
    height = LANE_HEIGHT * len(LANES) + 30
    bars = [_lane(index, lane) for index, lane in enumerate(LANES)]
    bars += [_bar(span, scale) for span in result.spans if span.end_s > 0]
    bars.append(_axis(result.step_s, scale, height))
    rows = "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in _facts(result))
    legend = " ".join(f'<b style="color:{colour}">&#9632;</b> {name}' for name, colour in COLOURS.items())
    return _PAGE.format(title=escape(title), rows=rows, legend=legend, width=WIDTH, height=height, bars="".join(bars))


def _facts(result: StepCost) -> list[tuple[str, str]]:
    return [
        ("step", f"{result.step_s:.4g} s, {result.of_bound:.0%} of the bound"),
        ("compute", f"{result.compute_s:.4g} s"),
        ("stalls", f"{result.stall_s:.4g} s"),
        ("up", f"{show_bytes(result.up_bytes)}, floor {show_bytes(result.up_floor_bytes)}"),
        ("down", show_bytes(result.down_bytes)),
        ("hit rate", f"{result.hit_rate:.1%}, ready on touch {result.ready_rate:.1%}"),
        ("device", f"{show_bytes(result.peak_bytes)} of {show_bytes(result.budget_bytes)}"),
    ]


def _lane(index: int, lane: str) -> str:
    return f'<text x="4" y="{index * LANE_HEIGHT + 22}" font-size="13">{lane}</text>'


def _bar(span: TimelineBar, scale: float) -> str:
    begin = max(span.start_s, 0.0)
    x, width = LEFT + begin * scale, max((span.end_s - begin) * scale, 0.2)
    y = LANES.index(span.lane) * LANE_HEIGHT + 4
    colour = COLOURS.get(span.name, COLOURS.get(span.lane, "#999"))
    note = escape(f"{span.lane}: {span.name}, {span.start_s * 1e3:.3f} to {span.end_s * 1e3:.3f} ms", quote=True)
    return (
        f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{LANE_HEIGHT - 8}" fill="{colour}" data-note="{note}"/>'
    )


def _axis(step_s: float, scale: float, height: int) -> str:
    marks = [
        f'<text x="{LEFT + step_s * scale * part / 10:.1f}" y="{height - 8}" font-size="11">'
        f"{step_s * part / 10 * 1e3:.4g} ms</text>"
        for part in range(10)
    ]
    return "".join(marks)

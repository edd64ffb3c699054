"""Draws a replayed step as one self-contained HTML page."""

from html import escape

from tencache.plan.virtual_clock import StepCost, TimelineBar
from tencache.quantity import show_bytes

LANES = ("compute", "stall", "host", "up", "down")
LANE_NAMES = ("compute", "waits", "host", "to device", "to host")
LANE_HEIGHT = 34
LEFT = 80
WIDTH = 1120
# a lane's or a kind's name: its colour in the light, and in the dark
COLOURS = {
    "forward": ("#2a78d6", "#5b9ff0"),
    "backward": ("#d2500f", "#f0803c"),
    "optimizer": ("#128a5e", "#2fb586"),
    "wait": ("#c43d3d", "#e66a6a"),
    "up": ("#7a4fc4", "#a98be8"),
    "down": ("#b07800", "#d9a520"),
}
OTHER = ("#5f6b78", "#9aa7b5")

# The look of rltune's reports, which this package does not import.
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><style>
:root {{ color-scheme: light dark; --ground: #fcfcfb; --ink: #14140f; --soft: #5b5a54; --line: #dddbd4;
--accent: #1c5cab; {light} }}
@media (prefers-color-scheme: dark) {{ :root {{ --ground: #171715; --ink: #f1f0ea; --soft: #aaa89f; --line: #3a3934;
--accent: #8fbcf5; {dark} }} }}
body {{ margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }}
main {{ max-width: 1180px; margin: 0 auto; padding: 28px 20px 60px; }}
h1 {{ font-size: 1.7rem; line-height: 1.2; margin: 0 0 4px; }}
h2 {{ font-size: 1.2rem; margin: 36px 0 8px; }}
.lead {{ font-size: 1.08rem; max-width: 75ch; margin-top: 12px; }}
.note {{ color: var(--soft); font-size: .88rem; }}
.keys span {{ margin-right: 14px; white-space: nowrap; }}
.keys i {{ display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 5px; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: 3px 18px; font-size: .9rem; margin: 0; }}
dt {{ color: var(--soft); }}
dd {{ margin: 0; }}
:focus-visible {{ outline: 2px solid var(--accent); outline-offset: 2px; }}
#scroll {{ overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }}
svg text {{ fill: var(--soft); }}
rect:hover {{ stroke: var(--ink); stroke-width: 1; }}
#note {{ min-height: 1.5em; font-variant-numeric: tabular-nums; }}
{classes}
@media (max-width: 560px) {{ main {{ padding: 18px 12px 40px; }} h1 {{ font-size: 1.35rem; }}
dl {{ grid-template-columns: 1fr; }} dd {{ margin-bottom: 6px; }} }}
</style></head><body><main>
<h1>{title}</h1>
<p class="lead">{lead}</p>
<p class="keys note">{legend}</p>
<p><label>Zoom <input id="zoom" type="range" min="1" max="20" value="1"></label></p>
<p id="note" class="note" role="status">Point at a bar.</p>
<div id="scroll" tabindex="0" role="region" aria-label="Timeline of one step"><svg id="chart" width="{width}"
height="{height}" viewBox="0 0 {width} {height}" preserveAspectRatio="none">{bars}</svg></div>
<h2>In numbers</h2>
<dl>{rows}</dl>
</main>
<script>
const chart = document.getElementById("chart");
document.getElementById("zoom").oninput = (event) => chart.setAttribute("width", {width} * event.target.value);
chart.onmouseover = (event) => {{
  if (event.target.dataset.note) document.getElementById("note").textContent = event.target.dataset.note;
}};
</script></body></html>
"""


def draw(result: StepCost, title: str, parameter_bytes: int) -> str:
    """Return the page; the lead says of how many bytes of parameters the budget is a share."""
    scale = (WIDTH - LEFT - 10) / result.step_s if result.step_s else 1.0
    height = LANE_HEIGHT * len(LANES) + 30
    bars = [_lane(index, name) for index, name in enumerate(LANE_NAMES)]
    bars += [_bar(span, scale) for span in result.spans if span.end_s > 0]
    bars.append(_axis(result.step_s, scale, height))
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in _facts(result))
    named = {**COLOURS, "other": OTHER}
    return _PAGE.format(
        title=escape(title),
        lead=escape(_lead(result, parameter_bytes)),
        rows=rows,
        legend="".join(f'<span><i class="{name}"></i>{_KIND_NAMES.get(name, name)}</span>' for name in COLOURS),
        width=WIDTH,
        height=height,
        bars="".join(bars),
        light=" ".join(f"--{name}: {light};" for name, (light, _) in named.items()),
        dark=" ".join(f"--{name}: {dark};" for name, (_, dark) in named.items()),
        classes="\n".join(f".{name} {{ background: var(--{name}); fill: var(--{name}); }}" for name in named),
    )


_KIND_NAMES = {"up": "to the device", "down": "to the host"}


def _lead(result: StepCost, parameter_bytes: int) -> str:
    share = result.budget_bytes / parameter_bytes if parameter_bytes else 0.0
    return (
        f"The device may hold {show_bytes(result.budget_bytes)}, which is {share:.0%} of the "
        f"{show_bytes(parameter_bytes)} of parameters. A step takes {result.step_s:.4g} s, of which "
        f"{result.stall_s:.4g} s are waits. Its computing, one thing after another, takes {result.compute_s:.4g} s; "
        f"under this budget no plan can take less than {result.bound_s:.4g} s."
    )


def _facts(result: StepCost) -> list[tuple[str, str]]:
    least = f"no plan can do with less than {show_bytes(result.up_floor_bytes)}"
    found = f"{result.hit_rate:.1%} find it there or on its way, {result.ready_rate:.1%} find it ready"
    return [
        ("step", f"{result.step_s:.4g} s; the bound is {result.of_bound:.0%} of it"),
        ("compute", f"{result.compute_s:.4g} s"),
        ("waits", f"{result.stall_s:.4g} s"),
        ("to the device", f"{show_bytes(result.up_bytes)}; {least}"),
        ("to the host", show_bytes(result.down_bytes)),
        ("touches of a parameter", found),
        ("device", f"{show_bytes(result.peak_bytes)} used of {show_bytes(result.budget_bytes)}"),
    ]


def _lane(index: int, lane: str) -> str:
    return f'<text x="4" y="{index * LANE_HEIGHT + 22}" font-size="13">{lane}</text>'


def _bar(span: TimelineBar, scale: float) -> str:
    begin = max(span.start_s, 0.0)
    x, width = LEFT + begin * scale, max((span.end_s - begin) * scale, 0.2)
    y = LANES.index(span.lane) * LANE_HEIGHT + 4
    kind = next((name for name in (span.name, span.lane) if name in COLOURS), "other")
    note = escape(f"{span.lane}: {span.name}, {span.start_s * 1e3:.3f} to {span.end_s * 1e3:.3f} ms", quote=True)
    return (
        f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{LANE_HEIGHT - 8}" class="{kind}" data-note="{note}"/>'
    )


def _axis(step_s: float, scale: float, height: int) -> str:
    marks = [
        f'<text x="{LEFT + step_s * scale * part / 10:.1f}" y="{height - 8}" font-size="11">'
        f"{step_s * part / 10 * 1e3:.4g} ms</text>"
        for part in range(10)
    ]
    return "".join(marks)

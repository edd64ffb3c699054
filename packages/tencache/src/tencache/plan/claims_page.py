"""Writes the paper's claims beside ours: as text for a terminal, and as one self-contained HTML page."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from tencache.plan.paper_claims import CaseCosts, ClaimRow, claims
from tencache.plan.rival_policies import POLICIES

HEADS = ("claim", "paper", "measure", "against", "replayed", "most in", "simulated device", "")
COLOURS = {"ahead": "#54a24b", "zero3": "#4c78a8", "bucket": "#72b7b2", "lru": "#e45756"}
BAR_WIDTH = 420

_CLAIMS_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 14px system-ui, sans-serif; margin: 24px; color: #222; }}
table {{ border-collapse: collapse; margin: 12px 0 20px; }}
td, th {{ padding: 2px 18px 2px 0; text-align: left; vertical-align: top; }}
th {{ border-bottom: 1px solid #ddd; }}
</style></head><body>
<h1>{title}</h1>
<p>{about}</p>
<table>{claims}</table>
<h2>What differs</h2>
<table>{differs}</table>
<h2>Steps, against the planned one</h2>
<p>{legend}</p>
<table>{cases}</table>
</body></html>
"""


def claims_text(rows: Sequence[ClaimRow], found: Mapping[str, Any]) -> str:
    """Return the table for a terminal, and a sentence for each claim on what differs.

    `found` is what `as_json` gives.
    """
    cells = [HEADS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADS))]
    table = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    return "\n".join([_about(found), "", *table, "", *(f"{claim.says}: {claim.differs}" for claim in claims())])


def claims_html(rows: Sequence[ClaimRow], replayed: Sequence[CaseCosts], found: Mapping[str, Any]) -> str:
    """Return the page."""
    paper = found["paper"]
    return _CLAIMS_PAGE.format(
        title=escape("10Cache's claims, beside tencache"),
        about=escape(f"{paper['title']} ({paper['venue']}, arXiv {paper['arxiv']}). {_about(found)}"),
        claims=_line(HEADS, "th") + "".join(_line(_cells(row)) for row in rows),
        differs="".join(_line((claim.says, claim.differs)) for claim in claims()),
        legend=" ".join(f'<b style="color:{COLOURS[policy]}">&#9632;</b> {policy}' for policy in POLICIES),
        cases="".join(_bars(costs) for costs in replayed),
    )


def _about(found: Mapping[str, Any]) -> str:
    said = (
        f"Times better than a rival in the same engine: least to most of {len(found['cases'])} cases, replayed on a "
        "virtual clock. zero3 fetches as DeepSpeed's ZeRO-3 does by default, lru on demand. The paper ran on GPUs; "
        "nothing here did."
    )
    device = found["device"]
    if device is None:
        return said
    setting = f"{device['model']}, budget {device['budget']}, {device['tokens']} tokens a step"
    return f"{said} On the simulated device {setting} was trained, medians of {device['rounds']} rounds."


def _cells(row: ClaimRow) -> tuple[str, ...]:
    spread = f"{row.replay_least:.2f} to {row.replay_most:.2f}"
    measured = ", ".join(f"{ratio:.2f} at {link}" for link, ratio in row.device.items())
    reached = "reached" if row.reached else "not reached"
    return (row.says, f"{row.paper:g}", row.what, row.against, spread, row.replay_case, measured or "-", reached)


def _line(cells: Sequence[str], kind: str = "td") -> str:
    return "<tr>" + "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in cells) + "</tr>"


def _bars(costs: CaseCosts) -> str:
    longest = max(step.step_s for step in costs.steps.values())
    bars = "".join(
        f'<rect y="{14 * index}" width="{BAR_WIDTH * step.step_s / longest:.1f}" height="11" fill="{COLOURS[policy]}"/>'
        f'<text x="{BAR_WIDTH + 8}" y="{14 * index + 10}" font-size="11">{step.step_s:.3g} s, '
        f"{step.step_s / costs.steps['ahead'].step_s:.2f}</text>"
        for index, (policy, step) in enumerate(costs.steps.items())
    )
    chart = f'<svg width="{BAR_WIDTH + 120}" height="{14 * len(costs.steps)}">{bars}</svg>'
    return f"<tr><td>{escape(costs.case.label)}</td><td>{chart}</td></tr>"

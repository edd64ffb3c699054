"""Puts tables, data, style and scripts together into one page."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from rltune.errors import InputError
from rltune.evaluation.verdict import verdict
from rltune.report import page_tables as tables
from rltune.report.chart_data import page_data
from rltune.report.drawn_jobs import busiest_window
from rltune.whole_file import cannot_write, write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rltune.evaluation import Comparison

SCRIPTS = ("base.js", "lines.js", "legend.js", "gantt.js", "main.js")
EVERYWHERE = "tables.js"  # the script of every page
MOST_JOBS = 20_000  # in the Gantt of one pipeline
MOST_BARS = 80_000  # in all Gantts, so that the page stays under 3 MB


def write_report(
    comparison: Comparison,
    path: str | Path,
    title: str = "Scheduler comparison",
    trace: str = "",
    window: int | None = None,
) -> Path:
    """Write the page; `trace` names the workload, `window` is shown over time (the most contended if not told)."""
    return write_page(render(comparison, title, trace, window), Path(path))


def write_page(text: str, path: Path) -> Path:
    """Write a page into a file whose folders are made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from None
    write_whole(path, text)
    return path


def render(
    comparison: Comparison, title: str = "Scheduler comparison", trace: str = "", window: int | None = None
) -> str:
    """Return the page as text."""
    shown = busiest_window(comparison) if window is None else window
    if all(run.window != shown for run in comparison.runs):
        raise InputError(f"window {window} was not run; there are windows 0 to {len(comparison.windows) - 1}")
    most = min(MOST_JOBS, MOST_BARS // len(comparison.contenders))
    data = page_data(comparison, shown, most)
    return page_of(
        "report.html.j2",
        SCRIPTS,
        data,
        title=title,
        trace=trace,
        lead=verdict(comparison),
        headline=tables.result_table(comparison),
        spreads=tables.spreads(comparison),
        cluster=tables.cluster(comparison),
        by_size=tables.by_size(comparison),
        by_vc=tables.by_vc(comparison),
        facts=tables.facts(comparison, trace),
        notes=tables.page_notes(comparison),
        shown=tables.shown_window(comparison, shown),
        gantt_note=data["gantt"]["note"],
        windows=len(comparison.windows) > 1,
        turns=any("displaced" in line for time in data["times"] for line in time["lines"]),
    )


def page_of(template: str, scripts: Sequence[str], data: object, **parts: Any) -> str:
    """Fill a template with its parts, the style, scripts and what they draw."""
    return _template(template).render(
        style=Markup(_asset("report.css")),  # noqa: S704  our own file
        script=Markup("\n".join(_asset(name) for name in (*scripts, EVERYWHERE))),  # noqa: S704  our own files
        data=Markup(_embedded(data)),  # noqa: S704  cannot end its element, see _embedded
        **parts,
    )


def _embedded(data: object) -> str:
    """Write JSON that cannot close the element it stands in, whatever a job or user is called."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c").replace("&", "\\u0026")


def _template(name: str) -> Template:
    world = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return world.from_string(_asset("macros.html.j2") + _asset(name))


def _asset(name: str) -> str:
    return (resources.files("rltune") / "report" / "assets" / name).read_text(encoding="utf-8")

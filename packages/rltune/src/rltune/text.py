"""How numbers and results look to a reader: text for a terminal, HTML for a notebook."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))  # a size in seconds, a name
_SIZES = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
MOST_LINES = 12  # of one kind in the repr of a value
_LEFT, _RIGHT = "text-align:left", "text-align:right"


def seconds(value: float, like: float | None = None) -> str:
    """Write a time in the greatest unit of which it, or `like`, has at least two: 95.0 s, 40.0 min, 3.2 h, 12.5 d."""
    if not math.isfinite(value):
        return "-"
    size, unit = unit_of(value if like is None else like)
    return f"{value / size:,.1f} {unit}"


def unit_of(value: float) -> tuple[float, str]:
    """Return the greatest unit of which a time has at least two, with its length in seconds."""
    return next(((size, unit) for size, unit in UNITS if abs(value) >= 2 * size), (1.0, "s"))


def elapsed(value: float) -> str:
    """Write a time span as Slurm does, in days, hours and minutes: 1-04:30, so that a column can be compared."""
    if not math.isfinite(value):
        return "-"
    days, rest = divmod(max(0, round(value / 60)), 1440)
    return f"{days}-{rest // 60:02d}:{rest % 60:02d}" if days else f"{rest // 60}:{rest % 60:02d}"


def read_seconds(told: str) -> float:
    """Read 90, 90s, 10m, 2h, 1d or inf as seconds; ValueError if it is none of them."""
    text = told.strip().lower()
    size = _SIZES.get(text[-1:], 0.0)
    try:
        value = float(text[:-1]) * size if size else float(text)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise ValueError(f"{told!r} is no time; write seconds, or 90s, 10m, 2h")
    return value


def number(value: float) -> str:
    """Write a number with about four digits."""
    if not math.isfinite(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def percent(value: float) -> str:
    """Write a share."""
    return f"{100 * value:.1f} %" if math.isfinite(value) else "-"


def told_change(saved: float) -> str:
    """Write by how much less, or more, something is: 12.0 % less."""
    return f"{percent(abs(saved))} {'less' if saved >= 0 else 'more'}"


def counted(n: int, one: str, several: str = "") -> str:
    """Write how many there are of something: 1 job, 2 jobs."""
    return f"{n:,} {one if n == 1 else several or one + 's'}"


def cut(lines: Sequence[str], most: int = MOST_LINES, kind: str = "more") -> list[str]:
    """Keep the first of the indented lines under a title, and say how many are left out."""
    return [*lines[:most], f"  ... and {len(lines) - most:,} {kind}"] if len(lines) > most else list(lines)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Put the cells of rows under each other, the first at the left edge and the others at the right one."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def text_of(shown: RenderableType, width: int = 100) -> str:
    """Render what rich would show, without colours; brackets are no markup."""
    from rich.console import Console

    console = Console(width=width, color_system=None, force_terminal=False, markup=False, emoji=False)
    with console.capture() as capture:
        console.print(shown)
    return capture.get().rstrip()


def html_facts(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """Lay out a title, and one row a fact."""
    rows = "".join(f"<tr>{_cell('th', name, _LEFT)}{_cell('td', told, _LEFT)}</tr>" for name, told in facts)
    return f"<table>{_caption(title)}<tbody>{rows}</tbody></table>"


def html_of(table: Table) -> str:
    """Lay out a table of a terminal as HTML: its title, its rows, and its caption as a paragraph."""
    styles = [_RIGHT if column.justify == "right" else _LEFT for column in table.columns]
    heads = "".join(_cell("th", column.header, style) for column, style in zip(table.columns, styles, strict=True))
    rows = "".join(
        f"<tr>{''.join(_cell('td', cell, style) for cell, style in zip(row, styles, strict=True))}</tr>"
        for row in zip(*(column.cells for column in table.columns), strict=True)
    )
    below = f"<p><small>{_html(table.caption)}</small></p>" if table.caption else ""
    head = _caption(table.title) if table.title else ""
    return f"<table>{head}<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{below}"


def _caption(title: object) -> str:
    return f'<caption style="{_LEFT};caption-side:top">{_html(title)}</caption>'


def _cell(tag: str, content: object, style: str) -> str:
    return f'<{tag} style="{style}">{_html(content)}</{tag}>'


def _html(content: object) -> str:
    """Escape a text, line by line; a text of rich gives its characters alone."""
    return escape(str(content)).replace("\n", "<br>")

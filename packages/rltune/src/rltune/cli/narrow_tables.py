"""Tables in a terminal that is too narrow for them: columns are left out, and said to be, rather than cut short."""

from collections.abc import Collection, Sequence

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

LEAST_NEEDED = (
    "util.",
    "util. ratio",
    "better in",
    "ratio",
    "slowdown",
    "slowdown ratio",
    "JCT ratio",
    "gap to bound",
)  # in this order; then the others from the right, but for what is compared by
# Who pays for a mean, and which row is meant: left out after all others.
WARN = ("p99 wait", "p99 wait ratio", "worst", "p90", "rejected", "role")
ALWAYS = 2  # columns: who, and the value that is compared by


def fitted(table: Table, console: Console, least_needed: Sequence[str] = LEAST_NEEDED) -> Table:
    """Return the table if it fits; else one without borders and with as many columns as do."""
    if _fits(table, console):
        return table
    made = table
    there = _leaving([str(column.header) for column in table.columns], least_needed)
    for count in range(len(there) + 1):
        made = _without(table, there[:count])
        if _fits(made, console):
            break
    return made


def _leaving(headers: Sequence[str], least_needed: Sequence[str]) -> list[str]:
    """Order the columns that may be left out, the least needed first and those that warn last."""
    may_go = headers[ALWAYS:]
    first = [name for name in least_needed if name in may_go]
    rest = [name for name in reversed(may_go) if name not in (*first, *WARN)]
    return [*first, *rest, *(name for name in WARN if name in may_go)]


def _fits(table: Table, console: Console) -> bool:
    return Measurement.get(console, console.options.update(max_width=10_000), table).maximum <= console.width


def _without(table: Table, left_out: Collection[str]) -> Table:
    title, caption = table.title, table.caption
    if left_out:
        names = ", ".join(left_out).rstrip(".")
        caption = Text(f"Left out for want of width: {names}.\n").append(Text(str(caption or "")))
    made = Table(title=title, caption=caption, title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD)
    made.pad_edge = False
    kept = [column for column in table.columns if str(column.header) not in left_out]
    for column in kept:
        made.add_column(Text(str(column.header).replace(" ", "\n", 1)), justify=column.justify, no_wrap=True)
    for row, cells in zip(table.rows, zip(*(column.cells for column in kept), strict=True), strict=True):
        made.add_row(*cells, style=row.style)
    return made

"""What taking turns would be worth, as a table for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from rltune.evaluation.comparison_tables import interval, write_ratio
from rltune.metrics.formats import number, percent, seconds
from rltune.text import counted

if TYPE_CHECKING:
    from rltune.evaluation.turns_verdict import ConsentWorth, TurnsWorth

HEADS = ("willing", "restart", "mean delay", "ratio", "p99 ratio", "displaced", "times a job", "GPU time lost")


def cells_of(worth: ConsentWorth) -> tuple[str, ...]:
    """Return one consent as a row."""
    return (
        percent(worth.consent.share),
        seconds(worth.consent.restart_s),
        seconds(worth.delay_s),
        interval(worth.ratio, write_ratio),
        write_ratio(worth.p99_ratio.estimate),
        percent(worth.displaced_share),
        number(worth.preemptions),
        percent(worth.lost_share),
    )


def worth_table(made: TurnsWorth) -> Table:
    """Lay out one row a share and cost."""
    caption = Text("\n".join(worth_notes(made)))
    table = Table(title=Text(made.verdict), title_justify="left", caption=caption, caption_justify="left")
    for head in HEADS:
        table.add_column(head, justify="right")
    for i, cell in enumerate(made.cells):
        last = i + 1 < len(made.cells) and made.cells[i + 1].consent.restart_s != cell.consent.restart_s
        table.add_row(*cells_of(cell), end_section=last)
    return table


def worth_notes(made: TurnsWorth) -> list[str]:
    """List what a reader must know before believing the numbers."""
    full = max(made.cells, key=lambda cell: cell.consent.share)
    sides = f"Without turns: {made.without}, mean delay {seconds(made.without_delay_s)}. With: {made.turns}."
    chosen = f"Both were chosen among {made.among} pipelines on the validation part, then frozen."
    windows = f"{counted(made.windows, 'contended window')} of {made.size:,} jobs"
    cut = f"Test part: {windows}, {made.disjoint} of which share no job."
    read = "Ratios are of mean delays, paired by window, with 95% intervals; under 1 turns are better."
    notes = [
        f"{sides} {chosen} Estimates: {made.estimator}.",
        f"{cut} {read}",
        "Delay is completion time beyond run time. Who is willing is drawn by lot; real volunteers may differ.",
    ]
    return [*notes, f"{full.payers}"] if full.payers.displaced else notes

"""One HTML file that shows a tuning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rltune.evaluation.comparison_tables import write_ratio
from rltune.report.comparison_page import page_of, write_page
from rltune.report.page_tables import Row, Table
from rltune.trials.measures import metric_of
from rltune.tune.tuning_text import SHARE_COLUMNS, extent, mark, sentences, settings_file, share_cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rltune.tune.tuning import Tuning

MOST = 20  # groups of a kind, finalists
NO_LINE = -1  # in place of a colour: nothing is drawn of these rows


def write_tuning(made: Tuning, path: str | Path, trace: str = "", about: Sequence[str] = ()) -> Path:
    """Write the page; `trace` names the history and the cluster, `about` says what must be known of them."""
    return write_page(render_tuning(made, trace, about), Path(path))


def render_tuning(made: Tuning, trace: str = "", about: Sequence[str] = ()) -> str:
    """Return the page as text."""
    lead, *notes = (*sentences(made), *about)
    return page_of(
        "tuning.html.j2",
        (),
        made.to_dict(),
        title="Which pipeline to run",
        trace=trace,
        lead=lead,
        notes=notes,
        why="Why, who pays, how sure" if made.shares else "Why, and how sure",
        extent=f"{made.tried} candidates were tried on pieces of the middle part, these on {extent(made, 0)} of it. "
        f"They stand in order of a score: half the {metric_of(made.metric).title}, half the same by blocks of time.",
        finalists=_finalists(made),
        shares=_shares(made),
        settings=settings_file(made),
    )


def _finalists(made: Tuning) -> Table:
    metric = metric_of(made.metric)
    rows = [
        Row(c.label, NO_LINE, 0, (write_ratio(score), metric.write(value), mark(made, c)))
        for i, ((c, value), score) in enumerate(zip(made.finalists, made.scores, strict=True))
        if i < MOST or mark(made, c)
    ]
    return Table(("score", metric.title, "role"), tuple(rows), head="pipeline (estimates)")


def _shares(made: Tuning) -> list[tuple[str, Table]]:
    tables = []
    for kind in dict.fromkeys(share.kind for share in made.shares):
        rows = [Row(s.name, NO_LINE, 0, share_cells(s)) for s in [s for s in made.shares if s.kind == kind][:MOST]]
        heads = (*(f"{name} wait, now -> then" for name in SHARE_COLUMNS[:-1]), SHARE_COLUMNS[-1])
        tables.append((kind, Table(heads, tuple(rows), head=kind)))
    return tables

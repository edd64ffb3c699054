"""One HTML file that shows how well run times can be told, for whom, by what, and what that is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rltune.evaluation.predictability import INTERVAL, Group, Predictability, lines
from rltune.report.comparison_page import page_of, write_page
from rltune.report.page_tables import NO_LINE, Row, Table
from rltune.text import seconds

SIDE = 300  # pixels of the plot
MOST_DECIDING = 10
_TITLES = {"size": "By size", "partition": "By partition", "user": "By user"}


def write_predictability(made: Predictability, path: str | Path, trace: str = "", cluster: str = "") -> Path:
    """Write the page; `trace` and `cluster` name what was looked at."""
    return write_page(render_predictability(made, trace, cluster), Path(path))


def render_predictability(made: Predictability, trace: str = "", cluster: str = "") -> str:
    """Return the page as text."""
    lead, *more = lines(made)
    return page_of(
        "predictability.html.j2",
        (),
        {},
        title="Can run times be told?",
        trace=" on ".join(filter(None, (trace, cluster))),
        lead=lead,
        answers=more,
        worth=_worth(made),
        windows=made.windows,
        interval=f"{INTERVAL:.0%}",
        side=SIDE,
        points=_points(made),
        decides=[
            (name, f"{share:.0%}", 100 * share) for name, share in list(made.told.weights.items())[:MOST_DECIDING]
        ],
        groups=[(_TITLES[name], _table(rows)) for name, rows in made.groups.items()],
    )


def _points(made: Predictability) -> list[dict[str, Any]]:
    """Place what was said and what came true in the plot; its origin is at the top left."""
    return [
        {"x": round(said * SIDE, 1), "y": round((1 - was) * SIDE, 1), "told": f"said {said:.0%}, was {was:.0%}"}
        for said, was in made.told.reliability
    ]


def _worth(made: Predictability) -> Table | None:
    if not made.waits_are_told:
        return None
    columns = ("mean wait", f"of {made.worth[0].estimator}'s", "95 % interval")
    rows = tuple(
        Row(w.estimator, NO_LINE, 0, (seconds(w.wait_s), f"{w.ratio.estimate:.3f}", w.ratio.ends("{:.3f}".format)))
        for w in made.worth
    )
    return Table(columns, rows)


def _table(groups: tuple[Group, ...]) -> Table:
    columns = ("jobs", "mean run time", "half are within a factor of", "rank correlation")
    rows = tuple(
        Row(
            g.name,
            NO_LINE,
            0,
            (f"{g.jobs:,}", seconds(g.mean_run_s), f"{g.factor_off:.1f}", f"{g.rank_correlation:.2f}"),
        )
        for g in groups
    )
    return Table(columns, rows)

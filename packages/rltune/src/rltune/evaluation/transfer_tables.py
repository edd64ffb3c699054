"""The matrix of models and traces for a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from rltune.evaluation.comparison_tables import interval, write_ratio
from rltune.evaluation.transfer import gap
from rltune.metrics.formats import percent, seconds
from rltune.trials.measures import metric_of

if TYPE_CHECKING:
    from rltune.evaluation.transfer import Cell, Transfer
    from rltune.trials.intervals import Interval


def matrix(made: Transfer) -> Table:
    """Lay out one row a model and one column a trace."""
    metric = metric_of(made.metric)
    title = f"{metric.title} on the test part of each trace; backfill {made.backfill}, estimates: {made.estimator}"
    table = Table(
        title=Text(title), title_justify="left", caption=Text("\n".join(transfer_notes(made))), caption_justify="left"
    )
    table.add_column("model", no_wrap=True)
    for trace in made.traces:
        one = made.cell(made.models[0], trace)
        table.add_column(Text(f"{trace}\nbest rule {one.static}\n{one.disjoint} disjoint windows"), justify="right")
    for model in made.models:
        table.add_row(Text(model), *(Text(_cell(made, made.cell(model, t))) for t in made.traces), end_section=True)
    return table


def transfer_notes(made: Transfer) -> list[str]:
    """Return how a cell is read, and what was done."""
    contended = f"FCFS without backfilling waits over {seconds(made.contended_s)}"
    return [
        *made.warnings,
        "In a cell: the mean; the gap to the model's base policy, (base - model) / the greater, over 0 is better;",
        "the ratio to the best rule, which was chosen on the validation part of that trace.",
        f"Windows count where {contended} on average. [low, high]: 95 % intervals.",
    ]


def _cell(made: Transfer, cell: Cell) -> str:
    metric = metric_of(made.metric)
    to_base = gap(cell.to_base[made.metric], higher_is_better=metric.higher_is_better)
    rule = interval(cell.to_static[made.metric], write_ratio)
    return f"{metric.write(cell.value)}\n{_shares(to_base)} to {cell.base}\n{rule} of {cell.static}"


def _shares(value: Interval) -> str:
    plus = "+" if value.estimate > 0 else ""
    if not math.isfinite(value.low):
        return f"{plus}{percent(value.estimate)}"
    return f"{plus}{percent(value.estimate)} {value.ends(lambda end: f'{100 * end:.1f}')}"

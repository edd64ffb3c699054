"""Tables 2 and 4, Figs. 5 and 6: what the traces look like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from rltune.reproduce.cells import Figure, Plain, Section
from rltune.reproduce.drawing import Axes, Series, lines, points
from rltune.reproduce.experiment import Experiment, Made
from rltune.reproduce.paper import number, table
from rltune.reproduce.trace_summary import BATCH, TraceSummary
from rltune.reproduce.workloads import CPU_TRACES, GPU_TRACES

if TYPE_CHECKING:
    from rltune.reproduce.run_size import RunSize
    from rltune.reproduce.step import Result, Step

KEY = {"philly": "philly", "helios": "helios", "pai": "alibaba", "hpc2n": "hpc2n", "sdsc-sp2": "sdsc-sp2"}
ROWS = (*CPU_TRACES, *GPU_TRACES)


class Traces(Experiment):
    """The traces beside what the paper says of them."""

    names = ("table2", "table4", "fig5", "fig6")
    title = "The traces: arrivals, run times, waits"
    where = "sections 2 and 4.2: Tables 2 and 4, Figs. 5 and 6"

    def steps(self, scope: RunSize) -> tuple[Step, ...]:  # noqa: ARG002  the same for every scope
        """Return a summary of each trace."""
        return tuple(TraceSummary(name) for name in ROWS)

    def section(self, made: Made) -> Section:
        """Return the tables with the paper's numbers in brackets, and the plots."""
        found = {name: result for name in ROWS if (result := made.get(TraceSummary(name))) is not None}
        return Section(
            self.names[0],
            self.title,
            self.where,
            tables=(_table2(made, found), _table4(made, found)) if found else (),
            figures=(*_fig5(made, found), *_fig6(made, found)) if found else (),
            differs=(
                (
                    "The public copies of Philly, Venus (Helios) and PAI record no waits: theirs are simulated, under "
                    "FIFO "
                    "with EASY on the paper's slice at load 0.9, and marked so. CPU logs record theirs."
                ),
                (
                    "The paper's Table 2 is normalised over one month by a rule that it does not give; ours is the "
                    "mean "
                    "month of the whole trace. The copy of PAI is a sample of 8 % of its tasks."
                ),
            ),
            concludes=_conclusion(found),
        )


def _table2(made: Made, found: dict[str, Result]) -> Plain:
    heads = ("trace", "jobs a month", "mean wait, s", "mean run, s", "arrivals, jobs/s", "GPUs or CPUs a month")
    rows = []
    for name, result in found.items():
        how = "recorded" if result["recorded"] else "simulated"
        rows.append(
            (
                made.origin(name).title,
                _beside(f"{result['jobs_a_month']:,.0f}", name, "jobs"),
                _beside(f"{result['mean_wait_s']:,.0f} {how}", name, "wait"),
                _beside(f"{result['mean_run_s']:,.0f}", name, "run"),
                _beside(f"{result['arrivals']:.4f}", name, "arrivals"),
                _beside(f"{result['allocated_a_month']:,.0f}", name, "allocated"),
            )
        )
    return Plain(heads, tuple(rows), "Table 2: ours, in brackets the paper's.")


def _beside(ours: str, name: str, column: str) -> str:
    rows = table("table2").rows
    return f"{ours} ({number(f'table2.{KEY[name]}.{column}').value:,g})" if KEY.get(name) in rows else ours


def _table4(made: Made, found: dict[str, Result]) -> Plain:
    heads = ("trace", "days", "jobs", "users", "mean run, s", "longest run, days")
    rows = []
    for name in GPU_TRACES:
        if name not in found:
            continue
        result, key = found[name], f"table4.{KEY[name]}"
        span = f" ({number(f'{key}.span').value:g})" if name != "helios" else ""
        rows.append(
            (
                made.origin(name).title,
                f"{result['span_days']:.0f}{span}",
                f"{result['jobs']:,} ({number(f'{key}.jobs').value:,.0f})",
                f"{result['users'] or 'not told'} ({number(f'{key}.users').value:,.0f})",
                f"{result['mean_run_s']:,.0f} ({number(f'{key}.run').value:,.0f})",
                f"{result['longest_run_s'] / 86_400:.0f} ({number(f'{key}.longest').value:g})",
            )
        )
    return Plain(heads, tuple(rows), "Table 4: ours, in brackets the paper's.")


def _fig5(made: Made, found: dict[str, Result]) -> Iterator[Figure]:
    for name, what, unit in (
        ("a", "mean_run_s", "mean run time, s"),
        ("b", "allocated_a_month", "GPUs or CPUs a month"),
    ):
        series = [
            Series(made.origin(trace).title, [result[what]], [max(result["mean_wait_s"], 0.1)], i)
            for i, (trace, result) in enumerate(found.items())
        ]
        title = f"{unit.partition(',')[0]} and wait"
        svg = points(Axes(title, unit, "mean wait, s", log_x=True, log_y=True), series)
        yield Figure(f"fig5{name}", f"Fig. 5{name}: {title}", svg)


def _fig6(made: Made, found: dict[str, Result]) -> Iterator[Figure]:
    for name in GPU_TRACES:
        if name not in found:
            continue
        above, total = found[name]["above_median"], found[name]["total_wait_h"]
        batch = list(range(1, len(above) + 1))
        for which, what, unit in (("jobs", above, "jobs above the median wait"), ("wait", total, "total wait, h")):
            title = f"{unit.partition(',')[0]}, {made.origin(name).title}"
            svg = lines(Axes(title, f"batch of {BATCH} jobs", unit), [Series(unit, batch, what)])
            yield Figure(f"fig6-{name}-{which}", f"Fig. 6: {title}", svg, "Simulated: FIFO with EASY, load 0.9.")


def _conclusion(found: dict[str, Result]) -> str:
    told = []
    for name in ("philly", "helios"):
        if name in found and (total := np.array(found[name]["total_wait_h"])).sum() > 0:
            share = np.sort(total)[::-1][: max(1, len(total) // 10)].sum() / total.sum()
            told.append(f"{100 * share:.0f} % on {name.capitalize()}")
    if not told:
        return ""
    return f"Waiting comes in bursts, as the paper says: the worst tenth of the batches has {' and '.join(told)} of it."

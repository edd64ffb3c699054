"""The page's tables and sentences, as plain text in cells; the template marks them up."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rltune.evaluation.comparison import measured
from rltune.evaluation.comparison_tables import estimates_told, has_intervals, interval, notes_of_table, write_ratio
from rltune.evaluation.recorded_waits import recorded_beside
from rltune.metrics.formats import number, percent, seconds
from rltune.report.chart_data import pipelines
from rltune.trials.groups import SIZES, size_name, sizes_of
from rltune.trials.measures import metric_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rltune.evaluation import Comparison, Run, Standing
    from rltune.metrics import Distribution
    from rltune.trials.intervals import Interval

MOST_VCS = 20
NO_LINE = -1  # the colour of what no chart draws


@dataclass(frozen=True)
class Row:
    """One contender's line: its look, its cells, and for the forest plot where its ratio lies (in % of the width)."""

    label: str
    colour: int
    dash: int
    cells: tuple[str, ...]
    is_base: bool = False
    dot: float | None = None
    span: tuple[float, float] | None = None


@dataclass(frozen=True)
class Table:
    """A heading for each column and a row for each contender."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""
    one: float | None = None  # where ratio 1 lies in the forest plot
    head: str = "pipeline"  # of the first column


def result_table(comparison: Comparison) -> Table:
    """Compare by the metric: value, difference, ratio, wins, gap to the bound."""
    metric, base = metric_of(comparison.metric), comparison.contenders[comparison.baseline].label
    at = forest_scale(s.ratio for s in comparison.standings)
    many, rows = len(comparison.windows) > 1, []
    for look, s in _looks(comparison):
        is_base = s.label == base
        cells = (
            metric.write(s.value),
            "baseline" if is_base else interval(s.difference, metric.write_difference, sign=True),
            "" if is_base else interval(s.ratio, write_ratio),
            *(["" if is_base else f"{s.better_in} of {s.windows}"] if many else []),
            seconds(s.jct_s.mean),
            percent(s.gap),
        )
        dot = at(s.ratio.estimate) if s.ratio.estimate > 0 else None
        span = (at(s.ratio.low), at(s.ratio.high)) if s.ratio.low > 0 and not is_base else None
        rows.append(Row(*look, cells, is_base, dot, span))
    wins = ("better in",) if many else ()
    columns = (metric.title, f"difference to {base}", f"ratio to {base}", *wins, "mean JCT", "gap to bound")
    return Table(columns, tuple(rows), one=at(1.0))


def spreads(comparison: Comparison) -> list[tuple[str, Table]]:
    """Return mean, percentiles and worst case of wait, JCT, slowdown and large jobs' wait."""
    wanted: list[tuple[str, Callable[[Standing], Distribution], Callable[[float], str]]] = [
        ("Wait", lambda s: s.wait_s, seconds),
        ("Wait of large jobs (more than one node, or 8 GPUs and more)", lambda s: s.large_wait_s, seconds),
        ("Job completion time (JCT)", lambda s: s.jct_s, seconds),
        ("Bounded slowdown", lambda s: s.bounded_slowdown, number),
    ]
    tables = [(title, _spread(comparison, of, write)) for title, of, write in wanted]
    return [(tables[0][0], _with_recorded(comparison, tables[0][1])), *tables[1:]]


def _with_recorded(comparison: Comparison, waits: Table) -> Table:
    """Put a row for what the history records under the waits, if it records any."""
    told = recorded_beside(comparison, comparison.baseline).recorded_s
    if not told.n:
        return waits
    row = Row("recorded in the history", NO_LINE, 0, tuple(seconds(getattr(told, part)) for part in waits.columns))
    return replace(waits, rows=(*waits.rows, row))


def _spread(comparison: Comparison, of: Callable[[Standing], Distribution], write: Callable[[float], str]) -> Table:
    parts = ("mean", "p50", "p90", "p99", "max")
    rows = [Row(*look, tuple(write(getattr(of(s), part)) for part in parts)) for look, s in _looks(comparison)]
    return Table(parts, tuple(rows))


def cluster(comparison: Comparison) -> Table:
    """Return what the cluster and its users got."""
    rows = [
        Row(
            *look,
            (
                percent(s.utilisation),
                seconds(s.makespan_s),
                number(s.fragmentation),
                percent(s.idle_while_waiting),
                number(s.jain_users),
                number(s.jain_vcs),
                f"{s.worst_vc}: {seconds(s.worst_vc_mean_wait_s)}" if s.worst_vc else "-",
                f"{s.rejected:,}",
                f"{s.requeued:,}",
            ),
        )
        for look, s in _looks(comparison)
    ]
    columns = (
        "utilisation",
        "makespan",
        "fragmentation while jobs wait",
        "idle while jobs wait",
        "Jain, users",
        "Jain, VCs",
        "worst VC, mean wait",
        "rejected",
        "requeued",
    )
    return Table(columns, tuple(rows))


def by_size(comparison: Comparison) -> Table:
    """Return mean and p99 of the wait by the GPUs a job asks for, or the CPUs where no job asks for a GPU."""
    asked = _sample(comparison, lambda run: sizes_of(run.schedule.jobs)[0])
    unit = sizes_of(comparison.runs[0].schedule.jobs)[1]
    present = [(low, high) for low, high in SIZES if bool(((asked >= low) & (asked <= high)).any())]
    names = tuple(size_name(low, high, unit) for low, high in present)
    counts = [int(((asked >= low) & (asked <= high)).sum()) for low, high in present]

    def cells(runs: list[Run]) -> tuple[str, ...]:
        sizes = np.concatenate([sizes_of(r.schedule.jobs)[0][measured(r)] for r in runs])
        wait = np.concatenate([r.schedule.wait_s[measured(r)] for r in runs])
        return tuple(_wait_cell(wait[(sizes >= low) & (sizes <= high)]) for low, high in present)

    return _grouped(comparison, tuple(f"{n}\n{c:,} jobs" for n, c in zip(names, counts, strict=True)), cells, "")


def by_vc(comparison: Comparison) -> Table | None:
    """Return mean and p99 of the wait by VC, the largest first; None if no job names one."""
    names = comparison.runs[0].schedule.jobs.vc.names
    codes = _sample(comparison, lambda run: run.schedule.jobs.vc.codes)
    count = np.bincount(codes[codes >= 0], minlength=len(names))
    order = [int(c) for c in np.argsort(-count, kind="stable") if count[c]]
    if not order:
        return None
    kept, rest = order[:MOST_VCS], len(order) - MOST_VCS

    def cells(runs: list[Run]) -> tuple[str, ...]:
        mine = np.concatenate([r.schedule.jobs.vc.codes[measured(r)] for r in runs])
        wait = np.concatenate([r.schedule.wait_s[measured(r)] for r in runs])
        return tuple(_wait_cell(wait[mine == code]) for code in kept)

    note = f"{rest} smaller VCs are not shown." if rest > 0 else ""
    return _grouped(comparison, tuple(f"{names[c]}\n{count[c]:,} jobs" for c in kept), cells, note)


def facts(comparison: Comparison, trace: str) -> list[tuple[str, str]]:
    """List the settings under which all this was made."""
    first = comparison.runs[0].schedule
    cluster_of, settings = first.cluster, first.settings
    begin, end = comparison.runs[0].summary.utilisation.span_s
    how = f"{comparison.confidence:.0%}, Student's t over blocks of time"
    return [
        ("Trace", trace or "not named"),
        ("Jobs", f"{sum(w.count for w in comparison.windows):,} in {len(comparison.windows)} window(s)"),
        ("Run", comparison.about),
        (
            "Cluster",
            f"{cluster_of.name or 'not named'}: {cluster_of.node_count:,} nodes, {cluster_of.gpu_count:,} GPUs",
        ),
        ("Estimates", estimates_told(comparison)),
        ("Head of line", f"one per {settings.head}"),
        ("View", f"the {settings.view} oldest jobs" if settings.view else "the whole queue"),
        *([("Policy is asked", f"every {seconds(settings.cycle_s)}")] if settings.cycle_s else []),
        ("Placements", ", ".join(dict.fromkeys(c.placement for c in comparison.contenders))),
        ("Span of utilisation", f"{seconds(end - begin)} in the first run" + _span_kind(comparison.runs[0])),
        ("Seed", str(comparison.seed)),
        *([("Intervals", how)] if has_intervals(comparison) else []),
    ]


def page_notes(comparison: Comparison) -> list[str]:
    """List what a reader must know, the bound included."""
    bound = comparison.runs[0].summary.bound
    parts = {"own run times": bound.own_s, "one fast machine": bound.fluid_s, "mean busy times": bound.busy_s}
    parts["priced GPU time"] = bound.price_s
    tightest = max(parts, key=lambda name: parts[name])
    relaxed = "The bound knows all run times and the future, and lets jobs be cut up or packed on average"
    return [
        *notes_of_table(comparison),
        f"{relaxed}, so even the best schedule may lie above it. Tightest relaxation in the first run: {tightest}.",
        "Large gains over FCFS prove little: compare with the best rule under the same estimates and backfilling.",
    ]


def shown_window(comparison: Comparison, window: int) -> str:
    """Return which part the charts over time show."""
    if len(comparison.windows) == 1:
        return comparison.about
    part = comparison.windows[window]
    return f"window {window + 1} of {len(comparison.windows)} (jobs {part.first:,} to {part.first + part.count - 1:,})"


def _looks(comparison: Comparison) -> list[tuple[tuple[str, int, int], Standing]]:
    look = {p["label"]: (p["label"], p["colour"], p["dash"]) for p in pipelines(comparison)}
    return [(look[s.label], s) for s in comparison.standings]


def forest_scale(ratios: Iterable[Interval]) -> Callable[[float], float]:
    """Return the place of a ratio in the forest plot, in % of its width; the log scale holds 1 and all intervals."""
    told = [v for r in ratios for v in (r.low, r.estimate, r.high)]
    known = [math.log(v) for v in told if v > 0 and math.isfinite(v)]
    low, high = min([0.0, *known]), max([0.0, *known])
    margin = max(0.08 * (high - low), 0.02)
    return lambda ratio: 100 * (math.log(ratio) - low + margin) / (high - low + 2 * margin)


def _sample(
    comparison: Comparison, of: Callable[[Run], np.ndarray[tuple[int, ...], np.dtype[np.int32]]]
) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    """Join a column of the baseline's measured jobs."""
    return np.concatenate([of(run)[measured(run)] for run in comparison.of(comparison.baseline).values()])


def _grouped(
    comparison: Comparison, columns: tuple[str, ...], cells: Callable[[list[Run]], tuple[str, ...]], note: str
) -> Table:
    index = {c.label: i for i, c in enumerate(comparison.contenders)}
    rows = [Row(*look, cells(list(comparison.of(index[s.label]).values()))) for look, s in _looks(comparison)]
    return Table(columns, tuple(rows), note)


def _wait_cell(wait: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    if not len(wait):
        return "-"
    return f"{seconds(float(wait.mean()))}\np99 {seconds(float(np.percentile(wait, 99)))}"


def _span_kind(run: Run) -> str:
    return " (measured interval)" if run.summary.interval_s else " (first submit to last end)"

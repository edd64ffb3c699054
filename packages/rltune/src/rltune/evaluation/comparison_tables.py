"""A comparison as tables for a terminal."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table
from rich.text import Text

from rltune.evaluation.recorded_waits import recorded_notes
from rltune.evaluation.verdict import verdict
from rltune.evaluation.who_pays_for_turns import payers_of
from rltune.metrics.formats import DRIFT, drift_of, most_common, number, percent, seconds
from rltune.text import columns, counted, cut, unit_of
from rltune.trials.intervals import FEWEST
from rltune.trials.measures import Metric, metric_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rltune.evaluation.comparison import Comparison, Standing
    from rltune.trials.intervals import Interval

WIDER_DIFFERENCE = (
    "An interval of a difference is wider than that of the ratio, since how long the baseline waits on other days is "
    "unsure, too; both say the same of what is shown."
)
FAR = 10.0  # times the estimate: ends that far off choose the unit


def standings_table(comparison: Comparison) -> Table:
    """Lay out one row a contender: the metric, the difference to the baseline, its interval, the gap to the bound."""
    metric, base = metric_of(comparison.metric), comparison.contenders[comparison.baseline].label
    table = Table(
        title=Text(title(comparison)), title_justify="left", caption=_caption(comparison), caption_justify="left"
    )
    table.add_column("pipeline", no_wrap=True)
    late = "p99 delay" if comparison.takes_turns else "p99 wait"  # a first start says little if it is then stopped
    for column in (metric.title, late, "slowdown", "util.", f"vs {base}", "ratio", "better in", "gap to bound"):
        table.add_column(Text(column), justify="right")
    for standing in comparison.standings:
        cells = _row(standing, metric, turns=comparison.takes_turns, is_base=standing.label == base)
        table.add_row(*map(Text, cells), style=_style(standing, base))
    return table


def comparison_lines(comparison: Comparison) -> list[str]:
    """Return in a few lines who stands where: the best first, each against the baseline."""
    if not comparison.runs:
        return ["Comparison: no run was made"]
    metric, base = metric_of(comparison.metric), comparison.contenders[comparison.baseline].label
    standings, windows = comparison.standings, counted(len(comparison.windows), "window")
    order = best_first([s.value for s in standings], metric)
    rows = [(standings[i].label, metric.write(standings[i].value), _against(standings[i], base)) for i in order]
    return [
        f"Comparison by {metric.title}, {windows}: {title(comparison)}",
        *([f"  {verdict(comparison)}"] if standings else []),
        *cut(columns(rows), kind="more pipelines; .table() has all"),
        *(f"  {note}" for note in comparison_notes(comparison)),
    ]


def best_first(values: Sequence[float], metric: Metric) -> list[int]:
    """Order rows by a metric; those of which nothing can be told come last."""
    order: list[int] = np.argsort(
        (-1.0 if metric.higher_is_better else 1.0) * np.asarray(values), kind="stable"
    ).tolist()
    return order


def _against(standing: Standing, base: str) -> str:
    return "baseline" if standing.label == base else f"{interval(standing.ratio, write_ratio)} of {base}"


def details(comparison: Comparison) -> Table:
    """Lay out wait, JCT and bounded slowdown of every contender over all jobs of all windows."""
    table = Table(title="over all jobs", title_justify="left")
    table.add_column("pipeline")
    table.add_column("")
    for column in ("mean", "p50", "p90", "p99", "max"):
        table.add_column(column, justify="right")
    turns = comparison.takes_turns
    for s in comparison.standings:
        rows: list[tuple[str, object, Callable[[float], str]]] = [
            ("wait", s.wait_s, seconds),
            ("wait, large jobs", s.large_wait_s, seconds),
            *([("delay", s.delay_s, seconds), ("times displaced", s.preemptions, number)] if turns else []),
            ("JCT", s.jct_s, seconds),
            ("slowdown", s.bounded_slowdown, number),
        ]
        for i, (name, values, write) in enumerate(rows):
            cells = [write(getattr(values, part)) for part in ("mean", "p50", "p90", "p99", "max")]
            table.add_row(Text(s.label if i == 0 else ""), name, *cells, end_section=i == len(rows) - 1)
    return table


def title(comparison: Comparison) -> str:
    """Return in one line what was compared."""
    settings = comparison.runs[0].schedule.settings
    return f"{comparison.about}; estimates: {estimates_told(comparison)}; head of line per {settings.head}"


def estimates_told(comparison: Comparison) -> str:
    """Return what the pipelines know of run times, in a word where all know the same."""
    known = _estimators(comparison)
    return known[0] if len(known) == 1 else f"{' and '.join(known)}, as named"


def _estimators(comparison: Comparison) -> list[str]:
    """Name what is known of run times in the first run of each contender."""
    firsts = {run.contender: run.schedule.settings.estimator for run in reversed(comparison.runs)}
    return list(dict.fromkeys(firsts[contender] for contender in sorted(firsts)))


def comparison_notes(comparison: Comparison) -> list[str]:
    """List what a reader must know before believing the numbers."""
    said = [*comparison.notes, *recorded_notes(comparison)]
    if not comparison.complete:
        said.insert(0, f"Interrupted: {len(comparison.runs)} of {comparison.planned} runs were made; only those count.")
    known = _estimators(comparison)
    if len(known) > 1:
        said.append("The pipelines do not know run times alike, so a difference may be of order or of knowledge.")
    if "oracle" in known:
        said.append("Estimates are the true run times, which no real scheduler knows.")
    if "history" in known and len(comparison.windows) > 1:
        said.append("The history estimator starts every window with nothing learnt, which is harder than in use.")
    reasons: Counter[str] = Counter()
    for run in comparison.of(comparison.baseline).values():
        reasons.update(run.summary.reject_reasons)
    if reasons:
        of = sum(run.summary.jobs for run in comparison.of(comparison.baseline).values())
        said.insert(
            0, f"{reasons.total():,} of {of:,} jobs never ran and are in no mean ({most_common(dict(reasons))})."
        )
    if comparison.windows[0].interval_s:
        said.append(
            "The bound is of the measured jobs alone, as if no earlier job were in their way, so the gap is wide."
        )
    said += _drift(comparison)
    said += _turns(comparison)
    apart = _windows_with_other_jobs(comparison)
    if apart:
        said.append(f"In {apart} window(s) the pipelines ran different jobs, so their means are not of the same jobs.")
    return [*said, *_about_intervals(comparison)]


def _turns(comparison: Comparison) -> list[str]:
    """Return what taking turns cost, and who paid for it, where anybody was displaced."""
    if not comparison.takes_turns:
        return []
    said = [
        f"{s.label}: {number(s.preemptions.mean)} displacements a job (most {s.preemptions.max:.0f}), "
        f"{percent(s.lost_share)} of GPU time lost to restarts and work done again, goodput {percent(s.goodput)}."
        for s in comparison.standings
        if s.preemptions.max > 0
    ]
    first = "Wait is until the first start; delay counts what being stopped cost, too."
    return [first, *said, *map(str, payers_of(comparison))]


def _drift(comparison: Comparison) -> list[str]:
    """Warn of models that met what they were not trained on."""
    works: dict[str, Counter[str]] = {}
    for run in comparison.runs:
        counted = {name: run.schedule.work.get(name, 0) for name in DRIFT}
        works.setdefault(run.schedule.settings.policy, Counter()).update(counted)
    return [f"{told}." for policy, work in works.items() if (told := drift_of(policy, work))]


def interval(value: Interval, write: Callable[[float], str], *, sign: bool = False) -> str:
    """Write an estimate with its interval."""
    plus = "+" if sign and value.estimate > 0 else ""
    if not math.isfinite(value.low):
        return f"{plus}{write(value.estimate)}"
    if write is seconds:
        near = max(abs(value.estimate), min(abs(value.low), abs(value.high)) / FAR)  # far ends would hide the estimate
        unit = unit_of(near)[1]
        ends = value.ends(lambda end: _bare(end, near))
        return f"{plus}{_bare(value.estimate, near)} {ends} {unit}"
    return f"{plus}{write(value.estimate)} {value.ends(write)}"


def write_ratio(value: float) -> str:
    """Write a ratio; to a baseline of 0 there is none."""
    return f"{value:.3f}" if math.isfinite(value) else "-"


def notes_of_table(comparison: Comparison) -> list[str]:
    """Return what must be known of a table that has both intervals, of the difference and of the ratio."""
    both = any(math.isfinite(s.difference.low) and math.isfinite(s.ratio.low) for s in rivals(comparison))
    return [*comparison_notes(comparison), *([WIDER_DIFFERENCE] if both else [])]


def rivals(comparison: Comparison) -> list[Standing]:
    """Return those who are compared with the baseline."""
    base = comparison.contenders[comparison.baseline].label
    return [s for s in comparison.standings if s.label != base]


def has_intervals(comparison: Comparison) -> bool:
    """Return whether any interval is shown."""
    return any(math.isfinite(i.low) for s in rivals(comparison) for i in (s.difference, s.ratio))


def _bare(value: float, like: float) -> str:
    """Write a time without its unit, which stands once, behind the interval; what is not 0 is not written as 0."""
    told = seconds(value, like).split()[0]
    if value == 0 or told.strip("-") != "0.0":
        return told
    return f"{value / unit_of(like)[0]:.1g}"


def _windows_with_other_jobs(comparison: Comparison) -> int:
    """Count the windows in which one pipeline rejected a job that another ran."""
    ran: dict[int, set[bytes]] = {}
    for run in comparison.runs:
        ran.setdefault(run.window, set()).add(run.schedule.ran.tobytes())
    return sum(len(different) > 1 for different in ran.values())


def _about_intervals(comparison: Comparison) -> list[str]:
    """Explain the intervals, or why there are none; nothing if there is no rival who could have one."""
    level, many = f"{comparison.confidence:.0%}", len(comparison.windows) > 1
    if has_intervals(comparison):
        how = "paired by window" if many else "paired by job, over blocks of time"
        return [f"[low, high]: {level} intervals, Student's t, {how}."]
    shared = max((s.windows for s in rivals(comparison)), default=0)
    if not shared:
        return []
    if many and shared < FEWEST:
        return [f"There are no intervals: {shared} windows are too few, {FEWEST} are the least."]
    if not many and metric_of(comparison.metric).per_job:
        return ["There are no intervals: the jobs are too few."]
    return ["There are no intervals: one run gives none for this metric." if not many else "There are no intervals."]


def _caption(comparison: Comparison) -> Text:
    return Text("\n".join(notes_of_table(comparison)))


def _row(s: Standing, metric: Metric, *, turns: bool, is_base: bool) -> list[str]:
    pair = ["baseline", "", ""]
    if not is_base:
        pair = [
            interval(s.difference, metric.write_difference, sign=True),
            interval(s.ratio, write_ratio),
            f"{s.better_in}/{s.windows}" if s.windows > 1 else "-",
        ]
    facts = [seconds((s.delay_s if turns else s.wait_s).p99), number(s.bounded_slowdown.mean), percent(s.utilisation)]
    return [s.label, metric.write(s.value), *facts, *pair, percent(s.gap)]


def _style(standing: Standing, base: str) -> str:
    return "dim" if standing.label == base else ""

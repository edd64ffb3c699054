"""One HTML file that shows an evaluation on held-out windows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.evaluation.comparison_tables import interval, write_ratio
from rltune.evaluation.evaluation import BY_SIZE, BY_VC
from rltune.evaluation.evaluation_tables import SHORT, evaluation_notes, extent
from rltune.metrics.formats import seconds
from rltune.report.chart_data import MOST_SERIES
from rltune.report.comparison_page import page_of, write_page
from rltune.report.page_tables import Row, Table, forest_scale
from rltune.report.typed_arrays import pack_floats
from rltune.trials.measures import COMPARED, MEASURED, metric_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rltune.engine.pipeline import Pipeline
    from rltune.evaluation import Evaluation, Results

SCRIPTS = ("base.js", "lines.js", "legend.js", "evaluation.js")
LARGE_FIRST = 20  # VCs shown


def write_evaluation(
    evaluation: Evaluation, path: str | Path, trace: str = "", cluster: str = "", notes: Sequence[str] = ()
) -> Path:
    """Write the page; `trace` and `cluster` name what was run, `notes` are of the trace."""
    return write_page(render_evaluation(evaluation, trace, cluster, notes), Path(path))


def render_evaluation(evaluation: Evaluation, trace: str = "", cluster: str = "", notes: Sequence[str] = ()) -> str:
    """Return the page as text."""
    return page_of(
        "evaluation.html.j2",
        SCRIPTS,
        _data(evaluation),
        title="Evaluation on held-out windows",
        trace=" on ".join(filter(None, (trace, cluster))),
        lead=evaluation_lead(evaluation),
        extent=extent(evaluation.test),
        headline=_ratios(evaluation),
        pairs=_pairs(evaluation),
        values=_values(evaluation.test),
        by_size=_by_group(evaluation, BY_SIZE),
        by_vc=_by_group(evaluation, BY_VC) if evaluation.present(BY_VC) else None,
        validation=_validation(evaluation),
        notes=[*notes, *evaluation_notes(evaluation)],
    )


def evaluation_lead(evaluation: Evaluation) -> str:
    """Return the result in a few sentences."""
    test, metric = evaluation.test, metric_of(evaluation.metric)
    said = [_pair_sentence(evaluation, kind) for kind in range(len(evaluation.pairs))]
    if said:
        return " ".join(said)
    best, base = evaluation.best, evaluation.reference
    of_best = f"{evaluation.labels[best]}, {metric.write(test.mean(best, evaluation.metric))}"
    if best == base:
        return f"Nothing beats the reference: {metric.title} of {of_best}."
    how = interval(test.ratio(best, base, evaluation.metric), write_ratio)
    picked = "It was picked here, on the test part, so it looks better than it is."
    return f"Best {metric.title}: {of_best}, {how} of {evaluation.labels[base]}. {picked}"


def _pair_sentence(evaluation: Evaluation, which: int) -> str:
    pair = evaluation.pairs[which]
    of = pair.ratios[evaluation.metric]
    sure = math.isfinite(of.low) and not of.low <= 1 <= of.high
    doubt = "" if sure else " The interval holds 1, so chance may explain it." if math.isfinite(of.low) else ""
    what = metric_of(evaluation.metric).title
    share = interval(of, write_ratio)
    return f"{pair.kind.capitalize()}: {pair.learned} has {share} of the {what} of {pair.static}.{doubt}"


def _looks(pipelines: Sequence[Pipeline]) -> list[tuple[str, int, int]]:
    """Name the pipelines; the policy chooses the colour, backfilling and placement the dashes."""
    policies = list(dict.fromkeys(p.policy_name for p in pipelines))
    variants = list(dict.fromkeys((p.backfill, p.placement) for p in pipelines))
    return [(p.label, policies.index(p.policy_name), variants.index((p.backfill, p.placement))) for p in pipelines]


def _ratios(evaluation: Evaluation) -> Table:
    test, base, metric = evaluation.test, evaluation.reference, metric_of(evaluation.metric)
    ratios = [test.ratio(i, base, evaluation.metric) for i in range(len(test.pipelines))]
    at = forest_scale(ratios)
    rows = []
    for i, look in enumerate(_looks(test.pipelines)):
        of, is_base = ratios[i], i == base
        cells = (
            metric.write(test.mean(i, evaluation.metric)),
            "reference" if is_base else f"{test.better_in(i, base, evaluation.metric)} of {len(test.starts)}",
            "" if is_base else interval(of, write_ratio),
            *([_to_fcfs(evaluation, i)] if base != evaluation.fcfs else []),
        )
        span = (at(of.low), at(of.high)) if of.low > 0 and not is_base else None
        rows.append(Row(*look, cells, is_base, at(of.estimate) if of.estimate > 0 else None, span))
    paper = ("ratio to fcfs",) if base != evaluation.fcfs else ()
    columns = (metric.title, "better in", f"ratio to {evaluation.labels[base]}", *paper)
    return Table(columns, tuple(rows), one=at(1.0))


def _to_fcfs(evaluation: Evaluation, i: int) -> str:
    if i == evaluation.fcfs:
        return ""
    return interval(evaluation.test.ratio(i, evaluation.fcfs, evaluation.metric), write_ratio)


def _pairs(evaluation: Evaluation) -> Table | None:
    looks = {look[0]: look for look in _looks(evaluation.test.pipelines)}
    shown = evaluation.test.shown(COMPARED)
    rows = [
        Row(*looks[p.learned], (p.kind, p.static, *(interval(p.ratios[name], write_ratio) for name in shown)))
        for p in evaluation.pairs
    ]
    return Table(("kind", "against", *(SHORT[name] for name in shown)), tuple(rows)) if rows else None


def _values(results: Results) -> Table:
    shown = results.shown(MEASURED)
    rows = [
        Row(*look, tuple(metric_of(name).write(results.mean(i, name)) for name in shown))
        for i, look in enumerate(_looks(results.pipelines))
    ]
    return Table(tuple(metric_of(name).title for name in shown), tuple(rows))


def _by_group(evaluation: Evaluation, grouping: int) -> Table:
    test, names = evaluation.test, evaluation.groupings[grouping].names
    shown, jobs = evaluation.present(grouping), test.group_jobs(grouping)
    kept = shown[:LARGE_FIRST]

    def cell(i: int, group: int) -> str:
        mean = seconds(test.group_mean(i, grouping, group))
        if i == evaluation.reference:
            return mean
        return f"{mean}\n{interval(test.group_ratio(i, evaluation.reference, grouping, group), write_ratio)}"

    rows = [Row(*look, tuple(cell(i, g) for g in kept)) for i, look in enumerate(_looks(test.pipelines))]
    rest = len(shown) - len(kept)
    note = f"{rest} smaller ones are not shown." if rest else ""
    return Table(tuple(f"{names[g]}\n{jobs[g]:,.0f} jobs" for g in kept), tuple(rows), note)


def _validation(evaluation: Evaluation) -> tuple[str, Table] | None:
    results = evaluation.validation
    if results is None:
        return None
    metric = metric_of(evaluation.metric)
    chosen = {label: [] for label in (p.label for p in results.pipelines)}  # type: dict[str, list[str]]
    for choice in evaluation.choices:
        chosen[choice.pipeline.label].append(f"{choice.side}, {choice.kind}")
    rows = [
        Row(*look, (metric.write(results.mean(i, evaluation.metric)), "; ".join(chosen[look[0]])))
        for i, look in enumerate(_looks(results.pipelines))
    ]
    return extent(results), Table((metric.title, "chosen as"), tuple(rows))


def _data(evaluation: Evaluation) -> dict[str, Any]:
    test, base = evaluation.test, evaluation.reference
    wait = test.values[:, :, MEASURED.index("wait")]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nan_to_num(wait / wait[base], nan=0.0, posinf=0.0)
    return {
        "pipelines": [
            {"label": label, "colour": colour, "dash": dash} for label, colour, dash in _looks(test.pipelines)
        ],
        "start": pack_floats(np.array(test.starts, dtype=np.float64)),
        "wait": [pack_floats(row) for row in wait],
        "ratio": [pack_floats(row) for row in share],
        "fcfs": evaluation.fcfs,
        "shown": _shown_first(evaluation),
    }


def _shown_first(evaluation: Evaluation) -> list[int]:
    """Choose the pipelines that charts show at first: the reference, and the best by the metric but FCFS."""
    test, base = evaluation.test, evaluation.reference
    sign = -1.0 if metric_of(evaluation.metric).higher_is_better else 1.0
    ranked = sorted(range(len(test.pipelines)), key=lambda i: sign * test.mean(i, evaluation.metric))
    best = [i for i in ranked if i not in {base, evaluation.fcfs}]
    return sorted([base, *best[: MOST_SERIES - 1]])

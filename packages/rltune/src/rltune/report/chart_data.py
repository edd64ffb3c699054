"""The numbers behind the charts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.evaluation.comparison import pooled
from rltune.metrics.recorded import NEARLY_ALL, recorded_wait_s
from rltune.metrics.timeline import averaged, timeline
from rltune.metrics.utilisation import span_of
from rltune.report.drawn_jobs import Stretch, stretch
from rltune.report.gantt_bars import Bars, bars
from rltune.report.typed_arrays import pack_counts, pack_floats
from rltune.trials.measures import metric_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rltune.cluster import Cluster
    from rltune.evaluation import Comparison, Run
    from rltune.jobs import Floats, Jobs
    from rltune.schedule import Schedule

    Lines = dict[int, dict[str, Floats]]  # by contender and by what is drawn

QUANTILES = 240
MOMENTS = 480  # of a window over time, if there are few
FEWEST_MOMENTS = 60
_ALL_MOMENTS = 40_000  # of all windows and pipelines together, so that the page stays small
MOST_WINDOWS = 24  # drawn one by one; all of them are in the mean
MOST_SERIES = 8  # drawn at first, and at once
RECORDED, RECORDED_COLOUR, RECORDED_DASH = "recorded in the history", 7, 2


def page_data(comparison: Comparison, window: int, most_jobs: int) -> dict[str, Any]:
    """Collect what the scripts of the page draw: all windows, and who ran where in one."""
    runs = [run for run in comparison.runs if run.window == window]
    happened, shown = _happened(comparison), shown_first(comparison)
    told = [] if happened is None else [{"label": RECORDED, "colour": RECORDED_COLOUR, "dash": RECORDED_DASH}]
    return {
        "pipelines": [*pipelines(comparison), *told],
        "shown": [*shown[: MOST_SERIES - len(told)], *([len(comparison.contenders)] if told else [])],
        "wait": [*_curves(comparison, lambda s: s.wait_s), *([_curve(happened)] if happened is not None else [])],
        "slowdown": _curves(comparison, lambda s: s.bounded_slowdown),
        "by_window": _by_window(comparison),
        "times": _times(comparison, window),
        "gantt": _gantt(runs, most_jobs),
    }


def _happened(comparison: Comparison) -> Floats | None:
    """Return the recorded waits of the jobs that count in the first contender's runs; None if most have none."""
    runs = list(comparison.of(0).values())
    waits = pooled(runs, lambda s: recorded_wait_s(s.jobs)) if runs else np.zeros(0)
    known = waits[np.isfinite(waits)]
    return known if len(known) and len(known) >= NEARLY_ALL * len(waits) else None


def shown_first(comparison: Comparison) -> list[int]:
    """Choose the contenders that charts show at first: the best by the metric, and the baseline."""
    metric = metric_of(comparison.metric)
    sign = -1.0 if metric.higher_is_better else 1.0
    index = {c.label: i for i, c in enumerate(comparison.contenders)}
    ranked = sorted(comparison.standings, key=lambda s: sign * s.value if np.isfinite(s.value) else np.inf)
    best = [index[s.label] for s in ranked if index[s.label] != comparison.baseline]
    return sorted([comparison.baseline, *best[: MOST_SERIES - 1]])


def _by_window(comparison: Comparison) -> dict[str, Any] | None:
    """Return each contender's mean wait in each window; None if there is one window."""
    if len(comparison.windows) < 2:
        return None
    wait = np.full((len(comparison.contenders), len(comparison.windows)), np.nan)
    for run in comparison.runs:
        wait[run.contender, run.window] = run.summary.wait_s.mean
    ran = np.flatnonzero(np.isfinite(wait).any(axis=0))
    firsts = np.array([comparison.windows[w].first for w in ran], dtype=np.float64)
    order = np.argsort(firsts, kind="stable")
    return {"start": pack_floats(firsts[order]), "wait": [pack_floats(row[ran][order]) for row in np.nan_to_num(wait)]}


def _times(comparison: Comparison, first: int) -> list[dict[str, Any]]:
    """Return queue and use over time: the mean of all windows where there are several, then window by window."""
    by_window: dict[int, list[Run]] = {}
    for run in comparison.runs:
        by_window.setdefault(run.window, []).append(run)
    each = _ALL_MOMENTS // max(1, len(comparison.contenders) * min(len(by_window), MOST_WINDOWS))
    moments = min(MOMENTS, max(FEWEST_MOMENTS, each))
    recorded = len(comparison.contenders) if _happened(comparison) is not None else None
    drawn = {window: _over_time(runs, moments, recorded) for window, runs in by_window.items()}
    if len(drawn) == 1:
        return [_packed("", *of) for of in drawn.values()]
    chosen = [first, *(window for window in drawn if window != first)][:MOST_WINDOWS]
    mean = _packed("all windows, on average", 100 * np.linspace(0, 1, moments), _mean_lines(list(drawn.values())))
    return [{**mean, "share": True}, *(_packed(f"window {window + 1}", *drawn[window]) for window in chosen)]


def _mean_lines(drawn: list[tuple[Floats, Lines]]) -> Lines:
    """Average the windows of each contender at the same share of their time."""
    sums: dict[int, list[dict[str, Floats]]] = {}
    for _, lines in drawn:
        for contender, parts in lines.items():
            sums.setdefault(contender, []).append(parts)
    return {
        contender: {name: np.mean([part[name] for part in parts], axis=0) for name in parts[0]}
        for contender, parts in sums.items()
    }


def _packed(name: str, at: Floats, lines: Lines) -> dict[str, Any]:
    packed = [{"of": of, **{key: pack_floats(values) for key, values in parts.items()}} for of, parts in lines.items()]
    return {"name": name, "x": pack_floats(at), "lines": packed}


def pipelines(comparison: Comparison) -> list[dict[str, Any]]:
    """Name the contenders; the policy chooses the colour, backfilling and placement the dashes."""
    policies = list(dict.fromkeys(c.policy_name for c in comparison.contenders))
    variants = list(dict.fromkeys((c.backfill, c.placement) for c in comparison.contenders))
    return [
        {
            "label": c.label,
            "colour": policies.index(c.policy_name),
            "dash": variants.index((c.backfill, c.placement)),
        }
        for c in comparison.contenders
    ]


def _curves(comparison: Comparison, of: Callable[[Schedule], Floats]) -> list[dict[str, Any] | None]:
    """Return each contender's quantiles, which are its cumulative distribution on its side; None if it never ran."""
    every = [list(comparison.of(i).values()) for i in range(len(comparison.contenders))]
    return [_curve(pooled(runs, of) if runs else np.zeros(0)) for runs in every]


def _curve(values: Floats) -> dict[str, Any] | None:
    # Closer together towards the top: the tail is what differs.
    shares = 1.0 - np.linspace(1.0, 0.0, QUANTILES) ** 2
    return {"x": pack_floats(np.quantile(values, shares)), "y": pack_floats(shares)} if len(values) else None


def _over_time(runs: list[Run], moments: int, recorded: int | None) -> tuple[Floats, Lines]:
    """Return the middle of each interval since the first one's beginning, and what each contender had in it.

    `recorded` is the number under which the recorded queue stands, if it is known.
    """
    spans = [run.summary.interval_s or span_of(run.schedule) for run in runs]
    begin, end = min(s[0] for s in spans), max(s[1] for s in spans)
    edges = np.linspace(begin, max(end, begin + 1e-3), moments + 1)
    lines: Lines = {}
    for run in runs:
        line = timeline(run.schedule)
        gpus = max(run.schedule.cluster.gpu_count, 1)
        lines[run.contender] = {
            "queue": line.averaged(line.waiting, edges),
            "use": line.averaged(line.busy, edges) / gpus,
            **_displaced(run.schedule, edges),
        }
    if recorded is not None:
        lines[recorded] = {"queue": _recorded_queue(runs[0].schedule.jobs, edges)}
    return (edges[:-1] + edges[1:]) / 2 - begin, lines


def _recorded_queue(jobs: Jobs, edges: Floats) -> Floats:
    """Return how many jobs that want GPUs waited in each interval, by what the history records."""
    waited = (jobs.recorded_start_s > jobs.ready_s) & (jobs.gpus > 0)
    since, start = jobs.ready_s[waited], jobs.recorded_start_s[waited]
    times = np.concatenate([since, start])
    order = np.argsort(times, kind="stable")
    steps = np.concatenate([np.ones(len(since)), -np.ones(len(start))])[order]
    return averaged(times[order], np.cumsum(steps), edges)


def _displaced(schedule: Schedule, edges: Floats) -> dict[str, Floats]:
    """Return how many spells were cut short by the end of each interval; nothing where jobs take no turns."""
    if schedule.turns is None:
        return {}
    cut_at_s = np.sort(schedule.turns.cut_short.end_s)
    return {"displaced": np.searchsorted(cut_at_s, edges[1:], side="right").astype(np.float64)}


def _gantt(runs: list[Run], most_jobs: int) -> dict[str, Any]:
    part = stretch(runs, most_jobs)
    jobs, rows = runs[0].schedule.jobs, part.rows
    user, vc = jobs.user.take(rows), jobs.vc.take(rows)
    return {
        "note": _gantt_note(runs[0], part),
        "end": part.end_s - part.begin_s,
        "nodes": _nodes(runs[0].schedule.cluster),
        "ids": jobs.id[rows].astype(np.str_).tolist(),
        "submit": pack_floats(jobs.submit_s[rows] - part.begin_s),
        "gpus": pack_counts(jobs.gpus[rows]),
        "user": {"codes": pack_counts(user.codes + 1), "names": ["", *user.names]},
        "vc": {"codes": pack_counts(vc.codes + 1), "names": ["", *vc.names]},
        "runs": [_gantt_run(run, part) for run in runs],
    }


def _gantt_run(run: Run, part: Stretch) -> dict[str, Any]:
    made = bars(run.schedule, part.rows)
    return {
        "of": run.contender,
        "start": pack_floats(run.schedule.start_s[part.rows] - part.begin_s),
        "end": pack_floats(run.schedule.end_s[part.rows] - part.begin_s),
        "job": pack_counts(made.job),
        "lane": pack_counts(made.lane),
        "lanes": pack_counts(made.lanes),
        **(_spells(made, part) if run.schedule.turns is not None else {}),
    }


def _spells(made: Bars, part: Stretch) -> dict[str, Any]:
    """Return when each bar's spell began and ended; of jobs that run in one piece the job's own times tell."""
    return {
        "spell": pack_counts(made.spell),
        "from": pack_floats(made.start_s - part.begin_s),
        "to": pack_floats(made.end_s - part.begin_s),
    }


def _gantt_note(run: Run, part: Stretch) -> str:
    total, shown = len(run.schedule.jobs), len(part.rows)
    without = int((run.schedule.jobs.gpus[part.rows] == 0).sum())
    text = f"All {total:,} jobs of the window."
    if shown < total:
        what = "all" if part.complete else "a part of those"
        text = f"{shown:,} of {total:,} jobs: {what} that run in the stretch with the longest waits."
    return text + (f" {without:,} of them have no GPUs and no bar." if without else "")


def _nodes(cluster: Cluster) -> dict[str, Any]:
    """Describe nodes by group; they are numbered through the groups."""
    groups = [
        {"count": g.count, "gpus": g.gpus, "name": " ".join(filter(None, [g.name, g.gpu_type, "/".join(g.vc)]))}
        for g in cluster.groups
    ]
    return {"groups": groups}

"""The result of a comparison in a few sentences: the same on the terminal, on the page and in a notebook."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rltune.cluster import RANKING_ONLY
from rltune.evaluation.recorded_waits import recorded_level
from rltune.metrics.formats import percent
from rltune.metrics.recorded import FOR_RANKING_ONLY, UNBELIEVED
from rltune.trials.calm import calm_warning
from rltune.trials.measures import Metric, metric_of

if TYPE_CHECKING:
    from rltune.evaluation.comparison import Comparison, Standing
    from rltune.trials.intervals import Interval

REJECTED_SHARE = 0.01  # of the jobs: from here on it belongs to the result


def verdict(comparison: Comparison) -> str:
    """Return who is best, if that has been shown, and what the reader must know with it."""
    if not comparison.standings:
        return "It was stopped before the baseline had run once, so there is nothing to compare."
    return " ".join(
        [
            *_rejected(comparison),
            *_result(comparison),
            *_from_what(comparison),
            *recorded_level(comparison),
            *_unbelieved(comparison),
            *_calm(comparison),
        ]
    )


def _result(comparison: Comparison) -> list[str]:
    metric = metric_of(comparison.metric)
    ranked = _ranked(comparison, metric)
    best = ranked[0]
    if len(ranked) == 1:
        return [f"One pipeline was run, {best.label}: {metric.title} {metric.write(best.value)}.", *_above_bound(best)]
    return [_winner(comparison, ranked, metric), _beside_baseline(comparison, ranked, metric), *_above_bound(best)]


def _above_bound(best: Standing) -> list[str]:
    """Say how far from the bound it is, if there is one for it."""
    if math.isnan(best.gap):
        return []
    return [f"The mean JCT of {best.label} is {percent(best.gap)} above a bound that no schedule can beat."]


def _ranked(comparison: Comparison, metric: Metric) -> list[Standing]:
    sign = -1.0 if metric.higher_is_better else 1.0
    return sorted(comparison.standings, key=lambda s: sign * s.value if math.isfinite(s.value) else math.inf)


def _winner(comparison: Comparison, ranked: list[Standing], metric: Metric) -> str:
    """Name a winner if it is shown to be better than the runner-up, and else those that cannot be told apart."""
    best, second = ranked[:2]
    found = comparison.between(best.label, second.label)
    apart = _written(found, comparison.ratio_between(best.label, second.label), metric)
    value = metric.write(best.value)
    if found.estimate == 0 and found.low == found.high == 0:
        return f"No difference: {best.label} and {second.label} have the same {metric.title}, {value}."
    if found.excludes_zero:
        beaten = f"the runner-up, {second.label} ({apart})"
        return f"Best {metric.title}: {best.label}, {value}, shown to be better than {beaten}."
    equal = f"{best.label}, {value}, and {second.label}, {metric.write(second.value)}"
    return f"No difference shown between the first two by {metric.title}: {equal} ({apart})."


def _beside_baseline(comparison: Comparison, ranked: list[Standing], metric: Metric) -> str:
    base = comparison.contenders[comparison.baseline].label
    others = [s for s in ranked if s.label != base]
    best = next((s for s in others if _is_shown_better(s, metric)), others[0])
    if not math.isfinite(best.difference.low):
        return "There are too few windows or jobs for an interval."
    apart = f"{_written(best.difference, best.ratio, metric)} against {base}"
    worse = best.difference.estimate > 0 if not metric.higher_is_better else best.difference.estimate < 0
    if worse:
        return f"Nothing is better than {base}."
    if best.difference.excludes_zero:
        return f"{best.label} is shown to be better than the baseline ({apart})."
    return f"Nothing is shown to be better than the baseline ({best.label}: {apart})."


def _is_shown_better(standing: Standing, metric: Metric) -> bool:
    better = standing.difference.low > 0 if metric.higher_is_better else standing.difference.high < 0
    return better and standing.difference.excludes_zero


def _written(difference: Interval, ratio: Interval, metric: Metric) -> str:
    """Write one interval: the ratio's, which decides; that of the difference is wider, and would seem to say less."""
    from rltune.evaluation.comparison_tables import interval, write_ratio

    if math.isfinite(ratio.low):
        return f"ratio {interval(ratio, write_ratio)}"
    return interval(difference, metric.write_difference, sign=True)


def _rejected(comparison: Comparison) -> list[str]:
    """Return how many jobs are in no mean, where they are more than a few; this comes first."""
    summaries = [run.summary for run in comparison.of(comparison.baseline).values()]
    jobs, rejected = sum(s.jobs for s in summaries), sum(s.rejected for s in summaries)
    if not jobs or rejected <= REJECTED_SHARE * jobs:
        return []
    return [f"{rejected:,} of {jobs:,} jobs ({percent(rejected / jobs)}) never ran and are in no mean."]


def _unbelieved(comparison: Comparison) -> list[str]:
    """Return that replays tell nothing, where the file of a cluster says so."""
    clusters = [run.schedule.cluster for run in comparison.runs]
    if not all(cluster.believed for cluster in clusters):
        return [f"But {UNBELIEVED}: do not act on this."]
    told = recorded_level(comparison)  # which says so already
    return [FOR_RANKING_ONLY] if not told and any(c.usable_for == RANKING_ONLY for c in clusters) else []


def _calm(comparison: Comparison) -> list[str]:
    """Warn where nobody waits under the baseline: an interval knows of no queue that it has not seen."""
    base = comparison.contenders[comparison.baseline].label
    found = next(s for s in comparison.standings if s.label == base)
    return calm_warning(found.wait_s.mean, f"under {base}")


def _from_what(comparison: Comparison) -> list[str]:
    """Return a sentence that the queue at the beginning is a simulated one, where it is."""
    first = comparison.windows[0]
    if first.interval_s is None or first.resumes:
        return []
    return ["The queue at the beginning was filled by a simulated warm-up."]

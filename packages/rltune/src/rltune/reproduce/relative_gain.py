"""Gains: by how much less jobs wait (or more of the cluster is used) than under a base policy, in percent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rltune.trials.intervals import Course, Interval, over_time, ratio
from rltune.trials.measures import METRICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rltune.jobs import Floats
    from rltune.reproduce.step import Result

CONFIDENCE = 0.95


@dataclass(frozen=True)
class RelativeGain:
    """A relative gain in percent, above 0 where ours is better, with its interval; NaN if it cannot be told."""

    percent: float
    low: float = math.nan
    high: float = math.nan
    low_unknown: bool = False  # as of an Interval
    high_unknown: bool = False

    @classmethod
    def of_ratio(cls, found: Interval, metric: str) -> RelativeGain:
        """Turn ours / theirs into a gain."""
        if METRICS[metric].higher_is_better:
            low, high = 100 * (found.low - 1), 100 * (found.high - 1)
            return cls(100 * (found.estimate - 1), low, high, found.low_unknown, found.high_unknown)
        low, high = 100 * (1 - found.high), 100 * (1 - found.low)
        return cls(100 * (1 - found.estimate), low, high, found.high_unknown, found.low_unknown)

    @property
    def shown(self) -> bool:
        """Return whether the interval leaves no doubt of the sign."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        if not math.isfinite(self.percent):
            return "-"
        told = f"{self.percent:.1f} %"
        made = Interval(self.percent, self.low, self.high, self.low_unknown, self.high_unknown)
        return f"{told} {made.ends('{:.1f}'.format)}" if math.isfinite(self.low) else told

    def to_dict(self) -> dict[str, float | None]:
        """Return plain values; what cannot be told is None."""
        told = {name: value for name, value in vars(self).items() if value is not False}
        return {name: value if math.isfinite(value) else None for name, value in told.items()}


def seeds_of(found: Result, group: str) -> list[str]:
    """List the labels of a group: one for each seed."""
    name, _, rest = group.partition(" + ")
    return [label for label in found["values"] if _is_seed(label, name, rest)]


def _is_seed(label: str, name: str, rest: str) -> bool:
    front, _, back = label.partition(" + ")
    return back == rest and (front == name or front.rpartition(":")[0] == name)


def by_window(found: Result, group: str, metric: str) -> Floats:
    """Return the values of a metric by window, the mean over the seeds of a group."""
    labels = seeds_of(found, group)
    values: Floats = np.mean([found["values"][label][metric] for label in labels], axis=0)
    return values


def window_gain(found: Result, ours: str, theirs: str, metric: str) -> RelativeGain:
    """Return the gain of one group over another on the windows of a held-out run."""
    made = found["course"]
    course = Course(np.array(made["step"]), made["steps"], made["window"], found["disjoint"])
    a, b = by_window(found, ours, metric), by_window(found, theirs, metric)
    found_ratio = over_time(a, b, course, ratio, confidence=CONFIDENCE)
    return RelativeGain.of_ratio(found_ratio, metric)


def steady_gain(found: Result, ours: str, theirs: str, metric: str) -> RelativeGain:
    """Return the gain of one group over a rule in steady state; of utilisation without an interval."""
    if metric not in found["best_rule_ratios"]:
        use = found["means"]
        return RelativeGain.of_ratio(Interval(use[ours][metric] / use[theirs][metric], math.nan, math.nan), metric)
    table = found["ratios"].get(ours) or {metric: found["best_rule_ratios"][metric]}
    return RelativeGain.of_ratio(Interval(*table[metric][theirs]), metric)


def mean(found: Result, group: str, metric: str) -> float:
    """Return the mean of a metric over windows and seeds."""
    return float(np.nanmean(by_window(found, group, metric)))


def best_rule(found: Result, rules: Sequence[str], metric: str) -> str:
    """Return the rule that did best here, in hindsight."""
    sign = -1.0 if METRICS[metric].higher_is_better else 1.0
    return min(rules, key=lambda rule: sign * mean(found, rule, metric))

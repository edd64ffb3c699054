"""What a policy is trained for: a cost of a window that grows while time passes, and the reward made of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rltune.errors import InputError, unknown
from rltune.kernel.score.slowdown import SHORTEST_S
from rltune.trials.measures import relative_gap

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Times:
    """When the jobs of a window that ran were submitted, started and ended."""

    submit_s: Floats
    start_s: Floats
    end_s: Floats

    @classmethod
    def of(cls, submit_s: Floats, start_s: Floats, end_s: Floats, ran: NDArray[np.bool_]) -> Times:
        """Keep the jobs that ran; a window in which none did costs nothing."""
        return cls(submit_s[ran], start_s[ran], end_s[ran])

    @property
    def p99_wait_s(self) -> float:
        """Return the 99th percentile of the waits."""
        wait = self.start_s - self.submit_s
        return float(np.percentile(wait, 99)) if len(wait) else 0.0


@dataclass(frozen=True)
class Growth:
    """A cost as it grows: each part at its rate from one time to another, upon what nobody can change."""

    rate: Floats
    from_s: Floats
    to_s: Floats
    fixed: float

    @property
    def total(self) -> float:
        """Return the cost in the end."""
        return self.fixed + float((self.rate * (self.to_s - self.from_s)).sum())

    def grown_by(self, when_s: Floats) -> Floats:
        """Return how far the cost has grown at each time."""
        origin = self.from_s[:1].sum()  # so that the time of day takes no digits from the difference
        since, until, when = self.from_s - origin, self.to_s - origin, when_s - origin
        return _area(since, self.rate, when) - _area(until, self.rate, when)


def _area(since_s: Floats, rate: Floats, when_s: Floats) -> Floats:
    """Sum rate x (when - since) over the parts that have begun by then, for every time."""
    order = np.argsort(since_s, kind="stable")
    began = np.searchsorted(since_s[order], when_s, side="right")
    rates = np.concatenate([[0.0], np.cumsum(rate[order])])
    moments = np.concatenate([[0.0], np.cumsum((rate * since_s)[order])])
    grown: Floats = when_s * rates[began] - moments[began]
    return grown


def _wait(t: Times) -> Growth:
    return Growth(np.full(len(t.submit_s), 1 / max(len(t.submit_s), 1)), t.submit_s, t.start_s, 0.0)


def _jct(t: Times) -> Growth:
    wait = _wait(t)
    return Growth(wait.rate, wait.from_s, wait.to_s, float((wait.rate * (t.end_s - t.start_s)).sum()))


def _slowdown(t: Times) -> Growth:
    """Grow, for a job shorter than the bound, only once wait and run together exceed it."""
    run = t.end_s - t.start_s
    from_s = t.submit_s + np.maximum(0.0, SHORTEST_S - run)
    rate = 1 / (np.maximum(run, SHORTEST_S) * max(len(run), 1))
    return Growth(rate, from_s, np.maximum(t.start_s, from_s), 1.0)


def _span(t: Times) -> Growth:
    """Return the span of the window: the work is the same, so utilisation is its inverse."""
    if not len(t.submit_s):
        return Growth(np.zeros(0), np.zeros(0), np.zeros(0), 0.0)
    return Growth(np.ones(1), t.submit_s.min(keepdims=True), t.end_s.max(keepdims=True), 0.0)


MEASURES: dict[str, Callable[[Times], Growth]] = {
    "wait": _wait,
    "jct": _jct,
    "slowdown": _slowdown,
    "utilisation": _span,
}


@dataclass(frozen=True)
class WaitBound:
    """The longest 99th percentile of the waits that is allowed: in seconds, or as a multiple of the base policy's."""

    limit: float
    relative: bool

    @classmethod
    def parse(cls, text: str) -> WaitBound:
        """Read `1.5x` (times the base policy's), `36h`, `90m` or seconds."""
        found = re.fullmatch(r"(\d+(?:\.\d*)?)\s*(x|d|h|m|s|)", text.strip().lower())
        if not found or float(found[1]) <= 0:
            raise InputError(f"a bound {text!r} on the p99 wait is not understood; write 1.5x, 2d, 36h, 90m or seconds")
        unit = {"d": 86_400.0, "h": 3_600.0, "m": 60.0}.get(found[2], 1.0)
        return cls(float(found[1]) * unit, found[2] == "x")

    def allowed_s(self, base: Times) -> float:
        """Return the longest p99 wait that is allowed where the base policy had these times."""
        return self.limit * base.p99_wait_s if self.relative else self.limit

    def __str__(self) -> str:
        return f"{self.limit:g}x" if self.relative else f"{self.limit:g} s"


@dataclass(frozen=True)
class Objective:
    """A weighted mix of measures, and a bound on the p99 wait or none."""

    weights: tuple[tuple[str, float], ...] = (("wait", 1.0),)
    bound: WaitBound | None = None

    @classmethod
    def parse(cls, text: str, p99: str | None = None) -> Objective:
        """Read `wait`, or a mix such as `wait:0.7+slowdown:0.3`; the weights are made to sum to 1."""
        given = [_part(part, text) for part in text.split("+")]
        names = [name for name, _ in given]
        if len(set(names)) < len(names):
            raise InputError(f"objective {text!r} names a measure twice")
        total = sum(weight for _, weight in given)
        return cls(tuple((name, weight / total) for name, weight in given), WaitBound.parse(p99) if p99 else None)

    def __str__(self) -> str:
        mix = "+".join(name if weight == 1 else f"{name}:{weight:g}" for name, weight in self.weights)
        return f"{mix}, p99 wait at most {self.bound}" if self.bound else mix

    def costs(self, times: Times) -> Floats:
        """Return the cost by each measure."""
        return np.array([MEASURES[name](times).total for name, _ in self.weights])

    def gap(self, ours: Times, base: Times) -> float:
        """Return (base - ours) / max(base, ours), the paper's reward, mixed by the weights."""
        costs = zip(self.costs(base), self.costs(ours), strict=True)
        return sum(weight * relative_gap(b, o) for (_, weight), (b, o) in zip(self.weights, costs, strict=True))

    def allowed_s(self, base: Times) -> float:
        """Return the longest p99 wait that is allowed; infinity without a bound."""
        return self.bound.allowed_s(base) if self.bound else np.inf

    def excess(self, ours: Times, base: Times) -> float:
        """Return by which share of the larger of the two the p99 wait is above what is allowed; 0 without a bound."""
        return -relative_gap(self.allowed_s(base), ours.p99_wait_s) if self.bound else 0.0

    def rewards(self, when_s: Floats, ours: Times, base: Times, *, dense: bool) -> Floats:
        """Return the reward of every choice; they sum to the gap.

        At the end: all of it after the last choice. Dense: what the gap has grown by until the next choice.
        """
        if not len(when_s):
            return np.zeros(0)
        if dense:
            return self._as_it_grows(when_s, ours, base)
        rewards = np.zeros(len(when_s))
        rewards[-1] = self.gap(ours, base)
        return rewards

    def _as_it_grows(self, when_s: Floats, ours: Times, base: Times) -> Floats:
        gap = np.zeros(len(when_s) + 1)
        for name, weight in self.weights:
            o, b = MEASURES[name](ours), MEASURES[name](base)
            largest = max(o.total, b.total)
            if largest > 0:
                gap[1:-1] += weight * (b.grown_by(when_s[1:]) - o.grown_by(when_s[1:])) / largest
        gap[-1] = self.gap(ours, base)
        return np.diff(gap)


def _part(text: str, whole: str) -> tuple[str, float]:
    name, _, weight = text.strip().partition(":")
    if name not in MEASURES:
        raise unknown("objective", name, MEASURES, more=", or a mix: wait:0.7+slowdown:0.3")
    try:
        value = float(weight or 1)
    except ValueError:
        value = 0.0
    if not 0 < value < np.inf:
        raise InputError(f"objective {whole!r}: {weight!r} should be a weight above 0")
    return name, value

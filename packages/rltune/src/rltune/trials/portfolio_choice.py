"""Which policy a portfolio takes: the one that would have served earlier jobs best, over many windows of them.

A choice is made from what was known at a moment: jobs that had been submitted, and run times of those that had ended.
A job that was still running counts with the time that it had run. It is made anew after every sixteenth window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from rltune.engine.search import Search
from rltune.errors import InputError
from rltune.placement.placers import BEST_FIT
from rltune.policy.base import Networked
from rltune.policy.by_name import get_policy
from rltune.policy.portfolio import Portfolio, settled
from rltune.trials.leak import Exam, leaks
from rltune.trials.measures import MEASURED, measures_of
from rltune.trials.past_windows import PastWindow, PastWindows

if TYPE_CHECKING:
    from rltune.cluster import Cluster
    from rltune.engine.pipeline import Pipeline
    from rltune.jobs import Floats, Jobs
    from rltune.policy.base import Policy
    from rltune.schedule import Schedule, Settings

FEWEST = 6  # windows with a queue; with fewer the portfolio's first member is taken
MOST = 16  # windows, the newest
SIZES = (256, 1024)  # jobs of a window, fewest and most
EVERY = 16  # windows after which it chooses anew
WORTH = 0.02  # what is better than the first member by less is not taken
ERRORS = 2.0  # standard errors that are chance
LEAST = 1.0  # second, and slowdown: below, windows are alike
CALM = 0.02  # of the mean: windows in which both have less are alike


@dataclass
class PortfolioChoice:
    """Makes choices along a history, and runs every window once."""

    jobs: Jobs  # in order of submit
    cluster: Cluster
    run: Callable[[Pipeline, PastWindow], Schedule]
    _measured: dict[tuple[Settings, PastWindow], Floats] = field(default_factory=dict, repr=False)
    _past: list[PastWindows] = field(default_factory=list, repr=False)  # of this process
    _taken: dict[tuple[Settings, int, int], Policy] = field(default_factory=dict, repr=False)

    def settle(self, pipeline: Pipeline, row: int, size: int) -> Pipeline:
        """Return the pipeline with the policy that a portfolio takes for the `size` jobs from a row on."""
        portfolio = pipeline.policy
        if not isinstance(portfolio, Portfolio):
            return pipeline
        size = int(np.clip(size, *SIZES))
        row -= row % (size * EVERY if row >= size * EVERY else size)
        key = (pipeline.settings(""), row, size)
        if key not in self._taken:
            self._taken[key] = self._take(portfolio, pipeline, self._contended(row, size))
        return replace(pipeline, policy=self._taken[key])

    def _take(self, portfolio: Portfolio, pipeline: Pipeline, windows: Sequence[PastWindow]) -> Policy:
        if len(windows) < FEWEST:
            return settled(portfolio, networks=not pipeline.turns)
        first = portfolio.members[0]
        members = [m for n in portfolio.members if (m := self._member(n, pipeline, windows, n == first)) is not None]
        some = [windows[i] for i in np.linspace(0, len(windows) - 1, FEWEST).round().astype(int)]
        least, _ = bounds(self._values(members, some, portfolio), 0)
        left = [member for member, low in zip(members, least, strict=True) if low <= 0]  # the first is one
        values = self._values(left, windows, portfolio)
        return portfolio.taking(left[best_member(values, 0)].policy)

    def _values(self, members: Sequence[Pipeline], windows: Sequence[PastWindow], portfolio: Portfolio) -> Floats:
        """Return the portfolio's metric by member and window."""
        column = MEASURED.index(portfolio.metric)
        return np.array([[self._value(member, window)[column] for member in members] for window in windows]).T

    def _member(self, name: str, pipeline: Pipeline, windows: Sequence[PastWindow], stays: bool) -> Pipeline | None:
        """Return the pipeline with a member's policy, placed greedily; None if it does not go with the rest.

        A network that was taught by these jobs looks better on them than it is. So it is left out, unless it is the
        one that is taken if nothing speaks against it.
        """
        policy = get_policy(name)
        seen = Exam(self.jobs.window(windows[0].first, windows[-1].first + windows[-1].count - windows[0].first))
        if (pipeline.turns and isinstance(policy, Networked)) or (not stays and leaks([policy], [seen])):
            return None
        try:
            greedy = BEST_FIT if pipeline.placement.may_solve else pipeline.placement
            return replace(pipeline, policy=policy, placement=greedy, search=Search())
        except InputError:
            return None

    def _contended(self, row: int, size: int) -> list[PastWindow]:
        if not self._past:
            self._past.append(PastWindows(self.jobs, self.cluster))
        return self._past[0].contended(row, size, FEWEST)[-MOST:]

    def _value(self, pipeline: Pipeline, window: PastWindow) -> Floats:
        key = (pipeline.settings(""), window)
        if key not in self._measured:
            self._measured[key] = measures_of(self.run(pipeline, window))
        return self._measured[key]


def bounds(values: Floats, prior: int, errors: float = ERRORS) -> tuple[Floats, Floats]:
    """Return for each row of values, by member and window, the least and the most that it loses to the prior.

    In logarithms: the mean ratio by window, or that of the means, less or plus some standard errors of the former. The
    means alone are decided by one long queue, and windows alone by many short ones.
    """
    base = values[prior]
    floor = LEAST + CALM * base.mean()
    by_window = np.log(np.maximum(values, floor) / np.maximum(base, floor))
    of_means = np.log(np.maximum(values.mean(axis=1), LEAST) / max(float(base.mean()), LEAST))
    error = errors * by_window.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
    mean = by_window.mean(axis=1)
    return np.minimum(mean, of_means) - error, np.maximum(mean, of_means) + error


def best_member(values: Floats, prior: int, errors: float = ERRORS) -> int:
    """Return which row of values is best: the prior, unless another is better by WORTH beyond chance."""
    _, most = bounds(values, prior, errors)
    best = int(np.nanargmin(most))
    return best if most[best] < -WORTH else prior

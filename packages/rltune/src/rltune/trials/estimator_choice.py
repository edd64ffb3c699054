"""Which estimator is taken: the one that would have made earlier jobs wait least. That is the estimator `auto`.

Estimators are judged by what they do to waits, not by how near they come to run times: smallest area first with EASY,
over windows of earlier jobs, each estimator with what it had known then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import run_pipeline
from rltune.estimate import candidates
from rltune.estimate.estimator_names import AUTO
from rltune.trials.measures import MEASURED, measures_of
from rltune.trials.past_windows import PastWindow, PastWindows
from rltune.trials.portfolio_choice import FEWEST, SIZES, best_member
from rltune.trials.warm_start import Knowledge

if TYPE_CHECKING:
    from rltune.cluster import Cluster
    from rltune.jobs import Floats, Jobs

PRIOR = "history"  # is taken unless another is shown to be better
MOST = 24  # windows, spread over all earlier jobs: a long memory chooses better than a short one
ERRORS = 1.0  # standard errors that are chance; estimators differ by far less than policies do


@dataclass(frozen=True)
class EstimatorChoice:
    """The estimator that is taken, and what each made of the windows that were looked at."""

    taken: str
    waits_s: dict[str, Floats]  # by window; none if there were too few

    def told(self) -> str:
        """Return what was taken, and why."""
        if not self.waits_s:
            return f"{AUTO} took {self.taken}: there are too few earlier windows with a queue to judge others by."
        prior = self.waits_s[PRIOR]
        others = (name for name in self.waits_s if name != PRIOR)
        shares = ", ".join(f"{name} {self.waits_s[name].mean() / prior.mean():.2f}" for name in others)
        return f"{AUTO} took {self.taken}: on {len(prior)} earlier windows, of the wait with {PRIOR}: {shares}."


def choose_estimator(jobs: Jobs, cluster: Cluster, row: int, size: int, seed: int = 0) -> EstimatorChoice:
    """Choose by what was known when a row was submitted; jobs are in order of submit."""
    windows = _spread(PastWindows(jobs, cluster).contended(row, int(np.clip(size, *SIZES)), FEWEST))
    if len(windows) < FEWEST:
        return EstimatorChoice(PRIOR, {})
    names = [PRIOR, *(name for name in candidates(jobs) if name != PRIOR)]
    knowledge, pipeline = Knowledge(jobs, seed), parse_pipeline("saf", "easy")
    waits = np.empty((len(names), len(windows)))
    for i, name in enumerate(names):
        for k, window in enumerate(windows):
            known = window.known(jobs)
            made = run_pipeline(known, cluster, pipeline, knowledge.made(name, window.first, known))
            waits[i, k] = measures_of(made)[MEASURED.index("wait")]
    return EstimatorChoice(names[best_member(waits, 0, ERRORS)], dict(zip(names, waits, strict=True)))


def _spread(windows: Sequence[PastWindow]) -> list[PastWindow]:
    """Take some of the windows, evenly, if there are many; nothing is known before the first quarter of them."""
    learnt = windows[len(windows) // 4 :] if len(windows) >= 2 * FEWEST else windows
    if not learnt:
        return []
    return [learnt[i] for i in np.unique(np.linspace(0, len(learnt) - 1, MOST).round().astype(int))]

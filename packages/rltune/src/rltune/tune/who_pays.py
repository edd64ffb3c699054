"""Who wins and who loses by a change of pipeline, on a stretch of a history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rltune.trials.shares import Share, shares_between

if TYPE_CHECKING:
    from rltune.schedule import Schedule
    from rltune.tune.stretches import HistoryStretch, StretchRunner


def shares_of(now: Schedule, then: Schedule, runner: StretchRunner, stretch: HistoryStretch) -> tuple[Share, ...]:
    """Return the mean waits of all groups with enough jobs under both, largest groups first within a kind."""
    jobs = now.jobs
    window = runner.window(stretch).interval_s or (0.0, 0.0)
    kept = np.flatnonzero(now.ran & then.ran & (jobs.submit_s >= window[0]) & (jobs.submit_s < window[1]))
    return shares_between(jobs, now.wait_s, then.wait_s, kept)

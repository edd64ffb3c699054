"""An order that is given: Slurm's own, or one that was read off a queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from rltune.jobs import Floats, Jobs
from rltune.kernel.build.prepare import Factors, Likeness
from rltune.kernel.score.rules import FIXED
from rltune.kernel.state.arrays import I8
from rltune.kernel.state.fair_share import W_PARTITION
from rltune.policy.base import no_factors


@dataclass(frozen=True)
class FixedOrder:
    """Jobs by priorities that do not change, highest first; jobs that come later are behind all of these, by age.

    Unless they are given a place (`followed_by`).
    """

    priority: Floats = field(repr=False)  # by row
    name: str = "as given"
    parts: Mapping[str, Floats] = field(default_factory=dict, repr=False, compare=False)  # what it is made of, by row
    code: int = FIXED
    dynamic: bool = False

    def factors(self, jobs: Jobs) -> Factors:
        """Return the priorities as the one term that does not change."""
        factors = no_factors(jobs)
        factors.parameters[:] = 0.0
        factors.parameters[W_PARTITION] = 1.0
        behind = float(self.priority.min(initial=0.0)) - 1.0
        factors.of_job[:, 0] = behind
        known = min(len(jobs), len(self.priority))
        factors.of_job[:known, 0] = self.priority[:known]
        return factors

    def ahead_on_arrival(self, rows: I8, submit_s: Floats) -> Floats:
        """Return for each waiting row but the first to come, which share of those that came before it are behind it."""
        order = np.argsort(submit_s[rows], kind="stable")
        place, came = self.priority[rows][order], submit_s[rows][order]
        older = np.searchsorted(came, came, side="left")  # of equals, as of an array's tasks, none is older
        shares = [np.mean(place[:n] < place[i]) for i, n in enumerate(older.tolist()) if n]
        return np.array(shares)

    def followed_by(self, ahead_of: Floats, rows: I8) -> FixedOrder:
        """Return the order with jobs to come, each before so large a share of the rows that wait; 0 = behind all."""
        waiting = np.sort(self.priority[rows])
        ends = np.concatenate([[waiting[0] - 1.0], (waiting[1:] + waiting[:-1]) / 2, [waiting[-1] + 1.0]])
        at = np.floor(ahead_of * len(waiting)).astype(np.int64)
        return replace(self, priority=np.concatenate([self.priority, ends[at]]))

    def likeness(self, jobs: Jobs) -> Likeness | None:  # noqa: ARG002
        """Rank by the run's estimates."""
        return None

"""Quasi-shortest-service-first (Hu et al., SC'21): GPUs times a run time predicted from the user's own history."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rltune.core.prepare import Factors, Likeness
from rltune.core.scores import SAF
from rltune.estimate import likeness_keys
from rltune.jobs import Jobs
from rltune.policy.base import no_factors


@dataclass(frozen=True)
class Qssf:
    """Rank by predicted GPU time.

    The prediction is the mean of all jobs of that size; where the user has run such jobs, the mean of those; where the
    name is known too, the mean of those; older ones fade. All is learnt online, from jobs that have ended in the run.
    """

    trust: float = 0.1  # a finer likeness counts almost at once, as in the paper's rolling estimate
    decay: float = 0.9
    name: str = "qssf"
    code: int = SAF
    dynamic: bool = False
    about: str = "GPUs x run time predicted online from the same user, size and name"
    source: str = "Hu et al., SC'21"

    def factors(self, jobs: Jobs) -> Factors:
        """Need none."""
        return no_factors(jobs)

    def likeness(self, jobs: Jobs) -> Likeness:
        """Look for jobs of the same size, then of the same user, then of the same name."""
        everything = np.zeros(len(jobs), dtype=np.int64)
        size, user, name = jobs.gpus, jobs.user.codes, jobs.name.codes
        keys, used = likeness_keys(
            [(everything,), (size,), (size, user), (size, user, name)],
            optional=[(), (), (user,), (user, name)],
        )
        return Likeness(keys, used, trust=self.trust, decay=self.decay)

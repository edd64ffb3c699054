"""Quasi-shortest-service-first (Hu et al., SC'21): GPUs times a run time predicted from the user's own history."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rltune.errors import InputError
from rltune.estimate.estimators import likeness
from rltune.jobs import Jobs
from rltune.kernel.build.prepare import Factors, Likeness
from rltune.kernel.score.rules import SAF
from rltune.policy.base import no_factors

LEVELS = ((), ("gpus",), ("gpus", "user"), ("gpus", "user", "name"))


@dataclass(frozen=True)
class Qssf:
    """Rank by predicted GPU time.

    The prediction is the mean of all jobs of that size; where the user has run such jobs, the mean of those; where the
    name is known too, a mean of those that fades with age. It is learnt online, from jobs that have ended in the run.
    """

    trust: float = 0.1  # a finer likeness counts almost at once, as in the paper's rolling estimate
    decay: float = 0.9  # what is left of the weight of a job with each later one of its finest likeness
    before: Jobs | None = field(default=None, repr=False, compare=False)  # earlier history; what ended is known at once
    name: str = "qssf"
    code: int = SAF
    dynamic: bool = False
    about: str = "GPUs x run time predicted online from the same user, size and name"
    source: str = "Hu et al., SC'21"

    def __post_init__(self) -> None:
        if not self.trust > 0:
            raise InputError(f"qssf: trust should be above 0, not {self.trust}")
        if not 0 <= self.decay <= 1:
            raise InputError(f"qssf: decay should be from 0 (only the last job counts) to 1, not {self.decay}")

    def after(self, before: Jobs) -> Qssf:
        """Start warm: from the jobs of an earlier part of the trace that had ended when the run begins."""
        return replace(self, before=before, name="qssf-warm")

    def factors(self, jobs: Jobs) -> Factors:
        """Need none."""
        return no_factors(jobs)

    def likeness(self, jobs: Jobs) -> Likeness:
        """Look for jobs of the same size, then of the same user, then of the same name."""
        return likeness(jobs, LEVELS, trust=self.trust, decay=self.decay, before=self.before)

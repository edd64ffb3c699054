"""An order that is given: Slurm's own, or one that was read off a queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rltune.jobs import Floats, Jobs
from rltune.kernel.build.prepare import Factors, Likeness
from rltune.kernel.score.rules import FIXED
from rltune.kernel.state.fair_share import W_PARTITION
from rltune.policy.base import no_factors


@dataclass(frozen=True)
class FixedOrder:
    """Jobs by priorities that do not change, highest first; jobs that come later are behind all of these, by age."""

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

    def likeness(self, jobs: Jobs) -> Likeness | None:  # noqa: ARG002
        """Rank by the run's estimates."""
        return None

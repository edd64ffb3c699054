"""The learned policy: a model's network scores the queue, inside the core."""

from __future__ import annotations

from dataclasses import dataclass, field

from rltune.core.prepare import Factors, Likeness, Net
from rltune.core.scores import LEARNED, MULTIFACTOR
from rltune.jobs import Jobs
from rltune.learn.model import BASES, Model
from rltune.policy.base import no_factors
from rltune.policy.multifactor import Multifactor


@dataclass(frozen=True)
class Learned:
    """Orders the queue by a model."""

    model: Model = field(repr=False)
    name: str = "learned"
    code: int = LEARNED
    dynamic: bool = True

    @property
    def net(self) -> Net:
        """Give the network."""
        return self.model.net

    def factors(self, jobs: Jobs) -> Factors:
        """Give what the model's base policy needs."""
        return Multifactor().factors(jobs) if BASES[self.model.base] == MULTIFACTOR else no_factors(jobs)

    def likeness(self, jobs: Jobs) -> Likeness | None:  # noqa: ARG002
        """Rank by the run's estimates."""
        return None

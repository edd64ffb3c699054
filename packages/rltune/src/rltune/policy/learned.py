"""A policy by a model: its network scores the queue, or inspects what a rule chose, inside the core."""

from __future__ import annotations

from dataclasses import dataclass, field

from rltune.jobs import Jobs
from rltune.kernel.build.prepare import Factors, Likeness, Net
from rltune.kernel.score.rules import INSPECTED, LEARNED
from rltune.model.learned_model import Model
from rltune.policy.base import no_factors
from rltune.policy.multifactor import Multifactor, paper

_MULTIFACTOR = {rule.name: rule for rule in (Multifactor(), paper())}


@dataclass(frozen=True)
class Learned:
    """Orders the queue by a model."""

    model: Model = field(repr=False)
    name: str = "learned"
    dynamic: bool = True

    @property
    def code(self) -> int:
        """Return which pass of the core asks the network."""
        return INSPECTED if self.model.recipe.kind == "schedinspector" else LEARNED

    @property
    def view(self) -> int:
        """Return how many of the oldest waiting jobs the model is made for; 0 = all."""
        return self.model.view

    @property
    def net(self) -> Net:
        """Return the network."""
        return self.model.net

    def factors(self, jobs: Jobs) -> Factors:
        """Return what the model's base policy needs."""
        base = _MULTIFACTOR.get(self.model.base)
        return base.factors(jobs) if base else no_factors(jobs)

    def likeness(self, jobs: Jobs) -> Likeness | None:  # noqa: ARG002
        """Rank by the run's estimates."""
        return None

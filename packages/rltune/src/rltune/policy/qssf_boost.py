"""QSSF with predicted run times (Hu et al., SC'21, whose model is gradient-boosted: the extra `rltune[boost]`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rltune.errors import InputError
from rltune.estimate.estimators import likeness
from rltune.estimate.predicted import Predicted
from rltune.jobs import Jobs
from rltune.kernel.build.prepare import Factors, Likeness
from rltune.kernel.score.rules import SAF
from rltune.policy.base import no_factors


@dataclass(frozen=True)
class QssfBoost:
    """Rank by GPU time as predicted from earlier history, blended with the user's own as the run goes on."""

    before: Jobs | None = field(default=None, repr=False, compare=False)  # earlier history, needed
    trust: float = 1.0  # one ended job of that user and name counts as much as the prediction
    decay: float = 0.9
    seed: int = 0
    name: str = "qssf-boost"
    code: int = SAF
    dynamic: bool = False
    about: str = "GPUs x run time predicted from earlier history (qssf-boost:TRACE)"
    source: str = "Hu et al., SC'21"

    def after(self, before: Jobs) -> QssfBoost:
        """Learn from the jobs of an earlier part of the trace that had ended when the run begins."""
        return replace(self, before=before)

    def factors(self, jobs: Jobs) -> Factors:
        """Need none."""
        return no_factors(jobs)

    def likeness(self, jobs: Jobs) -> Likeness:
        """Start from what is predicted; then look for jobs of the same user, size and name."""
        if self.before is None:
            raise InputError("qssf-boost learns from earlier history: name it as in qssf-boost:TRACE")
        predicted = Predicted(before=self.before).estimate(jobs, self.seed).values_s
        return likeness(jobs, (("gpus", "user", "name"),), trust=self.trust, decay=self.decay, own=predicted)

"""How much work a run is, counted and not timed, so that the same history is tuned alike on every machine.

Numbers are microseconds a job on one slow core. How long the queue is and how many nodes there are make most of the
difference between sites; both are known before anything is timed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rltune.tune.tried_pipelines import Candidate

RULE_US, RULE_EACH_US = 8.0, 0.0015  # of a job under a rule; more for each waiting job and node
LEARNED_EACH_US = 0.4  # of a network, for each waiting job
FOR_ALL_US, FOR_ALL_EACH_US = 3.0, 0.15  # of conservative backfilling, for each node; more for each waiting job
SOLVER_US = 10_000.0  # of the solver of placement
PREDICTED_US, PREDICTED_EACH_US = 500.0, 1.0  # of estimates that are predicted in the run
GUARDED_QUEUE = 10.0  # times as long where a guard's job holds up all others, because nothing backfills
TURNS = 5.0  # times the work, where jobs take turns
DEAR = 15.0  # times the work of a rule: what is dearer waits until the cheaper have shown what is worth it
LEARN_S = {"predicted": 4.0}  # before the runs of a stretch: what an estimator learns first
MICRO = 1e-6


@dataclass(frozen=True)
class RunWork:
    """What makes runs slow: how many jobs wait on average, and how many nodes there are."""

    queue: float = 10.0
    nodes: int = 30

    @property
    def rule_us(self) -> float:
        """Return the work of a job under a rule."""
        return RULE_US + RULE_EACH_US * self.queue * self.nodes

    def job_us(self, candidate: Candidate) -> float:
        """Return the work of a job under a candidate."""
        pipeline = candidate.pipeline
        queue = self.queue * (GUARDED_QUEUE if pipeline.guard and pipeline.backfill == "none" else 1.0)
        made = RULE_US + RULE_EACH_US * queue * self.nodes
        made += LEARNED_EACH_US * queue if pipeline.learned else 0.0
        made += self.nodes * (FOR_ALL_US + FOR_ALL_EACH_US * queue) if pipeline.backfill == "conservative" else 0.0
        made += SOLVER_US if pipeline.placement.may_solve else 0.0
        made *= TURNS if pipeline.turns else 1.0
        return made + (PREDICTED_US + PREDICTED_EACH_US * queue if "predicted" in candidate.estimator else 0.0)

    def seconds(self, candidates: Iterable[Candidate]) -> float:
        """Return the work of one job under each of some candidates, in seconds."""
        return MICRO * sum(self.job_us(candidate) for candidate in candidates)

    def dear(self, candidate: Candidate) -> bool:
        """Return whether a candidate is much more work than a rule."""
        return self.job_us(candidate) > DEAR * self.rule_us


def learnt_by(candidates: Iterable[Candidate]) -> set[str]:
    """Name what the estimators of some candidates learn before a stretch is run, as LEARN_S has it."""
    return {name for candidate in candidates for name in LEARN_S if name in candidate.estimator}

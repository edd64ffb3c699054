"""One window under every pipeline, if it is contended: the unit of work that is spread over processes and machines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.evaluate.groups import Groups
from rltune.evaluate.memory import Knowledge
from rltune.evaluate.outcome import MEASURED, Outcome
from rltune.sim import simulate

if TYPE_CHECKING:
    from rltune.cluster import Cluster
    from rltune.evaluate.runs import Contender
    from rltune.jobs import Jobs

WAIT = MEASURED.index("wait")


@dataclass(frozen=True)
class Trial:
    """Called with the row at which a window starts; FCFS without backfilling, the first pipeline, tells contention."""

    jobs: Jobs  # the whole trace, in order of submit
    cluster: Cluster
    pipelines: tuple[Contender, ...]
    estimator: Any
    size: int
    contended_s: float
    settings: dict[str, Any]  # head, view, seed
    groupings: tuple[Groups, ...]
    knowledge: list[Knowledge] = field(default_factory=list, repr=False, compare=False)  # of this process

    def __call__(self, first: int) -> list[Outcome] | None:
        """Run the window; None if it is not contended."""
        fcfs, *others = self.pipelines
        outcomes = [self._run(fcfs, first)]
        wait_s = outcomes[0].measures[WAIT]
        if not (np.isfinite(wait_s) and wait_s > self.contended_s):
            return None
        return outcomes + [self._run(pipeline, first) for pipeline in others]

    def _run(self, pipeline: Contender, first: int) -> Outcome:
        known = self._known()
        schedule = simulate(
            self.jobs.window(first, self.size),
            self.cluster,
            policy=known.policy(pipeline.policy, first, self.size),
            backfill=pipeline.backfill,
            placement=pipeline.placement,
            estimator=known.estimator(self.estimator, first, self.size),
            **self.settings,
        )
        return Outcome.of(schedule, first, self.groupings)

    def _known(self) -> Knowledge:
        if not self.knowledge:
            self.knowledge.append(Knowledge(self.jobs, self.settings["seed"]))
        return self.knowledge[0]

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what each process learns by itself."""
        return {**self.__dict__, "knowledge": []}

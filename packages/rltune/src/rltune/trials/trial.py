"""One window under every pipeline, if it is contended: the unit of work that is spread over processes and machines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.engine.run import simulate
from rltune.estimate import Estimator, Oracle
from rltune.trials.groups import Groups
from rltune.trials.outcome import MEASURED, Outcome
from rltune.trials.warm_start import Knowledge

if TYPE_CHECKING:
    from rltune.cluster import Cluster
    from rltune.jobs import Jobs
    from rltune.trials.runs import Contender

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
    settings: dict[str, Any]  # head, view, cycle, seed
    groupings: tuple[Groups, ...]
    knowledge: list[Knowledge] = field(default_factory=list, repr=False, compare=False)  # of this process

    def __call__(self, first: int) -> list[Outcome] | None:
        """Run the window; None if it is not contended."""
        window = self.jobs.window(first, self.size)
        fcfs, *others = self.pipelines
        untold = self._run(fcfs, first, window, Oracle())  # without backfilling FCFS asks no estimate
        wait_s = untold.measures[WAIT]
        if not (np.isfinite(wait_s) and wait_s > self.contended_s):
            return None
        guess = self._known().made(self.estimator, first, window)
        return [untold, *(self._run(pipeline, first, window, guess) for pipeline in others)]

    def _run(self, pipeline: Contender, first: int, window: Jobs, guess: Estimator) -> Outcome:
        schedule = simulate(
            window,
            self.cluster,
            policy=self._known().policy(pipeline.policy, first, self.size),
            backfill=pipeline.backfill,
            placement=pipeline.placement,
            estimator=guess,
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

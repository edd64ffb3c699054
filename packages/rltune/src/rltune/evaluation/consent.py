"""Who agrees to be displaced, at what cost; and a window that is run under each such consent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rltune.evaluation.who_pays_for_turns import ledger
from rltune.opt_in import opted_in
from rltune.preemption_rules import PreemptionRule
from rltune.text import percent, seconds
from rltune.trials.contention import fcfs_schedule, is_contended, mean_wait_s
from rltune.trials.outcome import Outcome

if TYPE_CHECKING:
    from rltune.cluster import Cluster
    from rltune.engine.pipeline import Pipeline
    from rltune.jobs import Floats, Jobs
    from rltune.trials.trial import Trial

CHECKPOINT_S = 600.0


@dataclass(frozen=True)
class Consent:
    """Which share of the jobs may be displaced, and what it costs them."""

    share: float
    restart_s: float
    checkpoint_s: float = CHECKPOINT_S

    def applied(self, jobs: Jobs, cluster: Cluster, seed: int) -> Jobs:
        """Return the jobs of which such a share, by lot, may be displaced, and nobody else."""
        drawn = PreemptionRule(share=self.share, seed=seed, checkpoint=self.checkpoint_s, restart=self.restart_s)
        rules = (drawn, PreemptionRule(preemptible=False))
        return opted_in(jobs, replace(cluster, preemption=rules))

    def __str__(self) -> str:
        return f"{percent(self.share)} of jobs, restarts of {seconds(self.restart_s)}"


@dataclass(frozen=True)
class ConsentTrial:
    """Called with the row at which a window starts: outcomes of FCFS, without turns, and with each consent."""

    plain: Trial
    willing: tuple[Trial, ...]
    without: Pipeline
    turns: Pipeline
    size: int
    contended_s: float

    def __call__(self, first: int) -> tuple[list[Outcome], list[dict[str, Floats]]] | None:
        """Run the window, if it is contended."""
        fcfs = fcfs_schedule(self.plain.window(first, self.size), self.plain.cluster)
        if not is_contended(mean_wait_s(fcfs), self.contended_s):
            return None
        base = self.plain.run(self.without, first, self.size)
        made = [trial.run(self.turns, first, self.size) for trial in self.willing]
        outcomes = [Outcome.of(schedule, first, ()) for schedule in (fcfs, base, *made)]
        return outcomes, [ledger(base, schedule, np.ones(self.size, dtype=bool)) for schedule in made]

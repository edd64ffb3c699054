"""Which policy a portfolio takes on a running cluster: by the jobs that have ended here, looked at now and then."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rltune.live.decide.pinned import Pinned
from rltune.live.decide.replayed_queue import Seen, replayable
from rltune.live.journal.store import Journal
from rltune.live.pinned_pipeline import ReadPolicy, taking
from rltune.live.see.snapshot import Snapshot
from rltune.policy.portfolio import Portfolio
from rltune.trials.portfolio_choice import EVERY, FEWEST, MOST, SIZES
from rltune.trials.trial import Trial

SIZE = SIZES[0]  # jobs of a window


@dataclass
class PortfolioWatch:
    """Looks at ended jobs when enough have ended since the last time."""

    journal: Journal
    pinned: Pinned  # as it was read: with a portfolio, or a policy that stays
    _looked_at: int = -1  # how many windows had ended then
    _begun: bool = False  # the first member decides

    def choose(self, snapshot: Snapshot) -> Pinned | None:
        """Return what is decided by from now on; None if nothing is to be chosen yet, or anew."""
        portfolio = self.pinned.pipeline.policy
        if not isinstance(portfolio, Portfolio) or not snapshot.nodes:
            return None
        windows = self.journal.last_ended() // SIZE
        if windows < FEWEST:
            return self._begin(portfolio)
        if windows // EVERY <= self._looked_at // EVERY:
            return None
        self._looked_at = windows
        seen = [Seen(e.job, e.job.end_s - e.job.start_s, e.priority) for e in self.journal.ended(SIZE * 2 * MOST)]
        seen.sort(key=lambda s: (s.job.ready_s, s.job.id))
        jobs, cluster = replayable(seen, snapshot)
        trial = Trial(jobs, cluster, self.pinned.estimator, seed=self.pinned.pipeline.seed)
        name = trial.settled(self.pinned.pipeline, len(jobs), SIZE).policy.name.partition("=")[2]
        return self._decide_by(taking(portfolio, name))

    def _begin(self, portfolio: Portfolio) -> Pinned | None:
        """Return the first member while too little has ended; the rule stays where jobs give way."""
        if self._begun or self.pinned.pipeline.turns:
            return None
        self._begun = True
        return self._decide_by(taking(portfolio, portfolio.members[0]))

    def _decide_by(self, read: ReadPolicy) -> Pinned:
        pipeline = replace(self.pinned.pipeline, policy=read.policy)
        return replace(self.pinned, pipeline=pipeline, sha256=read.sha256, text=read.text)

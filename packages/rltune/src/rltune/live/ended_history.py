"""Ended jobs for estimators and policies that learn, read anew from time to time only: it takes a while."""

from __future__ import annotations

from dataclasses import dataclass

from rltune.engine.pipeline import learns
from rltune.estimate.estimators import History
from rltune.jobs import Jobs
from rltune.live.decide.pinned import Pinned
from rltune.live.journal.store import Journal

_REFRESH_S = 600.0


@dataclass
class HistoryReader:
    """Gives the history known, and up to which row of the journal it goes; 0 = none is needed or there."""

    journal: Journal
    pinned: Pinned
    most: int  # jobs, the newest
    _jobs: Jobs | None = None
    _until: int = 0
    _read_s: float = float("-inf")

    def at(self, elapsed_s: float) -> tuple[Jobs | None, int]:
        """Return it as of now, or as of a few minutes ago."""
        if not (isinstance(self.pinned.estimator, History) or learns(self.pinned.pipeline.policy)):
            return None, 0
        if elapsed_s - self._read_s > _REFRESH_S:
            self._until = self.journal.last_ended()
            self._jobs = self.journal.history(self.most, self._until) if self._until else None
            self._read_s = elapsed_s
        return self._jobs, self._until

"""What was given back, noted after it was done: giving back must not wait for a disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rltune.live.journal.store import Journal
from rltune.live.see.backend import ChangeOutcome
from rltune.live.see.holdings import Intent


class GivenBackJobs(Protocol):
    """What was tried, and what Slurm said."""

    @property
    def intents(self) -> Sequence[Intent]:
        """Return the changes."""
        ...

    @property
    def outcomes(self) -> Sequence[ChangeOutcome]:
        """Return what became of them, in the same order."""
        ...


def note_given_back(journal: Journal, given: GivenBackJobs, at_s: float) -> None:
    """Keep what was given back, so that the journal does not count it as held any more."""
    with journal.at_once():
        ids = journal.intend(journal.last_cycle(), given.intents, at_s)
        errors = (outcome.error for outcome in given.outcomes)
        journal.add_outcomes(zip(ids, errors, strict=True), at_s)

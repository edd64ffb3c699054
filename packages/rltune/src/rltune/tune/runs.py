"""Runs of candidates on stretches: those that are kept are not run again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rltune.parallel import Spread
    from rltune.tune.kept_runs import KeptRuns
    from rltune.tune.stretches import BlockSums, HistoryStretch, StretchRunner
    from rltune.tune.tried_pipelines import Candidate

    Progress = Callable[[int, int, str], None]  # runs done, runs known of, what is done


@dataclass
class Runs:
    """Runs tasks: those that are kept are not run again."""

    runner: StretchRunner
    spread: Spread
    kept: KeptRuns
    progress: Progress | None
    done: int = 0

    def tell(self, what: str) -> None:
        """Report what is done beside the runs."""
        if self.progress is not None:
            self.progress(self.done, self.done + 1, what)

    def run(self, tasks: Sequence[tuple[Candidate, HistoryStretch]]) -> list[BlockSums]:
        """Return the outcomes in the order of the tasks."""
        found = [self.kept.find(task) for task in tasks]
        missing = [task for task, outcome in zip(tasks, found, strict=True) if outcome is None]
        known = self.done + len(missing)
        made: dict[int, BlockSums] = {}
        for index, outcome in self.spread.each(self.runner, missing):
            made[index] = outcome
            self.kept.add(missing[index], outcome)
            self.done += 1
            if self.progress is not None:
                self.progress(self.done, known, missing[index][0].label)
        fresh = iter([made[i] for i in range(len(missing))])
        return [next(fresh) if outcome is None else outcome for outcome in found]

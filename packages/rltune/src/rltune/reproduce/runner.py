"""Make the steps of experiments, the most telling first, on several cores, within a time if one is given."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rltune.reproduce.step import Step, Workbench, in_order

if TYPE_CHECKING:
    from rltune.parallel import Spread
    from rltune.reproduce.experiment import Experiment
    from rltune.reproduce.run_size import RunSize


@dataclass(frozen=True)
class RunProgress:
    """Where a run stands, for whoever watches."""

    done: int
    steps: int
    left_s: float
    last: str


@dataclass
class Runner:
    """Makes what is missing. What is there, from this run or one before, is not made again."""

    bench: Workbench
    scope: RunSize
    spread: Spread
    workers: int
    budget_s: float = float("inf")
    tell: Callable[[RunProgress], None] = lambda _: None
    _began: float = field(default_factory=time.monotonic)
    _expected_s: float = 0.0  # of what was made here, as it was foreseen
    _taken_s: float = 0.0  # as it was
    failed: dict[Step, str] = field(default_factory=dict)  # why; what needs these is left out, too
    _compiled: bool = False  # whether a step has been made in this process

    def run(self, experiments: Sequence[Experiment], after: Callable[[Experiment], object]) -> bool:
        """Make the steps of each experiment in turn; return whether all were made within the time."""
        waiting = self._missing(experiments)
        total = len({step for e in experiments for wave in in_order(e.steps(self.scope)) for step in wave})
        for experiment in experiments:
            for wave in in_order(experiment.steps(self.scope)):
                missing = self._possible([step for step in wave if step in waiting], waiting)
                if missing and not self._wave(missing, waiting, total):
                    return False
            after(experiment)
        return True

    def _missing(self, experiments: Sequence[Experiment]) -> dict[Step, None]:
        """Return the steps that are not there, in the order in which they will be made."""
        steps = (step for e in experiments for wave in in_order(e.steps(self.scope)) for step in wave)
        return {step: None for step in dict.fromkeys(steps) if not self.bench.is_done(step)}

    def _wave(self, steps: list[Step], waiting: dict[Step, None], total: int) -> bool:
        with closing(self._made(steps)) as made:
            for step, why in made:
                del waiting[step]
                if why:
                    self.failed[step] = why
                else:
                    self._taken_s += self.bench.seconds(step)
                    self._expected_s += step.cost_s
                self.tell(RunProgress(total - len(waiting), total, self._left_s(waiting), step.told))
                if waiting and time.monotonic() - self._began > self.budget_s:
                    return False
        return True

    def _possible(self, steps: list[Step], waiting: dict[Step, None]) -> list[Step]:
        """Leave out what needs something that could not be made."""
        for step in steps:
            if why := next((self.failed[other] for other in step.needs if other in self.failed), ""):
                self.failed[step] = why
                del waiting[step]
        return [step for step in steps if step not in self.failed]

    def _made(self, steps: list[Step]) -> Generator[tuple[Step, str]]:
        """Make steps, and yield each with why it failed; the very first here, so that workers find code compiled."""
        first = steps[: self.workers > 1 and not self._compiled]
        self._compiled = True
        for step in first:
            yield step, self.bench(step)
        rest = steps[len(first) :]
        if rest:
            with closing(self.spread.each(self.bench, rest)) as made:
                for index, why in made:
                    yield rest[index], why

    def _left_s(self, waiting: dict[Step, None]) -> float:
        pace = self._taken_s / self._expected_s if self._expected_s else 1.0
        return pace * sum(step.cost_s for step in waiting) / self.workers

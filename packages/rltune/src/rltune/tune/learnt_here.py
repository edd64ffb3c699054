"""Policies that the first part of the history teaches, so that they may compete on the parts after it.

What teaches and what chooses the best network both lie in the first part: the jobs on which candidates are compared are
new to the model, as the check for leaks confirms again. How long is learnt is counted out beforehand, as all work is.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rltune.errors import InputError, unknown
from rltune.learn.cma_es import EvolveSettings
from rltune.learn.evolve import EvolvePlan, evolve_policy
from rltune.model.learned_model import BASES
from rltune.policy.learned import Learned
from rltune.trials.leak import Exam, leaks
from rltune.tune.tried_pipelines import BACKFILLS, Candidate, with_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rltune.cluster import Cluster
    from rltune.jobs import Jobs
    from rltune.model.learned_model import Model

WAYS = {"evolve": "evolved", "train": "trained"}  # and the names of what comes of them
TAUGHT_ESTIMATORS = ("user", "history")  # windows by the hundred: others take too long to know each
HELD = 0.2  # of the jobs that are handed over: as many choose the network, and as many behind are not looked at
SHARE = 0.5  # of the budget goes to learning, if it is asked for
JOBS_A_MINUTE = 3_000_000  # of windows that are played in evolution, on one slow core
EPOCHS_A_MINUTE = 15  # of training, on one slow core
GENERATIONS, EPOCHS = (4, 40), (5, 100)  # fewest and most


@dataclass(frozen=True)
class HomeLesson:
    """Who learns, from what and for how long."""

    how: str  # of WAYS
    jobs: Jobs  # the whole history, in order of submit
    cluster: Cluster
    end: int  # of the part that teaches
    lead: Candidate  # the best rule so far: to be beaten where it works
    metric: str
    minutes: float
    seed: int = 0
    threads: int = 1
    checkpoint: Path | None = None

    def learn(self, tell: Callable[[str], None]) -> Model:
        """Return the model; InputError if these jobs cannot teach one."""
        return (self._evolved if self.how == "evolve" else self._trained)(tell)

    @property
    def handed_over(self) -> Jobs:
        """Return the jobs that teach, and behind them those that the trainer leaves alone."""
        count = int(self.end / (1 - HELD))
        while count - int(count * HELD) > self.end:
            count -= 1
        return self.jobs.window(0, count)

    @property
    def base(self) -> str:
        """Return the rule to beat, which is fallen back to as well."""
        name = self.lead.pipeline.policy.name
        return name if name in BASES else "saf"

    @property
    def backfill(self) -> str:
        """Return the backfilling to learn under."""
        return self.lead.pipeline.backfill if self.lead.pipeline.backfill in BACKFILLS else "easy"

    @property
    def estimator(self) -> str:
        """Return what is known of run times while it learns."""
        return self.lead.estimator if self.lead.estimator in TAUGHT_ESTIMATORS else "history"

    @property
    def _objective(self) -> str:
        return "slowdown" if self.metric == "slowdown" else "wait"

    def _evolved(self, tell: Callable[[str], None]) -> Model:
        usual = EvolvePlan()
        played = usual.evolve.tried * usual.evolve.windows * usual.size
        generations = _within(self.minutes * JOBS_A_MINUTE / played, GENERATIONS)
        steps = EvolveSettings(generations, seed=self.seed, threads=self.threads)
        plan = EvolvePlan(self.base, self._objective, (self.estimator,), self.backfill, holdout=HELD, evolve=steps)
        resume = self.checkpoint is not None and self.checkpoint.exists()
        sources = [(self.handed_over, self.cluster)]

        def news(generation: int) -> None:
            tell(f"evolving: generation {generation} of {generations}")

        try:
            found = evolve_policy(sources, plan, lambda n: news(n.generation), (), self.checkpoint, resume=resume)
        except InputError:
            if not resume:
                raise
            found = evolve_policy(sources, plan, lambda n: news(n.generation), (), self.checkpoint)
        if not found.complete:
            raise KeyboardInterrupt  # the checkpoint is kept; half of a candidate is none
        return found.model

    def _trained(self, tell: Callable[[str], None]) -> Model:
        try:
            from rltune.learn.train import Trainer
        except ModuleNotFoundError:
            raise InputError("training needs torch, which is not installed: pip install 'rltune[train]'") from None
        from rltune.learn.objective import Objective
        from rltune.learn.train_settings import TrainSettings

        epochs = _within(self.minutes * EPOCHS_A_MINUTE, EPOCHS)
        settings = TrainSettings(
            base=self.base,
            objective=Objective.parse(self._objective, None),
            estimators=(self.estimator,),
            backfill=self.backfill,
            epochs=epochs,
            holdout=HELD,
            seed=self.seed,
        )
        trainer = Trainer(self.handed_over, self.cluster, settings, threads=self.threads)
        if self.checkpoint is not None and self.checkpoint.exists():
            with suppress(InputError):  # of another history or other settings: begin anew
                trainer.resume(self.checkpoint)
        for at in trainer.epochs():
            tell(f"training: epoch {at.epoch} of {epochs}")
            if self.checkpoint is not None:
                trainer.save(self.checkpoint)
        return trainer.best_model()


def learn_all(
    lessons: Sequence[HomeLesson], tell: Callable[[str], None]
) -> tuple[list[Candidate], dict[str, Model], tuple[str, ...]]:
    """Return candidates that were taught here, their models by name, and what is to be said of them."""
    made: list[Candidate] = []
    models: dict[str, Model] = {}
    notes: list[str] = []
    for lesson in lessons:
        name = WAYS[lesson.how]
        try:
            model = lesson.learn(tell)
        except InputError as error:
            notes.append(f"Nothing could be {name} on the first part: {error}.")
            continue
        policy = Learned(model, name)
        seen = leaks([policy], [Exam(lesson.jobs.window(lesson.end, len(lesson.jobs) - lesson.end))])
        assert not seen, seen  # what teaches ends where candidates begin to be compared
        models[name] = model
        estimators = dict.fromkeys((lesson.lead.estimator, lesson.estimator))
        made += [with_policy(lesson.lead, policy, b, e) for b in BACKFILLS for e in estimators]
    return made, models, tuple(notes)


def require_ways(learn: Sequence[str]) -> None:
    """Refuse a way to learn that there is not, or one named twice."""
    if len(set(learn)) < len(learn):
        raise InputError("name each way to learn once")
    for how in learn:
        if how not in WAYS:
            raise unknown("way to learn", how, tuple(WAYS))


def _within(count: float, bounds: tuple[int, int]) -> int:
    return int(np.clip(count, *bounds))

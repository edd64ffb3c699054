"""One pipeline on one window: the unit of work of every comparison, in this process or in several."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from rltune.cluster import Cluster
from rltune.engine.pipeline import Pipeline
from rltune.engine.run import run_pipeline
from rltune.estimate import Estimator
from rltune.jobs import Jobs
from rltune.schedule import Schedule
from rltune.trials.past_windows import PastWindow
from rltune.trials.portfolio_choice import PortfolioChoice
from rltune.trials.resumption import Resumption, resume
from rltune.trials.warm_start import Knowledge, MadeEstimates
from rltune.trials.windows import Window


@dataclass(frozen=True)
class Trial:
    """The jobs, the machine, and what is known of run times: the same for everybody who is compared.

    With `warm` estimators and policies that learn begin each window with all that had ended before it. Estimates of a
    window are made once, whoever asks.
    """

    jobs: Jobs  # the whole trace, in order of submit
    cluster: Cluster
    estimator: Any
    warm: bool = True
    seed: int = 0
    _knowledge: list[Knowledge] = field(default_factory=list, repr=False, compare=False)  # of this process
    _choices: list[PortfolioChoice] = field(default_factory=list, repr=False, compare=False)
    _made: dict[tuple[int, int], Estimator] = field(default_factory=dict, repr=False, compare=False)  # the last
    _past: dict[PastWindow, MadeEstimates] = field(default_factory=dict, repr=False, compare=False)  # the last
    _resumed: dict[float, tuple[Resumption, Estimator]] = field(default_factory=dict, repr=False, compare=False)

    def window(self, first: int, count: int) -> Jobs:
        """Return the jobs of a window."""
        return self.jobs if count == len(self.jobs) else self.jobs.window(first, count)

    def run(self, pipeline: Pipeline, first: int, count: int) -> Schedule:
        """Run one window under one pipeline, from an idle cluster."""
        jobs = self.window(first, count)
        planned = self._taught(self.settled(pipeline, first, count), first, count) if self.warm else pipeline
        return run_pipeline(jobs, self.cluster, planned, self._estimates(first, jobs), timer=perf_counter)

    def settled(self, pipeline: Pipeline, row: int, size: int) -> Pipeline:
        """Return the pipeline with the policy that a portfolio takes, from what was known when a row was submitted."""
        if not self._choices:
            self._choices.append(PortfolioChoice(self.jobs, self.cluster, self._run_past))
        return self._choices[0].settle(pipeline, row, size)

    def _run_past(self, pipeline: Pipeline, window: PastWindow) -> Schedule:
        """Run a window as it was known later; predictions are made once, since looks would take too long."""
        jobs = window.known(self.jobs)
        if window not in self._past:
            made = self._known.made(self.estimator, window.first, jobs)
            self._past.clear()
            self._past[window] = replace(made, estimates=replace(made.estimates, looks=None))
        planned = self._taught(pipeline, window.first, window.count)
        return run_pipeline(jobs, self.cluster, planned, self._past[window])

    def _taught(self, pipeline: Pipeline, first: int, count: int) -> Pipeline:
        return replace(pipeline, policy=self._known.policy(pipeline.policy, first, count))

    def run_window(self, pipeline: Pipeline, window: Window) -> Schedule:
        """Run a window from an idle cluster, or from the state that was recorded where it begins."""
        if window.interval_s is not None:
            row = int(np.searchsorted(self.jobs.submit_s, window.interval_s[0], side="left"))
            pipeline = self.settled(pipeline, row, window.count)
        if not window.resumes or window.interval_s is None:
            return self.run(pipeline, window.first, window.count)
        now_s = window.interval_s[0]
        if now_s not in self._resumed:
            resumption = resume(self.jobs, now_s, self.cluster)
            self._resumed[now_s] = resumption, self._known.resumed(self.estimator, resumption)
        resumption, estimates = self._resumed[now_s]
        planned = replace(pipeline, policy=self._known.resumed_policy(pipeline.policy, resumption))
        cluster = resumption.run_on(self.cluster)
        made = run_pipeline(resumption.jobs, cluster, planned, estimates, timer=perf_counter)
        return resumption.told(made, self.cluster)

    def _estimates(self, first: int, jobs: Jobs) -> Estimator:
        """Return the estimates of a window, made once: growing trees takes seconds, and all pipelines ask."""
        key = (first, len(jobs))
        if key not in self._made:
            self._made.clear()
            self._made[key] = self._known.made(self.estimator, first, jobs, warm=self.warm)
        return self._made[key]

    @property
    def _known(self) -> Knowledge:
        if not self._knowledge:
            self._knowledge.append(Knowledge(self.jobs, self.seed))
        return self._knowledge[0]

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what each process learns by itself."""
        return {**self.__dict__, **fresh_caches()}


def fresh_caches() -> dict[str, Any]:
    """Return what a trial has learnt before it has run anything."""
    return {"_knowledge": [], "_choices": [], "_made": {}, "_past": {}, "_resumed": {}}


def in_order(jobs: Jobs, estimator: Any) -> tuple[Jobs, Any]:
    """Put jobs, and estimates that were given job by job, into the order of submit."""
    order = np.argsort(jobs.submit_s, kind="stable")
    return jobs.take(order), estimator[order] if isinstance(estimator, np.ndarray) else estimator

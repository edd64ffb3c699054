"""A step: pipelines on the end of a trace in steady state; only jobs submitted in the held-out part are measured."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rltune.metrics import summarise
from rltune.reproduce.held_out import Entry
from rltune.reproduce.lesson import Lesson
from rltune.reproduce.step import Result, Step, Workbench
from rltune.reproduce.workloads import HOLDOUT
from rltune.trials.intervals import over_jobs, ratio
from rltune.trials.measures import METRICS
from rltune.trials.parts import split
from rltune.trials.trial import Trial

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rltune.jobs import Floats
    from rltune.schedule import Schedule

PER_JOB = ("wait", "slowdown", "jct")
USE = "utilisation"


@dataclass(frozen=True)
class SteadyRun(Step):
    """The part before the held-out one fills the cluster and its queues, unless some jobs in a row are asked for."""

    kind: ClassVar[str] = "steady"

    workload: str
    entries: tuple[Entry, ...]
    estimator: str = "history"
    head: str = "pool"
    jobs: int = 0  # so many jobs of the held-out part in a row, from an idle cluster; 0 = steady state, all of them

    @property
    def told(self) -> str:
        """Return what is run."""
        return (
            f"{len(self.entries)} pipelines on the end of {self.workload} in steady state, {self.estimator} estimates"
        )

    @property
    def needs(self) -> tuple[Step, ...]:
        """Return the trainings."""
        return tuple(dict.fromkeys(e.policy for e in self.entries if isinstance(e.policy, Lesson)))

    @property
    def cost_s(self) -> float:
        """Return roughly how long it takes on one quiet core."""
        return sum(10.0 if isinstance(e.policy, Lesson) else 3.0 for e in self.entries)

    def values(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        entries = [entry.label for entry in self.entries]
        return {**{name: value for name, value in vars(self).items() if name != "entries"}, "entries": entries}

    def make(self, bench: Workbench) -> Result:
        """Run every pipeline once over both parts, and measure the jobs of the second."""
        work = bench.workload(self.workload)
        parts = split(len(work.jobs), HOLDOUT)
        first = parts.test.first if self.jobs else parts.validation.first
        count = min(self.jobs or len(work.jobs), parts.test.end - first)
        submit = work.jobs.submit_s
        span = (float(submit[parts.test.first]), float(np.nextafter(submit[-1], np.inf)))
        trial = Trial(work.jobs, work.cluster, self.estimator)
        jobs: dict[str, dict[str, Floats]] = {}
        use: dict[str, list[float]] = defaultdict(list)
        seeds: dict[str, int] = defaultdict(int)
        for entry in self.entries:
            schedule = trial.run(entry.pipeline(bench, self.head, 0), first, count)
            _add(jobs.setdefault(entry.group, {}), _measured(schedule, span))
            use[entry.group].append(summarise(schedule, span).utilisation.share)
            seeds[entry.group] += 1
        values = {group: {name: column / seeds[group] for name, column in of.items()} for group, of in jobs.items()}
        counts = _counted(submit[first : first + count], span)
        when = submit[first : first + count][counts]
        return _result(values, when, {group: float(np.mean(shares)) for group, shares in use.items()}, self._rules())

    def _rules(self) -> list[str]:
        return [entry.group for entry in self.entries if isinstance(entry.policy, str)]


def _measured(schedule: Schedule, span: tuple[float, float]) -> dict[str, Floats]:
    """Return each job's values; NaN for one that never ran."""
    counts = _counted(schedule.jobs.submit_s, span)
    return {name: METRICS[name].job_values(schedule)[counts] for name in PER_JOB}


def _counted(submit_s: Floats, span: tuple[float, float]) -> NDArray[np.bool_]:
    """Return which jobs are measured."""
    inside: NDArray[np.bool_] = (submit_s >= span[0]) & (submit_s < span[1])
    return inside


def _add(into: dict[str, Floats], more: dict[str, Floats]) -> None:
    for name, column in more.items():
        into[name] = into[name] + column if name in into else column


def _result(values: dict[str, dict[str, Floats]], submit_s: Floats, use: dict[str, float], rules: list[str]) -> Result:
    means = {group: {name: float(np.nanmean(of[name])) for name in PER_JOB} for group, of in values.items()}
    best = {name: min(rules, key=lambda group: means[group][name]) for name in PER_JOB}
    ratios = {
        group: {name: {rule: _ratio(of[name], values[rule][name], submit_s) for rule in rules} for name in PER_JOB}
        for group, of in values.items()
        if group not in rules
    }
    between = {
        name: {rule: _ratio(values[best[name]][name], values[rule][name], submit_s) for rule in rules}
        for name in PER_JOB
    }
    return {
        "means": {group: {**means[group], USE: use[group]} for group in values},
        "best_rule": {**best, USE: max(rules, key=lambda group: use[group])},
        "ratios": ratios,
        "best_rule_ratios": between,
        "jobs": len(next(iter(values.values()))["wait"]),
    }


def _ratio(ours: Floats, theirs: Floats, submit_s: Floats) -> list[Any]:
    """Divide two means over the same jobs, with the interval of blocks of time."""
    both = np.isfinite(ours) & np.isfinite(theirs)
    found = over_jobs(ours[both], theirs[both], submit_s[both], ratio, confidence=0.95)
    return [found.estimate, found.low, found.high, found.low_unknown, found.high_unknown]  # as `Interval` takes them

"""Contenders on windows: each run is one simulation and its summary, in this process or in several."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.metrics import lower_bound, summarise
from rltune.parallel import spread_over

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from rltune.cluster import Cluster
    from rltune.jobs import Jobs
    from rltune.metrics import Bound, Summary
    from rltune.schedule import Schedule
    from rltune.trials.windows import Window

    Engine = Callable[..., Schedule]  # called as `rltune.simulate` is


@dataclass(frozen=True)
class Contender:
    """One pipeline: who next, who may overtake, and where."""

    policy: Any  # a name, or an object as `rltune.simulate` takes it
    backfill: str = "none"
    placement: str = "best-fit"
    label: str = ""

    @property
    def policy_name(self) -> str:
        """Name the policy."""
        return self.policy if isinstance(self.policy, str) else str(getattr(self.policy, "name", self.policy))


def learns(given: Any) -> bool:
    """Return whether an estimator or a policy can start from earlier jobs, and was given none of its own."""
    return callable(getattr(given, "after", None)) and getattr(given, "before", None) is None


@dataclass(frozen=True)
class Run:
    """What one contender made of one window."""

    contender: int
    window: int
    schedule: Schedule
    summary: Summary


@dataclass(frozen=True)
class Bench:
    """All that a run needs but the contender and the window; sent once to every process."""

    jobs: Jobs
    cluster: Cluster
    windows: tuple[Window, ...]
    contenders: tuple[Contender, ...]
    settings: dict[str, Any]
    engine: Engine | None = None
    warm: bool = False  # who can learn from the jobs before a window does
    bounds: dict[tuple[int, bytes], Bound] = field(default_factory=dict)  # by window and the jobs that ran

    def run(self, task: tuple[int, int]) -> Run:
        """Simulate one window under one contender."""
        window, contender = task
        who = self.contenders[contender]
        schedule = self.simulate(
            self.windows[window], policy=who.policy, backfill=who.backfill, placement=who.placement, **self.settings
        )
        interval = self.windows[window].interval_s
        bound = self._bound(window, schedule)
        return Run(contender, window, schedule, summarise(schedule, interval, bound))

    def simulate(self, window: Window, **settings: Any) -> Schedule:
        """Run one window."""
        engine = self.engine or _engine()
        rows = slice(window.first, window.first + window.count)
        if isinstance(settings.get("estimator"), np.ndarray):
            settings["estimator"] = settings["estimator"][rows]
        if self.warm:
            before = self.jobs.window(0, window.first)
            settings |= {key: settings[key].after(before) for key in ("policy", "estimator") if learns(settings[key])}
        whole = window.count == len(self.jobs)
        return engine(self.jobs if whole else self.jobs.window(window.first, window.count), self.cluster, **settings)

    def _bound(self, window: int, schedule: Schedule) -> Bound:
        measured = schedule.ran
        if (interval := self.windows[window].interval_s) is not None:
            submit = schedule.jobs.submit_s
            measured = measured & (submit >= interval[0]) & (submit < interval[1])
        key = (window, np.packbits(measured).tobytes())
        if key not in self.bounds:
            self.bounds[key] = lower_bound(schedule.jobs, schedule.cluster, measured)
        return self.bounds[key]


def perform(bench: Bench, tasks: Sequence[tuple[int, int]], workers: int) -> Generator[Run]:
    """Return the runs, in the order of the tasks from one process, as they are finished from several."""
    with spread_over(min(workers, len(tasks))) as spread, closing(spread.each(bench.run, tasks)) as made:
        for _, run in made:
            yield run


def _engine() -> Engine:
    from rltune import simulate

    return simulate

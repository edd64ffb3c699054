"""Why the jobs of a run waited: at moments spread over all that was waited, the dominant reason of everybody then."""

from __future__ import annotations

from collections import Counter

import numpy as np

from rltune.engine.pipeline import Pipeline
from rltune.engine.run import Machine
from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.explain.explainer import Explainer
from rltune.jobs import Floats
from rltune.opt_in import opted_in
from rltune.present.of_run import present_of_run
from rltune.present.present import Why
from rltune.schedule import Schedule

LOOKS = 400  # in all runs of a comparison
FEWEST_LOOKS = 10  # in each
MOST_ASKED = 300  # of those that wait at a look, spread evenly over the queue


def looks_a_run(runs: int) -> int:
    """Return at how many moments each of so many runs is asked."""
    return max(FEWEST_LOOKS, LOOKS // max(runs, 1))


def reasons_while_waiting(schedule: Schedule, pipeline: Pipeline, looks: int) -> list[str | None]:
    """Return for each job the reason that it waited for most often; None if it waited at no look.

    The run is made again up to each look, and asked as `rltune explain` asks. A run that does not come out the same
    (one that began warm) or that cannot be taken at a moment tells nothing, and every reason is None.
    """
    seen: list[Counter[Why]] = [Counter() for _ in range(len(schedule.jobs))]
    try:
        _look(schedule, pipeline, _moments(schedule, looks), seen)
    except InputError:
        return [None] * len(seen)
    never = [Why.NEVER if rejected else None for rejected in schedule.rejected.tolist()]
    return [found.most_common(1)[0][0] if found else told for found, told in zip(seen, never, strict=True)]


def _moments(schedule: Schedule, looks: int) -> Floats:
    """Return moments between which as much is waited, by all together."""
    waited = schedule.ran & (schedule.wait_s > 0)
    if not waited.any():
        return np.zeros(0)
    time = np.concatenate([schedule.jobs.submit_s[waited], schedule.start_s[waited]])
    change = np.repeat([1.0, -1.0], int(waited.sum()))
    order = np.argsort(time, kind="stable")
    queue, held = np.cumsum(change[order])[:-1], np.diff(time[order])
    mass = np.concatenate([[0.0], np.cumsum(queue * held)])
    return np.unique(np.interp((np.arange(looks) + 0.5) / looks * mass[-1], mass, time[order]))


def _look(schedule: Schedule, pipeline: Pipeline, moments: Floats, seen: list[Counter[Why]]) -> None:
    jobs = opted_in(schedule.jobs, schedule.cluster)
    order = np.argsort(jobs.submit_s, kind="stable")
    row_of = {str(name): int(row) for row, name in enumerate(jobs.id)}
    machine = Machine.of(jobs.take(order), schedule.cluster, pipeline, get_estimator(schedule.settings.estimator))
    for now_s in moments.tolist():
        machine.run_to(now_s)
        present = present_of_run(machine, now_s)
        _require_same(schedule, present.waiting_names, row_of, now_s)
        explainer = Explainer(present)
        names = present.waiting_names
        asked = np.unique(np.linspace(0, len(names) - 1, min(len(names), MOST_ASKED)).astype(int))
        for name in (names[i] for i in asked.tolist()):
            reason = explainer.reason(name)
            if reason.why is not Why.STARTS:
                seen[row_of[name]][reason.why] += 1


def _require_same(schedule: Schedule, waiting: tuple[str, ...], row_of: dict[str, int], now_s: float) -> None:
    """Refuse a run that is not the one that was measured."""
    start = schedule.start_s
    if any(start[row_of[name]] < now_s for name in waiting):
        raise InputError("made again, the run is another one")

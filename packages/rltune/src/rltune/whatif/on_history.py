"""A change tried on a history: the same jobs under both, from the same idle beginning, the first part not counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rltune.engine.run import Progress, run_pipeline
from rltune.errors import InputError
from rltune.estimate.estimators import Estimator
from rltune.jobs import Floats
from rltune.metrics.recorded import NOTHING_RECORDED, recorded_wait, spread
from rltune.metrics.utilisation import share_in_use
from rltune.opt_in import for_replay
from rltune.schedule import Schedule
from rltune.text import percent
from rltune.trials.intervals import difference, over_jobs, ratio
from rltune.trials.shares import shares_between, small_groups
from rltune.whatif.edits import Edit, Site, notes_on_removals, notes_on_types
from rltune.whatif.outcome_of_change import WhatIf

WARM_UP = 0.2  # of the time, in which the cluster fills; its jobs are not counted
CONFIDENCE = 0.95


def what_if(
    site: Site,
    edits: Sequence[Edit],
    estimator: Estimator,
    *,
    warm_up: float = WARM_UP,
    progress: Progress | None = None,
) -> WhatIf:
    """Run a history as it is and with the changes, and pair the waits job by job."""
    if not edits:
        raise InputError("what if what? give a change")
    site = from_when_ready(site)
    now = run_site(site, estimator, progress)
    then = run_site(changed_site(site, edits), estimator, progress)
    made = compared(now, then, ", ".join(edit.text for edit in edits), warm_up)
    return replace(made, notes=(*made.notes, *notes_on_types(site, edits), *notes_on_removals(site, edits)))


def from_when_ready(site: Site) -> Site:
    """Return the site with its history as every replay takes it; changes come after, of the load among them."""
    return replace(site, jobs=for_replay(site.jobs, site.cluster))


def changed_site(site: Site, edits: Sequence[Edit]) -> Site:
    """Make the changes one after the other."""
    for edit in edits:
        site = edit(site)
    return site


def run_site(site: Site, estimator: Estimator, progress: Progress | None = None) -> Schedule:
    """Replay a site's history."""
    return run_pipeline(site.jobs, site.cluster, site.pipeline, estimator, progress)


def counted_jobs(schedule: Schedule, warm_up: float) -> NDArray[np.bool_]:
    """Return which jobs count: those submitted after the first part of the time."""
    submit = schedule.jobs.submit_s
    begin = float(submit.min() + warm_up * np.ptp(submit))
    counts: NDArray[np.bool_] = submit >= begin
    return counts


def compared(now: Schedule, then: Schedule, change: str, warm_up: float = WARM_UP) -> WhatIf:
    """Pair two runs of the same jobs."""
    kept = np.flatnonzero(now.ran & then.ran & counted_jobs(now, warm_up))
    if not len(kept):
        raise InputError(f"{change}: no job of this history runs both with it and without it")
    ours, theirs, submit = then.wait_s[kept], now.wait_s[kept], now.jobs.submit_s[kept]
    notes = [_part_counted(warm_up), *level_notes(now, warm_up)]
    if not np.array_equal(now.jobs.submit_s, then.jobs.submit_s):
        notes.append("times between submissions were changed, and with them nothing else")
    notes += [note for when, one in (("now", now), ("then", then)) if (note := _overload(when, one))]
    return WhatIf(
        change=change,
        where=f"{now.settings.label} now, {then.settings.label} then; run times known by {now.settings.estimator}",
        jobs=len(kept),
        now_s=told_waits(theirs),
        then_s=told_waits(ours),
        difference=over_jobs(ours, theirs, submit, difference, confidence=CONFIDENCE),
        ratio=over_jobs(ours, theirs, submit, ratio, confidence=CONFIDENCE),
        utilisation=(share_in_use(now), share_in_use(then)),
        shares=shares_between(now.jobs, now.wait_s, then.wait_s, kept),
        small=small_groups(now.jobs, kept),
        rejected=(int(now.rejected.sum()), int(then.rejected.sum())),
        notes=tuple(notes),
    )


def _part_counted(warm_up: float) -> str:
    """Return which jobs count, and why other commands tell another wait of the same pipeline."""
    ours = f"both runs begin with an idle cluster, and the first {warm_up:.0%} of the time is not counted"
    compare = "compare begins with the jobs that ran and waited then"
    return f"{ours} ({compare}, calibrate counts all jobs, so their waits differ)"


def level_notes(now: Schedule, warm_up: float = WARM_UP) -> list[str]:
    """Return what the history records of the jobs that count, and a warning where the replay is far from it."""
    counts = now.ran & counted_jobs(now, warm_up)
    beside = recorded_wait(now.jobs, now.wait_s, counts, calibrated=now.cluster.calibrated)
    recorded = f"recorded wait of these {beside.of_whom()}: {spread(beside.recorded_s)}"
    told = recorded if beside.recorded_s.n else NOTHING_RECORDED
    return [line.removesuffix(".") for line in (told, *beside.level_lines(now.settings.label))]


def _overload(when: str, schedule: Schedule) -> str:
    """Return a warning where more is asked than there is: the mean wait then grows with the history's length."""
    jobs = schedule.jobs.take(np.flatnonzero(schedule.ran))
    span = float(np.ptp(jobs.submit_s)) if len(jobs) else 0.0
    asked = float((jobs.gpus * jobs.duration_s).sum())
    offered = asked / (schedule.cluster.gpu_count * span) if span > 0 else 0.0
    if offered <= 1:
        return ""
    return f"{when} {percent(offered)} of the GPUs' time is asked for, so waits grow for as long as that goes on"


def told_waits(wait_s: Floats) -> dict[str, float]:
    """Return mean and percentiles of waits."""
    if not len(wait_s):
        return dict.fromkeys(("mean", "p50", "p90", "p99"), float("nan"))
    p50, p90, p99 = np.quantile(wait_s, (0.5, 0.9, 0.99)).tolist()
    return {"mean": float(wait_s.mean()), "p50": p50, "p90": p90, "p99": p99}

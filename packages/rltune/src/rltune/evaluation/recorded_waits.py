"""What the history records of the jobs that were compared, beside what the contenders made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rltune.evaluation.comparison import pooled
from rltune.metrics.recorded import (
    NOTHING_RECORDED,
    RecordedWait,
    far_apart,
    recorded_held_s,
    recorded_wait_s,
    spread,
    times_apart,
)
from rltune.text import seconds

if TYPE_CHECKING:
    from rltune.evaluation.comparison import Comparison
    from rltune.evaluation.results import Results
    from rltune.jobs import Jobs


def recorded_beside(comparison: Comparison, contender: int) -> RecordedWait:
    """Put the recorded waits of the jobs that count, over all windows, beside those under one contender."""
    runs = list(comparison.of(contender).values())
    return RecordedWait.of_waits(
        pooled(runs, lambda s: recorded_wait_s(s.jobs)),
        pooled(runs, lambda s: recorded_held_s(s.jobs)),
        pooled(runs, lambda s: s.wait_s),
        calibrated=all(run.schedule.cluster.calibrated for run in runs),
    )


def nearest_to_recorded(comparison: Comparison) -> tuple[str, RecordedWait] | None:
    """Return the contender whose mean wait is nearest to what is recorded, beside that; None if nothing is."""
    told = {i: recorded_beside(comparison, i) for i in range(len(comparison.contenders)) if comparison.of(i)}
    known = [i for i in told if told[i].recorded_s.n]
    if not known:
        return None
    nearest = min(known, key=lambda i: abs(told[i].simulated_s.mean - told[i].recorded_s.mean))
    return comparison.contenders[nearest].label, told[nearest]


def recorded_level(comparison: Comparison) -> list[str]:
    """Return, for the first sentences of a result, that its level of waiting is not the site's, where it is not."""
    found = nearest_to_recorded(comparison)
    if found is None or not found[1].far:
        return []
    simulated, recorded = (getattr(side, found[1].far) for side in (found[1].simulated_s, found[1].recorded_s))
    what = f"{found[1].far} wait {seconds(recorded)}, nearest here {seconds(simulated)}"
    return [f"But the level of waiting is not the site's (recorded {what}): do not read sizes of gains from this."]


def recorded_notes(comparison: Comparison) -> list[str]:
    """Return the recorded wait, the contender nearest to it, and a warning if even that one is far from it."""
    found = nearest_to_recorded(comparison)
    if found is None:
        return [NOTHING_RECORDED] if comparison.runs else []
    label, best = found
    recorded = f"Recorded wait of these {best.of_whom()}: {spread(best.recorded_s)}."
    return [f"{recorded} Nearest here is {label}: {spread(best.simulated_s)}.", *best.level_lines(label)]


def recorded_in_windows(jobs: Jobs, results: Results) -> list[str]:
    """Return the recorded wait in windows that begin with an idle cluster, and a warning if all pipelines are far off.

    `jobs` is the trace whose rows the windows count.
    """
    recorded = recorded_wait_s(jobs)
    windows = [recorded[start : start + results.size] for start in results.starts]
    told = [float(np.nanmean(one)) for one in windows if not np.isnan(one).all()]
    if not told:
        return [NOTHING_RECORDED]
    recorded_s, means = float(np.mean(told)), results.means("wait")
    nearest = int(np.nanargmin(np.abs(means - recorded_s)))
    label, simulated_s = results.pipelines[nearest].label, float(means[nearest])
    said = [f"Recorded mean wait in these windows: {seconds(recorded_s)}. Nearest is {label}: {seconds(simulated_s)}."]
    if far_apart(simulated_s, recorded_s):
        apart = f"{times_apart(simulated_s, recorded_s)} recorded"
        why = "every window begins with an idle cluster"
        only = (
            "Believe sizes of gains only as far as `rltune compare`, which begins with what ran and waited, shows them"
        )
        said.append(f"The level of waiting is not the site's ({apart}): {why}. {only}.")
    return said

"""Forecasts tried on a history's own past: how often the truth was inside, and what to correct for it.

Earlier moments are replayed, forecast with what was known then, and compared with the starts that the same pipeline
then gave. What a history tells ends somewhere: a start behind its end is not known, and nobody comes any more. So a job
counts if its p90 lies before the end, which asks nothing of the truth, and one that had not started by then was late.

Intervals are widened or narrowed by one factor, learnt on all moments. The coverage that is shown is that of each
moment corrected by what was known from the moments before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rltune.cluster import Cluster
from rltune.engine.pipeline import Pipeline
from rltune.engine.run import Machine, run_pipeline
from rltune.errors import InputError
from rltune.estimate.estimators import Estimator
from rltune.forecast.rolls import FLOOR_S, LEAST_SPREAD, FutureRoller, forecast_starts, log_quantiles, start_quantiles
from rltune.forecast.start_forecast import StartCalibration
from rltune.jobs import Floats, Jobs
from rltune.opt_in import for_replay
from rltune.present.of_run import present_of_run
from rltune.present.present import Present

ROLLS = 40
BEGIN = 0.3  # of the time, before which too little is known to forecast
BELIEF = 20  # moments' worth of trust in what was drawn, against what moments tell: one busy week is one event
INSIDE = 0.8
NARROWEST = 0.1  # an interval is never narrowed by more, however few truths say so
MOST_JOBS = 200  # of one moment that are compared, spread evenly over its queue

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class TriedMoment:
    """One moment: what was drawn for its waiting jobs, and when they then started."""

    now_s: float
    starts: Floats  # [roll, job]
    rolled: Floats  # by the deterministic roll
    truth: Floats  # not finite: not by the time up to which truths are known
    known_s: float = np.inf  # that time
    jobs: tuple[str, ...] = ()  # their names

    def errors(self, calibration: StartCalibration) -> MomentErrors:
        """Compare a forecast with what came, for the jobs that count."""
        low, middle, high = start_quantiles(self.starts, self.now_s, calibration)
        counts = high <= self.known_s
        truth = np.fmin(self.truth, self.known_s)
        late = ~(self.truth <= self.known_s)  # than p90, if the job counts
        inside = (low - 1.0 <= truth) & (truth <= high + 1.0) & ~late
        return MomentErrors(
            np.abs(middle - truth)[counts], np.abs(np.fmin(self.rolled, self.known_s) - truth)[counts], inside[counts]
        )

    def known_by(self, time_s: float) -> TriedMoment:
        """Return what was known of it at a time."""
        return replace(self, known_s=min(time_s, self.known_s))

    def scores(self) -> Floats:
        """Return how far the truths that count were from the median, in drawn spreads: 1 is the interval's end."""
        low, middle, high = log_quantiles(self.starts, self.now_s)
        truth = np.log(np.maximum(np.fmin(self.truth, self.known_s) - self.now_s, 0.0) + FLOOR_S)
        counts = start_quantiles(self.starts, self.now_s, StartCalibration())[2] <= self.known_s
        spread = np.where(truth > middle, high - middle, middle - low) + LEAST_SPREAD
        return np.asarray((np.abs(truth - middle) / spread)[counts])


@dataclass(frozen=True)
class MomentErrors:
    """Errors of p50 and of the deterministic roll at one moment, and whether the truth was inside."""

    median_s: Floats
    roll_s: Floats
    inside: NDArray[np.bool_]


def calibrate(
    jobs: Jobs,
    cluster: Cluster,
    pipeline: Pipeline,
    estimator: Estimator,
    until_s: float,
    moments: int,
    *,
    rolls: int = ROLLS,
    seed: int = 0,
    workers: int = 2,
    progress: Progress | None = None,
) -> StartCalibration:
    """Try forecasts at so many moments of a history before a time."""
    jobs = for_replay(jobs, cluster)
    begin = float(jobs.submit_s.min())
    times = begin + (until_s - begin) * np.linspace(BEGIN, 1.0, moments + 1)[:-1]
    known = jobs.take(np.flatnonzero(jobs.submit_s < until_s))
    how: dict[str, Any] = {"rolls": rolls, "seed": seed, "workers": workers, "progress": progress}
    trials = tried_moments(known, cluster, pipeline, estimator, times, until_s=until_s, **how)
    return replace(calibration_of(trials), tried=moments)


def tried_moments(
    jobs: Jobs,
    cluster: Cluster,
    pipeline: Pipeline,
    estimator: Estimator,
    times: Floats,
    *,
    until_s: float | None = None,
    rolls: int = ROLLS,
    seed: int = 0,
    workers: int = 2,
    progress: Progress | None = None,
) -> list[TriedMoment]:
    """Forecast at each time with what was known then, beside the starts that came up to a time, or to the last job."""
    ordered = for_replay(jobs, cluster).sorted()
    known_s = float(ordered.submit_s[-1]) if until_s is None else until_s
    truth = run_pipeline(ordered, cluster, pipeline, estimator).start_s
    start_of = {str(name): float(start) for name, start in zip(ordered.id, truth, strict=True)}
    machine = Machine.of(ordered, cluster, pipeline, estimator)
    trials = []
    for i, now_s in enumerate(sorted(times.tolist())):
        machine.run_to(now_s)
        trial = tried(present_of_run(machine, now_s), start_of, known_s, rolls, seed + i, workers)
        trials += [trial] if trial is not None else []
        if progress is not None:
            progress(i + 1, len(times))
    return trials


def tried(
    present: Present,
    start_of: Mapping[str, float],
    known_s: float,
    rolls: int = ROLLS,
    seed: int = 0,
    workers: int = 2,
) -> TriedMoment | None:
    """Forecast one moment beside the starts that came, as far as they are known; None if nobody waits there."""
    names = present.waiting_names
    if not names:
        return None
    chosen = [names[i] for i in np.unique(np.linspace(0, len(names) - 1, min(len(names), MOST_JOBS)).astype(int))]
    rows = [present.waiting_row(name) for name in chosen]
    roller = FutureRoller(present, seed).prepare()
    starts = forecast_starts(roller, rolls, workers)[:, rows]
    truth = np.array([start_of.get(name, np.inf) for name in chosen])
    truth = np.where(truth <= known_s, truth, np.inf)
    return TriedMoment(present.now_s, starts, roller.deterministic[rows], truth, known_s, tuple(chosen))


def calibration_of(trials: Sequence[TriedMoment]) -> StartCalibration:
    """Return the correction learnt on all moments, and how such corrections did on moments that came after."""
    if not trials:
        raise InputError("at none of the earlier moments did a job wait, so nothing can be calibrated")
    raw = joined(trial.errors(StartCalibration()) for trial in trials)
    held_out = joined(corrected_as_of(trials))
    return replace(
        correction(trials),
        moments=len(trials),
        jobs=len(raw.inside),
        covered=_mean(raw.inside),
        covered_corrected=_mean(held_out.inside),
        median_error_s=_median(held_out.median_s),
        roll_error_s=_median(held_out.roll_s),
    )


def corrected_as_of(trials: Sequence[TriedMoment]) -> list[MomentErrors]:
    """Return the errors at each moment but the first, corrected by what was known then of the moments before."""
    return [
        trial.errors(correction([before.known_by(trial.now_s) for before in trials[:i]]))
        for i, trial in enumerate(trials)
        if i
    ]


def joined(errors: Iterable[MomentErrors]) -> MomentErrors:
    """Return the errors of several moments as one."""
    several = list(errors)
    none = MomentErrors(np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.bool_))
    return MomentErrors(
        *(np.concatenate([getattr(one, part.name) for one in (none, *several)]) for part in fields(MomentErrors))
    )


def correction(trials: Sequence[TriedMoment]) -> StartCalibration:
    """Return by which factor intervals must be wider so that eight in ten truths are inside.

    Every moment counts alike, since the jobs of one wait for the same things; a few moments are believed in part only.
    """
    scores = [scores for trial in trials if len(scores := trial.scores())]
    if not scores:
        return StartCalibration()
    weight = np.concatenate([np.full(len(one), 1.0 / len(one)) for one in scores])
    needed = _weighted_quantile(np.concatenate(scores), weight, INSIDE)
    belief = len(scores) / (len(scores) + BELIEF)
    return StartCalibration(wider=float(max(needed, NARROWEST) ** belief))


def _weighted_quantile(values: Floats, weight: Floats, share: float) -> float:
    order = np.argsort(values)
    mass = np.cumsum(weight[order])
    return float(values[order][min(np.searchsorted(mass, share * mass[-1]), len(values) - 1)])


def _mean(values: NDArray[np.bool_]) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _median(values: Floats) -> float:
    return float(np.median(values)) if len(values) else float("nan")

"""Forecasts tried on a history's own past: how often the truth was inside, and what to correct for it.

Earlier moments are replayed, forecast with what was known then, and compared with the starts that the same pipeline
then gave. The correction is learnt on all moments; the coverage that is shown was made without looking: the later half
of the moments, corrected by what the earlier half taught.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rltune.cluster import Cluster
from rltune.engine.pipeline import Pipeline
from rltune.engine.run import Machine, run_pipeline
from rltune.errors import InputError
from rltune.estimate.estimators import Estimator
from rltune.forecast.rolls import FLOOR_S, LEAST_SPREAD, FutureRoller, drawn_starts, log_quantiles, start_quantiles
from rltune.forecast.start_forecast import StartCalibration
from rltune.jobs import Floats, Jobs
from rltune.opt_in import opted_in
from rltune.present.of_run import present_of_run
from rltune.present.present import Present

ROLLS = 40
BEGIN = 0.3  # of the time, before which too little is known to forecast
BELIEF = 8  # moments' worth of trust in what was drawn, against what moments tell
MOST_JOBS = 200  # of one moment that are compared, spread evenly over its queue

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class TriedMoment:
    """One moment: what was drawn for its waiting jobs, and when they then started."""

    now_s: float
    starts: Floats  # [roll, job]
    rolled: Floats  # by the deterministic roll
    truth: Floats

    def errors(self, calibration: StartCalibration) -> tuple[Floats, Floats, np.ndarray]:
        """Return the errors of p50 and of the deterministic roll, and whether the truth was inside."""
        low, middle, high = start_quantiles(self.starts, self.now_s, calibration)
        inside = (low - 1.0 <= self.truth) & (self.truth <= high + 1.0)
        return np.abs(middle - self.truth), np.abs(self.rolled - self.truth), inside


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
    begin = float(jobs.submit_s.min())
    times = begin + (until_s - begin) * np.linspace(BEGIN, 1.0, moments + 1)[:-1]
    known = jobs.take(np.flatnonzero(jobs.submit_s < until_s))
    how: dict[str, Any] = {"rolls": rolls, "seed": seed, "workers": workers, "progress": progress}
    return calibration_of(tried_moments(known, cluster, pipeline, estimator, times, **how))


def tried_moments(
    jobs: Jobs,
    cluster: Cluster,
    pipeline: Pipeline,
    estimator: Estimator,
    times: Floats,
    *,
    rolls: int = ROLLS,
    seed: int = 0,
    workers: int = 2,
    progress: Progress | None = None,
) -> list[TriedMoment]:
    """Forecast at each time with what was known then, beside the starts that came."""
    ordered = opted_in(jobs, cluster).sorted()
    truth = run_pipeline(ordered, cluster, pipeline, estimator).start_s
    start_of = {str(name): float(start) for name, start in zip(ordered.id, truth, strict=True)}
    machine = Machine.of(ordered, cluster, pipeline, estimator)
    trials = []
    for i, now_s in enumerate(sorted(times.tolist())):
        machine.run_while(until_s=now_s)
        trial = _tried(present_of_run(machine, now_s), start_of, rolls, seed + i, workers)
        trials += [trial] if trial is not None else []
        if progress is not None:
            progress(i + 1, len(times))
    return trials


def _tried(present: Present, start_of: dict[str, float], rolls: int, seed: int, workers: int) -> TriedMoment | None:
    """Forecast one moment; None if nobody waits there whose start is known."""
    names = [name for name in present.waiting_names if np.isfinite(start_of[name])]
    if not names:
        return None
    chosen = [names[i] for i in np.unique(np.linspace(0, len(names) - 1, min(len(names), MOST_JOBS)).astype(int))]
    rows = [present.waiting_row(name) for name in chosen]
    roller = FutureRoller(present, seed).prepare()
    starts = drawn_starts(roller, rolls, workers)[:, rows]
    return TriedMoment(present.now_s, starts, roller.deterministic[rows], np.array([start_of[name] for name in chosen]))


def calibration_of(trials: list[TriedMoment]) -> StartCalibration:
    """Return the correction learnt on all moments, and how one learnt on the earlier half does on the later half."""
    if not trials:
        raise InputError("at none of the earlier moments did a job wait, so nothing can be calibrated")
    raw = [trial.errors(StartCalibration()) for trial in trials]
    half = len(trials) // 2
    learnt = correction(trials[:half]) if half else StartCalibration()
    held_out = [trial.errors(learnt) for trial in trials[half:]] if half else []
    return replace(
        correction(trials),
        moments=len(trials),
        jobs=sum(len(trial.truth) for trial in trials),
        covered=_mean(raw, 2),
        covered_corrected=_mean(held_out, 2),
        median_error_s=_median(held_out, 0),
        roll_error_s=_median(held_out, 1),
    )


def correction(trials: list[TriedMoment]) -> StartCalibration:
    """Return by how many spreads p10, p50 and p90 must move so that they are what they are called.

    Every moment counts alike, since the jobs of one wait for the same things; a few moments are believed in part only.
    """
    below, middle, above, weight = [], [], [], []
    for trial in trials:
        low, p50, high = log_quantiles(trial.starts, trial.now_s)
        truth = np.log(np.maximum(trial.truth - trial.now_s, 0.0) + FLOOR_S)
        known = np.isfinite(high)
        down, up = (p50 - low + LEAST_SPREAD)[known], (high - p50 + LEAST_SPREAD)[known]
        low, p50, high, truth = (values[known] for values in (low, p50, high, truth))
        below.append((low - truth) / down)
        above.append((truth - high) / up)
        middle.append((truth - p50) / np.where(truth > p50, up, down))
        weight.append(np.full(len(truth), 1.0 / max(len(truth), 1)))
    if not sum(map(len, below)):
        return StartCalibration()
    belief, share = len(trials) / (len(trials) + BELIEF), np.concatenate(weight)
    return StartCalibration(
        low=belief * _weighted_quantile(np.concatenate(below), share, 0.9),
        middle=belief * _weighted_quantile(np.concatenate(middle), share, 0.5),
        high=belief * _weighted_quantile(np.concatenate(above), share, 0.9),
    )


def _weighted_quantile(values: Floats, weight: Floats, share: float) -> float:
    order = np.argsort(values)
    mass = np.cumsum(weight[order])
    return float(values[order][min(np.searchsorted(mass, share * mass[-1]), len(values) - 1)])


def _mean(errors: list[tuple[Floats, Floats, np.ndarray]], which: int) -> float:
    return float(np.concatenate([one[which] for one in errors]).mean()) if errors else float("nan")


def _median(errors: list[tuple[Floats, Floats, np.ndarray]], which: int) -> float:
    return float(np.median(np.concatenate([one[which] for one in errors]))) if errors else float("nan")

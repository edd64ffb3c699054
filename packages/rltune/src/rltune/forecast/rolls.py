"""A present rolled forward many times, each under run times and arrivals of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rltune.errors import InputError
from rltune.forecast.arrivals import Arrivals
from rltune.forecast.run_time_draws import RunTimes
from rltune.forecast.start_forecast import QUANTILES, Forecast, JobForecast, StartCalibration
from rltune.jobs import Floats
from rltune.kernel.state.arrays import I8
from rltune.parallel import Spread, Threads
from rltune.present.fixed_order import FixedOrder
from rltune.present.moment import roll
from rltune.present.present import Present

ROLLS = 100
FLOOR_S = 60.0  # added to waits before their logarithm is taken: nobody minds a minute
LEAST_SPREAD = 0.1  # of the logarithm of a wait
GIVEN_ORDER = 1.2  # times as far apart: jobs to come may overtake, and fair shares change; see ADR 0028
LONGEST = 4.0  # times the deterministic roll, for which arrivals are drawn

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class FutureRoller:
    """A present, and all that is drawn for it; sent once to every worker."""

    present: Present
    seed: int = 0
    arrivals: bool = True
    horizon_s: float = 0.0  # for how long jobs come; 0 = as long as the present seems to need
    job: str = ""  # the one that is asked about; "" = everybody

    @cached_property
    def _run_times(self) -> RunTimes:
        return RunTimes.of(self.present)

    @cached_property
    def _coming(self) -> Arrivals | None:
        return Arrivals.of(self.present) if self.arrivals else None

    @cached_property
    def deterministic(self) -> Floats:
        """Return each row's start if estimates were the truth and nobody came."""
        return roll(self.present)

    @property
    def asked(self) -> range:
        """Return the rows whose starts are asked for: a roll is over when they have started."""
        if not self.job:
            return range(len(self.present.jobs))
        row = self.present.waiting_row(self.job)
        return range(row, row + 1)

    def prepare(self) -> FutureRoller:
        """Work out what all rolls share, before they are spread."""
        ready = self if self.horizon_s else replace(self, horizon_s=self._needed_s())
        _ = ready._run_times, ready._coming, ready.deterministic  # noqa: SLF001  its own
        return ready

    def _needed_s(self) -> float:
        """Return for how long jobs should come: long enough for all that wait to start, not for ever.

        Also where one is asked about, so that it is told what it is told among all.
        """
        waits = self.deterministic - self.present.now_s
        known = waits[np.isfinite(waits)]
        return max(3600.0, LONGEST * float(known.max(initial=0.0)))

    def one(self, number: int) -> Floats:
        """Return each row's start in one roll; the same number gives the same roll."""
        rng = np.random.default_rng((self.seed, number))
        duration = self._run_times.draw(rng)
        later = self._coming.draw(rng, self.horizon_s, duration) if self._coming is not None else None
        return roll(self.present, duration, later, self.asked)


def forecast(
    present: Present,
    rolls: int = ROLLS,
    seed: int = 0,
    calibration: StartCalibration | None = None,
    *,
    arrivals: bool = True,
    job: str = "",
    workers: int = 2,
    spread: Spread | None = None,
    progress: Progress | None = None,
) -> Forecast:
    """Return when each waiting job will start, or one of them; with a calibration, corrected by it."""
    if rolls < 2:
        raise InputError(f"a forecast needs two rolls or more, not {rolls}")
    roller = FutureRoller(present, seed, arrivals, job=job).prepare()
    starts = forecast_starts(roller, rolls, workers, spread, progress)
    return summed_up(roller, starts, calibration or StartCalibration())


def drawn_starts(
    roller: FutureRoller, rolls: int, workers: int = 2, spread: Spread | None = None, progress: Progress | None = None
) -> Floats:
    """Return the starts of each roll, [roll, row]; compiled code lets go of the interpreter, so threads do."""
    told = None if progress is None else lambda done: progress(done, rolls)
    if spread is not None:
        return np.array(spread.map(roller.one, range(rolls), told))
    with Threads(workers) as threads:
        return np.array(threads.map(roller.one, range(rolls), told))


def forecast_starts(
    roller: FutureRoller, rolls: int, workers: int = 2, spread: Spread | None = None, progress: Progress | None = None
) -> Floats:
    """Return the starts of each roll; further apart where the order is one that was read off and will not stay."""
    return as_the_order_stays(roller, drawn_starts(roller, rolls, workers, spread, progress))


def as_the_order_stays(roller: FutureRoller, starts: Floats) -> Floats:
    """Return drawn starts, further apart where the order is one that was read off and will not stay."""
    if not isinstance(roller.present.pipeline.policy, FixedOrder):
        return starts
    return _further_apart(starts, roller.present.now_s, GIVEN_ORDER)


def _further_apart(starts: Floats, now_s: float, times: float) -> Floats:
    """Return starts whose waits lie so many times as far from their median, in the logarithm."""
    with np.errstate(invalid="ignore"):
        waits = np.log(np.maximum(starts - now_s, 0.0) + FLOOR_S)
        middle = drawn_quantiles(waits, (0.5,))[0]
        moved = now_s + np.maximum(np.exp(middle + times * (waits - middle)) - FLOOR_S, 0.0)
    return np.where(np.isfinite(starts) & np.isfinite(middle), moved, starts)


def summed_up(
    roller: FutureRoller,
    starts: Floats,
    calibration: StartCalibration,
    now_s: float | None = None,
    waiting: Collection[str] | None = None,
) -> Forecast:
    """Sum rolls up by job: the first row of a job that has several counts.

    `now_s` and `waiting`: at a later time, of those who still wait then. Futures in which a job has started by then did
    not come, so they are left out for it.
    """
    present, asked = roller.present, set(roller.asked)
    at_s = present.now_s if now_s is None else now_s
    quantiles, came = start_quantiles(starts, at_s, calibration), starts >= at_s
    left = came.sum(axis=0)
    started = (came & np.isfinite(starts)).sum(axis=0) / np.maximum(left, 1)
    rows = [
        (name, row)
        for name, row in present.waiting_rows.items()
        if row in asked and (waiting is None or name in waiting)
    ]
    jobs = tuple(
        JobForecast(
            job=name,
            p10_s=float(quantiles[0, row]),
            p50_s=float(quantiles[1, row]),
            p90_s=float(quantiles[2, row]),
            rolled_s=max(at_s, float(roller.deterministic[row])),
            started=float(started[row]),
            futures=int(left[row]),
        )
        for name, row in rows
        if left[row]
    )
    told = () if roller.arrivals and present.history is not None else ("nobody is taken to come after now",)
    return Forecast(
        now_s=at_s,
        jobs=jobs,
        rolls=len(starts),
        order=present.pipeline.label,
        calibration=calibration,
        notes=(*present.notes, *told),
        drawn_s=present.now_s,
        outlasted=tuple(name for name, row in rows if not left[row]),
        history_s=_history_s(present, at_s),
    )


def _history_s(present: Present, now_s: float) -> float:
    """Return for how long the history has gone on; NaN if there is none."""
    known = present.history
    return now_s - float(known.submit_s.min()) if known is not None and len(known) else float("nan")


def start_quantiles(starts: Floats, now_s: float, calibration: StartCalibration) -> Floats:
    """Return p10, p50 and p90 by row, [3, row], as the calibration corrects them."""
    low, middle, high = log_quantiles(starts, now_s)
    more = calibration.wider - 1.0  # drawn spreads, beyond the interval as it was drawn
    with np.errstate(invalid="ignore"):
        below, above = middle - low + LEAST_SPREAD, high - middle + LEAST_SPREAD
        made = np.array([low - more * below, middle, high + more * above])
    made[0], made[2] = np.fmin(made[0], made[1]), np.fmax(made[2], made[1])
    waits = np.maximum(np.exp(made) - FLOOR_S, 0.0)
    return now_s + np.where(np.isnan(waits), np.inf, waits)


def log_quantiles(starts: Floats, now_s: float) -> Floats:
    """Return quantiles of the logarithm of the wait from now, [3, row]; infinite where too few rolls start a job."""
    with np.errstate(invalid="ignore"):
        waits = np.log(np.maximum(starts - now_s, 0.0) + FLOOR_S)
    return drawn_quantiles(waits, QUANTILES, (starts < now_s).sum(axis=0))


def drawn_quantiles(drawn: Floats, shares: Sequence[float], smallest: I8 | int = 0) -> Floats:
    """Return the values that so large a share of further draws would not exceed, [share, column].

    Of n draws the k-th smallest is not exceeded by k / (n + 1) of further ones, whatever they are drawn from; between
    two of them on a straight line. Quantiles of the sample itself would hold 77 % of further draws in place of 80, for
    30 futures. So many of the smallest of each column are left out.
    """
    ordered = np.sort(drawn, axis=0)
    left = np.broadcast_to(len(ordered) - np.asarray(smallest), ordered.shape[1:])
    made = []
    for share in shares:
        at = len(ordered) - left + np.clip(share * (left + 1) - 1, 0.0, np.maximum(left - 1, 0))
        first = np.minimum(at.astype(np.intp), len(ordered) - 1)
        below = np.take_along_axis(ordered, first[None], axis=0)[0]
        above = np.take_along_axis(ordered, np.minimum(first + 1, len(ordered) - 1)[None], axis=0)[0]
        part = at - first
        with np.errstate(invalid="ignore"):
            between = below + part * (above - below)
        made.append(np.where(np.isinf(above), np.where(part > 0, above, below), between))
    return np.array(made)

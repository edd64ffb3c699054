"""Run times predicted from all that a history tells: the estimator `predicted`.

A regression of the logarithm is learnt from jobs that had ended, refitted as time goes on. What it is told of a job is
what was known when the job was submitted: the job's own columns, and what has happened to jobs of its kinds so far. In
a run the engine *looks* again every few submissions: what has ended by then is told, jobs that wait are predicted anew,
and jobs that run are believed to last as long as those did that ran for so long.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from rltune.estimate.estimators import Believed, Estimates, History, RunSeen, join_jobs
from rltune.estimate.kind_memory import (
    ASK,
    END,
    ENDED_N,
    MEAN_S,
    RUN_FOR,
    RUNNING_N,
    SINCE_SUBMIT,
    START,
    SUBMIT,
    TOLD,
    WAITING_N,
    Happenings,
    KindMemory,
)
from rltune.estimate.kinds import Codes, Kinds, kinds_of
from rltune.estimate.regressors import Regressor, fit_regressor, has_lightgbm
from rltune.estimate.run_time_spread import RunTimeSpread, seen_weights, wide_spread
from rltune.jobs import Floats, Jobs

PREDICTED = "predicted"
FEWEST = 200  # jobs that must have ended before anything is fitted
NEWEST = 40_000  # of the ended jobs, so many are learnt from
THIN = 20  # jobs of a size that must have ended for a prediction to count as much as what is usual
HELD_BACK = 0.2  # of those, the newest share shows how far predictions are off
SETTLED = 0.95  # of the jobs run no longer than those that are learnt from could have
REFIT = 4_096  # submissions after which it is fitted anew
LOOK_EVERY = 32  # submissions between two looks
UNTOLD_S = 3_600.0  # run time of a job of which nothing is known, not even a limit
# The kinds that `history` goes by, coarse to fine.
USUAL = ("all jobs", "size", "size and partition", "size, partition and limit", "user, size and limit", "user and name")


@dataclass(frozen=True)
class Fit:
    """Two regressions, and how far one was off on jobs that it had not seen."""

    regressor: Regressor | None  # of the logarithm, for intervals and remainders; None: too little has ended yet
    spread: RunTimeSpread
    order: Regressor | None = None  # of the square root, for what is believed: long jobs count for more in it
    scale: float = 0.0  # logarithm of the factor that gives what is believed the right mean

    def log_s(self, table: Floats, usual: Floats) -> Floats:
        """Predict logarithms of run times; what is usual where nothing is fitted."""
        return usual if self.regressor is None else self.regressor.predict(table)

    def believed_log_s(self, table: Floats, usual: Floats, ended_of_size: Floats) -> Floats:
        """Return logarithms of what is believed of run times; what is usual where nothing is fitted.

        The fewer jobs of a size have ended, the more is what is usual believed: a rare size is mostly a large one,
        and taken for short it stands before everybody.
        """
        if self.order is None:
            return usual
        predicted = 2.0 * np.log(np.maximum(self.order.predict(table), 1.0)) + self.scale
        found: Floats = usual + ended_of_size / (ended_of_size + THIN) * (predicted - usual)
        return found


@dataclass(frozen=True)
class Predicted:
    """Predict run times from users, names, sizes and what has ended, refitted as time goes on."""

    before: Jobs | None = field(default=None, repr=False, compare=False)  # earlier history; what ended is known at once
    order_by: float | None = None  # the quantile that is believed; None = the square of the mean square root
    plain: bool = False  # without LightGBM, even if it is there
    name: str = PREDICTED

    def after(self, before: Jobs) -> Predicted:
        """Start warm: from the jobs of an earlier part of the trace that had ended when the run begins."""
        return replace(self, before=before)

    def estimate(self, jobs: Jobs, seed: int) -> Estimates:
        """Predict every job as of the start, and leave the rest to looks in the run."""
        earlier = 0 if self.before is None else len(self.before)
        both = jobs if self.before is None else join_jobs(self.before, jobs)
        course = PredictionCourse(both, known=earlier, seed=seed, plain=self.plain)
        return course.estimates(earlier, np.arange(earlier, len(both)), self.order_by)


class PredictionCourse:
    """A history in order of submission, and what can be learnt from it up to each of its rows."""

    def __init__(self, jobs: Jobs, *, known: int, seed: int = 0, plain: bool = False) -> None:
        self._submit_s = jobs.submit_s
        self._limit_s = jobs.limit_s
        self.kinds = kinds_of(jobs)
        self.seed, self.plain = seed, plain or not has_lightgbm()
        start = np.where(np.isnan(jobs.recorded_start_s), jobs.submit_s, jobs.recorded_start_s)
        self.start_s = np.where(np.arange(len(jobs)) < known, start, np.nan)
        self.run_s = np.where(np.arange(len(jobs)) < known, jobs.duration_s, np.nan)  # beyond it nothing is known
        self._table: Floats | None = None
        self._fits: dict[int, Fit] = {}
        self._memories: dict[int, KindMemory] = {}  # of the last row that was asked for
        self._known = known

    def __len__(self) -> int:
        return len(self._submit_s)

    @property
    def submit_s(self) -> Floats:
        """Return when jobs were submitted."""
        return self._submit_s

    @property
    def end_s(self) -> Floats:
        """Return when jobs ended, as recorded; NaN = not known."""
        return self.start_s + self.run_s

    @property
    def log_run(self) -> Floats:
        """Return the logarithms of known run times."""
        return np.log(np.maximum(self.run_s, 1.0))

    def table(self) -> Floats:
        """Return the features of the known rows, each as of its submission."""
        if self._table is None:
            rows = np.arange(self._known)
            submit, start, end = self._submit_s[rows], self.start_s[rows], self.end_s[rows]
            happened = Happenings.of(
                (END, rows, end), (ASK, rows, submit), (SUBMIT, rows, submit), (START, rows, start)
            )
            told = np.empty((self._known, self.kinds.of.shape[1] * len(TOLD)))
            asked = happened.row[happened.event == ASK]
            told[asked] = KindMemory(self.kinds).note(happened, self.log_run, self.start_s)
            self._table = np.concatenate([self.kinds.own[rows], told], axis=1)
        return self._table

    def fit_before(self, row: int) -> Fit:
        """Return what was learnt at the last refit before a row: from jobs that had ended then, and no others."""
        at = row // REFIT * REFIT if row >= REFIT else row
        if at not in self._fits:
            time_s = float(self._submit_s[at]) if at < len(self) else np.inf
            rows = np.flatnonzero(self.end_s[:at] <= time_s)[-NEWEST:]
            age_s = self.age_s(int(rows[0]) if len(rows) else at, at, time_s)
            ended = EndedJobs(rows, self.table()[rows], self.run_s[rows], time_s - self.start_s[rows])
            self._fits[at] = fit_rows(self, ended, age_s)
        return self._fits[at]

    def age_s(self, first: int, end: int, time_s: float) -> Floats:
        """Return how long ago the jobs of some rows that had started by a time did so."""
        start_s = self.start_s[first:end]
        found: Floats = time_s - start_s[start_s <= time_s]
        return found

    def memory_before(self, row: int) -> KindMemory:
        """Return what is known of each kind when a row is submitted; nobody runs yet."""
        if row not in self._memories:
            self._memories = {row: self._new_memory(row)}
        return self._memories[row].copy()

    def _new_memory(self, row: int) -> KindMemory:
        memory = KindMemory(self.kinds)
        time_s = float(self._submit_s[row]) if row < len(self) else np.inf
        rows = np.arange(min(row, self._known))
        parts = ((END, self.end_s), (SUBMIT, self._submit_s), (START, self.start_s))
        happened = Happenings.of(*((event, rows, times[rows]) for event, times in parts)).until(time_s)
        memory.note(happened, self.log_run, self.start_s)
        memory.forget_running()
        return memory

    def usual_log_s(self, rows: Codes, table: Floats) -> Floats:
        """Return the logarithm of what `history` would say: means of kinds, coarse to fine, from a limit or an hour."""
        limit, trust = self._limit_s[rows], History().trust
        mean_s = np.where(np.isnan(limit), UNTOLD_S, limit)
        for level, name in enumerate(self.kinds.levels):
            if name not in USUAL:
                continue
            told = table[:, self.kinds.own.shape[1] + level * len(TOLD) :]
            number, of_kind = np.expm1(np.nan_to_num(told[:, ENDED_N])), np.exp(np.nan_to_num(told[:, MEAN_S]))
            mean_s = (number * of_kind + trust * mean_s) / (number + trust)
        usual: Floats = np.log(np.maximum(mean_s, 1.0))
        return usual

    def ended_of_size(self, table: Floats) -> Floats:
        """Return how many jobs of the same size have ended."""
        at = self.kinds.own.shape[1] + self.kinds.levels.index("size") * len(TOLD)
        number: Floats = np.expm1(np.nan_to_num(table[:, at + ENDED_N]))
        return number

    def estimates(self, first: int, rows: Codes, order_by: float | None) -> Estimates:
        """Return the estimates of a run of some rows that begins when row `first` is submitted."""
        prophet = Prophet(self, first, rows, order_by)
        return Estimates(prophet.begin().at_once(), looks=prophet)


@dataclass(frozen=True)
class EndedJobs:
    """Jobs that have ended, in order of submission: what there is to learn from."""

    rows: Codes
    table: Floats  # their features, as of their submissions
    run_s: Floats
    age_s: Floats  # how long ago they started

    def settled(self, age_s: Floats) -> tuple[EndedJobs, Floats]:
        """Leave out those that started so lately that many of their like still run: they seem short.

        `age_s` is how long ago jobs started, those that still run too. Returned with it are the ages of those that
        started as early as who is kept: by these, and not by all, it can be told how many each stands for.
        """
        order = np.argsort(self.run_s)
        share = np.cumsum(seen_weights(self.run_s, age_s)[order])
        long_s = self.run_s[order][np.searchsorted(share, SETTLED * share[-1])]
        kept = np.flatnonzero(self.age_s >= long_s)
        if len(kept) < FEWEST:
            return self, age_s
        early = age_s[age_s >= long_s]
        return EndedJobs(self.rows[kept], self.table[kept], self.run_s[kept], self.age_s[kept]), early


def fit_rows(course: PredictionCourse, ended: EndedJobs, age_s: Floats) -> Fit:
    """Learn from jobs that have ended; the newest of them show how far it is off.

    `age_s`: how long ago jobs started, those that still run too. What is used in the end has seen all rows.
    """
    if len(ended.rows) < FEWEST:
        return Fit(None, wide_spread())
    ended, early_s = ended.settled(age_s)
    table, weight, run_s = ended.table, seen_weights(ended.run_s, early_s), np.maximum(ended.run_s, 1.0)
    idle, cut, log_run = _as_if_idle(course.kinds, table), int(len(table) * (1 - HELD_BACK)), np.log(run_s)

    def fit(target: Floats) -> Regressor:
        upto = len(target)
        return fit_regressor(idle[:upto], course.kinds.labels, target, weight[:upto], course.seed, plain=course.plain)

    off = RunTimeSpread.of(fit(log_run[:cut]).predict(table[cut:]), log_run[cut:], weight[cut:])
    order = fit(np.sqrt(run_s))
    squares = np.maximum(order.predict(idle), 1.0) ** 2
    times_too_low = np.average(run_s, weights=weight) / np.average(squares, weights=weight)
    return Fit(fit(log_run), off, order, float(np.log(times_too_low)))


def _as_if_idle(kinds: Kinds, table: Floats) -> Floats:
    """Hide from every second job who else of its kinds runs or waits: in a run from idle nobody does at first."""
    table = table.copy()
    for level in range(kinds.of.shape[1]):
        at = kinds.own.shape[1] + level * len(TOLD)
        table[1::2, at + RUNNING_N] = table[1::2, at + WAITING_N] = 0.0
        table[1::2, at + RUN_FOR] = np.nan
    return table


@dataclass(frozen=True)
class Prophet:
    """Makes those who look at a run of some rows of a course: a fresh one for every run."""

    course: PredictionCourse = field(repr=False)
    first: int
    rows: Codes = field(repr=False)  # per job of the run its row of the course; -1 = none
    order_by: float | None = None
    every: int = LOOK_EVERY

    def begin(self) -> Onlooker:
        """Return one who has seen nothing of the run yet."""
        return Onlooker(self)

    def in_order(self, order: NDArray[np.intp]) -> Prophet:
        """Return the same for jobs in another order; a number past the last is a stranger."""
        rows = np.append(self.rows, -1)
        return replace(self, rows=rows[np.minimum(order, len(self.rows))])


class Onlooker:
    """Looks at a run now and then, and says what is believed of its jobs."""

    def __init__(self, prophet: Prophet) -> None:
        self._course, self._rows, self._order_by = prophet.course, prophet.rows, prophet.order_by
        self._memory = self._course.memory_before(prophet.first)
        self._fit = self._course.fit_before(prophet.first)
        self._known_rows = np.flatnonzero(self._course.end_s[: prophet.first] <= self._time(prophet.first))
        self.every, self._first = prophet.every, prophet.first
        n, width = len(self._rows), self._course.kinds.own.shape[1] + self._course.kinds.of.shape[1] * len(TOLD)
        self._log_s, self._believed = np.zeros(n), np.zeros(n)  # what was last predicted, and what is believed
        self._table = np.full((n, width), np.nan)  # what each was told at submission
        self._log_run, self._start_s = np.full(len(self._course), np.nan), np.full(len(self._course), np.nan)
        self._ended: list[NDArray[np.int64]] = []
        self._since_fit = 0

    def at_once(self) -> Floats:
        """Return an estimate for every job as of the start, from what was known then."""
        jobs = np.flatnonzero(self._rows >= 0)
        rows = self._rows[jobs]
        time_s = np.full(len(rows), self._course.submit_s[rows].min(initial=np.inf))
        told = self._memory.note(Happenings.of((ASK, rows, time_s)), self._log_run, self._start_s)
        back = np.empty_like(told)
        back[np.argsort(rows, kind="stable")] = told
        table = np.concatenate([self._course.kinds.own[rows], back], axis=1)
        self._predict(jobs, table)
        values = np.zeros(len(self._rows))
        values[jobs] = self._values(jobs)
        return values

    def look(self, look: RunSeen) -> Believed:
        """Take in what has happened, and say what is believed of those who come, wait and run."""
        self._take_in(look)
        coming, waiting = (self._known(jobs) for jobs in (look.coming, look.waiting))
        table = self._ask(coming, waiting, look.now_s)
        self._predict(np.concatenate([waiting, coming]), table)
        self._table[coming] = table[len(waiting) :]
        running = self._known(look.running)
        attained = look.attained_s[np.isin(look.running, running)]
        beyond = self._fit.spread.mean_beyond_s(self._log_s[running], attained)
        return Believed(coming, self._values(coming), waiting, self._values(waiting), running, beyond)

    def _take_in(self, look: RunSeen) -> None:
        started, ended = self._known(look.started), self._known(look.ended)
        rows, gone = self._rows[started], self._rows[ended]
        self._start_s[rows] = look.started_s[np.isin(look.started, started)]
        here = np.isin(look.ended, ended)
        self._log_run[gone] = np.log(np.maximum(look.ended_run_s[here], 1.0))
        happened = Happenings.of((START, rows, self._start_s[rows]), (END, gone, look.ended_s[here]))
        self._memory.note(happened, self._log_run, self._start_s)
        self._ended.append(ended)
        self._since_fit += len(look.coming)
        if self._since_fit >= REFIT:
            self._refit(look.now_s)

    def _refit(self, now_s: float) -> None:
        """Learn anew from all that had ended before the run and has ended in it."""
        self._since_fit = 0
        ended = np.sort(np.concatenate(self._ended))
        ended = ended[~np.isnan(self._table[ended]).all(axis=1)][-NEWEST:]
        earlier = self._known_rows[max(len(self._known_rows) + len(ended) - NEWEST, 0) :]
        known = self._course.table()[earlier] if len(earlier) else self._table[:0]
        run_s = np.concatenate([self._course.run_s[earlier], np.exp(self._log_run[self._rows[ended]])])
        since = int(earlier[0]) if len(earlier) else self._first
        before_s = self._course.age_s(since, self._first, self._time(self._first))
        age_s = np.concatenate([before_s, now_s - self._start_s[self._start_s <= now_s]])
        rows, table = np.concatenate([earlier, self._rows[ended]]), np.concatenate([known, self._table[ended]])
        since_s = np.concatenate(
            [self._time(self._first) - self._course.start_s[earlier], now_s - self._start_s[self._rows[ended]]]
        )
        self._fit = fit_rows(self._course, EndedJobs(rows, table, run_s, since_s), age_s)

    def _ask(self, coming: Codes, waiting: Codes, now_s: float) -> Floats:
        """Return the features of jobs that wait and then of jobs that come, the latter as of their submission."""
        rows, new = self._rows[waiting], self._rows[coming]
        submit_s = self._course.submit_s[new]
        asked = Happenings.of((ASK, rows, np.full(len(rows), now_s)))
        told = self._memory.note(asked, self._log_run, self._start_s)
        again = np.empty_like(told)
        again[np.argsort(rows, kind="stable")] = told
        came = Happenings.of((ASK, new, submit_s), (SUBMIT, new, submit_s))
        order = came.row[came.event == ASK]
        found = self._memory.note(came, self._log_run, self._start_s)
        first = np.empty_like(found)
        by_row = np.argsort(new, kind="stable")  # jobs need not come in the order of the table
        first[by_row[np.searchsorted(new, order, sorter=by_row)]] = found
        table = np.concatenate([again, first])
        table = np.concatenate([self._course.kinds.own[np.concatenate([rows, new])], table], axis=1)
        self._as_at_submission(table, waiting)
        return table

    def _as_at_submission(self, table: Floats, waiting: Codes) -> None:
        """Leave the job itself out of what a waiting job is told of its kinds, as it was at its submission."""
        own = self._course.kinds.own.shape[1]
        for level in range(self._course.kinds.of.shape[1]):
            at = own + level * len(TOLD)
            table[: len(waiting), at + SINCE_SUBMIT] = self._table[waiting, at + SINCE_SUBMIT]
            table[: len(waiting), at + WAITING_N] -= 1.0

    def _predict(self, jobs: Codes, table: Floats) -> None:
        """Predict jobs from what they are told now."""
        if len(jobs):
            usual = self._course.usual_log_s(self._rows[jobs], table)
            self._log_s[jobs] = self._fit.log_s(table, usual)
            of_size = self._course.ended_of_size(table)
            self._believed[jobs] = self._fit.believed_log_s(table, usual, of_size)

    def _values(self, jobs: Codes) -> Floats:
        if self._order_by is not None:
            return self._fit.spread.quantile_s(self._log_s[jobs], self._order_by)
        values: Floats = np.exp(self._believed[jobs])
        return values

    def _known(self, jobs: NDArray[np.integer]) -> Codes:
        """Leave strangers out."""
        jobs = np.asarray(jobs, dtype=np.int64)
        known: Codes = jobs[self._rows[jobs] >= 0]
        return known

    def _time(self, row: int) -> float:
        return float(self._course.submit_s[row]) if row < len(self._course) else np.inf

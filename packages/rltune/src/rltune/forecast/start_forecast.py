"""The answer to "when will it start?": values that print themselves and turn into JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from rltune.errors import InputError
from rltune.present.present import told_times, told_unit
from rltune.text import columns, counted, percent, seconds

QUANTILES = (0.1, 0.5, 0.9)
FEWEST_FUTURES = 9  # of which 80 % of further ones lie between the first and the last
_SHOWN = 20
_MOST_NAMED = 5
_OUTLASTED = "which waits longer than in any future that was drawn"


@dataclass(frozen=True)
class StartCalibration:
    """How forecasts of earlier moments compare with what then happened, and what is corrected for it.

    In the logarithm of the wait, p10 and p90 are `wider` times as far from p50 as they were drawn (see ADR 0028).
    """

    moments: int = 0  # at which somebody waited
    jobs: int = 0
    covered: float = math.nan  # share of later truths inside the 80 % interval, as drawn
    covered_corrected: float = math.nan  # and as corrected, each moment by those before it
    median_error_s: float = math.nan  # of the corrected p50, there
    roll_error_s: float = math.nan  # of the deterministic roll, there
    wider: float = 1.0
    tried: int = 0  # moments, also those at which nobody waited; 0 = as many as `moments`

    def __str__(self) -> str:
        if not self.moments:
            return "not calibrated: how often they held here was not tried (--calibrate 12, on a history or journal)"
        truth = f"{counted(self.jobs, 'start')} at {counted(self.moments, 'earlier moment')}{self._without_jobs()}"
        held = (
            ""
            if math.isnan(self.covered_corrected)
            else (f", {percent(self.covered_corrected)} corrected by the moments before each")
        )
        errors = (
            ""
            if math.isnan(self.median_error_s)
            else (
                f"; median error {seconds(self.median_error_s)}, of the deterministic roll {seconds(self.roll_error_s)}"
            )
        )
        return f"of {truth}, {percent(self.covered)} lay inside the 80 % interval as drawn{held}{errors}"

    def _without_jobs(self) -> str:
        idle = max(0, self.tried - self.moments)
        return f" (at {idle:,} more nobody waited)" if idle else ""


@dataclass(frozen=True)
class JobForecast:
    """When one waiting job will start."""

    job: str
    p10_s: float  # times; infinite if it does not start in that many rolls
    p50_s: float
    p90_s: float
    rolled_s: float  # by the deterministic roll: estimates taken for the truth, nobody else comes
    started: float = 1.0  # share of the futures that can still come in which it started at all
    futures: int = 0  # that can still come for it, of those that were drawn; 0 = not told

    @property
    def has_interval(self) -> bool:
        """Return whether enough futures are left for p10 and p90: with fewer they are the first and the last."""
        return not 0 < self.futures < FEWEST_FUTURES


@dataclass(frozen=True)
class Forecast:
    """When the waiting jobs of a present will start."""

    now_s: float  # the time that it is told for
    jobs: tuple[JobForecast, ...] = field(repr=False)
    rolls: int
    order: str  # the pipeline in force
    calibration: StartCalibration = field(default_factory=StartCalibration)
    notes: tuple[str, ...] = ()
    drawn_s: float = math.nan  # when its futures were drawn, if that is known; not later than now
    outlasted: tuple[str, ...] = ()  # jobs that have waited longer than in every future that was drawn
    history_s: float = math.nan  # for how long the history has gone on that futures are drawn from

    @cached_property
    def by_job(self) -> dict[str, JobForecast]:
        """Find a job's part."""
        return {one.job: one for one in self.jobs}

    def lines(self, most: int = _SHOWN) -> list[str]:
        """Return the answer line by line: who starts first comes first."""
        ago = f", drawn {seconds(self.now_s - self.drawn_s)} ago" if self.drawn_s < self.now_s else ""
        how = f"{self.order}, {counted(self.rolls, 'roll')}{ago}{told_unit(self.now_s)}"
        head = f"{counted(len(self.jobs), 'waiting job')}, {how}"
        ordered = sorted(self.jobs, key=lambda one: (one.p50_s, one.job))[:most]
        names = ("p10", "p50", "p90", "deterministic")
        times = [t for one in ordered for t in (one.p10_s, one.p50_s, one.p90_s, one.rolled_s)]
        cells = told_times(times, self.now_s, "not seen to start")
        rows = [(one.job, *cells[i * len(names) : (i + 1) * len(names)]) for i, one in enumerate(ordered)]
        shown = columns([("job", *names), *rows]) if rows else []
        more = [f"  ... and {len(self.jobs) - most:,} more"] if len(self.jobs) > most else []
        late = [f"Any moment: {', '.join(self.outlasted)}, {_OUTLASTED}."] if self.outlasted else []
        told = [
            *late,
            f"Calibration: {self.calibration}.",
            *(f"Note: {note}." for note in (*self._beside(), *self.notes)),
        ]
        return [head, *shown, *more, *told]

    def _beside(self) -> list[str]:
        """Say why the deterministic roll lies outside of intervals, where it does."""
        after = sum(one.p90_s < one.rolled_s < math.inf for one in self.jobs)
        before = sum(one.rolled_s < one.p10_s for one in self.jobs)
        of = f"of {counted(len(self.jobs), 'job')}"
        few = sum(not one.has_interval for one in self.jobs)
        told = self._beyond_history()
        if few:
            told.append(
                f"for {few:,} {of} fewer than {FEWEST_FUTURES} of the futures that were drawn can still come: "
                "p10 and p90 are the first and the last of these, and hold less than 80 %"
            )
        if after:
            told.append(
                f"the deterministic roll is after p90 for {after:,} {of}: in it all run as long as estimated, "
                "and run times are drawn as history has them, mostly shorter"
            )
        if before:
            told.append(
                f"the deterministic roll is before p10 for {before:,} {of}: in it nobody comes after now, "
                "and nobody runs longer than estimated"
            )
        return told

    def _beyond_history(self) -> list[str]:
        """Name those whose p90 is further off than the history is long: drawn futures cannot tell such times."""
        far = [one.job for one in self.jobs if one.p90_s - self.now_s > self.history_s]
        if not far:
            return []
        more = f" and {len(far) - _MOST_NAMED:,} more" if len(far) > _MOST_NAMED else ""
        who = f"{', '.join(far[:_MOST_NAMED])}{more}"
        of = f"for {len(far):,} of {counted(len(self.jobs), 'job')}"
        told = f"{of} p90 is further off than the history is long, {seconds(self.history_s)} ({who})"
        why = "in some of the futures that were drawn others may come before them for as long as is looked ahead"
        return [f"{told}: read it as very late, not as a date; {why}"]

    def only(self, job: str) -> Forecast:
        """Return what concerns one job."""
        if job in self.outlasted:
            return replace(self, jobs=(), outlasted=(job,))
        if job not in self.by_job:
            raise InputError(f"job {job} has no start to forecast: it does not wait for its turn")
        return replace(self, jobs=(self.by_job[job],), outlasted=())

    @classmethod
    def of_plain(cls, plain: dict[str, Any]) -> Forecast:
        """Read what `to_dict` wrote; null is what is not known."""
        calibration = StartCalibration(**_or(plain["calibration"], math.nan))
        jobs = tuple(JobForecast(**_or(one, math.inf)) for one in plain["jobs"])
        known = cls(plain["now_s"], jobs, plain["rolls"], plain["order"], calibration, tuple(plain["notes"]))
        history_s = math.nan if plain["history_s"] is None else plain["history_s"]
        return replace(known, drawn_s=plain["drawn_s"], outlasted=tuple(plain["outlasted"]), history_s=history_s)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON keeps; what is not known is null."""
        return {
            "now_s": self.now_s,
            "drawn_s": self.now_s if math.isnan(self.drawn_s) else self.drawn_s,
            "order": self.order,
            "rolls": self.rolls,
            "calibration": _finite(asdict(self.calibration)),
            "jobs": [_finite(asdict(one)) for one in self.jobs],
            "outlasted": list(self.outlasted),
            "history_s": self.history_s if math.isfinite(self.history_s) else None,
            "notes": list(self.notes),
        }


def _or(plain: dict[str, Any], unknown: float) -> dict[str, Any]:
    return {key: unknown if value is None else value for key, value in plain.items()}


def _finite(plain: dict[str, Any]) -> dict[str, Any]:
    unknown = {key for key, value in plain.items() if isinstance(value, float) and not math.isfinite(value)}
    return {key: None if key in unknown else value for key, value in plain.items()}

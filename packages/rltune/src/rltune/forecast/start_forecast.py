"""The answer to "when will it start?": values that print themselves and turn into JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from rltune.errors import InputError
from rltune.present.present import told_time
from rltune.text import columns, counted, percent, seconds

QUANTILES = (0.1, 0.5, 0.9)
_SHOWN = 20
_OUTLASTED = "which waits longer than in any future that was drawn"


@dataclass(frozen=True)
class StartCalibration:
    """How forecasts of earlier moments compare with what then happened, and what is corrected for it.

    In the logarithm of the wait, p10 and p90 are `wider` times as far from p50 as they were drawn (see ADR 0028).
    """

    moments: int = 0
    jobs: int = 0
    covered: float = math.nan  # share of later truths inside the 80 % interval, as drawn
    covered_corrected: float = math.nan  # and as corrected, each moment by those before it
    median_error_s: float = math.nan  # of the corrected p50, there
    roll_error_s: float = math.nan  # of the deterministic roll, there
    wider: float = 1.0

    def __str__(self) -> str:
        if not self.moments:
            return "not calibrated: how often they held here was not tried (--calibrate 12, on a history or journal)"
        truth = f"{counted(self.jobs, 'start')} at {counted(self.moments, 'earlier moment')}"
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


@dataclass(frozen=True)
class JobForecast:
    """When one waiting job will start."""

    job: str
    p10_s: float  # times; infinite if it does not start in that many rolls
    p50_s: float
    p90_s: float
    rolled_s: float  # by the deterministic roll: estimates taken for the truth, nobody else comes
    started: float = 1.0  # share of the rolls in which it started at all


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

    @cached_property
    def by_job(self) -> dict[str, JobForecast]:
        """Find a job's part."""
        return {one.job: one for one in self.jobs}

    def lines(self, most: int = _SHOWN) -> list[str]:
        """Return the answer line by line: who starts first comes first."""
        ago = f", drawn {seconds(self.now_s - self.drawn_s)} ago" if self.drawn_s < self.now_s else ""
        head = f"{counted(len(self.jobs), 'waiting job')}, {self.order}, {counted(self.rolls, 'roll')}{ago}"
        rows: list[tuple[str, ...]] = [("job", "p10", "p50", "p90", "deterministic")]
        ordered = sorted(self.jobs, key=lambda one: (one.p50_s, one.job))
        rows += [(one.job, *(self.told(t) for t in (one.p10_s, one.p50_s, one.p90_s, one.rolled_s))) for one in ordered]
        shown = columns(rows[: most + 1]) if self.jobs else []
        more = [f"  ... and {len(rows) - 1 - most:,} more"] if len(rows) - 1 > most else []
        late = [f"Any moment: {', '.join(self.outlasted)}, {_OUTLASTED}."] if self.outlasted else []
        told = [*late, f"Calibration: {self.calibration}.", *(f"Note: {note}." for note in self.notes)]
        return [head, *shown, *more, *told]

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
        return replace(known, drawn_s=plain["drawn_s"], outlasted=tuple(plain["outlasted"]))

    def told(self, time_s: float) -> str:
        """Write a time."""
        return told_time(time_s, self.now_s) if math.isfinite(time_s) else "not seen to start"

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
            "notes": list(self.notes),
        }


def _or(plain: dict[str, Any], unknown: float) -> dict[str, Any]:
    return {key: unknown if value is None else value for key, value in plain.items()}


def _finite(plain: dict[str, Any]) -> dict[str, Any]:
    unknown = {key for key, value in plain.items() if isinstance(value, float) and not math.isfinite(value)}
    return {key: None if key in unknown else value for key, value in plain.items()}

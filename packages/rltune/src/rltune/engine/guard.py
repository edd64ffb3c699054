"""Bounds on overtaking around any policy: after its grace a waiting job is owed its start, and SLA jobs are first."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from rltune.errors import InputError
from rltune.jobs import Ints, Jobs

OFF = "off"
FORMS = "24h (hours), 4x (times its own estimate), 24h:4x (the longer of both), 24h:sla=gold|silver, sla=gold, off"


@dataclass(frozen=True)
class Guard:
    """A job may be overtaken for `hours`, or for `times` its own estimated run time: the longer of what is given.

    Then it is owed: it comes before all that are not, the oldest first, and nothing behind it may delay it. Jobs of a
    QOS in `sla` come before everybody, by age.
    """

    hours: float | None = None
    times: float | None = None
    sla: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, value in (("hours", self.hours), ("times", self.times)):
            if value is not None and not 0 <= value < inf:
                raise InputError(f"guard: {name} should be a number of 0 or more, not {value:g}")

    def __str__(self) -> str:
        parts = [f"{_exact(self.hours)}h"] if self.hours is not None else []
        parts += [f"{_exact(self.times)}x"] if self.times is not None else []
        parts += [f"sla={'|'.join(self.sla)}"] if self.sla else []
        return ":".join(parts) or OFF

    def __bool__(self) -> bool:
        return str(self) != OFF

    @property
    def grace_s(self) -> float:
        """Return for how long any job may be overtaken; for ever if nothing is given."""
        if self.hours is None:
            return inf if self.times is None else 0.0
        return self.hours * 3600.0

    def sla_jobs(self, jobs: Jobs) -> Ints:
        """Mark the jobs that come before everybody."""
        named = [jobs.qos.names.index(name) for name in self.sla if name in jobs.qos.names]
        return np.isin(jobs.qos.codes, named).astype(np.int64) if named else np.zeros(len(jobs), dtype=np.int64)


def _exact(value: float) -> str:
    """Write a number as short as it can be read back."""
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def get_guard(spec: str | Guard | None) -> Guard:
    """Read a guard such as `24h:4x:sla=gold`; None and `off` are none at all."""
    if isinstance(spec, Guard):
        return spec
    if spec is None or spec == OFF:
        return Guard()
    grace: dict[str, float] = {}
    sla: tuple[str, ...] = ()
    for part in spec.split(":"):
        if part.startswith("sla=") and part != "sla=":
            sla = tuple(part.removeprefix("sla=").split("|"))
        elif part[-1:] in {"h", "x"} and part[-1] not in grace:
            grace[part[-1]] = _number(part[:-1], spec)
        else:
            raise _not_understood(spec)
    return Guard(grace.get("h"), grace.get("x"), sla)


def _number(text: str, spec: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise _not_understood(spec) from None
    if not 0 <= value < inf:
        raise _not_understood(spec)
    return value


def _not_understood(spec: str) -> InputError:
    return InputError(f"guard {spec!r} is not understood; write {FORMS}")

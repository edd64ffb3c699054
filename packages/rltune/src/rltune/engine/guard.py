"""Bounds on overtaking around any policy: after its grace a waiting job is owed its start, and SLA jobs are first.

Or, around a learned policy, SLA jobs are left to its base policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.kernel.state.arrays import SLA_BY_BASE, SLA_FIRST

OFF = "off"
FORMS = (
    "24h (hours), 4x (times its own estimate), 24h:4x (the longer of both), 24h:sla=gold|silver, sla=gold, "
    "sla-base=gold, off"
)


@dataclass(frozen=True)
class Guard:
    """A job may be overtaken for `hours`, or for `times` its own estimated run time: the longer of what is given.

    Then it is owed: it comes before all that are not, the oldest first, and nothing behind it may delay it. Jobs of a
    QOS in `sla` come before everybody, by age. Those of a QOS in `sla_by_base` are not for the learned policy: its base
    policy says who is before and who is behind them.
    """

    hours: float | None = None
    times: float | None = None
    sla: tuple[str, ...] = ()
    sla_by_base: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, value in (("hours", self.hours), ("times", self.times)):
            if value is not None and not 0 <= value < inf:
                raise InputError(f"guard: {name} should be a number of 0 or more, not {value:g}")
        if both := set(self.sla) & set(self.sla_by_base):
            raise InputError(f"guard: QOS {min(both)} is named by sla= and by sla-base=; name it once")

    def __str__(self) -> str:
        parts = [f"{_exact(self.hours)}h"] if self.hours is not None else []
        parts += [f"{_exact(self.times)}x"] if self.times is not None else []
        parts += [f"sla={'|'.join(self.sla)}"] if self.sla else []
        parts += [f"sla-base={'|'.join(self.sla_by_base)}"] if self.sla_by_base else []
        return ":".join(parts) or OFF

    def __bool__(self) -> bool:
        return str(self) != OFF

    @property
    def grace_s(self) -> float:
        """Return for how long any job may be overtaken; for ever if nothing is given."""
        if self.hours is None:
            return inf if self.times is None else 0.0
        return self.hours * 3600.0

    def sla_jobs(self, jobs: Jobs) -> NDArray[np.int64]:
        """Mark the jobs that come before everybody, and those that the base policy places."""
        marks = np.zeros(len(jobs), dtype=np.int64)
        for mark, names in ((SLA_FIRST, self.sla), (SLA_BY_BASE, self.sla_by_base)):
            named = [jobs.qos.names.index(name) for name in names if name in jobs.qos.names]
            if named:
                marks[np.isin(jobs.qos.codes, named)] = mark
        return marks


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
    sla: dict[str, tuple[str, ...]] = {}
    for part in spec.split(":"):
        kind, _, names = part.partition("=")
        if kind in {"sla", "sla-base"} and names and kind not in sla:
            sla[kind] = tuple(names.split("|"))
        elif part[-1:] in {"h", "x"} and part[-1] not in grace:
            grace[part[-1]] = _number(part[:-1], spec)
        else:
            raise _not_understood(spec)
    return Guard(grace.get("h"), grace.get("x"), sla.get("sla", ()), sla.get("sla-base", ()))


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

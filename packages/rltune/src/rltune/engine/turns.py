"""Taking turns: by which order running jobs may be displaced, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from rltune.errors import InputError
from rltune.kernel.state.arrays import BY_GITTINS, BY_LAS, BY_POLICY, BY_SRSF, NO_TURNS

OFF = "off"
ORDERS = {OFF: NO_TURNS, "las": BY_LAS, "gittins": BY_GITTINS, "srsf": BY_SRSF, "policy": BY_POLICY}
MIN_RUN_S, MAX_PREEMPTIONS, TURN_S = 600.0, 5, 300.0
FORMS = "off, las, gittins, srsf, policy, or with other numbers las:run=600:most=5:turn=300 (seconds, times, seconds)"


@dataclass(frozen=True)
class Turns:
    """Running jobs that may be preempted are displaced by jobs that come before them in an order."""

    order: str = OFF
    min_run_s: float = MIN_RUN_S  # of a spell, restart apart, before it may be cut short
    max_preemptions: int = MAX_PREEMPTIONS  # of one job
    turn_s: float = TURN_S  # between two passes that are made only because time has passed

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise InputError(f"preempt {self.order!r} is not understood; write {FORMS}")
        if not 0 <= self.min_run_s < inf:
            raise InputError(f"min_run_s should be 0 s or more, and finite, not {self.min_run_s:g}")
        if self.max_preemptions < 0:
            raise InputError(f"max_preemptions should be 0 or more, not {self.max_preemptions}")
        if not 1 <= self.turn_s < inf:
            raise InputError(f"turn_s should be 1 s or more, and finite, not {self.turn_s:g}")

    def __bool__(self) -> bool:
        return self.order != OFF

    def __str__(self) -> str:
        if not self:
            return OFF
        parts = [f"run={self.min_run_s:.15g}"] if self.min_run_s != MIN_RUN_S else []
        parts += [f"most={self.max_preemptions}"] if self.max_preemptions != MAX_PREEMPTIONS else []
        parts += [f"turn={self.turn_s:.15g}"] if self.turn_s != TURN_S else []
        return ":".join([self.order, *parts])


def get_turns(
    spec: str | Turns | None,
    min_run_s: float = MIN_RUN_S,
    max_preemptions: int = MAX_PREEMPTIONS,
    turn_s: float = TURN_S,
) -> Turns:
    """Read an order such as `las` or `srsf:run=1800`; what it does not say is as given beside it."""
    if isinstance(spec, Turns):
        return spec
    beside = Turns(OFF, min_run_s, max_preemptions, turn_s)
    if spec is None or spec == OFF:
        if beside != Turns():
            raise InputError("min_run_s, max_preemptions and turn_s mean nothing while preempt is off")
        return beside
    order, *parts = spec.split(":")
    said: dict[str, float] = {}
    for part in parts:
        name, _, value = part.partition("=")
        if name not in _NAMES or name in said:
            raise InputError(f"preempt {spec!r} is not understood; write {FORMS}")
        said[name] = _number(value, spec)
    return Turns(
        order,
        said.get("run", min_run_s),
        int(said.get("most", max_preemptions)),
        said.get("turn", turn_s),
    )


_NAMES = ("run", "most", "turn")


def _number(text: str, spec: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = inf
    if not 0 <= value < inf:
        raise InputError(f"preempt {spec!r} is not understood; write {FORMS}")
    return value

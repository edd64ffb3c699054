"""Taking turns: by which order running jobs may be displaced, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isnan, nan
from typing import Any

from rltune.errors import InputError
from rltune.kernel.state.arrays import BY_GITTINS, BY_LAS, BY_POLICY, BY_SRSF, NO_TURNS
from rltune.text import read_seconds

OFF = "off"
ORDERS = {OFF: NO_TURNS, "las": BY_LAS, "gittins": BY_GITTINS, "srsf": BY_SRSF, "policy": BY_POLICY}
MIN_RUN_S, MAX_PREEMPTIONS, TURN_S = 600.0, 5, 300.0
LATE_S = 172800.0
# Chosen on parts of the public traces before the held-out one; Gittins' order does better with numbers of its own.
MARGIN, COST_ONCE, COST_EACH = 2.0, 1.0, 0.3
OWN_MARGIN, OWN_COST_EACH = {"gittins": 4.0, "policy": 4.0}, {"gittins": 0.05}
FORMS = (
    "off, las, gittins, srsf, policy, or with other numbers las:run=600:most=5:turn=300 (seconds of a spell, times a "
    f"job, seconds between looks), day=2 (times a day), margin={MARGIN:g}:once={COST_ONCE:g}:each={COST_EACH:g}:"
    "gain=4 (how cost and gain are weighed) and late=48h:times=1.5:cover=1 (how much later than without "
    "turns a job may end, late=off: any; and only if there are GPUs to bring it back)"
)


@dataclass(frozen=True)
class Turns:
    """Running jobs that may be preempted are displaced by jobs that come before them in an order."""

    order: str = OFF
    min_run_s: float = MIN_RUN_S  # of a spell, restart apart, before it may be cut short
    max_preemptions: int = MAX_PREEMPTIONS  # of one job
    turn_s: float = TURN_S  # between two passes that are made only because time has passed
    margin: float = nan  # by so many times a score of work must be higher to be displaced; NaN = as usual by this order
    cost_once: float = COST_ONCE  # of displacing a job, in times what it loses
    cost_each: float = nan  # and as much again for each job that waits; NaN = as usual by this order
    max_a_day: int = 0  # displacements of one job in a day; 0 = any number
    late_s: float = LATE_S  # a job ends at most so much later than if it had never been displaced,
    late_times: float = inf  # or after so many times as long, whichever is later; infinite = not told
    cover: int = 0  # 1: nobody is displaced whom there would be no GPUs to bring back
    gain: float = inf  # a second that a claimant gains counts as so many; infinite = it is not weighed

    def __post_init__(self) -> None:
        if isnan(self.margin):
            object.__setattr__(self, "margin", OWN_MARGIN.get(self.order, MARGIN))
        if isnan(self.cost_each):
            object.__setattr__(self, "cost_each", OWN_COST_EACH.get(self.order, COST_EACH))
        if self.order not in ORDERS:
            raise InputError(f"preempt {self.order!r} is not understood; write {FORMS}")
        for name, value, least in (
            ("min_run_s", self.min_run_s, 0),
            ("max_preemptions", self.max_preemptions, 0),
            ("turn_s", self.turn_s, 1),
            ("margin", self.margin, 1),
            ("cost_once", self.cost_once, 0),
            ("cost_each", self.cost_each, 0),
            ("max_a_day", self.max_a_day, 0),
            ("cover", self.cover, 0),
        ):
            if not least <= value < inf:
                raise InputError(f"{name} should be {least} or more, and finite, not {value:g}")
        for name, value, least in (
            ("late_s", self.late_s, 0),
            ("late_times", self.late_times, 1),
            ("gain", self.gain, 0),
        ):
            if not value >= least:
                raise InputError(f"{name} should be {least} or more, not {value:g}")

    def __bool__(self) -> bool:
        return self.order != OFF

    @property
    def bounded(self) -> bool:
        """Return whether what turns cost a job is bounded."""
        return bool(self) and min(self.late_s, self.late_times) < inf

    def __str__(self) -> str:
        usual = Turns(self.order)
        said = [
            f"{word}={_told(getattr(self, name))}"
            for word, name in _NAMES.items()
            if getattr(self, name) != getattr(usual, name)
        ]
        return ":".join([self.order, *said]) if self else OFF


_NAMES = {
    "run": "min_run_s",
    "most": "max_preemptions",
    "turn": "turn_s",
    "margin": "margin",
    "once": "cost_once",
    "each": "cost_each",
    "day": "max_a_day",
    "late": "late_s",
    "times": "late_times",
    "cover": "cover",
    "gain": "gain",
}
_MAY_BE_OFF = ("late", "gain")
_WHOLE = ("most", "day", "cover")


def get_turns(
    spec: str | Turns | None,
    min_run_s: float = MIN_RUN_S,
    max_preemptions: int = MAX_PREEMPTIONS,
    turn_s: float = TURN_S,
) -> Turns:
    """Read an order such as `las` or `srsf:run=1800`; what it does not say is as given beside it."""
    if isinstance(spec, Turns):
        return spec
    given: dict[str, Any] = {"min_run_s": min_run_s, "max_preemptions": max_preemptions, "turn_s": turn_s}
    if spec is None or spec == OFF:
        if Turns(**given) != Turns():
            raise InputError("min_run_s, max_preemptions and turn_s mean nothing while preempt is off")
        return Turns()
    order, *parts = spec.split(":")
    said: dict[str, Any] = {}
    for part in parts:
        word, _, text = part.partition("=")
        if word not in _NAMES or _NAMES[word] in said:
            raise InputError(f"preempt {spec!r} is not understood; write {FORMS}")
        off = text == OFF and word in _MAY_BE_OFF
        said[_NAMES[word]] = inf if off else _number(text, spec, whole=word in _WHOLE)
    return Turns(**{"order": order, **given, **said})


def _told(value: float) -> str:
    return OFF if value == inf else f"{value:.15g}"


def _number(text: str, spec: str, *, whole: bool) -> float:
    try:
        value = int(text) if whole else read_seconds(text)
    except ValueError:
        value = inf
    if not 0 <= value < inf:
        raise InputError(f"preempt {spec!r} is not understood; write {FORMS}")
    return value

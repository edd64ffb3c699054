"""Which parts of a trace are run: windows from an idle cluster, the whole, or the whole with a warm-up left out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from rltune.errors import InputError
from rltune.trials.contention import is_contended

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rltune.jobs import Jobs
    from rltune.metrics.utilisation import Span

FORMS = "20x1024, 20x1024:random, 20x1024:contended=600, whole, steady or steady:0.3"
LOOKED_AT = 8  # candidates per window wanted, when only contended ones are


@dataclass(frozen=True)
class Window:
    """`count` jobs from row `first` on; results are of the jobs submitted in the interval, or of all."""

    first: int
    count: int
    interval_s: Span | None = None


@dataclass(frozen=True)
class WindowSpec:
    """`count` windows of `size` jobs, each from an idle cluster."""

    count: int
    size: int
    choice: Literal["even", "random"] = "even"
    min_wait_s: float = 0.0  # keep only windows where FCFS without backfilling waits longer than this on average
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count < 1 or self.size < 1:
            raise InputError(f"{self.count} windows of {self.size} jobs cannot be; give at least 1 of 1")

    def __str__(self) -> str:
        kept = f" where FCFS waits over {self.min_wait_s:g} s" if self.min_wait_s else ""
        how = "evenly spaced" if self.choice == "even" else f"chosen at random (seed {self.seed})"
        return f"{self.count} windows of {self.size:,} jobs{kept}, {how}, each from an idle cluster"


@dataclass(frozen=True)
class Steady:
    """The whole trace is run; a share of its time at the beginning and at the end is not measured."""

    warmup: float = 0.2
    cooldown: float = 0.0

    def __post_init__(self) -> None:
        if self.warmup < 0 or self.cooldown < 0 or self.warmup + self.cooldown >= 1:
            raise InputError(f"a warm-up of {self.warmup} and a cool-down of {self.cooldown} leave nothing to measure")

    def __str__(self) -> str:
        end = f" and the last {self.cooldown:.0%}" if self.cooldown else ""
        return f"whole trace, measured after the first {self.warmup:.0%} of its time{end}"


Spec = WindowSpec | Steady | None


def parse_windows(text: str, seed: int = 0) -> Spec:
    """Read a specification such as `20x1024`; None is the whole trace."""
    form, *options = text.strip().lower().split(":")
    if form == "whole" and not options:
        return None
    if form == "steady" and len(options) <= 1:
        return Steady(_number(options[0], text)) if options else Steady()
    size = re.fullmatch(r"(\d+)x(\d+)", form)
    if not size:
        raise InputError(f"windows {text!r} are not understood; write {FORMS}")
    choice: Literal["even", "random"] = "even"
    min_wait_s = 0.0
    for option in options:
        if option in {"even", "random"}:
            choice = "random" if option == "random" else "even"
        elif option.startswith("contended="):
            min_wait_s = _number(option.removeprefix("contended="), text)
        else:
            raise InputError(f"windows {text!r}: option {option!r} is unknown; write {FORMS}")
    return WindowSpec(int(size[1]), int(size[2]), choice, min_wait_s, seed)


def choose_windows(
    jobs: Jobs, spec: Spec, fcfs_wait_s: Callable[[Window], float]
) -> tuple[tuple[Window, ...], tuple[str, ...]]:
    """Choose windows of a trace in order of submit, and give notes on what a reader must know of the choice."""
    if not len(jobs):
        raise InputError("the trace holds no job")
    if spec is None:
        return (Window(0, len(jobs)),), ()
    if isinstance(spec, Steady):
        return (_steady(jobs, spec),), ()
    if spec.size > len(jobs):
        raise InputError(f"a window of {spec.size:,} jobs does not fit a trace of {len(jobs):,}")
    if spec.min_wait_s > 0:
        return _contended(jobs, spec, fcfs_wait_s)
    starts = _starts(len(jobs) - spec.size + 1, spec)
    return tuple(Window(int(s), spec.size) for s in starts), _overlap_note(starts, spec)


def _steady(jobs: Jobs, spec: Steady) -> Window:
    first, last = float(jobs.submit_s[0]), float(jobs.submit_s[-1])
    span = (first + spec.warmup * (last - first), last - spec.cooldown * (last - first))
    if not span[1] > span[0]:
        raise InputError("all jobs are submitted at one time: there is no interval to measure in")
    return Window(0, len(jobs), span)


def _starts(places: int, spec: WindowSpec) -> NDArray[np.int64]:
    """Choose among the first `places` rows, ascending, each at most once."""
    count = min(spec.count, places)
    if spec.choice == "random":
        return np.sort(np.random.default_rng(spec.seed).choice(places, count, replace=False)).astype(np.int64)
    return np.unique(np.round(np.linspace(0, places - 1, count)).astype(np.int64))


def _overlap_note(starts: NDArray[np.int64], spec: WindowSpec) -> tuple[str, ...]:
    notes = []
    if len(starts) < spec.count:
        notes.append(f"Only {len(starts)} different windows exist; {spec.count} were asked for.")
    if len(starts) > 1 and int(np.diff(starts).min()) < spec.size:
        notes.append("Windows overlap, so they are not independent and the intervals are too narrow.")
    return tuple(notes)


def _contended(
    jobs: Jobs, spec: WindowSpec, fcfs_wait_s: Callable[[Window], float]
) -> tuple[tuple[Window, ...], tuple[str, ...]]:
    apart = np.arange(0, len(jobs) - spec.size + 1, spec.size)
    looked = apart[_starts(len(apart), WindowSpec(spec.count * LOOKED_AT, 1))]
    waits = np.array([fcfs_wait_s(Window(int(s), spec.size)) for s in looked])
    good = looked[[is_contended(wait, spec.min_wait_s) for wait in waits]]
    if not len(good):
        most = f"the most contended waits {waits.max():g} s"
        raise InputError(f"no window of {spec.size:,} jobs makes FCFS wait {spec.min_wait_s:g} s; {most}")
    chosen = good[_starts(len(good), spec)]
    few = f"; {spec.count} were asked for" if len(chosen) < spec.count else ""
    note = f"{len(good)} of {len(looked)} windows looked at were contended, {len(chosen)} are used{few}."
    caveat = "Contended windows are not typical of the trace: its idle times are left out."
    return tuple(Window(int(s), spec.size) for s in chosen), (note, caveat)


def _number(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"windows {whole!r}: {text!r} is not a number; write {FORMS}") from None

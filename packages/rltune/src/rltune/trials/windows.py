"""Which parts of a trace are run: the whole after a warm-up, from what ran and waited then, or windows from idle.

The words for them are read here, for every command: docs/reference/cli.md has the grammar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from rltune.errors import InputError
from rltune.trials.contention import is_contended
from rltune.trials.resumption import gpus_running, has_starts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from rltune.jobs import Jobs
    from rltune.metrics.utilisation import Span

SLIDING_FORMS = "1024, 1024:every=64 or 1024:every=64:contended=600"
FORMS = (
    f"steady, steady:0.3, steady:0.3:simulated, whole, 20x1024, 20x1024:random, 20x1024:contended=600, {SLIDING_FORMS}"
)
LOOKED_AT = 8  # candidates per window wanted, when only contended ones are
CAVEAT = "Contended windows are not typical of the trace: its idle times are left out."
NO_STARTS = "No starts are recorded"
EVERY = 64  # jobs from the start of one sliding window to that of the next, unless told


@dataclass(frozen=True)
class Window:
    """`count` jobs from row `first` on; results are of the jobs submitted in the interval, or of all."""

    first: int
    count: int
    interval_s: Span | None = None
    resumes: bool = False  # at the interval's beginning, from the jobs that were recorded to run and wait then


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
class SlidingSpec:
    """Windows of `size` jobs, one from every `every`th job on, each from an idle cluster; they may overlap."""

    size: int
    every: int = EVERY
    min_wait_s: float = 0.0  # as for `WindowSpec`

    def __post_init__(self) -> None:
        if self.size < 1 or self.every < 1:
            raise InputError(
                f"windows of {self.size} jobs at every {self.every} jobs cannot be; give at least 1 of each"
            )

    def __str__(self) -> str:
        kept = f" where FCFS waits over {self.min_wait_s:g} s" if self.min_wait_s else ""
        return f"windows of {self.size:,} jobs, one every {self.every:,} jobs{kept}, each from an idle cluster"


@dataclass(frozen=True)
class Steady:
    """The whole trace but a share of its time at the beginning and at the end is measured.

    Where starts are recorded the run begins at the measured part, from the jobs that were running and waiting then.
    """

    warmup: float = 0.2
    cooldown: float = 0.0
    simulated: bool = False  # begin at the trace's beginning in any case, from an idle cluster

    def __post_init__(self) -> None:
        if self.warmup < 0 or self.cooldown < 0 or self.warmup + self.cooldown >= 1:
            raise InputError(f"a warm-up of {self.warmup} and a cool-down of {self.cooldown} leave nothing to measure")

    def __str__(self) -> str:
        end = f" and the last {self.cooldown:.0%}" if self.cooldown else ""
        return f"whole trace, measured after the first {self.warmup:.0%} of its time{end}"

    def told(self, window: Window) -> str:
        """Return what was run and from which state."""
        if window.interval_s is None:
            return "whole trace, from an idle cluster"
        how = "from the jobs that were running and waiting then" if window.resumes else "after a simulated warm-up"
        return f"{self}, {how}"


Spec = WindowSpec | SlidingSpec | Steady | None


def parse_windows(text: str, seed: int = 0, *, min_wait_s: float = 0.0) -> Spec:
    """Read a specification such as `20x1024`; None is the whole trace.

    `min_wait_s` holds where the text does not say which windows are contended.
    """
    form, *options = text.strip().lower().split(":")
    if form == "whole" and not options:
        return None
    if form == "steady" and len(options) <= 2:
        simulated = "simulated" in options
        shares = [_number(option, text) for option in options if option != "simulated"]
        return Steady(shares[0] if shares else Steady.warmup, simulated=simulated)
    if re.fullmatch(r"\d+", form):
        return _sliding_spec(int(form), options, text, min_wait_s)
    size = re.fullmatch(r"(\d+)x(\d+)", form)
    if not size:
        raise InputError(f"windows {text!r} are not understood; write {FORMS}")
    return _counted_spec(int(size[1]), int(size[2]), options, text, WindowSpec(1, 1, "even", min_wait_s, seed))


def parse_sliding(text: str, *, min_wait_s: float = 0.0) -> SlidingSpec:
    """Read windows that start at every so-manyth job, as held-out parts are cut."""
    spec = parse_windows(text, min_wait_s=min_wait_s)
    if not isinstance(spec, SlidingSpec):
        raise InputError(f"windows {text!r}: held-out windows start at every so-manyth job; write {SLIDING_FORMS}")
    return spec


def parse_counted(text: str, *, min_wait_s: float = 0.0) -> WindowSpec:
    """Read a number of windows and their size, as a training draws them."""
    spec = parse_windows(text, min_wait_s=min_wait_s)
    if not isinstance(spec, WindowSpec) or spec.choice != "even":
        raise InputError(f"windows {text!r}: say how many are drawn, and of how many jobs: 100x256:contended=600")
    return spec


def _sliding_spec(size: int, options: Sequence[str], text: str, min_wait_s: float) -> SlidingSpec:
    given = _values(options, text, ("every", "contended"))
    every = given.get("every", float(EVERY))
    if not every.is_integer():
        raise InputError(f"windows {text!r}: every {every:g} jobs cannot be; give a whole number")
    return SlidingSpec(size, int(every), given.get("contended", min_wait_s))


def _counted_spec(count: int, size: int, options: Sequence[str], text: str, default: WindowSpec) -> WindowSpec:
    choice: Literal["even", "random"] = "random" if "random" in options else "even"
    given = _values([o for o in options if o not in {"even", "random"}], text, ("contended",))
    return WindowSpec(count, size, choice, given.get("contended", default.min_wait_s), default.seed)


def _values(options: Sequence[str], text: str, known: tuple[str, ...]) -> dict[str, float]:
    """Read `every=64` and the like."""
    values: dict[str, float] = {}
    for option in options:
        name, _, value = option.partition("=")
        if name not in known:
            raise InputError(f"windows {text!r}: option {option!r} is unknown; write {FORMS}")
        values[name] = _number(value, text)
    return values


def choose_windows(
    jobs: Jobs, spec: Spec, fcfs_wait_s: Callable[[Window], float], gpus: float = np.inf
) -> tuple[tuple[Window, ...], tuple[str, ...]]:
    """Choose windows of a trace in order of submit, and give notes on what a reader must know of the choice.

    `gpus` are those of the cluster: a run cannot begin with more of them in use.
    """
    if not len(jobs):
        raise InputError("the trace holds no job")
    if spec is None:
        return (Window(0, len(jobs)),), ()
    if isinstance(spec, Steady):
        return _steady(jobs, spec, gpus)
    if spec.size > len(jobs):
        fitting = max(1, len(jobs) // 4)
        raise InputError(
            f"a window of {spec.size:,} jobs does not fit a trace of {len(jobs):,}; give smaller windows, such as "
            f"4x{fitting}, or run the whole trace"
        )
    if isinstance(spec, SlidingSpec):
        return _sliding(jobs, spec, fcfs_wait_s)
    if spec.min_wait_s > 0:
        return _contended(jobs, spec, fcfs_wait_s)
    starts = _starts(len(jobs) - spec.size + 1, spec)
    return tuple(Window(int(s), spec.size) for s in starts), _overlap_note(starts, spec)


def _steady(jobs: Jobs, spec: Steady, gpus: float) -> tuple[tuple[Window, ...], tuple[str, ...]]:
    first, last = float(jobs.submit_s[0]), float(jobs.submit_s[-1])
    end = last - spec.cooldown * (last - first) if spec.cooldown else float(np.nextafter(last, np.inf))
    span = (first + spec.warmup * (last - first), end)
    if not last > first:
        return (Window(0, len(jobs)),), ()  # all at one time: there is nothing before to warm up with
    why = "" if spec.simulated else _why_simulated(jobs, span[0], gpus)
    resumes = not spec.simulated and not why
    return (Window(0, len(jobs), span, resumes),), ((why,) if why else ())


def _why_simulated(jobs: Jobs, now_s: float, gpus: float) -> str:
    """Return why a run cannot begin with what was recorded, or nothing if it can."""
    if not has_starts(jobs):
        return f"{NO_STARTS}, so the queue at the beginning is a simulated one."
    running = gpus_running(jobs, now_s)
    if running > gpus:
        had = f"{running:,} GPUs were recorded in use at the beginning"
        return f"{had}, this cluster has {gpus:,.0f}, so the queue at the beginning is a simulated one."
    return ""


def _starts(places: int, spec: WindowSpec) -> NDArray[np.int64]:
    """Choose among the first `places` rows, ascending, each at most once."""
    count = min(spec.count, places)
    if spec.choice == "random":
        return np.sort(np.random.default_rng(spec.seed).choice(places, count, replace=False)).astype(np.int64)
    return np.unique(np.round(np.linspace(0, places - 1, count)).astype(np.int64))


def _overlap_note(starts: NDArray[np.int64], spec: WindowSpec) -> tuple[str, ...]:
    few = f"Only {len(starts)} different windows exist; {spec.count} were asked for."
    return (*((few,) if len(starts) < spec.count else ()), *_overlap(starts, spec.size))


def _overlap(starts: NDArray[np.int64], size: int) -> tuple[str, ...]:
    if len(starts) < 2 or int(np.diff(starts).min()) >= size:
        return ()
    return ("Windows overlap, so they are not independent and the intervals are too narrow.",)


def _sliding(
    jobs: Jobs, spec: SlidingSpec, fcfs_wait_s: Callable[[Window], float]
) -> tuple[tuple[Window, ...], tuple[str, ...]]:
    looked = np.arange(0, len(jobs) - spec.size + 1, spec.every)
    if spec.min_wait_s <= 0:
        return tuple(Window(int(s), spec.size) for s in looked), _overlap(looked, spec.size)
    good = _only_contended(looked, spec.size, spec.min_wait_s, fcfs_wait_s)
    note = f"{len(good)} of {len(looked)} windows looked at were contended and are used."
    return tuple(Window(int(s), spec.size) for s in good), (note, CAVEAT, *_overlap(good, spec.size))


def _contended(
    jobs: Jobs, spec: WindowSpec, fcfs_wait_s: Callable[[Window], float]
) -> tuple[tuple[Window, ...], tuple[str, ...]]:
    apart = np.arange(0, len(jobs) - spec.size + 1, spec.size)
    looked = apart[_starts(len(apart), WindowSpec(spec.count * LOOKED_AT, 1))]
    good = _only_contended(looked, spec.size, spec.min_wait_s, fcfs_wait_s)
    chosen = good[_starts(len(good), spec)]
    few = f"; {spec.count} were asked for" if len(chosen) < spec.count else ""
    note = f"{len(good)} of {len(looked)} windows looked at were contended, {len(chosen)} are used{few}."
    return tuple(Window(int(s), spec.size) for s in chosen), (note, CAVEAT)


def _only_contended(
    starts: NDArray[np.int64], size: int, min_wait_s: float, fcfs_wait_s: Callable[[Window], float]
) -> NDArray[np.int64]:
    """Keep the starts of windows in which FCFS waits long; refuse if there is none."""
    waits = np.array([fcfs_wait_s(Window(int(s), size)) for s in starts])
    good = starts[[is_contended(wait, min_wait_s) for wait in waits]]
    if not len(good):
        most = f"the most contended waits {waits.max():g} s"
        raise InputError(f"no window of {size:,} jobs makes FCFS wait {min_wait_s:g} s; {most}")
    return good


def _number(text: str, whole: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 <= value < float("inf"):
        raise InputError(f"windows {whole!r}: {text!r} should be a number of 0 or more; write {FORMS}")
    return value

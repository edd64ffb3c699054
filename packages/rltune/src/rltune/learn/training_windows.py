"""Windows to train on: drawn at random where jobs queue, with load, estimates and cluster varied on purpose."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from rltune.cluster import Cluster
from rltune.engine.pipeline import Pipeline
from rltune.engine.run import Machine
from rltune.errors import InputError
from rltune.estimate import Estimator
from rltune.jobs import Jobs
from rltune.kernel.state import arrays as core
from rltune.labels import Labels
from rltune.learn.objective import Times
from rltune.parallel import Spread
from rltune.policy.base import Policy
from rltune.trials.contention import fcfs_wait_s, is_contended, thresholds_s
from rltune.trials.parts import Part, grown_sizes
from rltune.trials.warm_start import Knowledge

_PROBES_A_WINDOW = 16  # of a survey
_ROUNDS = 25  # of drawing as many candidates as windows are wanted, before it is said that the trace has too few


@dataclass(frozen=True)
class TrainingWindow:
    """Jobs on a cluster that start from idle, what is known of their run times, and what the base policy made of it."""

    first: int  # row of the trace
    jobs: Jobs
    cluster: Cluster
    estimator: Estimator
    pipeline: Pipeline  # with the base policy
    base: Times | None = None

    @property
    def under_base(self) -> Times:
        """Return what the base policy made of it."""
        if self.base is None:
            raise ValueError("the base policy has not run on this window")
        return self.base

    def machine(self, policy: Policy) -> Machine:
        """Prepare a run of the window under a policy."""
        return Machine.of(self.jobs, self.cluster, replace(self.pipeline, policy=policy), self.estimator)

    def times(self, policy: Policy | None = None) -> Times:
        """Run the window under a policy, the base policy if none is given."""
        machine = self.machine(policy or self.pipeline.policy)
        machine.run()
        return times_of(machine)


def times_of(machine: Machine) -> Times:
    """Return the times of the jobs of a run that has ended."""
    life = machine.state.life
    return Times.of(machine.jobs.submit_s, life.start, life.end, life.status == core.DONE)


@dataclass(frozen=True)
class Variation:
    """By how much a window differs from the trace: a factor of 1 or a share of 0 leave it as it is."""

    load: float = 1.0  # arrivals are made denser or thinner by a factor of up to this
    cluster: float = 0.0  # each group of nodes is made larger or smaller by a share of up to this

    def __post_init__(self) -> None:
        if not 1 <= self.load < np.inf:
            raise InputError(f"load can be varied by a factor of 1 (not at all) or more, not {self.load:g}")
        if not 0 <= self.cluster < 1:
            raise InputError(f"the cluster can be varied by a share from 0 to below 1, not {self.cluster:g}")

    def of_jobs(self, jobs: Jobs, rng: np.random.Generator) -> Jobs:
        """Compress or stretch the time between arrivals."""
        factor = self.load ** rng.uniform(-1.0, 1.0)
        if factor == 1:
            return jobs
        first = jobs.submit_s[0]
        return replace(jobs, submit_s=first + (jobs.submit_s - first) / factor)

    def of_cluster(self, cluster: Cluster, rng: np.random.Generator) -> Cluster:
        """Add nodes to groups, or take some away."""
        factors = 1 + self.cluster * rng.uniform(-1.0, 1.0, len(cluster.groups))
        counts = [max(1, round(group.count * f)) for group, f in zip(cluster.groups, factors, strict=True)]
        if all(count == group.count for count, group in zip(counts, cluster.groups, strict=True)):
            return cluster
        groups = (g.model_copy(update={"count": n}) for g, n in zip(cluster.groups, counts, strict=True))
        return replace(cluster, groups=tuple(groups), outages=(), name=f"{cluster.name} varied")


@dataclass(frozen=True)
class Looker:
    """Called with a window: whether it is contended."""

    contended_s: float

    def among(self, windows: list[TrainingWindow], spread: Spread) -> list[TrainingWindow]:
        """Keep the windows in which jobs queue."""
        return [window for window, busy in zip(windows, spread.map(self, windows), strict=True) if busy]

    def __call__(self, window: TrainingWindow) -> bool:
        """Return whether jobs queue in the window."""
        return is_contended(fcfs_wait_s(window.jobs, window.cluster), self.contended_s)


@dataclass(frozen=True)
class BaseRun:
    """Called with a window that was chosen: what the base policy made of it. With a solver that takes long."""

    def on(self, windows: list[TrainingWindow], spread: Spread) -> list[TrainingWindow]:
        """Return windows with what the base policy made of them."""
        times = spread.map(self, windows)
        return [replace(window, base=t) for window, t in zip(windows, times, strict=True)]

    def __call__(self, window: TrainingWindow) -> Times:
        """Return what the base policy made of the window."""
        return window.times()


@dataclass(frozen=True)
class Windows:
    """The windows of one part of a trace."""

    jobs: Jobs  # the whole trace, in order of submit
    cluster: Cluster
    part: Part
    size: int
    pipeline: Pipeline  # with the base policy
    estimators: tuple[Estimator, ...]
    contended_s: float
    variation: Variation = field(default_factory=Variation)
    survey: bool = False  # see first where jobs queue, and draw only there: for those who draw many windows

    @property
    def places(self) -> range:
        """Return the rows at which a window may start."""
        return self.part.starts(self.size, 1)

    def draw(self, count: int, key: Sequence[int], known: Knowledge, spread: Spread) -> list[TrainingWindow]:
        """Draw contended windows, or if there are too few any with a queue; the same key gives the same windows."""
        for contended_s in thresholds_s(self.contended_s):
            found = replace(self, contended_s=contended_s).found(count, key, known, spread)
            if len(found) >= count:
                return BaseRun().on(found, spread)
        raise InputError(self._too_few(len(found), _ROUNDS * count))

    def found(self, count: int, key: Sequence[int], known: Knowledge, spread: Spread) -> list[TrainingWindow]:
        """Draw as many contended windows as wanted, or as there are within some rounds."""
        rng = np.random.default_rng(list(key))
        look = Looker(self.contended_s)
        busy = busy_places(self, spread) if self.survey else None
        found: list[TrainingWindow] = []
        for _ in range(_ROUNDS):
            places = self.places
            firsts = rng.integers(places.start, places.stop, count) if busy is None else rng.choice(busy, count)
            candidates = [self._varied(int(first), known, rng) for first in np.sort(firsts)]
            found += look.among(candidates, spread)
            if len(found) >= count:
                return [found[i] for i in rng.permutation(len(found))[:count]]
        return found

    def spaced(self, count: int, known: Knowledge, spread: Spread) -> list[TrainingWindow]:
        """Return contended windows at even distances, as they are in the trace; if there is none, any with a queue.

        If no job waits in windows of this size, which begin with an idle cluster, larger ones are tried.
        """
        for size in grown_sizes(self.part, self.size):
            found = replace(self, size=size).queueing(4 * count, known, spread)
            if found:
                chosen = np.unique(np.linspace(0, len(found) - 1, count).round().astype(np.int64))
                return BaseRun().on([found[i] for i in chosen], spread)
        nobody = f"no job of the {self.part.name} part ({len(self.part):,} jobs) waits under FCFS from an idle cluster"
        raise InputError(f"{nobody}: the cluster is larger than the load, or its file lacks what made jobs wait")

    def queueing(self, count: int, known: Knowledge, spread: Spread) -> list[TrainingWindow]:
        """Return those of so many windows at even distances in which jobs queue."""
        places = self.places
        tried = np.unique(np.linspace(places.start, places.stop - 1, count).round().astype(np.int64))
        items = [self._plain(int(first), i, known) for i, first in enumerate(tried)]
        by_threshold = (Looker(contended_s).among(items, spread) for contended_s in (self.contended_s, 0.0))
        return next(filter(None, by_threshold), [])

    def _plain(self, first: int, turn: int, known: Knowledge) -> TrainingWindow:
        return self._window(first, self.estimators[turn % len(self.estimators)], known)

    def _varied(self, first: int, known: Knowledge, rng: np.random.Generator) -> TrainingWindow:
        guess = self.estimators[int(rng.integers(len(self.estimators)))]
        window = self._window(first, guess, known)
        jobs = self.variation.of_jobs(window.jobs, rng)
        return replace(window, jobs=jobs, cluster=self.variation.of_cluster(self.cluster, rng))

    def _window(self, first: int, guess: Estimator, known: Knowledge) -> TrainingWindow:
        estimator = known.estimator(guess, first, self.size)
        base = known.policy(self.pipeline.policy, first, self.size)
        jobs = _light(self.jobs.window(first, self.size))
        return TrainingWindow(first, jobs, self.cluster, estimator, replace(self.pipeline, policy=base))

    def _too_few(self, found: int, tried: int) -> str:
        windows = f"only {found} of {tried:,} windows of {self.size:,} jobs in the {self.part.name} part"
        if self.contended_s <= 0:
            return f"{windows} make anybody wait under FCFS; enlarge windows or shrink the cluster"
        return (
            f"{windows} make FCFS wait {self.contended_s:g} s on average; lower contended= of --windows, "
            "enlarge windows or shrink the cluster"
        )


@dataclass(frozen=True)
class Probe:
    """Called with the row at which a window starts: whether its jobs queue. Depends on jobs and cluster alone."""

    jobs: Jobs
    cluster: Cluster
    size: int
    contended_s: float

    def __call__(self, first: int) -> bool:
        """Return whether the window is contended."""
        window = _light(self.jobs.window(first, self.size))
        return is_contended(fcfs_wait_s(window, self.cluster), self.contended_s)


_SURVEYS: dict[str, NDArray[np.int64]] = {}  # by all that they depend on: several trainings on one trace share one


def busy_places(windows: Windows, spread: Spread) -> NDArray[np.int64]:
    """Return the rows beside which a window of the trace as it is was contended, or all if none was.

    Windows that begin a sixteenth of a window apart are much alike, so little is missed between two calm ones.
    """
    key = f"{_hash(windows.jobs)} {vars(windows.cluster)} {windows.part} {windows.size} {windows.contended_s}"
    if key not in _SURVEYS:
        places = np.arange(windows.places.start, windows.places.stop)
        probed = np.arange(0, len(places), max(1, windows.size // _PROBES_A_WINDOW))
        probe = Probe(windows.jobs, windows.cluster, windows.size, windows.contended_s)
        hit = np.array(spread.map(probe, places[probed].tolist()))
        before = np.searchsorted(probed, np.arange(len(places)), side="right") - 1
        near = hit[before] | hit[np.minimum(before + 1, len(probed) - 1)]
        _SURVEYS[key] = places[near] if near.any() else places
    return _SURVEYS[key]


def _hash(jobs: Jobs) -> str:
    """Return a hash of all that decides when jobs run, in their order."""
    digest = hashlib.sha256()
    for column in vars(_light(jobs)).values():
        digest.update(repr(column.names).encode() if isinstance(column, Labels) else b"")
        values = column.codes if isinstance(column, Labels) else column
        digest.update(np.ascontiguousarray(values).tobytes() if values.dtype != object else b"")
    return digest.hexdigest()


def _light(jobs: Jobs) -> Jobs:
    """Leave out columns that no run reads once estimates are made: windows are sent to other machines."""
    nothing = Labels.none(len(jobs))
    return replace(jobs, name=nothing, state=nothing)

"""How many nodes of which kind meet a target: found by bisection, each number of nodes run through the core."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rltune.errors import InputError
from rltune.estimate.estimators import Estimator
from rltune.jobs import Floats, Jobs
from rltune.schedule import Schedule
from rltune.text import read_seconds, seconds
from rltune.trials.intervals import student
from rltune.whatif.edits import Site, new_nodes, note_on_type, require_known_type, with_nodes
from rltune.whatif.on_history import CONFIDENCE, WARM_UP, counted_jobs, from_when_ready, level_notes, run_site
from rltune.whatif.outcome_of_change import Solved

FORMS = "p90 wait < 1h, mean wait < 30m, p90 wait < 1h for gpus>=8, p99 wait < 1d for user=ann (or partition=, gpus=)"
MOST_NODES = 1024
BLOCKS = 8  # of time, over which the measure's uncertainty is told
_MEASURES = {"mean": None, "p50": 0.5, "p90": 0.9, "p99": 0.99}

Told = Callable[[int, str], None]


@dataclass(frozen=True)
class Target:
    """A bound on the wait of some jobs."""

    text: str
    quantile: float | None  # None = the mean
    most_s: float
    whom: str = ""

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read a target such as `p90 wait < 1h for gpus>=8`."""
        match = re.fullmatch(r"(mean|p50|p90|p99)\s+wait\s*<\s*(\S+)(?:\s+for\s+(.+))?", text.strip())
        if match is None:
            raise InputError(f"target {text!r} is not understood; write {FORMS}")
        try:
            most = read_seconds(match[2])
        except ValueError as error:
            raise InputError(f"target {text!r}: {error}") from None
        target = cls(text.strip(), _MEASURES[match[1]], most, match[3] or "")
        target.rows(Jobs.from_arrays([0.0], [0.0], [1]))
        return target

    def rows(self, jobs: Jobs) -> NDArray[np.bool_]:
        """Return whom it is about."""
        if not self.whom:
            return np.ones(len(jobs), dtype=np.bool_)
        match = re.fullmatch(r"(gpus|user|partition|vc)\s*(>=|<=|=)\s*(.+)", self.whom)
        if (
            match is None
            or (match[1] != "gpus" and match[2] != "=")
            or (match[1] == "gpus" and not match[3].isdecimal())
        ):
            raise InputError(f"target {self.text!r}: jobs are named as gpus>=8, gpus=1, user=ann or partition=a")
        if match[1] == "gpus":
            compare = {">=": np.greater_equal, "<=": np.less_equal, "=": np.equal}[match[2]]
            found: NDArray[np.bool_] = compare(jobs.gpus, int(match[3]))
            return found
        labels = jobs.user if match[1] == "user" else jobs.vc
        return np.array([name == match[3] for name in labels.to_list()], dtype=np.bool_)

    def measure(self, wait_s: Floats) -> float:
        """Return the measure of these waits."""
        return float(wait_s.mean() if self.quantile is None else np.quantile(wait_s, self.quantile))


@dataclass(frozen=True)
class _Level:
    """The measure with some nodes more, and its 95 % interval."""

    value_s: float
    low_s: float
    high_s: float


def solve(
    site: Site, target: Target, kind: str, estimator: Estimator, *, most: int = MOST_NODES, told: Told | None = None
) -> Solved:
    """Find the fewest nodes of a kind (`8:A100`, GPUs and type, `8:A100@partition`) that meet the target."""
    levels: dict[int, _Level] = {}
    notes = ["more nodes are taken never to make the measure worse, as bisection needs"]
    site = from_when_ready(site)

    def level(nodes: int) -> _Level:
        if nodes not in levels:
            made = run_site(_grown(site, nodes, kind), estimator)
            levels[nodes] = _level(made, target)
            notes.extend(level_notes(made) if not nodes else ())
            if told is not None:
                told(nodes, f"{nodes} nodes: {seconds(levels[nodes].value_s)}")
        return levels[nodes]

    require_known_type(site.cluster, new_nodes(f"1x{kind}", f"--with {kind}"), f"--with {kind}")
    notes += note_on_type(site, new_nodes(f"1x{kind}", f"--with {kind}"))
    found = [_fewest(lambda n, read=read: read(level(n)) <= target.most_s, most) for read in _READINGS]  # type: ignore[misc]
    nodes, low, high = found
    return Solved(
        kind=kind,
        target=target.text,
        nodes=nodes,
        low=low,
        high=high,
        reached_s=levels[nodes].value_s if nodes is not None else float("nan"),
        now_s=levels[0].value_s,
        tried={n: levels[n].value_s for n in sorted(levels)},
        notes=tuple(notes),
    )


def _grown(site: Site, nodes: int, kind: str) -> Site:
    """Return the site with so many nodes of a kind more."""
    if not nodes:
        return site
    return replace(site, cluster=with_nodes(site.cluster, new_nodes(f"{nodes}x{kind}", f"--with {kind}")))


_READINGS: tuple[Callable[[_Level], float], ...] = (
    lambda level: level.value_s,
    lambda level: level.low_s,
    lambda level: level.high_s,
)


def _fewest(meets: Callable[[int], bool], most: int) -> int | None:
    """Return the fewest nodes that meet a test, by doubling and then by halving; None if `most` do not."""
    if meets(0):
        return 0
    high = 1
    while not meets(high):
        if high >= most:
            return None
        high = min(2 * high, most)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if meets(middle):
            high = middle
        else:
            low = middle
    return high


def _level(schedule: Schedule, target: Target) -> _Level:
    """Measure a run, and how far the measure would be off by chance: over blocks of time, one left out at a time."""
    chosen = np.flatnonzero(schedule.ran & counted_jobs(schedule, WARM_UP) & target.rows(schedule.jobs))
    if not len(chosen):
        raise InputError(f"target {target.text!r}: no job of the history is meant by it")
    wait, submit = schedule.wait_s[chosen], schedule.jobs.submit_s[chosen]
    value = target.measure(wait)
    block = np.minimum((BLOCKS * (submit - submit.min()) / max(float(np.ptp(submit)), 1e-9)).astype(int), BLOCKS - 1)
    used = [b for b in range(BLOCKS) if (block == b).any() and (block != b).any()]
    if len(used) < 3:
        return _Level(value, 0.0, np.inf)
    left_out = np.array([target.measure(wait[block != b]) for b in used])
    error = float(np.sqrt((len(used) - 1) * np.mean((left_out - left_out.mean()) ** 2)))
    half = student(0.5 + CONFIDENCE / 2, len(used) - 1) * error
    return _Level(value, value - half, value + half)

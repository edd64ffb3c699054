"""A clairvoyant lower bound: a mean JCT that no schedule of these jobs on this cluster can beat.

The cluster falls into parts that share no job (by VC and GPU type). For each part, with r the submit times, p the run
times on the fastest GPUs a job accepts, g its GPUs, M the part's GPUs, take the greatest of four numbers, each of which
is at most the sum of JCTs of every schedule, preemptive or not; then add up the parts.

`own`    No job ends before r + p.

`fluid`  Replace the part by one machine as fast as all its GPUs together, that may switch jobs at any time. Whatever
         the cluster does, that machine can do: give it the same work at the same moments. On it, shortest remaining
         work first (SRPT) has the least sum of completion times (Schrage 1968), and work = g x duration.

`busy`   A job that runs at a constant rate for `run` seconds until C has its mean busy time at C - run/2. On the
         machine above the least sum of mean busy times is that of least work first, preemptive (Goemans 1996).
         Add p/2 <= run/2 for each job. If all jobs are submitted at once this is the bound of Eastman, Even and
         Isaacs (1964).

`price`  Put a price v(t) >= 0 on every GPU-second. Jobs that share M GPUs pay together at most M x integral of v. So
         the sum of JCTs is at least the sum over jobs of the least, over starts s >= r, of
         (s + p - r) + g x integral of v over [s, s + p], minus M x integral of v (Lagrangian relaxation: jobs keep
         their shape, but are packed on average only). True for any v; v comes from the dual of `busy` and a fixed
         number of subgradient steps, on at most 1,024 intervals. (On slower GPUs take the last p seconds of the run.)

Outages, maintenance, limits, dependencies, node boundaries, CPUs and memory only shrink the set of schedules, so the
bound holds with them. A run of several attempts is bounded through its last one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from rltune.jobs import TYPE_SEPARATOR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rltune.cluster import Cluster, NodeGroup
    from rltune.jobs import Floats, Jobs

BINS = 1024
STEPS = 40
COST = 16  # of a job in each step, in trials
TRIALS = 300_000_000  # starts tried in all: a second or so, yet the same on every machine


@dataclass(frozen=True)
class Bound:
    """No schedule has a lesser mean JCT, nor a lesser mean wait; the four relaxations are means over the same jobs."""

    jobs: int
    mean_jct_s: float
    mean_wait_s: float
    own_s: float
    fluid_s: float
    busy_s: float
    price_s: float

    def gap(self, mean_jct_s: float) -> float:
        """Return by which share a mean JCT exceeds the bound: 0.25 = at most 25 % above the best schedule there is."""
        return mean_jct_s / self.mean_jct_s - 1.0 if self.mean_jct_s > 0 else np.nan

    def to_dict(self) -> dict[str, float]:
        """Return plain numbers."""
        return asdict(self)


@dataclass(frozen=True)
class _Part:
    """Jobs that may share GPUs, by submit time, which counts from the first."""

    release: Floats
    run: Floats
    gpus: Floats
    work: Floats  # GPU-seconds at speed 1
    gpu_count: float
    capacity: float  # GPUs weighted by speed


def lower_bound(jobs: Jobs, cluster: Cluster, ran: NDArray[np.bool_] | None = None) -> Bound:
    """Bound the mean JCT and wait of the jobs that ran (all, if not told) from below."""
    rows = np.arange(len(jobs)) if ran is None else np.flatnonzero(ran)
    if not len(rows):
        return Bound(0, *[np.nan] * 6)
    kinds, kind_of = _kinds(jobs, rows)
    eligible = [_eligible(jobs, cluster, *kind) for kind in kinds.tolist()]
    speed = np.array([cluster.speed_of(g.gpu_type) for g in cluster.groups])
    fastest = np.array([speed[e].max() for e in eligible])[kind_of]
    slowest = np.array([speed[e].min() for e in eligible])[kind_of]
    run = jobs.duration_s[rows] / fastest
    own = float(run.sum())
    sums = np.zeros(4)
    for groups, members in _parts(eligible, kind_of, len(cluster.groups)):
        counted = members[(run[members] > 0) & (jobs.gpus[rows[members]] > 0)]
        alone = float(run[members].sum())
        part = _part(jobs, rows[counted], run[counted], cluster.groups, groups, speed)
        bounds = _relaxations(part) + (alone - float(part.run.sum()))
        sums += np.append(bounds, bounds.max())
    fluid, busy, price, best = (sums / len(rows)).tolist()
    # A job may have run on slow GPUs: only what exceeds the longest run it can have is surely wait.
    longest = float((jobs.duration_s[rows] / slowest).mean())
    return Bound(len(rows), best, max(0.0, best - longest), own / len(rows), fluid, busy, price)


def _kinds(jobs: Jobs, rows: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Return the distinct (VC, types, has GPUs) of the jobs, and each job's."""
    vc, types = jobs.vc.codes[rows].astype(np.int64), jobs.gpu_types.codes[rows].astype(np.int64)
    width = len(jobs.gpu_types.names) + 1
    code = ((vc + 1) * width + types + 1) * 2 + (jobs.gpus[rows] > 0)
    distinct, kind_of = np.unique(code, return_inverse=True)
    rest = distinct // 2
    return np.stack([rest // width - 1, rest % width - 1, distinct % 2], axis=1), kind_of


def _eligible(jobs: Jobs, cluster: Cluster, vc: int, types: int, has_gpus: int) -> NDArray[np.bool_]:
    accepted = jobs.gpu_types.names[types].split(TYPE_SEPARATOR) if types >= 0 else ()
    name = jobs.vc.names[vc] if vc >= 0 else None
    mask = np.array([group.accepted(name, accepted, with_gpus=bool(has_gpus)) for group in cluster.groups])
    return mask if mask.any() else np.ones(len(mask), dtype=np.bool_)


def _parts(
    eligible: list[NDArray[np.bool_]], kind_of: NDArray[np.intp], groups: int
) -> list[tuple[NDArray[np.bool_], NDArray[np.intp]]]:
    """Join groups that a kind of job may choose between; give each part's groups and jobs."""
    part = np.arange(groups)
    for mask in eligible:
        part[np.isin(part, part[mask])] = part[mask].min()
    part_of_kind = np.array([part[mask][0] for mask in eligible])
    return [(part == p, np.flatnonzero(part_of_kind[kind_of] == p)) for p in np.unique(part_of_kind)]


def _part(
    jobs: Jobs,
    rows: NDArray[np.intp],
    run: Floats,
    groups: tuple[NodeGroup, ...],
    chosen: NDArray[np.bool_],
    speed: Floats,
) -> _Part:
    order = np.argsort(jobs.submit_s[rows], kind="stable")
    rows, run = rows[order], run[order]
    sizes = np.array([g.count * g.gpus for g in groups], dtype=np.float64)
    submit = jobs.submit_s[rows]
    gpus = jobs.gpus[rows].astype(np.float64)
    return _Part(
        release=submit - submit[:1].sum(),
        run=run,
        gpus=gpus,
        work=gpus * jobs.duration_s[rows],
        gpu_count=float(sizes[chosen].sum()),
        capacity=float((sizes * speed)[chosen].sum()),
    )


def _relaxations(part: _Part) -> Floats:
    """Return the sums of JCTs of the three relaxations; `own` is `price` at price 0, so never above it."""
    if not len(part.release):
        return np.zeros(3)
    from rltune.metrics.bound_kernels import fluid, prices

    srpt, _, _, _ = fluid(part.release, part.work, part.capacity, True)
    _, job, begin, end = fluid(part.release, part.work, part.capacity, False)
    done = (end - begin) * part.capacity
    busy = float((done * (begin + end) / 2 / part.work[job]).sum() - part.release.sum() + part.run.sum() / 2)
    high, low = prices(part.work, job, begin, end)
    spent = np.concatenate([[0.0], np.cumsum((high + low) / 2 * (end - begin))])
    price = _priced(part, np.append(begin, end[-1:]), spent)
    return np.array([float((srpt - part.release).sum()), busy, price])


def _priced(part: _Part, time_s: Floats, spent: Floats) -> float:
    """Climb from the prices of the machine without job shapes to better ones."""
    ends = part.release + part.run
    edges = np.unique(np.quantile(np.concatenate([part.release, ends, time_s]), np.linspace(0.0, 1.0, BINS + 1)))
    width = np.diff(edges)
    first = np.diff(np.interp(edges, time_s, spent)) / width
    (best, excess, _), price = _value(part, edges, first * 0.0), first * 0.0
    warm, warm_excess, trials = _value(part, edges, first)
    if warm > best:
        best, excess, price = warm, warm_excess, first
    value, target = best, 0.2 * best
    for _ in range(STEPS):
        slope = excess / width
        room = float(excess @ slope)
        if room <= 0 or trials > TRIALS:
            break
        price = np.maximum(0.0, price + (best + target - value) / room * slope)
        value, excess, tried = _value(part, edges, price)
        trials += tried + COST * len(part.release)
        if value <= best:
            target *= 0.6
        best = max(best, value)
    return best


def _value(part: _Part, edges: Floats, price: Floats) -> tuple[float, Floats, int]:
    """Return the bound at these prices, the GPU-seconds by which the runs exceed each interval, and the trials."""
    from rltune.metrics.bound_kernels import cheapest

    paid = np.concatenate([[0.0], np.cumsum(price * np.diff(edges))])
    last = len(edges) - 1
    release_bin = np.minimum(np.searchsorted(edges, part.release, side="right") - 1, last)
    end_bin = np.minimum(np.searchsorted(edges, part.release + part.run, side="right") - 1, last)
    used = np.empty(last)
    cost, tried = cheapest(
        part.release, part.run, part.gpus, edges, np.append(price, 0.0), paid, release_bin, end_bin, used
    )
    room = part.gpu_count * np.diff(edges)
    return cost + float(part.run.sum()) - part.gpu_count * float(paid[-1]), used - room, tried

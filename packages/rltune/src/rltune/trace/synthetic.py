"""A generator of traces like Philly, Helios and PAI: same seed, same trace.

Jobs come in bursts: a user submits one piece of work (a name) several times in one go. Users belong to VCs and have
habits (how large, how long, which time limit). What depends on such habits is drawn as an *order* of the jobs first
and then laid on the published distribution, so habits are strong and the marginals still hold.

Two caps keep the load from being made by single jobs: no run time exceeds the profile's `cap_s`, and no job holds
more than 2 % of all GPU-seconds (or the share of 20 jobs, if that is more).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rltune.cluster import same_name
from rltune.errors import InputError, unknown
from rltune.jobs import Jobs
from rltune.labels import Labels
from rltune.trace.habits import campaigns, habits
from rltune.trace.lublin import lublin
from rltune.trace.profiles import CLASS_TOPS, DAY_S, PROFILES, QUANTILES, Profile

if TYPE_CHECKING:
    from rltune.cluster import Cluster

Floats = NDArray[np.float64]
Index = NDArray[np.intp]

HOUR_S = 3_600.0
ROUND_LIMITS_S = np.array(
    [m * 60.0 for m in (5, 10, 15, 30)] + [h * HOUR_S for h in (1, 2, 4, 6, 8, 12, 24, 48, 72, 96, 168, 336, 720, 1440)]
)
SITES = {"habits": habits, "campaigns": campaigns}  # made-up sites with users and names
KINDS = (*PROFILES, "lublin", *SITES)
_MOST_OF_LOAD = 0.02
_RUNS_PER_NAME = 3  # bursts after which a user goes on to the next piece of work
_BACK_TO_OLD = 0.2  # how often a user returns to an older one
_BLOCKS_H = (3, 12, 48)  # the rate is restless on these scales


def synthesise(
    kind: str = "philly",
    jobs: int = 10_000,
    seed: int = 0,
    load: float | None = None,
    cluster: Cluster | None = None,
    days: float | None = None,
) -> Jobs:
    """Make a trace of `jobs` jobs.

    The span is `days`; or, with `load` and `cluster`, such that the jobs' GPU-seconds are that part of what the
    cluster's GPUs give from the first to the last submit; or else as many days as the original took for so many jobs.
    With a cluster, its VCs and GPU types are used, and no job is larger than what it may use.
    """
    _check(jobs, load, cluster, days)
    if kind == "lublin":
        return _lublin(jobs, seed, load, cluster, days)
    if kind in SITES:
        return SITES[kind](jobs, seed, load, cluster, days)
    profile = _profile(kind)
    rng = np.random.default_rng(seed)
    bursts = _bursts(profile, jobs, cluster, rng)
    gpus = _sizes(profile, bursts, cluster, rng)
    state = _states(profile, bursts, rng)
    duration = _durations(profile, bursts, gpus, state, rng)
    span = _span_s(profile, jobs, float(gpus @ duration), load, cluster, days)
    submit = _submits(profile, bursts, span, rng)
    made = Jobs.from_arrays(
        submit_s=submit,
        duration_s=duration,
        gpus=gpus,
        limit_s=_limits(profile, bursts, duration, rng),
        cpus_per_gpu=_per_name(bursts, profile.cpus_per_gpu, rng),
        mem_gib_per_gpu=_per_name(bursts, profile.mem_gib_per_gpu, rng),
    ).with_columns(
        vc=_labels(bursts.vc[bursts.of], bursts.vc_names),
        user=_labels(bursts.user[bursts.of], tuple(f"u{i:04d}" for i in range(bursts.user.max() + 1))),
        name=_labels(bursts.work[bursts.of], tuple(f"work-{i}" for i in range(bursts.work.max() + 1))),
        gpu_types=_labels(bursts.gpu_type[bursts.of], bursts.type_names),
        state=Labels(state, ("completed", "failed", "killed")),
    )
    ordered = made.sorted()
    return ordered.with_columns(id=np.arange(jobs))


@dataclass(frozen=True)
class _Bursts:
    """Jobs submitted in one go, in order of time."""

    count: Index  # jobs of each
    of: Index  # per job, its burst
    user: Index
    work: Index  # what is run; each belongs to one user
    vc: Index
    vc_names: tuple[str, ...]
    gpu_type: Index  # -1 = any
    type_names: tuple[str, ...]


def _lublin(jobs: int, seed: int, load: float | None, cluster: Cluster | None, days: float | None) -> Jobs:
    """Make jobs by Lublin's model; a load or days stretch the time between arrivals."""
    made = lublin(jobs, cluster.gpu_count if cluster else 256, seed)
    span_s = float(made.submit_s[-1])
    wanted_s = span_s if days is None else days * DAY_S
    if load is not None and cluster is not None:
        wanted_s = float(made.gpus @ made.duration_s) / (cluster.gpu_count * load)
    return made if wanted_s == span_s else replace(made, submit_s=made.submit_s * (wanted_s / max(span_s, 1.0)))


def _profile(kind: str) -> Profile:
    if kind not in PROFILES:
        raise unknown("kind of synthetic trace", kind, KINDS)
    return PROFILES[kind]


def _check(jobs: int, load: float | None, cluster: Cluster | None, days: float | None) -> None:
    if jobs < 1:
        raise InputError(f"{jobs} jobs cannot be made; ask 1 or more")
    if load is not None and days is not None:
        raise InputError("give the load or the days, not both: each sets how fast jobs arrive")
    if load is not None and cluster is None:
        raise InputError("a load needs a cluster that it loads")
    if load is not None and not 0 < load < np.inf:
        raise InputError(f"load {load} should be more than 0, such as 0.9")
    if days is not None and not 0 < days < np.inf:
        raise InputError(f"days {days} should be more than 0")
    if cluster is not None and not cluster.gpu_count:
        raise InputError("the cluster has no GPUs")


def _bursts(profile: Profile, jobs: int, cluster: Cluster | None, rng: np.random.Generator) -> _Bursts:
    count = _burst_sizes(profile, jobs, rng)
    names, shares = _vcs(profile, cluster)
    vc = _by_share(count, shares, rng)
    user = _users(profile, jobs, vc, shares, rng)
    work = _works(user, rng)
    types, type_shares = _types(profile, cluster)
    drawn = rng.choice(len(types), size=int(work.max()) + 1, p=type_shares) if types else np.zeros(int(work.max()) + 1)
    of_type = np.where(np.array([t == "" for t in types])[drawn], -1, drawn)[work] if types else np.full(len(count), -1)
    return _Bursts(count, np.repeat(np.arange(len(count)), count), user, work, vc, names, of_type, types)


def _burst_sizes(profile: Profile, jobs: int, rng: np.random.Generator) -> Index:
    """Draw heavy-tailed numbers of jobs until they are enough; the last burst is cut."""
    cap = max(1, min(profile.burst_cap, jobs // 20))
    many = np.minimum(rng.pareto(profile.burst, size=jobs) + 1, cap).astype(np.intp)
    sizes = np.where(rng.random(jobs) < profile.alone, 1, many)
    last = int(np.searchsorted(np.cumsum(sizes), jobs))
    count = sizes[: last + 1].copy()
    count[-1] -= count.sum() - jobs
    return count


def _vcs(profile: Profile, cluster: Cluster | None) -> tuple[tuple[str, ...], Floats]:
    """Name the VCs and give their shares: the cluster's by its GPUs, else the profile's."""
    if cluster is not None:
        if not cluster.vcs:
            return (), np.ones(1)
        size = np.array([_capacity(cluster, vc, None) for vc in cluster.vcs], dtype=np.float64)
        return cluster.vcs, size / size.sum()
    shares = np.array(profile.vcs or (1.0,))
    names = tuple(f"vc{i + 1}" for i in range(len(profile.vcs)))
    return names, shares / shares.sum()


def _by_share(count: Index, shares: Floats, rng: np.random.Generator) -> Index:
    """Deal bursts out so that each gets its share of the jobs, not only of the bursts."""
    order = rng.permutation(len(count))
    middle = (np.cumsum(count[order]) - count[order] / 2) / count.sum()
    dealt = np.empty(len(count), dtype=np.intp)
    dealt[order] = np.minimum(np.searchsorted(np.cumsum(shares), middle), len(shares) - 1)
    return dealt


def _users(profile: Profile, jobs: int, vc: Index, shares: Floats, rng: np.random.Generator) -> Index:
    """Choose each burst's user among those of its VC; few users submit most."""
    total = int(np.clip(jobs // 50, 2, profile.users))
    each = np.maximum(1, np.rint(shares * total)).astype(np.intp)
    home = np.repeat(np.arange(len(each)), each)
    rank = np.arange(len(home)) - np.repeat(np.cumsum(each) - each, each)
    weight = 1.0 / (rank + 1.0) ** 0.8
    weight /= np.bincount(home, weights=weight)[home]
    upto = np.cumsum(weight)  # whole numbers where a VC ends
    return np.minimum(np.searchsorted(upto, vc + rng.random(len(vc)) * (1 - 1e-9)), len(home) - 1)


def _works(user: Index, rng: np.random.Generator) -> Index:
    """Choose what is run: a user repeats a piece of work, goes on to the next, and returns at times."""
    order = np.argsort(user, kind="stable")
    first = np.searchsorted(user[order], user[order])
    turn = np.empty(len(user), dtype=np.intp)
    turn[order] = np.arange(len(user)) - first
    newest = turn // _RUNS_PER_NAME
    older = (rng.random(len(user)) * (newest + 1)).astype(np.intp)
    chosen = np.where(rng.random(len(user)) < _BACK_TO_OLD, older, newest)
    _, work = np.unique(user * (len(user) + 1) + chosen, return_inverse=True)
    return work


def _types(profile: Profile, cluster: Cluster | None) -> tuple[tuple[str, ...], Floats]:
    """Name the GPU types that the cluster has, with their shares."""
    if profile.gpu_types is None:
        return (), np.ones(0)
    known = {t: n for t, n in profile.gpu_types.items() if cluster is None or t == "" or _has_type(cluster, t)}
    if not any(known.keys() - {""}):
        return (), np.ones(0)
    return tuple(known), np.array(list(known.values())) / sum(known.values())


def _sizes(profile: Profile, bursts: _Bursts, cluster: Cluster | None, rng: np.random.Generator) -> Index:
    """Lay the order of the bursts by size on the published shares; large bursts are of small jobs."""
    like = (
        1.2 * np.linspace(-1, 1, len(bursts.vc_names) or 1)[bursts.vc]
        + 0.7 * _effect(bursts.user, rng)
        + 0.7 * _effect(bursts.work, rng)
        - 0.3 * np.log(bursts.count)
    )
    rank = _ranks(like[bursts.of], rng)
    sizes = np.array(list(profile.sizes))
    gpus = sizes[np.minimum(np.searchsorted(np.cumsum(list(profile.sizes.values())), rank), len(sizes) - 1)]
    return gpus if cluster is None else _fitted(gpus, bursts, sizes, cluster)


def _fitted(gpus: Index, bursts: _Bursts, sizes: Index, cluster: Cluster) -> Index:
    """Bring jobs down to the largest usual size that their VC's nodes of their type can hold."""
    vcs: tuple[str | None, ...] = bursts.vc_names or (None,)
    types: tuple[str | None, ...] = (*bursts.type_names, None)
    room = np.array([[_capacity(cluster, vc, t or None) for t in types] for vc in vcs])[bursts.vc, bursts.gpu_type]
    largest = sizes[np.maximum(np.searchsorted(sizes, room, side="right") - 1, 0)]
    return np.minimum(gpus, largest[bursts.of])


def _capacity(cluster: Cluster, vc: str | None, gpu_type: str | None) -> int:
    """Count the GPUs that a job of this VC and type may use."""
    types = () if gpu_type is None else (gpu_type,)
    return sum(g.count * g.gpus for g in cluster.groups if g.accepted(vc, types, with_gpus=True))


def _has_type(cluster: Cluster, gpu_type: str) -> bool:
    return any(same_name(gpu_type, own) for own in cluster.gpu_types)


def _states(profile: Profile, bursts: _Bursts, rng: np.random.Generator) -> NDArray[np.int32]:
    """Return how jobs end: 0 completed, 1 failed, 2 killed; some work fails more often than other."""
    luck = _ranks(0.6 * _effect(bursts.work, rng)[bursts.of] + rng.normal(size=len(bursts.of)), rng)
    failed = profile.states.get("failed", 0.0)
    killed = profile.states.get("killed", 0.0)
    return np.where(luck < failed, 1, np.where(luck > 1 - killed, 2, 0)).astype(np.int32)


def _durations(
    profile: Profile, bursts: _Bursts, gpus: Index, state: NDArray[np.int32], rng: np.random.Generator
) -> Floats:
    """Lay the order of the jobs by length on the run times of their size."""
    n = len(gpus)
    like = 0.5 * _effect(bursts.user, rng)[bursts.of] + 0.7 * _effect(bursts.work, rng)[bursts.of]
    like += 0.5 * rng.normal(size=n)
    early = rng.random(n) < profile.failed_early
    like += np.where(state == 1, np.where(early, -1.2, profile.failed_shift), 0.0)
    like += np.where(state == 2, profile.killed_shift, 0.0)
    duration = np.empty(n)
    size_class = np.searchsorted(np.array(CLASS_TOPS), gpus)
    for c, knots in enumerate(profile.run_s):
        rows = np.flatnonzero(size_class == c)
        raw = np.interp(_ranks(like[rows], rng), QUANTILES, np.log(knots))
        log_s = np.log(profile.median_s) + profile.stretch * (raw - np.log(profile.run_median_s))
        duration[rows] = np.exp(log_s)
    duration = np.clip(np.rint(duration), 1.0, profile.cap_s)
    most = max(_MOST_OF_LOAD, 20 / n) * float(gpus @ duration) / gpus
    return np.maximum(1.0, np.floor(np.minimum(duration, most)))


def _span_s(
    profile: Profile, jobs: int, gpu_s: float, load: float | None, cluster: Cluster | None, days: float | None
) -> float:
    if load is not None and cluster is not None:
        return gpu_s / (cluster.gpu_count * load)
    return DAY_S * (jobs / profile.jobs_per_day if days is None else days)


def _submits(profile: Profile, bursts: _Bursts, span_s: float, rng: np.random.Generator) -> Floats:
    """Spread the bursts by a rate with day and week cycles that is restless besides; 0 s is a Monday's midnight."""
    hours = int(np.ceil(span_s / HOUR_S))
    rate = np.array(profile.hours)[np.arange(hours) % 24] * np.array(profile.days)[np.arange(hours) // 24 % 7]
    for block in _BLOCKS_H:
        rate = rate * np.repeat(np.exp(rng.normal(0, profile.restless, hours // block + 1)), block)[:hours]
    upto = np.concatenate([[0.0], np.cumsum(rate)])
    edges = np.minimum(np.arange(hours + 1) * HOUR_S, span_s)
    begin = np.interp(np.sort(rng.random(len(bursts.count))) * upto[-1], upto, edges)
    gap = np.exp(rng.normal(np.log(profile.gap_s), profile.gap_spread, len(bursts.of)))
    run = np.cumsum(gap)
    first = np.cumsum(bursts.count) - bursts.count
    after = run - run[first][bursts.of]
    longest = np.maximum.reduceat(after, first)
    after *= np.minimum(1.0, 0.1 * span_s / np.maximum(longest, 1e-9))[bursts.of]  # a burst is short beside the span
    submit = begin[bursts.of] + after
    submit -= submit.min()
    scaled: Floats = np.rint(submit * (span_s / max(submit.max(), 1e-9)))
    return scaled


def _limits(profile: Profile, bursts: _Bursts, duration: Floats, rng: np.random.Generator) -> Floats:
    """Ask round times, ample and mostly the same for a whole burst; some users ask none."""
    first = np.cumsum(bursts.count) - bursts.count
    typical = np.exp(np.add.reduceat(np.log(duration), first) / bursts.count)
    caution = np.exp(np.maximum(0.0, 0.9 + 0.7 * _effect(bursts.work, rng)))
    asked = np.maximum(duration, (typical * caution)[bursts.of])
    limit = ROUND_LIMITS_S[np.minimum(np.searchsorted(ROUND_LIMITS_S, asked), len(ROUND_LIMITS_S) - 1)]
    silent = _ranks(rng.normal(size=int(bursts.user.max()) + 1), rng) < profile.no_limit
    return np.where(silent[bursts.user][bursts.of], np.nan, limit)


def _per_name(bursts: _Bursts, choices: tuple[float, ...], rng: np.random.Generator) -> Any:
    """Draw what a piece of work asks beside GPUs; None if the profile does not say."""
    if not choices:
        return None
    return rng.choice(choices, size=int(bursts.work.max()) + 1)[bursts.work][bursts.of]


def _effect(of: Index, rng: np.random.Generator) -> Floats:
    """Draw a standard normal for every owner, and give each its owner's."""
    return rng.normal(size=int(of.max()) + 1)[of]


def _ranks(values: Floats, rng: np.random.Generator) -> Floats:
    """Turn values into their ranks from 0 to 1, evenly spread at random within each rank."""
    rank = np.empty(len(values))
    rank[np.lexsort((rng.random(len(values)), values))] = np.arange(len(values))
    return (rank + rng.random(len(values))) / max(len(values), 1)


def _labels(codes: Index, names: tuple[str, ...]) -> Labels:
    return Labels(codes.astype(np.int32), names) if names else Labels.none(len(codes))

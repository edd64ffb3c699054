"""Builds the World and the first State of a run from jobs, a cluster and estimates. Plain numpy, once a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rltune.cluster import Cluster, Limit
from rltune.core.shapes import Masks, Shapes, make_masks, make_shapes
from rltune.core.state import (
    F8,
    FUTURE,
    I1,
    I4,
    I8,
    N_COUNTERS,
    NODE_DOWN,
    NODE_UP,
    NODE_WAKE,
    REJECTED,
    SCOPES,
    UNLIMITED,
    State,
    World,
)
from rltune.jobs import Jobs
from rltune.labels import Labels


@dataclass(frozen=True)
class Likeness:
    """A predictor from history: per job its keys, coarse to fine, and how much to trust and keep."""

    keys: I4  # [job, level]; -1 = none
    n_keys: int
    trust: float = 1.0
    decay: float = 1.0

    @classmethod
    def none(cls, n: int) -> Likeness:
        """Give a predictor that is never asked."""
        return cls(np.full((n, 1), -1, dtype=np.int32), 1)


@dataclass(frozen=True)
class Factors:
    """What Slurm's multifactor rule needs beside the job: its parameters (see core/share.py), and per job two factors."""

    parameters: F8
    of_job: F8  # [job, 2]
    user_share: F8
    account_share: F8


@dataclass(frozen=True)
class Groups:
    """Node groups as arrays, and the layout of the index."""

    lo: I4
    hi: I4
    gpus: I4
    cpu: I8
    mem: I8
    speed: F8
    words: I4
    bits_at: I4
    level_at: I4

    @classmethod
    def of(cls, cluster: Cluster) -> Groups:
        """Lay the groups out."""
        count = np.array([g.count for g in cluster.groups])
        gpus = np.array([g.gpus for g in cluster.groups], dtype=np.int32)
        hi = np.cumsum(count).astype(np.int32)
        words = ((count + 31) // 32).astype(np.int32)
        bits = words * (gpus + 1)
        return cls(
            lo=(hi - count).astype(np.int32),
            hi=hi,
            gpus=gpus,
            cpu=np.array([_capacity(g.cpus, 1000) for g in cluster.groups], dtype=np.int64),
            mem=np.array([_capacity(g.mem_gib, 1024) for g in cluster.groups], dtype=np.int64),
            speed=np.array([cluster.speed.get(g.gpu_type, 1.0) for g in cluster.groups]),
            words=words,
            bits_at=(np.cumsum(bits) - bits).astype(np.int32),
            level_at=(np.cumsum(gpus + 1) - (gpus + 1)).astype(np.int32),
        )


def _capacity(amount: float | None, factor: int) -> int:
    return UNLIMITED if amount is None else int(np.floor(amount * factor + 1e-6))


@dataclass(frozen=True)
class Counters:
    """Limits as counters, and the counters of each job."""

    of_job: I4  # [job, SCOPES]
    max_gpus: I8
    max_running: I8
    max_submitted: I8

    @classmethod
    def of(cls, jobs: Jobs, limits: tuple[Limit, ...]) -> Counters:
        """Number a counter for every user, account, VC, QOS and array that a limit speaks of."""
        of_job = np.full((len(jobs), SCOPES), -1, dtype=np.int32)
        rows: list[tuple[int, int, int]] = []
        for scope, name in enumerate(("user", "account", "vc", "qos")):
            labels: Labels = getattr(jobs, name)
            ceilings = [_ceilings(limits, name, label) for label in labels.names]
            codes = np.full(len(labels.names) + 1, -1, dtype=np.int32)
            for i, ceiling in enumerate(ceilings):
                if min(ceiling) < UNLIMITED:
                    codes[i] = len(rows)
                    rows.append(ceiling)
            of_job[:, scope] = codes[labels.codes]
        throttled = (jobs.array >= 0) & (jobs.array_limit > 0)
        for array in np.unique(jobs.array[throttled]).tolist():
            tasks = jobs.array == array
            of_job[tasks, 4] = len(rows)
            rows.append((UNLIMITED, int(jobs.array_limit[tasks].max()), UNLIMITED))
        table = np.array(rows or [(UNLIMITED,) * 3], dtype=np.int64)
        return cls(of_job, *(np.ascontiguousarray(table[:, i]) for i in range(3)))


def _ceilings(limits: tuple[Limit, ...], scope: str, name: str) -> tuple[int, int, int]:
    """Give the limits on GPUs, running and submitted jobs; the strictest of all that speak of this name."""
    ceiling = [UNLIMITED] * 3
    for limit in limits:
        if limit.scope == scope and limit.name in {name, "*"}:
            for i, value in enumerate((limit.max_gpus, limit.max_running, limit.max_submitted)):
                if value is not None:
                    ceiling[i] = min(ceiling[i], value)
    return ceiling[0], ceiling[1], ceiling[2]


def _chunk_tables(shapes: Shapes) -> tuple[I4, I4, I4, I8, I8]:
    """Give per shape the number of kinds, and per kind of chunk its count, GPUs, CPUs and memory."""
    n = len(shapes.chunks)
    width = max((len(c) for c in shapes.chunks), default=1)
    kinds = np.array([len(c) for c in shapes.chunks], dtype=np.int32)
    count = np.zeros((n, width), dtype=np.int32)
    gpus = np.zeros((n, width), dtype=np.int32)
    cpu = np.full((n, width), -1, dtype=np.int64)
    mem = np.full((n, width), -1, dtype=np.int64)
    for i, chunks in enumerate(shapes.chunks):
        total = sum(c * g for c, g in chunks)
        for k, (c, g) in enumerate(chunks):
            count[i, k], gpus[i, k] = c, g
            part, whole = (g, total) if total else (1, c)
            for out, asked in ((cpu, shapes.cpu_milli[i]), (mem, shapes.mem_mib[i])):
                if asked >= 0:
                    out[i, k] = int(asked) * part // whole
    return kinds, count, gpus, cpu, mem


def _csr(lists: list[list[int]]) -> tuple[I8, I4]:
    ptr = np.zeros(len(lists) + 1, dtype=np.int64)
    np.cumsum([len(x) for x in lists], out=ptr[1:])
    return ptr, np.array([v for x in lists for v in x], dtype=np.int32)


def _children(jobs: Jobs) -> tuple[I8, I4]:
    """Turn "waits for" into "is waited for by"."""
    waits_for = jobs.after
    waiter = np.repeat(np.arange(len(jobs), dtype=np.int32), np.diff(jobs.after_ptr))
    order = np.argsort(waits_for, kind="stable")
    ptr = np.zeros(len(jobs) + 1, dtype=np.int64)
    np.cumsum(np.bincount(waits_for, minlength=len(jobs)), out=ptr[1:])
    return ptr, waiter[order]


def _pauses(cluster: Cluster) -> tuple[I4, F8, F8]:
    by_group: list[list[tuple[float, float]]] = [[] for _ in cluster.groups]
    for window in cluster.maintenance:
        for g in window.groups or range(len(cluster.groups)):
            by_group[g].append((window.start_s, window.end_s))
    ptr = np.zeros(len(by_group) + 1, dtype=np.int32)
    np.cumsum([len(x) for x in by_group], out=ptr[1:])
    flat = np.array([pair for x in by_group for pair in sorted(x)], dtype=np.float64).reshape(-1, 2)
    return ptr, np.ascontiguousarray(flat[:, 0]), np.ascontiguousarray(flat[:, 1])


def _node_events(cluster: Cluster) -> tuple[F8, I4, I1]:
    """List outages (overlapping ones of a node joined) and ends of maintenance in order of time."""
    events: list[tuple[float, int, int]] = [(m.end_s, NODE_WAKE, 0) for m in cluster.maintenance]
    by_node: dict[int, list[list[float]]] = {}
    for outage in sorted(cluster.outages, key=lambda o: o.down_s):
        spans = by_node.setdefault(outage.node, [])
        if spans and outage.down_s <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], outage.up_s)
        else:
            spans.append([outage.down_s, outage.up_s])
    for node, spans in by_node.items():
        for down, up in spans:
            events.append((down, NODE_DOWN, node))
            if np.isfinite(up):
                events.append((up, NODE_UP, node))
    events.sort()
    return (
        np.array([e[0] for e in events], dtype=np.float64),
        np.array([e[2] for e in events], dtype=np.int32),
        np.array([e[1] for e in events], dtype=np.int8),
    )


def prepare(
    jobs: Jobs, cluster: Cluster, estimate_s: F8, factors: Factors, likeness: tuple[Likeness, Likeness], *, sorts: bool
) -> tuple[World, State]:
    """Build the arrays of a run; the jobs must be in order of submit time. `sorts`: scores need the queue's scratch."""
    masks = make_masks(jobs, cluster)
    shapes = make_shapes(jobs, cluster, masks)
    world = _make_world(jobs, cluster, masks, shapes, factors, likeness)
    return world, _make_state(world, estimate_s, likeness, sorts=sorts)


def _make_world(
    jobs: Jobs, cluster: Cluster, masks: Masks, shapes: Shapes, factors: Factors, likeness: tuple[Likeness, Likeness]
) -> World:
    groups = Groups.of(cluster)
    kinds, chunk_n, chunk_gpus, chunk_cpu, chunk_mem = _chunk_tables(shapes)
    counters = Counters.of(jobs, cluster.limits)
    child_ptr, child = _children(jobs)
    mask_ptr, mask_group = _csr([list(m) for m in masks.groups])
    mask_has = np.zeros((len(masks.groups), len(cluster.groups)), dtype=np.bool_)
    for i, members in enumerate(masks.groups):
        mask_has[i, list(members)] = True
    pause_ptr, pause_start, pause_end = _pauses(cluster)
    event_time, event_node, event_kind = _node_events(cluster)
    chunk_ptr = np.zeros(len(jobs) + 1, dtype=np.int64)
    np.cumsum(chunk_n.sum(axis=1)[shapes.of_job] if len(jobs) else [], out=chunk_ptr[1:])
    wide = max(len(x.keys[0]) if len(x.keys) else 1 for x in likeness)
    return World(
        submit=jobs.submit_s,
        duration=jobs.duration_s,
        gpus=jobs.gpus,
        shape=shapes.of_job,
        counters=counters.of_job,
        after_n=np.diff(jobs.after_ptr).astype(np.int32),
        child_ptr=child_ptr,
        child=child,
        chunk_ptr=chunk_ptr,
        kinds=kinds,
        chunk_n=chunk_n,
        chunk_gpus=chunk_gpus,
        chunk_cpu=chunk_cpu,
        chunk_mem=chunk_mem,
        smallest_chunk=np.array([min(g for _, g in c) for c in shapes.chunks], dtype=np.int32),
        shape_mask=shapes.mask,
        mask_ptr=mask_ptr.astype(np.int32),
        mask_group=mask_group,
        mask_has=mask_has,
        mask_gpus=np.array([max((cluster.groups[g].gpus for g in m), default=0) for m in masks.groups], dtype=np.int32),
        mask_speed=np.array([min((groups.speed[g] for g in m), default=1.0) for m in masks.groups]),
        node_group=np.repeat(np.arange(len(cluster.groups), dtype=np.int32), groups.hi - groups.lo),
        group_lo=groups.lo,
        group_hi=groups.hi,
        group_gpus=groups.gpus,
        group_cpu=groups.cpu,
        group_mem=groups.mem,
        group_speed=groups.speed,
        words=groups.words,
        bits_at=groups.bits_at,
        level_at=groups.level_at,
        pause_ptr=pause_ptr,
        pause_start=pause_start,
        pause_end=pause_end,
        event_time=event_time,
        event_node=event_node,
        event_kind=event_kind,
        max_gpus=counters.max_gpus,
        max_running=counters.max_running,
        max_submitted=counters.max_submitted,
        has_limits=bool((counters.of_job >= 0).any()),
        has_pauses=len(pause_end) > 0,
        rank_n=np.maximum(jobs.gpus, 1).astype(np.float64),
        prior=_prior(jobs),
        history_key=np.stack([_widened(x.keys, wide) for x in likeness]),
        history_par=np.array([[x.trust, x.decay] for x in likeness]),
        factor=factors.of_job,
        factor_par=factors.parameters,
        user=jobs.user.codes,
        account=jobs.account.codes,
        user_share=factors.user_share,
        account_share=factors.account_share,
        total_gpus=float(max(cluster.gpu_count, 1)),
    )


def _prior(jobs: Jobs) -> F8:
    """Give what is believed of a run time before anything has ended: the user's limit, or an hour."""
    return np.where(np.isnan(jobs.limit_s), 3600.0, jobs.limit_s)


def _widened(keys: I4, width: int) -> I4:
    missing = width - keys.shape[1]
    return np.pad(keys, ((0, 0), (0, missing)), constant_values=-1) if missing else keys


def _make_state(w: World, estimate_s: F8, likeness: tuple[Likeness, Likeness], *, sorts: bool) -> State:
    n = len(w.submit)
    nodes = len(w.node_group)
    n_groups = len(w.group_lo)
    n_shapes = len(w.kinds)
    keys = max(x.n_keys for x in likeness)
    owners = max(len(w.user_share), len(w.account_share))
    state = State(
        now=np.zeros(1),
        n=np.zeros(N_COUNTERS, dtype=np.int64),
        status=np.full(n, FUTURE, dtype=np.int8),
        start=np.full(n, np.nan),
        end=np.full(n, np.nan),
        speed=np.ones(n),
        estimate=estimate_s.copy(),
        rank=estimate_s.copy(),
        key=np.zeros(n),
        requeues=np.zeros(n, dtype=np.int32),
        after_left=w.after_n.copy(),
        reason=np.zeros(n, dtype=np.int8),
        at_node=np.zeros(w.chunk_ptr[-1], dtype=np.int32),
        at_gpus=np.zeros(w.chunk_ptr[-1], dtype=np.int32),
        free_gpu=w.group_gpus[w.node_group],
        free_cpu=w.group_cpu[w.node_group],
        free_mem=w.group_mem[w.node_group],
        up=np.ones(nodes, dtype=np.bool_),
        bits=np.zeros(int((w.words * (w.group_gpus + 1)).sum()), dtype=np.int64),
        level=np.zeros(int((w.group_gpus + 1).sum()), dtype=np.int32),
        q_job=np.zeros(n + 1, dtype=np.int32),
        q_shape=np.zeros(n + 1, dtype=np.int32),
        q_key=np.zeros(n + 1),
        q_estimate=np.zeros(n + 1),
        q_score=np.zeros(n + 1 if sorts else 1),
        heap=np.zeros(n + 1 if sorts else 1, dtype=np.int32),
        best_closed=np.zeros(n_groups, dtype=np.int32),
        run_job=np.zeros(n + 1, dtype=np.int32),
        run_expected=np.zeros(n + 1),
        end_job=np.zeros(n + 1, dtype=np.int32),
        end_time=np.zeros(n + 1),
        held=np.zeros(n + 1 if w.has_limits else 1, dtype=np.int32),
        waiting=np.zeros(n_shapes, dtype=np.int32),
        fails_from=np.full(n_shapes, np.inf),
        active=np.zeros(n_shapes + 1, dtype=np.int32),
        active_at=np.zeros(n_shapes + 1, dtype=np.int32),
        active_n=np.zeros(1, dtype=np.int64),
        mask_waiting=np.zeros(len(w.mask_speed), dtype=np.int32),
        used_gpus=np.zeros(len(w.max_gpus), dtype=np.int64),
        used_running=np.zeros(len(w.max_gpus), dtype=np.int64),
        used_submitted=np.zeros(len(w.max_gpus), dtype=np.int64),
        pool=np.zeros(n_groups, dtype=np.int32),
        head=np.full(n_groups, -1, dtype=np.int32),
        reserved=np.full(n_groups, np.nan),
        feasible=np.zeros((n_groups, w.chunk_n.shape[1]), dtype=np.int32),
        then_gpu=np.zeros(nodes, dtype=np.int32),
        then_cpu=np.zeros(nodes, dtype=np.int64),
        then_mem=np.zeros(nodes, dtype=np.int64),
        pick=np.zeros(nodes, dtype=np.int32),
        picked=np.zeros(nodes, dtype=np.int64),
        stamp=np.zeros(1, dtype=np.int64),
        seen_n=np.zeros((2, keys)),
        seen_sum=np.zeros((2, keys)),
        usage=np.zeros((2, owners)),
        usage_rate=np.zeros((2, owners)),
        usage_at=np.zeros((2, owners)),
    )
    _fill_index(w, state)
    return state


def _fill_index(w: World, s: State) -> None:
    """Enter every node at the level of all its GPUs."""
    for g in range(len(w.group_lo)):
        count = int(w.group_hi[g] - w.group_lo[g])
        at = w.bits_at[g] + w.group_gpus[g] * w.words[g]
        for word in range(int(w.words[g])):
            s.bits[at + word] = (1 << min(32, count - 32 * word)) - 1
        s.level[w.level_at[g] + w.group_gpus[g]] = count


def copy_state(s: State) -> State:
    """Copy a state, so that it can be rolled forward on its own."""
    return State(*(part.copy() for part in s))


def mark_rejected(s: State, jobs: NDArray[np.intp]) -> None:
    """Take jobs that can never start out of the run."""
    s.status[jobs] = REJECTED

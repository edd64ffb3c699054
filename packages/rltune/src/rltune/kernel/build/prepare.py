"""Builds the World and the first State of a run from jobs, a cluster and estimates. Plain numpy, once a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from rltune.cluster import Cluster, Limit, Slowdown, same_name
from rltune.jobs import Jobs
from rltune.kernel.build.job_shapes import Masks, Shapes, make_masks, make_shapes
from rltune.kernel.fit.ways import COLUMNS
from rltune.kernel.score.features import (
    A_COLUMNS,
    FIRST_INPUT,
    HIDDEN_1,
    HIDDEN_2,
    HIDDEN_3,
    INDEX,
    INPUTS,
    LISTED,
    RECIPE,
    is_of_job,
)
from rltune.kernel.state.arrays import (
    AT,
    B1,
    CHUNK,
    DEMAND,
    END,
    EVENT,
    F8,
    FUTURE,
    GROUP,
    I4,
    I8,
    JOB,
    LIFE,
    LIMIT,
    MASK,
    MOVER,
    N_COUNTERS,
    N_MARKS,
    NODE,
    NODE_DOWN,
    NODE_UP,
    NODE_WAKE,
    OWNER,
    PAUSE,
    POOL,
    PROBE,
    QUEUE,
    RACK,
    RUN,
    SCOPES,
    SEEN,
    SHAPE,
    SLOWDOWN,
    SPELL,
    TURN,
    UNLIMITED,
    YIELDS,
    Records,
    State,
    World,
)
from rltune.kernel.state.fair_share import (
    ACCOUNTS,
    FAVOR_SMALL,
    OWNERS,
    USERS,
    W_PARTITION,
    W_QOS,
    W_SIZE,
    growth_from,
)
from rltune.kernel.state.online_survival import EDGES, ENDS_NOW, MOST_SLOTS
from rltune.labels import Labels


@dataclass(frozen=True)
class Likeness:
    """A predictor from history: per job its keys, coarse to fine, and how much to trust and keep."""

    keys: I4  # [job, level]; -1 = none
    n_keys: int
    trust: float = 1.0
    decay: float = 1.0
    known: F8 | None = None  # [key, 2] how many jobs were seen before the run, and their run times in all

    @classmethod
    def none(cls, n: int) -> Likeness:
        """Return a predictor that is never asked."""
        return cls(np.full((n, 1), -1, dtype=np.int32), 1)


@dataclass(frozen=True)
class Survival:
    """How long jobs alike lasted: see kernel/state/online_survival.py."""

    keys: I4  # [job, level]; -1 = none
    known: F8  # [key, edge, column] what was known before the run
    trust: float = 1.0
    left_by: int = ENDS_NOW
    indexed: bool = False  # an order asks for Gittins' index

    @classmethod
    def none(cls, n: int, left_by: int = ENDS_NOW) -> Survival:
        """Return one that nothing is learnt into."""
        return cls(np.full((n, 1), -1, dtype=np.int32), np.zeros((1, 1, 2)), left_by=left_by)


@dataclass(frozen=True)
class Factors:
    """What Slurm's multifactor rule needs: its parameters (see kernel/state/fair_share.py), and two factors a job."""

    parameters: F8
    of_job: F8  # [job, 2]
    user: I8  # who a job's usage is counted for; -1 = nobody
    user_share: F8
    account_share: F8


@dataclass(frozen=True)
class Net:
    """A learned policy as the core takes it: see kernel/score/features.py and kernel/score/network.py."""

    weights: F8
    plan: I8
    norm: F8  # [input, 4]

    @classmethod
    def none(cls) -> Net:
        """Return a network that is never asked."""
        return cls(np.zeros(1), np.zeros(FIRST_INPUT + 1, dtype=np.int64), np.zeros((1, 4)))

    @property
    def inputs(self) -> list[int]:
        """Return what it sees, as the core knows it; none where the situation decides."""
        codes: list[int] = self.plan[FIRST_INPUT:].tolist()
        return codes if self.plan[RECIPE] == LISTED else []

    @property
    def uses_index(self) -> bool:
        """Return whether it sees Gittins' index."""
        return INDEX in self.inputs

    @property
    def sees_running(self) -> bool:
        """Return whether a running job has all that it sees."""
        return bool(self.inputs) and all(is_of_job(which) for which in self.inputs)


def _groups(cluster: Cluster) -> Records:
    """Lay out the node groups, and the index of free nodes over them."""
    group = _table(GROUP, len(cluster.groups))
    count, gpus = (np.array([getattr(g, name) for g in cluster.groups]) for name in ("count", "gpus"))
    group["gpus"] = gpus
    group["hi"] = np.cumsum(count)
    group["lo"] = np.cumsum(count) - count
    group["cpu"] = [_capacity(g.cpus, 1000) for g in cluster.groups]
    group["mem"] = [_capacity(g.mem_gib, 1024) for g in cluster.groups]
    group["speed"] = [cluster.speed_of(g.gpu_type) for g in cluster.groups]
    words, levels = (count + 31) // 32, gpus + 1
    group["words"] = words
    group["bits_at"] = np.cumsum(words * levels) - words * levels
    group["level_at"] = np.cumsum(levels) - levels
    return group


def _capacity(amount: float | None, factor: int) -> int:
    return UNLIMITED if amount is None else round(amount * factor)


def _table(dtype: np.dtype[Any], *shape: int) -> Records:
    """Make a table of zeros. Its columns are set as `table["x"] = ...`: `table.x = ...` takes ten times as long."""
    return np.zeros(shape, dtype).view(np.recarray)


def _limits(jobs: Jobs, limits: tuple[Limit, ...]) -> tuple[I8, Records]:
    """Make a counter for every user, account, VC, QOS and array that a limit speaks of."""
    of_job = np.full((len(jobs), SCOPES), -1, dtype=np.int64)
    throttled = (jobs.array >= 0) & (jobs.array_limit > 0)
    if not limits and not throttled.any():
        return of_job, _table(LIMIT, 0)
    rows: list[tuple[int, int, int]] = []
    for scope, name in enumerate(("user", "account", "vc", "qos")):
        labels: Labels = getattr(jobs, name)
        codes = np.full(len(labels.names) + 1, -1, dtype=np.int64)
        row_of: dict[str, int] = {}  # spellings of one VC share a counter
        for i, label in enumerate(labels.names):
            ceiling = _ceilings(limits, name, label)
            if min(ceiling) < UNLIMITED:
                codes[i] = row_of.setdefault(label.casefold() if name == "vc" else label, len(rows))
                rows += [ceiling] if codes[i] == len(rows) else []
        of_job[:, scope] = codes[labels.codes]
    for array in np.unique(jobs.array[throttled]).tolist():
        tasks = jobs.array == array
        of_job[tasks, 4] = len(rows)
        rows.append((UNLIMITED, int(jobs.array_limit[tasks].max()), UNLIMITED))
    table = _table(LIMIT, len(rows))
    for name, column in zip(("max_gpus", "max_running", "max_submitted"), zip(*rows, strict=True), strict=False):
        table[name] = column
    return of_job, table


def _ceilings(limits: tuple[Limit, ...], scope: str, name: str) -> tuple[int, int, int]:
    """Return the limits on GPUs, running and submitted jobs; the strictest of all that speak of this name."""
    ceiling = [UNLIMITED] * 3
    for limit in limits:
        if limit.scope == scope and (limit.name in {name, "*"} or (scope == "vc" and same_name(limit.name, name))):
            for i, value in enumerate((limit.max_gpus, limit.max_running, limit.max_submitted)):
                if value is not None:
                    ceiling[i] = min(ceiling[i], value)
    return ceiling[0], ceiling[1], ceiling[2]


def _shape_tables(shapes: Shapes) -> tuple[Records, Records]:
    """Return the shapes, and per shape and kind of chunk its count, GPUs, CPUs and memory."""
    shape = _table(SHAPE, len(shapes.chunks))
    chunk = _table(CHUNK, len(shapes.chunks), max((len(c) for c in shapes.chunks), default=1))
    chunk["cpu"] = chunk["mem"] = -1
    shape["mask"] = shapes.mask
    shape["kinds"] = [len(c) for c in shapes.chunks]
    shape["chunks"] = [sum(n for n, _ in c) for c in shapes.chunks]
    shape["needs"] = shapes.needs
    shape["wider_lo"], shape["wider_hi"] = shapes.wider.T
    shape["smallest"] = [min(g for _, g in c) for c in shapes.chunks]
    n, gpus, cpu, mem = (np.asarray(chunk[name]) for name in ("n", "gpus", "cpu", "mem"))
    for i, (chunks, cpus, mib) in enumerate(
        zip(shapes.chunks, shapes.cpu_milli.tolist(), shapes.mem_mib.tolist(), strict=True)
    ):
        total = sum(c * g for c, g in chunks)
        for k, (c, g) in enumerate(chunks):
            n[i, k], gpus[i, k] = c, g
            part, whole = (g, total) if total else (1, c)
            if cpus >= 0:
                cpu[i, k] = cpus * part // whole
            if mib >= 0:
                mem[i, k] = mib * part // whole
    return shape, chunk


def racks_of_nodes(cluster: Cluster) -> I8:
    """Return each node's rack by number. Groups that name the same rack share it, number by number."""
    number: dict[tuple[str | int, int], int] = {}
    racks = []
    for g, group in enumerate(cluster.groups):
        for i in range(group.count):
            key = (group.rack or g, i // group.nodes_per_rack if group.nodes_per_rack else 0)
            racks.append(number.setdefault(key, len(number)))
    return np.array(racks, dtype=np.int64)


def _racks_of_shapes(shapes: Shapes, cluster: Cluster, mask_has: B1, rack: I8) -> list[int]:
    """Return for each shape the least number of racks whose eligible nodes are as many as its chunks."""
    group = np.repeat(np.arange(len(cluster.groups)), [g.count for g in cluster.groups])
    nodes = [np.sort(np.bincount(rack[has[group]], minlength=1))[::-1].cumsum() for has in mask_has]
    asked = zip(shapes.mask.tolist(), shapes.needs.tolist(), strict=True)
    return [int(np.searchsorted(nodes[mask], needs)) + 1 for mask, needs in asked]


def _slowdown(cluster: Cluster) -> Records:
    table = _table(SLOWDOWN, 1)
    of = cluster.slowdown
    table[0] = (of.extra_node, of.extra_rack, of.cpu_contention, of.mem_contention)
    return table


def _mask_tables(cluster: Cluster, masks: Masks) -> tuple[Records, I8, B1]:
    """Return the sets of eligible groups, as parts of a list and as a table of yes and no."""
    mask = _table(MASK, len(masks.groups))
    has = np.zeros((len(masks.groups), len(cluster.groups)), dtype=np.bool_)
    members = [list(m) for m in masks.groups]
    hi = np.cumsum([len(m) for m in members])
    mask["hi"] = hi
    mask["lo"] = hi - [len(m) for m in members]
    mask["gpus"] = [max((cluster.groups[g].gpus for g in m), default=0) for m in members]
    speed = [cluster.speed.get(group.gpu_type, 1.0) for group in cluster.groups]
    mask["slowest"] = [min((speed[g] for g in m), default=1.0) for m in members]
    for i, of_mask in enumerate(members):
        has[i, of_mask] = True
    return mask, np.array([g for m in members for g in m], dtype=np.int64), has


def _children(jobs: Jobs) -> tuple[I8, I8]:
    """Turn "waits for" into "is waited for by"."""
    waits_for = jobs.after
    if not len(waits_for):
        return np.zeros(len(jobs) + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    waiter = np.repeat(np.arange(len(jobs), dtype=np.int64), np.diff(jobs.after_ptr))
    order = np.argsort(waits_for, kind="stable")
    ptr = np.zeros(len(jobs) + 1, dtype=np.int64)
    np.cumsum(np.bincount(waits_for, minlength=len(jobs)), out=ptr[1:])
    return ptr, waiter[order]


def _pauses(cluster: Cluster, group: Records) -> Records:
    """List the maintenance windows of each group."""
    of_group = [
        sorted((m.start_s, m.end_s) for m in cluster.maintenance if not m.groups or g in m.groups)
        for g in range(len(cluster.groups))
    ]
    hi = np.cumsum([len(pauses) for pauses in of_group])
    group["pause_hi"] = hi
    group["pause_lo"] = hi - [len(pauses) for pauses in of_group]
    rows = [pause for pauses in of_group for pause in pauses]
    table = _table(PAUSE, len(rows))
    table["start"], table["end"] = np.array(rows).reshape(-1, 2).T
    return table


def _node_events(cluster: Cluster) -> Records:
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
    table = _table(EVENT, len(events))
    for i, (time, kind, node) in enumerate(sorted(events)):
        table[i].time, table[i].kind, table[i].node = time, kind, node
    return table


@dataclass(frozen=True)
class _ClusterTables:
    """What depends on the cluster alone; tables of the state are copied from it, with every node up and free."""

    rack: I8
    group: Records
    pause: Records
    event: Records
    slowdown: Records
    node: Records
    bits: I8
    level: I8

    @classmethod
    def of(cls, cluster: Cluster) -> _ClusterTables:
        """Make the tables of a cluster."""
        rack = racks_of_nodes(cluster)
        group = _groups(cluster)
        pause = _pauses(cluster, group)
        index = _index_of_free_nodes(group)
        return cls(rack, group, pause, _node_events(cluster), _slowdown(cluster), _free_nodes(group, rack), *index)


_tables_of: dict[int, tuple[ref[Cluster], _ClusterTables]] = {}  # by the identity of clusters that are in use


def _cluster_tables(cluster: Cluster) -> _ClusterTables:
    """Return the tables of a cluster, made once as long as it lives: training prepares thousands of windows on it."""
    key = id(cluster)
    kept = _tables_of.get(key)
    if kept is None or kept[0]() is not cluster:
        kept = _tables_of[key] = (ref(cluster, lambda _: _tables_of.pop(key, None)), _ClusterTables.of(cluster))
    return kept[1]


def _free_nodes(group: Records, rack: I8) -> Records:
    """Let every node be up and free."""
    count = group["hi"] - group["lo"]
    node = _table(NODE, len(rack))
    node["up"] = 1
    node["rack"] = rack
    node["group"] = np.repeat(np.arange(len(group)), count)
    for name in ("gpu", "cpu", "mem"):
        node[name] = np.repeat(group["gpus" if name == "gpu" else name], count)
    return node


def _index_of_free_nodes(group: Records) -> tuple[I8, I8]:
    """Enter every node in the index at the level of all its GPUs; return its bits, and the nodes of each level."""
    levels = group["gpus"] + 1
    bits = np.zeros(int((group["words"] * levels).sum()), dtype=np.int64)
    level = np.zeros(int(levels.sum()), dtype=np.int64)
    count = group["hi"] - group["lo"]
    level[group["level_at"] + group["gpus"]] = count
    full = group["bits_at"] + group["gpus"] * group["words"]
    for at, words, nodes in zip(full.tolist(), group["words"].tolist(), count.tolist(), strict=True):
        for word in range(words):
            bits[at + word] = (1 << min(32, nodes - 32 * word)) - 1
    return bits, level


def prepare(
    jobs: Jobs,
    cluster: Cluster,
    estimate_s: F8,
    factors: Factors,
    likeness: tuple[Likeness, Likeness],
    *,
    sorts: bool,
    wider: bool = False,
    whole_nodes: bool = False,
    net: Net | None = None,
    turns: bool = False,
    tolls: bool = False,
    survival: Survival | None = None,
) -> tuple[World, State]:
    """Build the arrays of a run; jobs are in order of submit time.

    `sorts`: the queue is ordered in every pass. `wider`: jobs may be cut for one node more than they need.
    `whole_nodes`: no two jobs share a node. `turns`: running jobs may be displaced, and what that
    costs each of them is bounded (`tolls`).
    """
    counters, limit = _limits(jobs, cluster.limits)
    fixed = _cluster_tables(cluster)
    cut: dict[str, bool] = {"wider": wider, "whole_nodes": whole_nodes, "turns": turns, "tolls": tolls}
    lasted = survival or Survival.none(len(jobs))
    world = _make_world(jobs, cluster, counters, factors, likeness, lasted, net or Net.none(), fixed, **cut)
    state = _make_state(world, limit, factors, likeness, lasted, fixed, sorts=sorts)
    life = np.asarray(state.life)
    life["estimate"] = estimate_s
    life["rank"] = estimate_s
    return world, state


def _make_world(
    jobs: Jobs,
    cluster: Cluster,
    counters: I8,
    factors: Factors,
    likeness: tuple[Likeness, Likeness],
    survival: Survival,
    net: Net,
    fixed: _ClusterTables,
    *,
    wider: bool,
    whole_nodes: bool,
    turns: bool,
    tolls: bool,
) -> World:
    masks = make_masks(jobs, cluster)
    shapes = make_shapes(jobs, cluster, masks, wider=wider)
    shape, chunk = _shape_tables(shapes)
    mask, mask_group, mask_has = _mask_tables(cluster, masks)
    shape["racks"] = _racks_of_shapes(shapes, cluster, mask_has, fixed.rack)
    child_ptr, child = _children(jobs)
    chunks = np.asarray(shape)["chunks"][shapes.of_job]
    room = chunks + (shapes.wider[:, 1] > shapes.wider[:, 0])[shapes.of_job]
    chunk_at = np.cumsum(room) - room
    job = np.zeros(len(jobs), JOB)
    job["submit"] = jobs.submit_s
    job["duration"] = jobs.duration_s
    job["gpus"] = jobs.gpus
    job["rank_n"] = np.maximum(jobs.gpus, 1)
    job["prior"] = np.where(np.isnan(jobs.limit_s), 3600.0, jobs.limit_s)  # the user's limit, or an hour
    weight = factors.parameters
    size = job["rank_n"] / float(max(cluster.gpu_count, 1))
    partition, qos = factors.of_job.T
    favoured = 1.0 - size if weight[FAVOR_SMALL] else size
    job["fixed_priority"] = weight[W_SIZE] * favoured + weight[W_PARTITION] * partition + weight[W_QOS] * qos
    job["chunk_at"] = chunk_at
    job["chunk_end"] = chunk_at + chunks
    job["child_at"], job["child_end"] = child_ptr[:-1], child_ptr[1:]
    job["asks"] = shapes.of_job
    job["after_n"] = np.diff(jobs.after_ptr)
    job["user"], job["account"] = factors.user, jobs.account.codes
    levels = max(x.keys.shape[1] for x in likeness)
    return World(
        job=job.view(np.recarray),
        counters=counters,
        child=child,
        shape=shape,
        chunk=chunk,
        mask=mask,
        mask_group=mask_group,
        mask_has=mask_has,
        group=fixed.group,
        pause=fixed.pause,
        event=fixed.event,
        history_key=np.stack([_widened(x.keys, levels) for x in likeness]),
        history_par=np.array([[x.trust, x.decay] for x in likeness]),
        survival_key=survival.keys,
        survival_trust=survival.trust,
        left_by=survival.left_by,
        chain=_chains(survival.keys, job["prior"], jobs) if survival.indexed else np.zeros(1, dtype=np.int64),
        factor_par=factors.parameters,
        slowdown=fixed.slowdown,
        net=net.weights,
        net_plan=net.plan,
        net_norm=net.norm,
        yields=_yields(jobs) if turns else _table(YIELDS, 1),
        has_limits=bool((counters >= 0).any()),
        has_pauses=len(fixed.pause) > 0,
        has_slowdown=cluster.slowdown != Slowdown(),
        whole_nodes=whole_nodes,
        total_gpus=float(max(cluster.gpu_count, 1)),
        takes_turns=turns,
        has_tolls=tolls,
    )


def _chains(keys: I4, prior: F8, jobs: Jobs) -> I8:
    """Return numbers of jobs; those share one which agree in all that an index depends on."""
    told = np.column_stack([keys.astype(np.float64), prior, jobs.preemptible])
    chain: I8 = np.unique(told, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return chain


def _yields(jobs: Jobs) -> Records:
    """Lay out who may be displaced, and at what cost."""
    table = _table(YIELDS, len(jobs))
    table["willing"] = jobs.preemptible
    table["checkpoint"] = jobs.checkpoint_s
    table["restart"] = jobs.restart_s
    return table


def _widened(keys: I4, width: int) -> I4:
    if keys.shape[1] == width:
        return keys
    wide = np.full((len(keys), width), -1, dtype=np.int32)
    wide[:, : keys.shape[1]] = keys
    return wide


def _make_state(
    w: World,
    limit: Records,
    factors: Factors,
    likeness: tuple[Likeness, Likeness],
    survival: Survival,
    fixed: _ClusterTables,
    *,
    sorts: bool,
) -> State:
    job, shape = np.asarray(w.job), np.asarray(w.shape)  # past the lookups of record arrays, which are slow
    n = len(job)
    groups = len(fixed.group)
    nodes = len(fixed.node)
    ways = 3 * (1 + int((shape["wider_hi"] - shape["wider_lo"]).max(initial=0)))
    racks = int(fixed.rack.max()) + 1
    of_turns = n + 1 if w.takes_turns else 1
    slots = min(int(w.chain.max(initial=0)) + 1, MOST_SLOTS) if survival.indexed else 1
    owner = _table(OWNER, OWNERS, max(len(factors.user_share), len(factors.account_share)))
    owner["fair_at"] = np.nan
    owner["share"][USERS, : len(factors.user_share)] = factors.user_share
    owner["share"][ACCOUNTS, : len(factors.account_share)] = factors.account_share
    state = State(
        now=np.zeros(1),
        mark=np.full(N_MARKS, np.inf),
        n=np.zeros(N_COUNTERS, dtype=np.int64),
        life=_lives(job).view(np.recarray),
        at=_table(AT, int(job["chunk_end"][-1]) + 1 if n else 0),
        node=fixed.node.copy(),
        bits=fixed.bits.copy(),
        level=fixed.level.copy(),
        could_level=fixed.level.copy(),
        touched_level=np.zeros_like(fixed.level),
        queue=_table(QUEUE, n + 1),
        heap=np.zeros(n + 1 if sorts else 1, dtype=np.int64),
        plan=np.zeros(n + 1 if sorts else 1, dtype=np.int64),
        due=np.zeros(n + 1 if sorts else 1, dtype=np.int64),
        run=_table(RUN, 2 * (n + 1)),
        end=_table(END, n + 1),
        held=np.zeros(n + 1 if w.has_limits else 1, dtype=np.int64),
        demand=_table(DEMAND, len(w.shape)),
        active=np.zeros(len(w.shape) + 1, dtype=np.int64),
        mask_waiting=np.zeros(len(w.mask), dtype=np.int64),
        limit=limit,
        pool=_table(POOL, groups),
        feasible=np.zeros((groups, w.chunk.shape[1]), dtype=np.int64),
        pick=np.zeros(nodes, dtype=np.int64),
        seen=_table(SEEN, 2, max(x.n_keys for x in likeness)),
        survival=survival.known.copy(),
        edition=np.zeros_like(survival.known) if survival.indexed else np.zeros((0, 1, 2)),
        changed=np.zeros(len(survival.known) if survival.indexed else 1, dtype=np.int64),
        changed_in=np.zeros(len(survival.known) if survival.indexed else 1, dtype=np.int64),
        cuts=np.zeros(2),
        indices=np.zeros((slots, EDGES)),
        index_tag=np.zeros((slots, EDGES), dtype=np.int64),
        owner=owner,
        growth=growth_from(float(job["submit"][0]) if n else 0.0),
        probe=_table(PROBE, nodes),
        rack=_table(RACK, racks),
        asked=np.zeros((len(w.shape), A_COLUMNS)),
        wanted=np.zeros(len(w.mask)),
        crowd=np.zeros(int(job["user"].max(initial=0)) + 1, dtype=np.int64),
        way=np.zeros((ways, COLUMNS), dtype=np.int64),
        way_nodes=np.zeros((ways, int(shape["chunks"].max(initial=0)) + 2), dtype=np.int64),
        hidden=np.zeros((3, int(w.net_plan[[INPUTS, HIDDEN_1, HIDDEN_2, HIDDEN_3]].max()) + 1)),
        rack_fit=np.zeros((racks + 1, w.chunk.shape[1]), dtype=np.int64),
        turn=_turns(job) if w.takes_turns else _table(TURN, 1),
        displaced=np.zeros(of_turns, dtype=np.int64),
        mover=_table(MOVER, of_turns),
        movable=np.zeros(of_turns, dtype=np.int64),
        victim=np.zeros(of_turns, dtype=np.int64),
        own_score=np.zeros(of_turns),
        spell=_table(SPELL, 2 * of_turns),
        spell_at=_table(AT, 2 * (int(job["chunk_end"][-1]) + 1 if n and w.takes_turns else 1)),
        away=np.zeros(n + 1 if w.has_tolls else 1, dtype=np.int64),
    )
    state.demand["fails_from"] = np.inf
    state.pool["kept_head"] = -1
    for which, predictor in enumerate(likeness):
        if predictor.known is not None:
            state.seen["n"][which, : predictor.n_keys], state.seen["total"][which, : predictor.n_keys] = (
                predictor.known.T
            )
    return state


def _turns(job: NDArray[Any]) -> Records:
    """Let nobody have had a spell yet."""
    turn = _table(TURN, len(job))
    turn["first"] = np.nan
    turn["day_from"] = -np.inf
    turn["due"] = np.inf
    turn["length"] = job["duration"]
    return turn


def _lives(job: NDArray[Any]) -> NDArray[Any]:
    """Let all jobs be still to come."""
    life = np.zeros(len(job), LIFE)
    life["form"] = job["asks"]
    life["start"] = life["end"] = life["planned"] = np.nan
    life["speed"] = 1.0
    life["status"] = FUTURE
    life["after_left"] = job["after_n"]
    return life


def copy_state(s: State) -> State:
    """Copy a state, so that it can be rolled forward on its own."""
    return State._make(part.copy() for part in s)

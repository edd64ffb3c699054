"""What the learned policy sees of a waiting job: the paper's 17 features and a few of ours, as of now.

Formulas, and what was changed from the paper's and why, stand in docs/reference/features.md. What depends only on what
a job asks is worked out once a look for every shape that waits, the rest for every job.
"""

from __future__ import annotations

import math

from rltune.kernel.fit.allocate import find
from rltune.kernel.fit.chunk_need import asked_cpu, chunk_mem
from rltune.kernel.fit.pools import join_pools
from rltune.kernel.fit.running import settle_expected
from rltune.kernel.fit.ways import fill_ways
from rltune.kernel.jit import kernel
from rltune.kernel.score.taking_turns import gittins_score
from rltune.kernel.state.arrays import ACTIVE_N, F8, Q_HEAD, Q_TAIL, RUN_END, RUNNING, Options, State, World
from rltune.kernel.state.attained import attained_service, work_done

INF = float("inf")

(
    JOB_ID,
    USER,
    GPUS,
    VC,
    GPU_TYPE,
    TIME,
    SUBMIT,
    CPU,
    MEM,
    FREE_NODES,
    CAN_NOW,
    NUM_WAYS,
    DEMAND_SUPPLY,
    JOB_SIZE,
    URGENCY,
    FUTURE,
    FRAGMENTATION,
    LEFTOVER,
    QUEUE_LENGTH,
    BUSY,
    SPARES,
    REFUSALS,  # what only the inspector sees, see inspector.py
    QUEUE_DELAY,
    FITTING,
    ACCEPT,
    DEMAND_EQ_1,  # the paper's equations as printed
    FUTURE_EQ_2,
    ATTAINED,  # of jobs that take turns
    SPELLS,
    INDEX,
    WILLING,
    RUNS,
    N_FEATURES,
) = range(33)

# What is known of a shape in this look: columns of State.asked.
(A_TYPE, A_CPU, A_MEM, A_FREE_NODES, A_CAN, A_WAYS, A_DEMAND, A_FUTURE, A_FRAGMENTATION, A_LEFTOVER, A_VC, A_BUSY) = (
    range(12)
)
A_COLUMNS = 12

# Where the sampler calls fragmentation high.
HIGH_FRAGMENTATION = 0.8


# World.net_plan: how the network's inputs are made, and its shape.
RECIPE, USES_WAYS, USES_SPARES, BASE, DRIFT, INPUTS, HIDDEN_1, HIDDEN_2, HIDDEN_3, FIRST_INPUT = range(10)
LISTED, SAMPLED = range(2)
# What happens outside the range of training.
DRIFT_OFF, DRIFT_JOB, DRIFT_WHOLE = range(3)
# World.net_norm, a row for every input.
SHIFT, SCALE, LOW, HIGH = range(4)


@kernel
def _look_at_groups(w: World, s: State, shape: int) -> tuple[float, float, float, float, float]:
    """Return all GPUs, free GPUs, the sum of squares of nodes' free GPUs, and whole free and all nodes for a shape."""
    total = free = squares = whole = nodes = 0.0
    mask = w.shape[shape].mask
    for m in range(w.mask[mask].lo, w.mask[mask].hi):
        group = w.mask_group[m]
        gpus = w.group[group].gpus
        count = w.group[group].hi - w.group[group].lo
        total += gpus * count
        nodes += count
        for level in range(1, gpus + 1):
            n = s.level[w.group[group].level_at + level]
            free += n * level
            squares += n * level * level
        whole += s.level[w.group[group].level_at + gpus]
    return total, free, squares, whole, nodes


@kernel
def _delay_by_count(w: World, s: State, shape: int, wanted: float, free: float) -> tuple[float, float]:
    """Return how long, by estimates, until as many GPUs as asked are free among a shape's groups, and how many then."""
    if free >= wanted:
        return 0.0, free
    mask = w.shape[shape].mask
    for i in range(s.n[RUN_END]):
        job = s.run[i].job
        group = s.node[s.at[w.job[job].chunk_at].node].group
        if w.mask_has[mask, group]:
            free += w.job[job].gpus
            if free >= wanted:
                return max(0.0, s.run[i].expected - s.now[0]), free
    return 10.0 * 86400.0, free


@kernel
def _asked_cpu_and_mem(w: World, shape: int) -> tuple[float, float]:
    """Return CPUs and GiB in all, inferred from the share of the GPUs where the job names none."""
    cpu = mem = 0.0
    group = w.mask_group[w.mask[w.shape[shape].mask].lo]
    for kind in range(w.shape[shape].kinds):
        cpu += asked_cpu(w, shape, kind, group) * w.chunk[shape, kind].n
        mem += chunk_mem(w, shape, kind, group) * w.chunk[shape, kind].n
    return cpu / 1000.0, mem / 1024.0


@kernel
def _leftover(w: World, s: State, shape: int) -> float:
    """Return the share of its first node that would be free and idle beside the job, on the nodes in s.pick."""
    node = s.pick[0]
    return (s.node[node].gpu - w.chunk[shape, 0].gpus) / max(w.group[s.node[node].group].gpus, 1)


@kernel
def _look_at_shape(w: World, s: State, o: Options, shape: int) -> None:
    """Work out what all jobs of a shape share."""
    total, free, squares, whole, nodes = _look_at_groups(w, s, shape)
    gpus = 0.0
    for kind in range(w.shape[shape].kinds):
        gpus += w.chunk[shape, kind].n * w.chunk[shape, kind].gpus
    a = s.asked[shape]
    a[A_BUSY] = 1.0 - free / max(total, 1.0)
    a[A_TYPE] = total / w.total_gpus
    a[A_FREE_NODES] = whole / max(nodes, 1.0)
    a[A_FRAGMENTATION] = 1.0 - squares / (free * free) if free > 0.0 else 1.0
    can = s.demand[shape].fails_from > -INF and find(w, s, shape, 0.0, o.placement)
    a[A_CAN] = can
    a[A_LEFTOVER] = _leftover(w, s, shape) if can else -1.0
    a[A_WAYS] = fill_ways(w, s, shape, 0.0, s.way, s.way_nodes) if can and w.net_plan[USES_WAYS] else 0
    a[A_FUTURE] = math.log1p(_delay_by_count(w, s, shape, gpus, free)[0])
    a[A_CPU], a[A_MEM] = _asked_cpu_and_mem(w, shape)
    a[A_DEMAND] = math.log1p(s.wanted[w.shape[shape].mask] / (free + 1.0))
    a[A_VC] = s.wanted[w.shape[shape].mask] / max(total, 1.0)


@kernel
def look_around(w: World, s: State, o: Options, end: int) -> None:
    """Work out, before jobs are scored, what they share."""
    for mask in range(len(s.wanted)):
        s.wanted[mask] = 0.0
    for user in range(len(s.crowd)):
        s.crowd[user] = 0
    for i in range(s.n[Q_HEAD], end):
        job = s.queue[i].job
        s.wanted[w.shape[s.queue[i].asks].mask] += w.job[job].gpus
        if w.job[job].user >= 0:
            s.crowd[w.job[job].user] += 1
    settle_expected(w, s)
    for i in range(s.n[ACTIVE_N]):
        _look_at_shape(w, s, o, s.active[i])
    if w.net_plan[USES_SPARES]:
        _look_for_small(w, s, o, end)


@kernel
def _look_for_small(w: World, s: State, o: Options, end: int) -> None:
    """Find the smallest job of each pool that does not fit now, when it could start, and what would then be left."""
    join_pools(w, s, o.global_head)  # not every look is part of a pass
    for g in range(len(s.pool)):
        s.pool[g].small = -1
    for row in range(s.n[Q_HEAD], end):
        shape = s.queue[row].asks
        if s.asked[shape][A_CAN] != 0.0:
            continue
        pool = s.pool[s.demand[shape].pool]
        job = s.queue[row].job
        area = w.job[job].rank_n * s.life[job].rank
        if pool.small < 0 or area < pool.small_area:
            pool.small = row
            pool.small_area = area
    for g in range(len(s.pool)):
        if s.pool[g].small >= 0:
            shape = s.queue[s.pool[g].small].asks
            wanted = float(w.job[s.queue[s.pool[g].small].job].gpus)
            free = _look_at_groups(w, s, shape)[1]
            delay, then = _delay_by_count(w, s, shape, wanted, free)
            s.pool[g].small_delay = delay
            s.pool[g].small_spare = then - wanted


@kernel
def _spares(w: World, s: State, row: int) -> float:
    """Return whether a job, if started now, leaves the smallest that does not fit its time to start, by counts."""
    pool = s.pool[s.demand[s.queue[row].asks].pool]
    job = s.queue[row].job
    if pool.small < 0 or pool.small == row:
        return 1.0
    return 1.0 if s.life[job].rank <= pool.small_delay or w.job[job].gpus <= pool.small_spare else 0.0


@kernel
def feature(w: World, s: State, row: int, which: int) -> float:
    """Return one feature of the job in a place of the queue."""
    job = s.queue[row].job
    if is_of_job(which):
        return feature_of_job(w, s, job, s.life[job].rank, which)
    a = s.asked[s.queue[row].asks]
    if which == JOB_ID:
        return (row - s.n[Q_HEAD]) / (s.n[Q_TAIL] - s.n[Q_HEAD])
    if which == USER:
        user = w.job[job].user
        return s.crowd[user] / (s.n[Q_TAIL] - s.n[Q_HEAD]) if user >= 0 else 0.0
    if which == SPARES:
        return _spares(w, s, row)
    if which >= DEMAND_EQ_1:
        return _as_printed(w, s, row, which)
    if which >= REFUSALS:
        return _of_refusal(s, job, which)
    return _of_shape(a, which)


@kernel
def _as_printed(w: World, s: State, row: int, which: int) -> float:
    """Return the paper's Eq. 1 or Eq. 2 as printed, over the groups that the job may use.

    Eq. 1: GPUs asked over GPUs free, none counted as one. Eq. 2: GPUs free, less those asked, less those in use.
    """
    wanted = float(w.job[s.queue[row].job].gpus)
    mask = w.shape[s.queue[row].asks].mask
    free = used = 0.0
    for m in range(w.mask[mask].lo, w.mask[mask].hi):
        group = w.mask_group[m]
        for level in range(w.group[group].gpus + 1):
            n = s.level[w.group[group].level_at + level]
            free += n * level
            used += n * (w.group[group].gpus - level)
    return wanted / max(free, 1.0) if which == DEMAND_EQ_1 else free - wanted - used


@kernel
def is_of_job(which: int) -> bool:
    """Return whether a feature is of the job and the queue alone, so that a running job has it, too."""
    asked = which == GPUS or which == TIME or which == JOB_SIZE  # noqa: PLR1714  numba has no tuple `in`
    of_time = which == SUBMIT or which == URGENCY or which == QUEUE_LENGTH  # noqa: PLR1714
    return asked or of_time or which >= ATTAINED


@kernel
def feature_of_job(w: World, s: State, job: int, rank: float, which: int) -> float:
    """Return one such feature of a job, waiting or running, that is believed to have so long left."""
    if which == GPUS:
        return math.log1p(w.job[job].gpus)
    if which == TIME:
        return math.log1p(rank)
    if which == SUBMIT:
        return math.log1p(max(0.0, s.now[0] - w.job[job].submit))
    if which == JOB_SIZE:
        return math.log1p(w.job[job].rank_n * rank)
    if which == URGENCY:
        return math.log1p(max(0.0, s.now[0] - w.job[job].submit) / max(rank, 60.0))
    if which == QUEUE_LENGTH:
        return math.log1p(s.n[Q_TAIL] - s.n[Q_HEAD])
    return _of_turns(w, s, job, which)


@kernel
def _of_turns(w: World, s: State, job: int, which: int) -> float:
    """Return what a job has had as of now and what that says; nothing where jobs take no turns."""
    if not w.takes_turns:
        return 0.0
    if which == ATTAINED:
        return math.log1p(w.job[job].rank_n * attained_service(s, job))
    if which == SPELLS:
        return float(s.turn[job].preemptions)
    if which == INDEX:
        return math.log1p(gittins_score(w, s, job, work_done(w, s, job)))
    if which == WILLING:
        return 1.0 if w.yields[job].willing != 0 else 0.0
    return 1.0 if s.life[job].status == RUNNING else 0.0


@kernel
def _of_refusal(s: State, job: int, which: int) -> float:
    """Return what tells whether a job that could start should rather be kept waiting."""
    waiting = s.n[Q_TAIL] - s.n[Q_HEAD]
    if which == REFUSALS:
        return math.log1p(s.life[job].refusals)
    if which == QUEUE_DELAY:
        return math.log1p(waiting * max(0.0, s.run[0].expected - s.now[0])) if s.n[RUN_END] > 0 else 0.0
    if which == FITTING:
        fitting = 0.0
        for row in range(s.n[Q_HEAD], s.n[Q_TAIL]):
            fitting += s.asked[s.queue[row].asks][A_CAN]
        return fitting / waiting
    return 1.0


@kernel
def _of_shape(a: F8, which: int) -> float:
    if which == CAN_NOW:
        return a[A_CAN]
    if which == NUM_WAYS:
        return a[A_WAYS]
    if which == FREE_NODES:
        return a[A_FREE_NODES]
    if which == DEMAND_SUPPLY:
        return a[A_DEMAND]
    if which == FUTURE:
        return a[A_FUTURE]
    if which == FRAGMENTATION:
        return a[A_FRAGMENTATION]
    if which == VC:
        return a[A_VC]
    if which == GPU_TYPE:
        return a[A_TYPE]
    if which == CPU:
        return math.log1p(a[A_CPU])
    if which == MEM:
        return math.log1p(a[A_MEM])
    return a[A_BUSY] if which == BUSY else a[A_LEFTOVER]


@kernel
def sample(w: World, s: State, row: int, slot: int) -> float:
    """Return one of the sampler's eight (the others are for comparison): what fills a slot depends on the situation.

    High fragmentation: the job's size, weighted; low: its urgency. Several ways: their number, else the free nodes.
    """
    fragmented = s.asked[s.queue[row].asks][A_FRAGMENTATION] > HIGH_FRAGMENTATION
    several = s.asked[s.queue[row].asks][A_WAYS] > 1.0
    if slot == 0:
        return feature(w, s, row, GPUS)
    if slot == 1:
        return feature(w, s, row, TIME)
    if slot == 2:
        return feature(w, s, row, CAN_NOW)
    if slot == 3:
        return feature(w, s, row, NUM_WAYS) if several else feature(w, s, row, FREE_NODES)
    if slot == 4:
        return 2.0 * feature(w, s, row, JOB_SIZE) if fragmented else feature(w, s, row, URGENCY)
    if slot == 5:
        return feature(w, s, row, DEMAND_SUPPLY)
    if slot == 6:
        return feature(w, s, row, FUTURE)
    if slot == 7:
        return feature(w, s, row, FRAGMENTATION)
    if slot == 8:
        return feature(w, s, row, SUBMIT)
    return feature(w, s, row, DEMAND_EQ_1) if slot == 9 else feature(w, s, row, FUTURE_EQ_2)


@kernel
def raw_input(w: World, s: State, row: int, i: int) -> float:
    """Return an input of the network before it is normalised."""
    if w.net_plan[RECIPE] == SAMPLED:
        return sample(w, s, row, w.net_plan[FIRST_INPUT + i])
    return feature(w, s, row, w.net_plan[FIRST_INPUT + i])

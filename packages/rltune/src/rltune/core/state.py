"""The arrays that compiled code and numpy both read: a World that never changes, and a State that a run changes.

Jobs are in order of (submit, given index), so a smaller job number always means an older job.
A *shape* is what a job asks, without when: jobs of one shape fit or do not fit together. A *mask* is a set of eligible groups.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

F8 = NDArray[np.float64]
I8 = NDArray[np.int64]
I4 = NDArray[np.int32]
I1 = NDArray[np.int8]
B1 = NDArray[np.bool_]

UNLIMITED = 1 << 40  # stands for a resource or a limit that is not modelled; times a node's GPUs it still is an int64

# Life of a job.
FUTURE, HELD, WAITING, RUNNING, DONE, REJECTED = range(6)

# Placement rules.
BEST_FIT, FIRST_FIT, SPREAD = range(3)

# Backfilling rules.
NO_BACKFILL, FIT_FIRST, EASY, CONSERVATIVE, SHADOW = range(5)

# Kinds of node events.
NODE_DOWN, NODE_UP, NODE_WAKE = range(3)

# Limit counters of one job: user, account, VC, QOS, array.
SCOPES = 5

# Places in State.n, the integers that a run changes.
ARRIVED, Q_HEAD, Q_TAIL, RUNNING_N, HEAP_N, NODE_EVENT, HELD_N, PASSES, ENDED, TRIES, N_COUNTERS = range(11)

# Why a waiting job did not start in a pass.
NO_REASON, RESOURCES, BEHIND_HEAD, WOULD_DELAY_HEAD, LIMITED, RESERVED_LATER, OUT_OF_VIEW = range(7)


class Options(NamedTuple):
    """What a run is asked to do."""

    policy: int
    dynamic: bool  # scores change with time, or the queue is only partly in view: ordered anew in every pass
    backfill: int
    placement: int
    global_head: bool
    in_view: int  # how many of the oldest jobs take part; 0 = all
    estimate_by_history: bool
    rank_by_history: bool
    explain: bool  # give a reason for every job left waiting; takes no short cuts


class World(NamedTuple):
    """What a run is given."""

    # jobs
    submit: F8
    duration: F8  # read only by `start`
    gpus: I4
    shape: I4
    counters: I4  # [job, SCOPES] limit counter or -1
    after_n: I4  # how many jobs it waits for
    child_ptr: I8
    child: I4
    chunk_ptr: I8  # where its chunks are kept in State.at_node
    # shapes: kinds of chunks, largest first
    kinds: I4
    chunk_n: I4  # [shape, kind]
    chunk_gpus: I4
    chunk_cpu: I8  # -1 = the GPU share
    chunk_mem: I8
    smallest_chunk: I4
    shape_mask: I4
    # masks
    mask_ptr: I4
    mask_group: I4
    mask_has: B1  # [mask, group]
    mask_gpus: I4  # GPUs of the largest node
    mask_speed: F8  # of the slowest group
    # nodes and groups
    node_group: I4
    group_lo: I4
    group_hi: I4
    group_gpus: I4
    group_cpu: I8
    group_mem: I8
    group_speed: F8
    words: I4  # words of 32 nodes in a group's bitset
    bits_at: I4
    level_at: I4
    # maintenance windows by group, and node events in order of time
    pause_ptr: I4
    pause_start: F8
    pause_end: F8
    event_time: F8
    event_node: I4
    event_kind: I1
    # limits
    max_gpus: I8
    max_running: I8
    max_submitted: I8
    has_limits: bool
    has_pauses: bool
    # what policies and estimators need
    rank_n: F8  # GPUs, 1 for a job without
    prior: F8  # estimate before any history
    history_key: I4  # [predictor, job, level], coarse to fine; -1 = none
    history_par: F8  # [predictor, parameter]
    factor: F8  # multifactor: [job, 2] partition and QOS factors
    factor_par: F8
    user: I4
    account: I4
    user_share: F8
    account_share: F8
    total_gpus: float


class State(NamedTuple):
    """What a run changes."""

    now: F8  # [1]
    n: I8  # counters, see above
    status: I1
    start: F8
    end: F8
    speed: F8  # of the nodes a running job got
    estimate: F8
    rank: F8  # the estimate that the score uses
    key: F8  # static score
    requeues: I4
    after_left: I4
    reason: I1
    at_node: I4
    at_gpus: I4
    # nodes
    free_gpu: I4
    free_cpu: I8
    free_mem: I8
    up: B1
    bits: I8
    level: I4
    # the queue, contiguous from n[Q_HEAD] to n[Q_TAIL]
    q_job: I4
    q_shape: I4
    q_key: F8
    q_estimate: F8
    q_score: F8
    heap: I4  # scratch: places in the queue, best first
    best_closed: I4  # scratch, by pool: the best job that is known not to fit
    # running jobs by expected end, and all by true end
    run_job: I4
    run_expected: F8
    end_job: I4
    end_time: F8
    held: I4
    # shapes
    waiting: I4
    fails_from: F8  # a job of this shape with at least this estimate is known not to fit; inf = not known
    active: I4  # list of shapes with waiting jobs
    active_at: I4
    active_n: I8  # [1]
    mask_waiting: I4
    # limits
    used_gpus: I8
    used_running: I8
    used_submitted: I8
    # pools and reservations
    pool: I4  # by group
    head: I4  # by pool
    reserved: F8  # by pool: time, NaN = not computed
    feasible: I4  # [pool, kind] nodes that could take a chunk of the head then
    then_gpu: I4  # free at the reservation
    then_cpu: I8
    then_mem: I8
    # scratch for the choice of nodes
    pick: I4
    picked: I8
    stamp: I8
    # history and fair share
    seen_n: F8  # [predictor, key]
    seen_sum: F8
    usage: F8  # [2, owner]: users, then accounts
    usage_rate: F8
    usage_at: F8

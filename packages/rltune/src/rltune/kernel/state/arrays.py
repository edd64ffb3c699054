"""The arrays that compiled code and numpy both read: a World that never changes, and a State that a run changes.

Most are arrays of records: what belongs together lies together. Integers are int64, so that kernels are compiled once.
Jobs are in order of (submit, given index), so a smaller job number always means an older job.
A *shape* is what a job asks, without when: jobs of one shape fit or do not fit together. A *mask* is a set of
eligible groups.

Units, wherever one of these words stands in a record or is a kernel's argument:

    submit duration estimate start end time planned expected grace now    seconds (float64)
    cpu                                                                   thousandths of a CPU; -1 = the GPU share
    mem                                                                   MiB; -1 = the GPU share
    gpu gpus                                                              whole GPUs
    speed                                                                 factor on run times' inverse, 1 = as recorded
    usage                                                                 GPUs times growth, see fair_share.py
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

F8 = NDArray[np.float64]
I8 = NDArray[np.int64]
I4 = NDArray[np.int32]
B1 = NDArray[np.bool_]
Records = Any  # numpy.recarray of one of the dtypes below; its attributes are columns

UNLIMITED = 1 << 40  # stands for a resource or a limit that is not modelled; times a node's GPUs it still is an int64

# Life of a job.
FUTURE, HELD, WAITING, RUNNING, DONE, REJECTED = range(6)

# Jobs under a service level agreement: before all others, or at the place that the base policy gives them.
SLA_FIRST, SLA_BY_BASE = 1, 2

# Placement rules.
BEST_FIT, FIRST_FIT, SPREAD, HIERARCHICAL, BUSIEST_CPUS = range(5)

# Backfilling rules.
NO_BACKFILL, FIT_FIRST, EASY, CONSERVATIVE, SHADOW, EASY_BY, WHOLE_NODES = range(7)

# Kinds of node events.
NODE_DOWN, NODE_UP, NODE_WAKE = range(3)

# Limit counters of one job: user, account, VC, QOS, array.
SCOPES = 5

# Places in State.n, the integers that a run changes.
(
    ARRIVED,
    Q_HEAD,
    Q_TAIL,
    RUNNING_N,
    HEAP_N,
    NODE_EVENT,
    HELD_N,
    ACTIVE_N,
    STAMP,
    PASSES,
    ENDED,
    TRIES,
    EPOCH,
    RUN_SORTED,
    RUN_END,
    DISTURBED,
    DRIFTED,
    SCORED,
    LOOKED,
    FELL_BACK,
    REFUSALS_N,
    STARTS,
    NEWCOMERS,
    ENTERED,
    PLAN_N,
    PLAN_MARK,
    PLAN_ENTERED,
    DUE_AT,
    DUE_N,
    EXPECTED_BEFORE,
    WILLING_N,
    MOVABLE_N,
    VICTIMS_N,
    DISPLACED_N,
    SPELLS_N,
    SPELL_CHUNKS_N,
    AWAY_N,
    EDITION,
    EDITION_KNOWN,
    WATCHED,
    THEN_N,
    MOVERS_N,
    SCORED_EDITION,
    FREED,
    VAIN_FREED,
    VAIN_EDITION,
    VAIN_ENTERED,
    VAIN_PASS,
    CHANGED_N,
    N_COUNTERS,
) = range(50)

# Places in State.mark, the times that a run changes.
NEXT_DUE, RESCORE_AT, FIRST_EXPECTED, VAIN_UNTIL, VAIN_BEST, FIRST_NEW_MOVER, N_MARKS = range(7)

# By which order jobs take turns; NO_TURNS: who has started runs to its end.
NO_TURNS, BY_LAS, BY_GITTINS, BY_SRSF, BY_POLICY = range(5)

# Why a waiting job did not start in a pass.
NO_REASON, RESOURCES, BEHIND_HEAD, WOULD_DELAY_HEAD, LIMITED, RESERVED_LATER, OUT_OF_VIEW, REFUSED = range(8)


def _record(**columns: str) -> np.dtype[Any]:
    return np.dtype((np.record, np.dtype(list(columns.items()), align=True)))  # else every table would make its own


JOB = _record(
    submit="f8",
    duration="f8",  # read only when a job starts
    rank_n="f8",  # GPUs, 1 for a job without
    prior="f8",  # estimate before any history
    fixed_priority="f8",  # the terms of the multifactor rule that do not change, added up
    user="i8",
    account="i8",
    chunk_at="i8",  # where its chunks are kept in State.at
    chunk_end="i8",
    child_at="i8",  # who waits for it, in World.child
    child_end="i8",
    gpus="i8",
    asks="i8",  # its shape
    after_n="i8",  # how many jobs it waits for
    sla="i8",  # SLA_FIRST or SLA_BY_BASE, see engine/guard.py; 0 = neither
)
SHAPE = _record(
    mask="i8",
    kinds="i8",
    smallest="i8",
    chunks="i8",  # nodes that it takes
    needs="i8",  # nodes that the job would do with: fewer for a wider way of another shape
    racks="i8",  # racks that it would do with
    wider_lo="i8",  # shapes that are the same request cut for one node more
    wider_hi="i8",
)
CHUNK = _record(cpu="i8", mem="i8", n="i8", gpus="i8")  # [shape, kind], largest first; CPU or memory -1 = the GPU share
MASK = _record(lo="i8", hi="i8", gpus="i8", slowest="f8")  # part of mask_group, the largest node's GPUs, least speed
GROUP = _record(
    cpu="i8",
    mem="i8",
    speed="f8",
    lo="i8",  # first node
    hi="i8",
    gpus="i8",
    words="i8",  # of the bitset of one level
    bits_at="i8",
    level_at="i8",
    pause_lo="i8",
    pause_hi="i8",
)
YIELDS = _record(
    willing="i8",  # may be displaced
    checkpoint="f8",  # seconds of work between two checkpoints; infinite = none is written
    restart="f8",  # seconds at speed 1 without progress, at the beginning of every spell but the first
)
PAUSE = _record(start="f8", end="f8")
SLOWDOWN = _record(extra_node="f8", extra_rack="f8", cpu="f8", mem="f8")  # factors, 1 = none
EVENT = _record(time="f8", node="i8", kind="i8")

LIFE = _record(
    start="f8",
    end="f8",
    speed="f8",  # of the nodes it got
    estimate="f8",
    rank="f8",  # the estimate that the score uses
    key="f8",  # static score
    planned="f8",  # time of its last reservation by conservative backfilling; NaN = none
    run_at="i8",  # place in State.run
    requeues="i8",
    refusals="i8",  # how often the inspector kept it waiting
    refused_in="i8",  # and the last pass in which it did
    after_left="i8",
    told="f8",  # its score when the policy was last asked, if that is not in every pass
    status="i8",
    reason="i8",
    form="i8",  # the shape in which it runs: what it asks, or a wider one
)
TURN = _record(  # what a job that may have several spells needs beside LIFE; work is in seconds at speed 1
    first="f8",  # start of its first spell; NaN = none yet
    length="f8",  # of the spell that runs or comes next, to the job's end: restart and work
    restart="f8",  # of that spell
    saved="f8",  # work done before it that is not lost
    service="f8",  # work done before it, lost or not
    lost="f8",  # work lost and restarts, up to it
    estimate="f8",  # of all its work
    rank="f8",
    preemptions="i8",
    score="f8",  # of a running job that may be displaced, as of this pass
    loss="f8",  # GPU-seconds that displacing it now would cost
    day_from="f8",  # when its day of displacements began
    day_n="i8",  # and how many there were in it
    allowed="f8",  # what its turns might cost it in all when it was last displaced, in seconds; so are the next:
    toll="f8",  # what they have cost it, see tolls.py
    patience="f8",  # how long it could be away then
    away_from="f8",  # when it was displaced
    due="f8",  # and when it comes before all others; infinite = it is not away
    settled="i8",  # it has been due, and is not displaced any more
    mover_at="i8",  # place in State.mover
)
MOVER = _record(  # a running job that is willing: what a pass asks of it, side by side
    job="i8",
    start="f8",
    hold="f8",  # of its restart
    score="f8",
    until="f8",  # the score holds before this time, and in this edition
    edition="i8",
    started_in="i8",  # the pass
    barred="i8",  # it has had all its turns, or been due; -1 = not looked at in this spell
    patient="i8",  # whatever work it would have to repeat, it has patience
)
SPELL = _record(start="f8", end="f8", job="i8", chunks="i8")  # one that ended before its job did
AT = _record(node="i8", gpus="i8")
NODE = _record(
    cpu="i8",  # free now
    mem="i8",
    then_cpu="i8",  # free at the reservation of a head
    then_mem="i8",
    picked="i8",  # stamp of the last choice that took it
    gpu="i8",
    then_gpu="i8",
    then_of="i8",  # the reservation of which these three are; of another, they are what is free now
    group="i8",
    up="i8",
    rack="i8",
    could="i8",  # GPUs that would be free if some running jobs stopped
    could_in="i8",  # and in which look that was worked out
)
GONE = -(1 << 40)  # GPUs that a node which is down has ahead: whoever ends there gives back less than that
PROBE = _record(gpu="i8", cpu="i8", mem="i8")  # what a node would give to the job in question; GPUs -1 = nothing
RACK = _record(free="i8", seen="i8")
QUEUE = _record(key="f8", estimate="f8", score="f8", tie="f8", job="i8", asks="i8")  # of equal scores the lowest tie
RUN = _record(expected="f8", job="i8")
END = _record(time="f8", job="i8", turn="i8")  # of equal times the lowest turn is first
DEMAND = _record(
    fails_from="f8",  # jobs of the shape with this estimate or more are known not to fit
    late_speed="f8",  # and as of this epoch, those that outlast the head's reservation at this speed would delay it
    late_at="i8",
    pool="i8",  # in which it waits, in this pass
    waiting="i8",
    shortest="f8",  # no job of the shape that waits has a lower estimate
    seen_shortest="f8",  # and the lowest of those that a pass has come past
    active_at="i8",
    unclaimed_in="i8",  # the last pass in which not even all that could be displaced made room for it
    best="f8",  # the lowest score of those that wait, as of this pass
    vain_in="i8",  # the last pass that found that nobody could claim, if somebody of the shape waited then,
    vain_best="f8",  # and the lowest score of those
    best_row="i8",  # the place of the best of them that might claim nodes, if none fits; -1 = there is none
)
LIMIT = _record(
    max_gpus="i8", max_running="i8", max_submitted="i8", used_gpus="i8", used_running="i8", used_submitted="i8"
)
POOL = _record(  # by group; a pool is named by its first group
    reserved="f8",  # time of the head's reservation, NaN = not asked for in this pass
    kept_time="f8",  # the last reservation that was computed: its time, its head, and n[DISTURBED] then
    kept_head="i8",
    kept_mark="i8",
    then_of="i8",  # its number: nodes bear it whose state then differs from now
    pool="i8",
    before="i8",  # the pool in the last pass
    head="i8",
    best_closed="i8",
    shut="i8",  # nothing more starts in this look
    small="i8",  # row of the smallest job that does not fit now, for features.py; its area; when it could start
    small_area="f8",
    small_delay="f8",
    small_spare="f8",  # GPUs that would then be left
)
SEEN = _record(n="f8", total="f8")
OWNER = _record(
    share="f8",
    usage="f8",  # up to the last change of its rate
    rate="f8",  # GPUs in use
    growth="f8",  # at the last change of its rate
    fair="f8",  # fair share as of that time
    fair_at="f8",
)


class Options(NamedTuple):
    """What a run is asked to do."""

    policy: int
    dynamic: bool  # scores change with time, or the queue is only partly in view: ordered anew in every pass
    backfill: int
    behind: int  # under EASY_BY, the rule by which those behind a head are tried
    placement: int
    global_head: bool
    in_view: int  # how many of the oldest jobs take part; 0 = all
    estimate_by_history: bool
    rank_by_history: bool
    guarded: bool  # no job is overtaken for longer than this, see engine/guard.py
    sla_by_base: bool  # some jobs have their place by the network's base policy
    guard_orders: bool  # the guard puts owed jobs first; if not, the order is given, and it protects heads alone
    grace_s: float
    grace_times: float  # of its own estimate
    cycle_s: float  # the policy is asked at multiples of this alone; 0 = in every pass
    relook: bool  # score anew after every start, as a policy does that looks at what is free
    explain: bool  # give a reason for every job left waiting; takes no short cuts
    turns: int  # by which order running jobs may be displaced
    shared: bool  # some jobs may not be, and keep the policy's order among themselves
    min_run_s: float  # of a spell, restart apart, before it may be cut short
    max_preemptions: int  # of one job
    turn_s: float  # between two passes that are made only because time has passed
    margin: float  # by so many times a score of work must be higher to be displaced
    cost_once: float  # of displacing a job, in times what it loses
    cost_each: float  # and as much again for each job that waits
    max_a_day: int  # displacements of one job; 0 = any number
    late_s: float  # a displaced job ends at most so much later than forecast,
    late_times: float  # or after so many times as long; infinite = not told
    covered: bool  # and there must be GPUs to bring all back who are displaced
    gain: float  # as so many seconds counts one that a claimant gains; infinite = it is not weighed


class World(NamedTuple):
    """What a run is given."""

    job: Records
    counters: I8  # [job, SCOPES] place in State.limit, or -1
    child: I8
    shape: Records
    chunk: Records
    mask: Records
    mask_group: I8
    mask_has: B1  # [mask, group]
    group: Records
    pause: Records  # maintenance windows, by group
    event: Records  # of nodes, in order of time
    history_key: I4  # [predictor, job, level], coarse to fine; -1 = none
    history_par: F8  # [predictor, parameter]
    survival_key: I4  # [job, level], coarse to fine; -1 = none: see online_survival.py; so are the next
    survival_trust: float
    left_by: int  # how a running job's remainder is believed
    chain: I8  # [job] a number for its keys, its prior and its will together; one row where no order asks for an index
    factor_par: F8
    slowdown: Records  # one row
    net: F8  # weights of the learned policy, and how its inputs are made: see features.py and network.py
    net_plan: I8
    net_norm: F8  # [input, 4]
    yields: Records  # by job; one row where nobody takes turns
    has_limits: bool
    has_pauses: bool
    has_slowdown: bool
    whole_nodes: bool  # nodes are not shared: a chunk takes all of its node
    total_gpus: float
    takes_turns: bool
    has_tolls: bool  # what turns cost a job is bounded, see tolls.py


class State(NamedTuple):
    """What a run changes."""

    now: F8  # [1]
    mark: F8  # times, see above
    n: I8  # counters, see above
    life: Records  # by job
    at: Records  # chunks of jobs, see JOB.chunk_at
    node: Records
    bits: I8  # the index of free nodes, see index.py
    level: I8
    could_level: I8  # the same, if some running jobs stopped,
    touched_level: I8  # and of the nodes alone on which they run
    queue: Records  # waiting jobs, from n[Q_HEAD] to n[Q_TAIL]
    heap: I8  # scratch: places in the queue, best first
    plan: I8  # by conservative backfilling: jobs in the order of the last pass, see conservative.py
    due: I8  # and in the order of their reservations' times
    run: Records  # running jobs by expected end, in order after settle_running
    end: Records  # a heap of them by true end
    held: I8  # held by a limit on submitted jobs, oldest first
    demand: Records  # by shape
    active: I8  # shapes with waiting jobs
    mask_waiting: I8
    limit: Records
    pool: Records  # by group
    feasible: I8  # [pool, kind] nodes that could take a chunk of the head at its reservation
    pick: I8  # nodes chosen for a job
    seen: Records  # [predictor, key] run times of ended jobs
    survival: F8  # [key, edge, column] how long ended jobs lasted; one edge = nobody asks
    edition: F8  # the same as of the last edition, if an order asks for indices; see online_survival.py
    changed: I8  # keys whose tables have changed since,
    changed_in: I8  # and by key the edition since which that is noted
    cuts: F8  # where levels of attained service part, as of the last edition
    indices: F8  # [slot, edge] indices of the last edition that were asked for
    index_tag: I8  # and of which chain and edition they are
    owner: Records  # [users, accounts or all together, which]
    growth: F8  # of usage as of now, see fair_share.py
    probe: Records  # scratch by node, see racks.py
    rack: Records  # scratch by rack
    asked: F8  # [shape, column] what the learned policy sees, see features.py; so are the next
    wanted: F8  # [mask]
    crowd: I8  # [user]
    way: I8  # scratch for ways of placing
    way_nodes: I8
    hidden: F8  # scratch of the network
    rack_fit: I8  # [rack, kind] nodes that could take a chunk; the last row counts chunks not placed yet
    turn: Records  # by job; this and the next have one row where nobody takes turns
    displaced: I8  # in this pass: they wait from its end on
    mover: Records  # running jobs that are willing
    movable: I8  # running jobs that may be displaced in this pass, the cheapest first
    victim: I8  # scratch: those of them that a job would displace
    own_score: F8  # scratch by place in the queue, see shared_scores.py
    spell: Records  # those that ended before their jobs did, since Python last took them
    spell_at: Records  # their chunks, one after the other
    away: I8  # who was displaced and has not started since, if what that costs is bounded


N_CRITIC = 5  # features of a job that the critic sees

# Places in Record.n. QUIET: nothing is drawn. OPEN: choices so far that had an alternative, written down or not.
# CHANGED_AT: at which of those another is taken than the best (-1 = none). CHANGED_TO: which of its candidates.
ROWS, CHOICES, SEED_1, SEED_2, FULL, CHOSEN, QUIET, OPEN, CHANGED_AT, CHANGED_TO, N_RECORD = range(11)


class Record(NamedTuple):
    """What a rollout writes: rows of candidates, and for every choice its candidates, the one taken and when."""

    n: I8  # counters, see above
    row: F8  # [row, inputs] normalised inputs of the actor
    critic: F8  # [row, N_CRITIC]
    first: I8  # [choice] first row of its candidates; they go on to the next choice's first
    taken: I8  # [choice] which of them
    when: F8  # [choice] the time of it
    critic_of: I8  # the features the critic sees


class Passes(NamedTuple):
    """How a search makes passes."""

    own: Options  # as the policy makes them
    given: Options  # in an order that is tried
    later: Options  # those to come in a sketch, where nothing is learnt


class Plans(NamedTuple):
    """What a search writes: orders of the waiting jobs, numbered by age, and what they came to."""

    n: I8  # counters, see engine/search.py
    value: F8  # of the policy's own order and of the best
    own: I8  # the policy's order
    best: I8
    tried: I8  # the candidate in hand
    later: I8  # the order of the passes to come, if it does not change with time
    waits: I8  # which of them the policy leaves waiting
    score: F8
    action: I8  # what earlier candidates would start, as a hash

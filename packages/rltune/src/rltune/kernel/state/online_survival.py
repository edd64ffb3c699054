"""What a job that has run for a while has left, from how long jobs like it lasted: learnt as jobs end.

A table holds, for each of a row of times ("edges"), how many jobs of a likeness ran longer than that, and how much
longer in all. So what those had left that lasted beyond a time is a division, and nothing is subtracted that was
added before. Times are work: seconds on nodes of speed 1. Where nothing asks for it there is no table.
"""

from __future__ import annotations

import math

from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import BY_LAS, CHANGED_N, EDITION, EDITION_KNOWN, F8, I4, Options, State, World
from rltune.kernel.state.attained import restart_left, whole_estimate, work_done

# How a job's remainder is believed. ENDS_NOW: reservations take a job past its estimate to end at once.
ENDS_NOW, BY_ESTIMATE, BY_HISTORY = range(3)

# Columns of a table.
LONGER, REST = range(2)

PARTS = 4  # of each doubling
DOUBLINGS = 26  # up to 776 days of work, or as many GPU-seconds
EDGES = 2 + PARTS * DOUBLINGS  # 0, 1, 1.25, 1.5, 1.75, 2, 2.5, ... seconds

OVERRUN = 0.5  # past what is known a job is taken to run for half as long again as it has run
LEAST_LEFT_S = 1.0  # nobody who still runs is believed to end at once

# Three levels of attained service: they part at these quantiles of the GPU time of jobs that have ended.
LOW_QUANTILE, HIGH_QUANTILE = 0.9, 0.99
FEWEST_KNOWN = 16  # with fewer ended jobs the levels part at one GPU-hour and at ten
LOW_GPU_S, HIGH_GPU_S = 3600.0, 36000.0

EDITION_SHARE = 32  # orders see what history says anew when it has grown by one in so many
MOST_SLOTS = 4096  # of the cache of indices

# Rows of State.survival behind those of the likenesses.
GPU_TIME, SCRATCH, EXTRA_ROWS = range(3)


@kernel
def edge(k: int) -> float:
    """Return an edge, in seconds; all are exact."""
    if k == 0:
        return 0.0
    return (1.0 + ((k - 1) % PARTS) / PARTS) * (1 << (k - 1) // PARTS)


@kernel
def edge_before(work: float) -> int:
    """Return the last edge that is not above some work."""
    if work < 1.0:
        return 0
    part, doubling = math.frexp(work)  # 0.5 <= part < 1
    return min(EDGES - 1, 1 + PARTS * (doubling - 1) + int((2.0 * part - 1.0) * PARTS))


@kernel
def keeps_survival(s: State) -> bool:
    """Return whether there are tables to learn into."""
    return s.survival.shape[1] > 1


@kernel
def enter(table: F8, work: float) -> None:
    """Add a job that lasted so long; every job counts at edge 0, one of zero duration too."""
    table[0, LONGER] += 1.0
    table[0, REST] += work
    base = 1.0
    k = 1
    while True:
        for part in range(PARTS):
            at = base * (1.0 + part / PARTS)  # edge(k), without a division of whole numbers
            if at >= work or k == EDGES:
                return
            table[k, LONGER] += 1.0
            table[k, REST] += work - at
            k += 1
        base *= 2.0


@kernel
def _note_changed(s: State, key: int) -> None:
    """Note that a table is no longer that of the last edition; the first edition is of all tables."""
    edition = s.n[EDITION]
    if len(s.edition) > 0 and s.changed_in[key] != edition:
        s.changed_in[key] = edition
        s.changed[s.n[CHANGED_N]] = key
        s.n[CHANGED_N] += 1


@kernel
def _put_into_edition(s: State, key: int) -> None:
    """Copy a table, up to where nobody lasted longer: what is behind has always been nothing."""
    for e in range(EDGES):
        s.edition[key, e, LONGER] = s.survival[key, e, LONGER]
        s.edition[key, e, REST] = s.survival[key, e, REST]
        if s.survival[key, e, LONGER] == 0.0:
            return


@kernel
def learn_survival(w: World, s: State, job: int, work: float) -> None:
    """Add an ended job to every likeness it has, and its GPU time to that of all."""
    likenesses = len(s.survival) - EXTRA_ROWS
    for level in range(w.survival_key.shape[1]):
        key = int(w.survival_key[job, level])
        if key >= 0:
            enter(s.survival[key], work)
            _note_changed(s, key)
    enter(s.survival[likenesses + GPU_TIME], w.job[job].rank_n * work)


@kernel
def learn_survival_of_all(keys: I4, work: F8, gpu_time: F8, table: F8) -> None:
    """Learn from jobs that ended before a run as `learn_survival` does."""
    gpu_row = len(table) - EXTRA_ROWS + GPU_TIME
    for job in range(len(work)):
        for level in range(keys.shape[1]):
            if keys[job, level] >= 0:
                enter(table[keys[job, level]], work[job])
        enter(table[gpu_row], gpu_time[job])


@kernel
def at_work(table: F8, k: int, share: float, column: int) -> float:
    """Return a column of a table between two edges, on a straight line; nothing beyond the last."""
    if k >= EDGES - 1:
        return 0.0
    return table[k, column] + share * (table[k + 1, column] - table[k, column])


@kernel
def share_of_step(k: int, work: float) -> float:
    """Return how far some work is from an edge to the next, from 0 to 1."""
    return (work - edge(k)) / (edge(k + 1) - edge(k))


@kernel
def left_by_estimate(estimate: float, attained: float) -> float:
    """Return what is left of an estimate; past it, half as long again as the job has run."""
    return estimate - attained if estimate > attained else OVERRUN * attained


@kernel
def left_by_history(w: World, s: State, job: int, attained: float) -> float:
    """Return what jobs like this one that ran for so long had left, on average.

    From the coarsest likeness to the finest, each counts as much as it has jobs that ran longer, against `trust` jobs'
    worth of the coarser one. Before all of them stands the prior (the job's limit, or an hour), as an estimate.
    """
    left = left_by_estimate(w.job[job].prior, attained)
    k = edge_before(attained)
    share = share_of_step(k, attained)
    trust = w.survival_trust
    for level in range(w.survival_key.shape[1]):
        key = int(w.survival_key[job, level])
        if key >= 0:
            longer = at_work(s.survival[key], k, share, LONGER)
            left = (at_work(s.survival[key], k, share, REST) + trust * left) / (longer + trust)
    return left


@kernel
def mean_left(w: World, s: State, job: int, attained: float) -> float:
    """Return the work that a job is believed to have left after so much: the one rule for orders, reservations, search.

    It is what history tells if the estimates are history's, else what is left of the estimate.
    """
    if w.left_by == BY_HISTORY:
        return max(left_by_history(w, s, job, attained), LEAST_LEFT_S)
    return left_by_estimate(whole_estimate(w, s, job), attained)


@kernel
def believed_end(w: World, s: State, job: int) -> float:
    """Return when a running job is believed to end: one that starts now, after its estimate."""
    life = s.life[job]
    now = s.now[0]
    if w.left_by == BY_HISTORY and now > life.start:
        return now + (restart_left(w, s, job) + mean_left(w, s, job, work_done(w, s, job))) / life.speed
    end = life.start + life.estimate / life.speed
    if end > now or life.start == now:
        return end
    if w.takes_turns:
        return now + mean_left(w, s, job, work_done(w, s, job)) / life.speed
    return now + OVERRUN * (now - life.start)


@kernel
def renew_edition(s: State, o: Options) -> None:
    """Let the orders see what is known of jobs that have ended, if that has grown by enough since they last saw it.

    So levels and indices are worked out now and then, not in every pass.
    """
    if o.turns != BY_LAS and len(s.edition) == 0:
        return
    known, then = int(gpu_times_known(s)), s.n[EDITION_KNOWN]
    if s.n[EDITION] > 0 and known - then <= then // EDITION_SHARE:
        return
    s.n[EDITION] += 1
    s.n[EDITION_KNOWN] = known
    s.cuts[0], s.cuts[1] = LOW_GPU_S, HIGH_GPU_S
    if known >= FEWEST_KNOWN:
        s.cuts[0], s.cuts[1] = gpu_time_quantile(s, LOW_QUANTILE), gpu_time_quantile(s, HIGH_QUANTILE)
    if s.n[EDITION] == 1:
        for key in range(len(s.edition) - EXTRA_ROWS):
            _put_into_edition(s, key)
    else:
        for i in range(s.n[CHANGED_N]):
            _put_into_edition(s, s.changed[i])
    s.n[CHANGED_N] = 0


@kernel
def index_by_history(w: World, s: State, job: int, attained: float) -> float:
    """Return Gittins' index of jobs like this one, by the last edition, at the last edge that is not above its work."""
    k = edge_before(attained)
    chain = w.chain[job]
    slot = chain % len(s.indices)
    tag = s.n[EDITION] * len(w.chain) + chain
    if s.index_tag[slot, k] != tag:
        s.index_tag[slot, k] = tag
        s.indices[slot, k] = _index_at(w, s, job, k)
    return s.indices[slot, k]


@kernel
def _index_at(w: World, s: State, job: int, k: int) -> float:
    """Return the best rate, over how long one would go on, of ends by work, among jobs like this one.

    For a time x ahead the rate is P(ends before x) / E[work until then], both given what the job has attained. Tried
    are the edges ahead, and "to the end"; who may not be displaced goes on to the end. Likenesses are blended as in
    `left_by_history`.
    """
    attained = edge(k)
    trust = w.survival_trust
    blend = s.edition[len(s.edition) - EXTRA_ROWS + SCRATCH]
    left = left_by_estimate(w.job[job].prior, attained)
    for e in range(k + 1, EDGES):
        rest = attained + left - edge(e)
        blend[e, LONGER] = 1.0 if rest > 0.0 else 0.0
        blend[e, REST] = max(rest, 0.0)
    for level in range(w.survival_key.shape[1]):
        key = int(w.survival_key[job, level])
        if key >= 0:
            table = s.edition[key]
            per_job = 1.0 / (table[k, LONGER] + trust)
            left = (table[k, REST] + trust * left) * per_job
            for e in range(k + 1, EDGES):
                blend[e, LONGER] = (table[e, LONGER] + trust * blend[e, LONGER]) * per_job
                blend[e, REST] = (table[e, REST] + trust * blend[e, REST]) * per_job
    return _best_rate(blend, k, left) if w.yields[job].willing else 1.0 / max(left, LEAST_LEFT_S)


@kernel
def _best_rate(blend: F8, k: int, left: float) -> float:
    """Return the highest rate of ends by work over the edges ahead; `left` is the mean work to the end."""
    best = 1.0 / max(left, LEAST_LEFT_S)
    for e in range(k + 1, EDGES):
        work = left - blend[e, REST]
        if work > 0.0:
            best = max(best, (1.0 - blend[e, LONGER]) / work)
        if blend[e, LONGER] <= 0.0:
            break
    return best


@kernel
def gpu_time_quantile(s: State, quantile: float) -> float:
    """Return the GPU-seconds that such a share of the jobs known did not exceed."""
    table = s.survival[len(s.survival) - EXTRA_ROWS + GPU_TIME]
    longer = table[0, LONGER] - quantile * table[0, LONGER]  # exact where the share is a whole number of jobs
    for k in range(1, EDGES):
        if table[k, LONGER] <= longer:
            above = table[k - 1, LONGER]
            share = (above - longer) / (above - table[k, LONGER]) if above > table[k, LONGER] else 1.0
            return edge(k - 1) + share * (edge(k) - edge(k - 1))
    return edge(EDGES - 1)


@kernel
def gpu_times_known(s: State) -> float:
    """Return of how many jobs the GPU time is known."""
    return s.survival[len(s.survival) - EXTRA_ROWS + GPU_TIME, 0, LONGER]

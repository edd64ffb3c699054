"""Taking turns: who may be displaced, who is, and what that costs."""

import math
from dataclasses import replace
from itertools import compress, product

from reference.ask import Job
from reference.machine import Machine, Run, age
from reference.remaining import work_left
from reference.scores import score
from reference.tolls import is_bounded, least_patience, patience, turns_today
from reference.turns import turn_score

EXACT = 8


def next_turn(m: Machine) -> float:
    """Now, if the last pass displaced anybody; at the next tick, if somebody waits and somebody could give way."""
    if m.displaced:
        return m.now
    due = min((job.due for job in m.waiting if job.due > m.now), default=math.inf)
    if not m.waiting or not any(r.job.preemptible for r in m.running):
        return due
    turn = m.settings.turns.turn
    tick = (math.floor(m.now / turn) + 1) * turn
    return min(tick if tick > m.now else tick + turn, due)


def done_in(m: Machine, run: Run) -> float:
    """Work of the spell so far: nothing during its restart."""
    return max(0.0, (m.now - run.start) * run.speed - run.job.restart)


def kept(job: Job, done: float) -> float:
    """Work up to the last checkpoint, counted over all spells."""
    if job.checkpoint == 0:
        return done
    return max(job.saved, 0.0 if math.isinf(job.checkpoint) else math.floor(done / job.checkpoint) * job.checkpoint)


def again(m: Machine, run: Run) -> float:
    """Seconds of work that stopping the job now would cost it: since its last checkpoint, and a restart."""
    done = run.job.saved + done_in(m, run)
    return done - kept(run.job, done) + run.job.restart_s


def loss(m: Machine, run: Run) -> float:
    """GPU-seconds that stopping the job now would cost."""
    return max(1, run.job.gpus) * again(m, run)


def stop(m: Machine, run: Run) -> Job:
    """Note the spell, and return the job as it waits again."""
    m.stopped.append(replace(run, end=m.now))
    job, work = run.job, done_in(m, run)
    done = job.saved + work
    saved = kept(job, done)
    held = (m.now - run.start) * run.speed
    return replace(
        job,
        duration=job.restart_s + (job.work - saved),
        estimate=job.restart_s + work_left(m, job, saved),
        restart=job.restart_s,
        saved=saved,
        service=job.service + work,
        lost=job.lost + (min(job.restart, held) + (done - saved)),
    )


def may_be_displaced(m: Machine) -> list[Run]:
    """List those that may be displaced in this pass, the cheapest first."""
    turns = m.settings.turns
    able = [
        r
        for r in m.running
        if r.job.preemptible
        and r.job.preemptions < turns.max_preemptions
        and (not turns.max_a_day or turns_today(m, r.job) < turns.max_a_day)
        and m.now - r.start >= r.job.restart / r.speed + turns.min_run
    ]
    if is_bounded(m):
        m.patience = {r.job.index: patience(m, r, again(m, r)) for r in able}
        able = [r for r in able if m.patience[r.job.index] > least_patience(m, r.job)]
    m.queue_length = len(m.waiting)
    m.weight = turns.cost_once + turns.cost_each * len(m.waiting)
    worth = [r for r in able if turns.by_work or _gpus_left(m, r) > m.weight * loss(m, r)]
    return sorted(worth, key=lambda r: (loss(m, r), r.job.submit, r.job.index))


def _gpus_left(m: Machine, run: Run) -> float:
    return max(1, run.job.gpus) * work_left(m, run.job, run.job.saved + done_in(m, run))


def share_scores(m: Machine, waiting: list[Job]) -> dict[int, float]:
    """Give the lowest of the scores of those that may not be displaced to the policy's first of them, and so on."""
    if m.settings.turns.order == "policy":
        return {}
    m.shares = {}
    fixed = [job for job in waiting if not job.preemptible]
    scores = sorted(turn_score(m, job) for job in fixed)
    by_policy = sorted(fixed, key=lambda job: (score(m.settings.policy, job, m.now), *age(job)))
    return {job.index: own for job, own in zip(by_policy, scores, strict=True)}


def stands_lower(m: Machine, run: Run, claimant: Job) -> bool:
    """Say whether the running job would come after the claimant by the margin, if it waited with what it has left."""
    order, work = m.settings.turns.order, done_in(m, run)
    done = run.job.saved + work
    as_waiting = replace(run.job, estimate=work_left(m, run.job, done), saved=done, service=run.job.service + work)
    mine, theirs = m.rank_now(claimant), m.rank_now(as_waiting)
    if mine[0] != 2 or theirs[0] != 2:
        return mine[0] < theirs[0]
    if order == "policy" and not m.settings.turns.by_network:
        return theirs[1] > mine[1]
    first, second = (turn_score(m, job) for job in (claimant, as_waiting))
    if not m.settings.turns.by_work:
        return second > first
    return second - m.weight * loss(m, run) > (m.settings.turns.margin * first if first > 0 else first)


def choose_victims(m: Machine, claimant: Job, movable: list[Run]) -> list[Run]:
    """Choose whom to displace so that the claimant fits; nobody, if it cannot be brought about."""
    groups = m.groups_of(claimant)
    candidates = [
        r for r in movable if stands_lower(m, r, claimant) and any(m.nodes[c.node].group in groups for c in r.chunks)
    ]
    if len(candidates) <= EXACT:
        return _cheapest_set(m, claimant, candidates)
    return _greedy_set(m, claimant, candidates)


def _fits_without(m: Machine, claimant: Job, gone: list[Run]) -> bool:
    everybody = m.running
    m.running = [r for r in everybody if r not in gone]
    chunks = m.place_now(claimant)
    m.running = everybody
    return chunks is not None


def _cheapest_set(m: Machine, claimant: Job, candidates: list[Run]) -> list[Run]:
    """Of all sets that make room the one that loses least; of equals that which leaves out the later candidates."""
    sets = [list(compress(candidates, bits[::-1])) for bits in product((0, 1), repeat=len(candidates))]
    losses = [sum(loss(m, r) for r in gone) for gone in sets]  # in the order of binary numbers
    for i in sorted(range(len(sets)), key=lambda i: (losses[i], i)):
        if sets[i] and _fits_without(m, claimant, sets[i]):
            return sets[i]
    return []


def _greedy_set(m: Machine, claimant: Job, candidates: list[Run]) -> list[Run]:
    """Add one after the other until there is room, then leave out, the last first, who is not needed."""
    gone: list[Run] = []
    for run in candidates:
        gone.append(run)
        if _fits_without(m, claimant, gone):
            break
    else:
        return []
    for run in gone[::-1]:
        fewer = [r for r in gone if r is not run]
        if _fits_without(m, claimant, fewer):
            gone = fewer
    return gone

"""Taking turns: who may be displaced, who is, and what that costs."""

import math
from dataclasses import replace
from itertools import compress, product

from reference.ask import Job
from reference.lending import is_bounded, loans, may_lend, terms, turns_today
from reference.machine import Machine, Run
from reference.remaining import work_left
from reference.turns import turn_score

EXACT = 8


def next_turn(m: Machine) -> float:
    """Now, if the last pass displaced anybody; at the next tick, if somebody waits and somebody could give way."""
    if m.displaced:
        return m.now
    due = min((job.due for job in loans(m) if job.due > m.now), default=math.inf)
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


def loss(m: Machine, run: Run) -> float:
    """GPU-seconds that stopping the job now would cost."""
    done = run.job.saved + done_in(m, run)
    return max(1, run.job.gpus) * (done - kept(run.job, done) + run.job.restart_s)


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
        able = _in_time(m, able)
    m.weight = turns.cost_once + turns.cost_each * len(m.waiting)
    worth = [r for r in able if turns.by_work or _gpus_left(m, r) > m.weight * loss(m, r)]
    return sorted(worth, key=lambda r: (loss(m, r), r.job.submit, r.job.index))


def _in_time(m: Machine, able: list[Run]) -> list[Run]:
    """Keep those who could have their nodes back in time, and note when."""
    left = {r.job.index: work_left(m, r.job, kept(r.job, r.job.saved + done_in(m, r))) for r in able}
    m.terms = {r.job.index: terms(m, r, left[r.job.index]) for r in able}
    return [r for r in able if may_lend(m, r, m.terms[r.job.index][1], left[r.job.index])]


def _gpus_left(m: Machine, run: Run) -> float:
    return max(1, run.job.gpus) * work_left(m, run.job, run.job.saved + done_in(m, run))


def stands_lower(m: Machine, run: Run, claimant: Job) -> bool:
    """Say whether the running job would come after the claimant by the margin, if it waited with what it has left."""
    order, work = m.settings.turns.order, done_in(m, run)
    done = run.job.saved + work
    as_waiting = replace(run.job, estimate=work_left(m, run.job, done), saved=done, service=run.job.service + work)
    mine, theirs = m.rank_now(claimant), m.rank_now(as_waiting)
    if mine[0] != 2 or theirs[0] != 2:
        return mine[0] < theirs[0]
    if order == "policy":
        return theirs[1] > mine[1]
    first, second = (turn_score(m, job) for job in (claimant, as_waiting))
    if not m.settings.turns.by_work:
        return second > first
    return second - m.weight * loss(m, run) > (m.settings.turns.margin * first if first > 0 else first)


def choose_victims(m: Machine, claimant: Job, movable: list[Run]) -> list[Run]:
    """Choose whom to displace so that the claimant fits; nobody, if it cannot be brought about."""
    groups = m.groups_of(claimant)
    end = m.now + claimant.estimate / min(m.speeds[g] for g in groups)
    candidates = [
        r
        for r in movable
        if stands_lower(m, r, claimant)
        and any(m.nodes[c.node].group in groups for c in r.chunks)
        and (not is_bounded(m) or end <= m.terms[r.job.index][1])
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

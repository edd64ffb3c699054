"""One scheduling pass."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from reference.ask import Job, Node
from reference.fit import Chunk, Free, fits, free_on
from reference.machine import Machine, Run, age, in_the_way, is_down
from reference.preempt import again, choose_victims, may_be_displaced, share_scores, stop
from reference.scores import score
from reference.tolls import debts_are_covered, goes_away, is_bounded, is_due, one_turn_more
from reference.turns import turn_score


@dataclass(frozen=True)
class Head:
    job: Job
    reserved: float | None  # None = no such time


@dataclass(frozen=True)
class Reservation:
    start: float
    end: float
    kept: tuple[Chunk, ...]  # what is kept from others
    chunks: tuple[Chunk, ...]


def run_pass(m: Machine) -> None:
    if m.settings.backfill in {"conservative", "whole-nodes"}:
        _conservative(m)
    else:
        _behind_heads(m)


def _behind_heads(m: Machine) -> None:
    had_turn: list[Job] = []  # in order, without those that a limit passed over
    movable = may_be_displaced(m) if m.settings.turns else []
    m.shares = share_scores(m, m.in_view(m.waiting)) if m.settings.turns else {}
    m.displaced = []
    for job in m.in_order(m.in_view(m.waiting)):
        head = _head_of(m, job, had_turn)
        if not m.may_run(job):
            _try_claim(m, job, head, movable)
            continue
        if head is None:
            if chunks := m.place_now(job):
                m.start(job, chunks)
        elif not _has_second_round(m):
            _try_behind(m, job, head)
        if job in m.waiting:
            _try_claim(m, job, head, movable)
        had_turn.append(job)
    if _has_second_round(m):
        _second_round(m, had_turn)
    m.waiting += m.displaced


def _try_claim(m: Machine, job: Job, head: Head | None, movable: list[Run]) -> None:
    """Let a job that does not fit displace others, if no head bars it."""
    if m.place_now(job) or (head is not None and m.settings.backfill == "none"):
        return
    victims = choose_victims(m, job, [r for r in movable if r in m.running])
    if not victims:
        return
    if m.settings.turns.cover and is_bounded(m) and not debts_are_covered(m, job, victims):
        return
    if m.settings.turns.by_work and m.rank_now(job)[0] == 2 and not _gains_enough(m, job, victims):
        return
    before = m.running
    m.running = [r for r in before if r not in victims]
    chunks = m.place_now(job)
    if m.may_run(job) and (head is None or _leaves_head(m, job, chunks, head)):
        for run in victims:
            m.displaced.append(goes_away(m, one_turn_more(m, stop(m, run)), run))
        m.start(job, chunks)
    else:
        m.running = before


def _gains_enough(m: Machine, job: Job, victims: list[Run]) -> bool:
    """Say whether a job gains enough time by a claim beside what its victims lose."""
    if math.isinf(m.settings.turns.gain):
        return True
    gain = m.settings.turns.gain * ((math.inf if (t := easy_time(m, job)) is None else t) - m.now)
    hold = turn_score(m, job) / max(1, job.gpus)
    for run in victims:
        gain -= hold + again(m, run) / run.speed
    return gain >= 0


def _has_second_round(m: Machine) -> bool:
    return m.settings.backfill == "shadow" or ":" in m.settings.backfill


def _second_round(m: Machine, had_turn: list[Job]) -> None:
    """Try the others in an order of their own, in the pools as they are when all heads are known."""
    kind, _, rule = m.settings.backfill.partition(":")
    heads = {job.index: _head_of(m, job, had_turn) for job in had_turn if job in m.waiting}
    others = [job for job in had_turn if job.index in heads and heads[job.index].job != job]
    for job in sorted(others, key=lambda j: (score(rule, j, m.now) if rule else 0.0, *age(j))):
        if kind == "shadow":
            _try_in_shadow(m, job, heads[job.index])
        elif m.may_run(job):
            _try_behind(m, job, heads[job.index])


def _head_of(m: Machine, job: Job, had_turn: list[Job]) -> Head | None:
    """Return the first job that has had its turn and still waits in the pool of this one."""
    pool_of_group = pools(m)
    pool = pool_of_group[m.groups_of(job)[0]]
    for other in had_turn:
        if other in m.waiting and pool_of_group[m.groups_of(other)[0]] == pool:
            return Head(other, _time_for_head(m, other, {g for g, p in pool_of_group.items() if p == pool}))
    return None


def pools(m: Machine) -> dict[int, int]:
    """Return every group the lowest group that it is joined to, through whichever jobs still wait."""
    pool = {g: g for g in range(len(m.groups))}
    if m.settings.head == "global":
        return dict.fromkeys(pool, 0)
    changed = True
    while changed:
        changed = False
        for job in m.waiting:
            mine = m.groups_of(job)
            lowest = min(pool[g] for g in mine)
            changed = changed or any(pool[g] != lowest for g in mine)
            pool.update(dict.fromkeys(mine, lowest))
    return pool


def _time_for_head(m: Machine, job: Job, groups: set[int]) -> float | None:
    if m.settings.backfill.partition(":")[0] == "easy" or (
        m.settings.backfill == "fit-first" and (is_due(m, job) or m.is_sla(job) or m.is_owed(job))
    ):
        return easy_time(m, job)
    if m.settings.backfill == "shadow":
        return shadow_time(m, job, groups)
    return None


def _try_behind(m: Machine, job: Job, head: Head) -> None:
    if m.settings.backfill == "none":
        return
    chunks = m.place_now(job)
    if chunks and _leaves_head(m, job, chunks, head):
        m.start(job, chunks)


def easy_time(m: Machine, job: Job) -> float | None:
    times = {m.now, *(m.expected_end(r) for r in m.running), *(b for n in m.nodes for _, b in n.windows)}
    return next((t for t in sorted(times) if t >= m.now and _fits_at(m, job, t, ())), None)


def _fits_at(m: Machine, job: Job, t: float, beside: tuple[Chunk, ...]) -> bool:
    taken = [c for r in m.running if m.expected_end(r) > t for c in r.chunks] + list(beside)
    return m.place_at(job, t, lambda n: free_on(n, taken)) is not None


def _leaves_head(m: Machine, job: Job, chunks: tuple[Chunk, ...], head: Head) -> bool:
    if head.reserved is None:
        return True
    if m.now + m.length_on(job, chunks) <= head.reserved:
        return True
    return _fits_at(m, head.job, head.reserved, chunks)


def shadow_time(m: Machine, job: Job, groups: set[int]) -> float:
    """Sum GPUs over the pool, in the order of expected ends, until there are enough; inf if there never are."""
    nodes = [n for n in m.nodes if n.group in groups and not any(a <= m.now < b for a, b in n.outages)]
    indices = {n.index for n in nodes}
    free = sum(n.gpus for n in nodes) - sum(_gpus_on(r, indices) for r in m.running)
    if free >= job.gpus:
        return m.now
    for run in sorted(m.running, key=m.expected_end):
        free += _gpus_on(run, indices)
        if free >= job.gpus:
            return m.expected_end(run)
    return math.inf


def _gpus_on(run: Run, nodes: set[int]) -> int:
    return sum(c.gpus for c in run.chunks if c.node in nodes)


def _try_in_shadow(m: Machine, job: Job, head: Head) -> None:
    chunks = m.place_now(job)
    if chunks and m.may_run(job) and m.now + m.length_on(job, chunks) < head.reserved:
        m.start(job, chunks)


def _conservative(m: Machine) -> None:
    reserved: list[Reservation] = []
    m.until = {}
    for job in m.in_order(m.in_view(m.waiting)):
        before = m.reserved.pop(job.index, None)
        if not m.may_run(job):
            continue
        if chunks := _place_over(m, job, m.now, reserved, before, really=True):
            m.until[job.index] = m.now + max(job.estimate, 1.0) / m.speed_on(job, chunks)
            m.start(job, chunks)
        elif reservation := _reserve(m, job, reserved, before):
            reserved.append(reservation)
            m.reserved[job.index] = (reservation.start, reservation.chunks)


def _reserve(m: Machine, job: Job, reserved: list[Reservation], before) -> Reservation | None:
    times = {m.now, *(_held_until(m, r) for r in m.running), *(r.end for r in reserved)}
    times |= {b for n in m.nodes for _, b in n.windows}
    for t in sorted(t for t in times if t >= m.now):
        if chunks := _place_over(m, job, t, reserved, before, really=False):
            kept = chunks if m.settings.backfill == "conservative" else tuple(_all_of(m.nodes[c.node]) for c in chunks)
            return Reservation(t, t + max(job.estimate, 1.0) / m.speed_on(job, chunks), kept, chunks)
    return None


def _all_of(node: Node) -> Chunk:
    """Return more than the node has, so that not even a job without GPUs fits beside it."""
    return Chunk(node.index, node.gpus + 1, node.cpus or 0, node.mem or 0)


def _place_over(
    m: Machine, job: Job, t: float, reserved: list[Reservation], before, *, really: bool
) -> tuple[Chunk, ...] | None:
    """Place the job over the interval from t; `really` = beside the jobs that are past their estimate, too.

    A job that gets the same time as before keeps the nodes it had then, if it can.
    """

    def free_of(node: Node) -> Free:
        end = t + max(job.estimate, 1.0) / node.speed
        moments = [t, *(r.start for r in reserved if t < r.start < end)]
        taken = [_taken_at(m, x, reserved) for x in moments]
        if really:
            taken.append([c for r in m.running for c in r.chunks])  # this very moment: right after it, they are gone
        free = [free_on(node, chunks) for chunks in taken]
        least = (min(getattr(f, what) for f in free) for what in ("gpus", "cpus", "mem", "empty"))
        return Free(*least)

    chunks = m.place_at(job, t, free_of)
    if chunks and before and before[0] == t and all(_still_free(m, job, t, c, free_of) for c in before[1]):
        return before[1]
    return chunks


def _still_free(m: Machine, job: Job, t: float, chunk: Chunk, free_of: Callable[[Node], Free]) -> bool:
    node = m.nodes[chunk.node]
    free = free_of(node)
    usable = not is_down(node, m.now) and not in_the_way(node, job, t)
    unshared = free.empty or m.settings.placement != "exclusive"
    return usable and unshared and fits(chunk, free)


def _held_until(m: Machine, run: Run) -> float:
    """Return when a job is expected to end; one that has started in this pass holds its nodes for a second at least."""
    return m.until.get(run.job.index, m.expected_end(run))


def _taken_at(m: Machine, x: float, reserved: list[Reservation]) -> list[Chunk]:
    running = [c for r in m.running if _held_until(m, r) > x for c in r.chunks]
    return running + [c for r in reserved if r.start <= x < r.end for c in r.kept]

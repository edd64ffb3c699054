"""When a running job is believed to end: the remainders of semantics.md, from everything that has ended so far."""

import math
from itertools import pairwise

from reference.ask import Job

EDGES = [0.0] + [2.0**d * (1 + quarter / 4) for d in range(26) for quarter in range(4)] + [2.0**26]


def believed_end(m, run) -> float:
    if m.settings.turns:
        return _end_of_turn(m, run)
    if m.settings.remaining == "ends-now":
        return max(m.now, run.planned_end)
    if m.settings.remaining == "history" and run.start < m.now:
        work = (m.now - run.start) * run.speed
        return m.now + max(1.0, _left(m, run.job, work)) / run.speed
    overdue = run.planned_end <= m.now and run.start < m.now
    return m.now + (m.now - run.start) / 2 if overdue else run.planned_end


def _end_of_turn(m, run) -> float:
    """By its estimate, and past it by what is left of its work in all its spells; by history always by what is left."""
    held = (m.now - run.start) * run.speed
    done = run.job.saved + max(0.0, held - run.job.restart)
    if m.settings.remaining == "history" and run.start < m.now:
        return m.now + (max(0.0, run.job.restart - held) + work_left(m, run.job, done)) / run.speed
    if run.planned_end > m.now or run.start == m.now:
        return run.planned_end
    return m.now + work_left(m, run.job, done) / run.speed


def work_left(m, job: Job, done: float) -> float:
    """What is believed to be left of a job after so much work."""
    return max(1.0, _left(m, job, done)) if m.settings.remaining == "history" else _by_estimate(job.whole, done)


def worked(run) -> float:
    """The work of a job that has ended: what it held in its last spell less the restart, and what it had kept."""
    return (run.end - run.start) * run.speed + (run.job.saved - run.job.restart)


def _by_estimate(estimate: float, done: float) -> float:
    return estimate - done if estimate > done else done / 2


def _prior(job: Job) -> float:
    return 3600.0 if math.isnan(job.limit) else job.limit


def _alike(m, job: Job, known: dict) -> list[list[float]]:
    """How long those lasted that have ended, from all through those of its size to those of its user and name."""
    ended = sorted(known.values(), key=lambda r: (r.end, r.job.submit, r.job.index))
    told = [level for level in range(6) if _likeness(job, level) is not None]
    levels = [[worked(r) for r in ended if _likeness(r.job, level) == _likeness(job, level)] for level in told]
    return [lasted for lasted in levels if lasted]


def _left(m, job: Job, work: float) -> float:
    """Blend what is left, from the prior through each likeness."""
    trust = m.settings.trust
    left = _by_estimate(_prior(job), work)
    for lasted in _alike(m, job, m.ended):
        left = (_straight(_rest, lasted, work) + trust * left) / (_straight(_longer, lasted, work) + trust)
    return left


def best_rate(m, job: Job, work: float) -> float:
    """Gittins' index: of the edges ahead, and of going on to the end, the best rate of ends by work.

    It is that of the last edge, by the last edition.
    """
    work = max(edge for edge in EDGES if edge <= work)
    trust = m.settings.trust
    left = _by_estimate(_prior(job), work)
    alike = _alike(m, job, m.edition)
    longest = max([work + left, *(t for lasted in alike for t in lasted)])  # edges beyond it are all the end
    ahead = [edge for before, edge in pairwise(EDGES) if edge > work and before < longest]
    beyond = [max(work + left - edge, 0.0) for edge in ahead]
    still = [float(rest > 0) for rest in beyond]
    for lasted in alike:
        per_job = 1.0 / (_straight(_longer, lasted, work) + trust)
        left = (_straight(_rest, lasted, work) + trust * left) * per_job
        still = [(_longer(lasted, edge) + trust * s) * per_job for edge, s in zip(ahead, still, strict=True)]
        beyond = [(_rest(lasted, edge) + trust * b) * per_job for edge, b in zip(ahead, beyond, strict=True)]
    rates = [(1.0 - s) / (left - b) for s, b in zip(still, beyond, strict=True) if left > b]
    return max([1.0 / max(left, 1.0), *(rates if job.preemptible else ())])


def _likeness(job: Job, level: int):
    """What two jobs share at a level; None where the last of it is not known of the job."""
    limit = -1.0 if math.isnan(job.limit) else job.limit
    vc, user, name = (job.labels[scope] for scope in ("vc", "user", "name"))
    parts = [(), (job.gpus,), (job.gpus, vc), (job.gpus, vc, limit), (job.gpus, vc, limit, user)]
    parts.append((job.gpus, vc, user, name))
    untold = parts[level] and parts[level][-1] in {None, -1.0}
    return None if untold else parts[level]


def _longer(lasted: list[float], edge: float) -> float:
    return float(sum(t > edge or edge == 0 for t in lasted))


def _rest(lasted: list[float], edge: float) -> float:
    total = 0.0
    for t in lasted:
        total += max(0.0, t - edge)
    return total


def _straight(of, lasted: list[float], work: float) -> float:
    """Read a table between two edges on a straight line; beyond the last there is nothing."""
    k = max(i for i, edge in enumerate(EDGES) if edge <= work)
    if k == len(EDGES) - 1:
        return 0.0
    share = (work - EDGES[k]) / (EDGES[k + 1] - EDGES[k])
    before, after = of(lasted, EDGES[k]), of(lasted, EDGES[k + 1])
    return before + share * (after - before)

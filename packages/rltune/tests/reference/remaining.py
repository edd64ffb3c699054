"""When a running job is believed to end: the remainders of semantics.md, from everything that has ended so far."""

import math

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
    """By its estimate; past it a job goes on for half as long again as it has worked, in all its spells."""
    if run.planned_end > m.now or run.start == m.now:
        return run.planned_end
    done = run.job.saved + max(0.0, (m.now - run.start) * run.speed - run.job.restart)
    return m.now + (run.job.whole - done if run.job.whole > done else done / 2) / run.speed


def _left(m, job: Job, work: float) -> float:
    """Blend what is left from the prior through all, those of its size, and so on to those of its user and name."""
    trust = m.settings.trust
    prior = 3600.0 if math.isnan(job.limit) else job.limit
    left = prior - work if prior > work else work / 2
    ended = sorted(m.ended.values(), key=lambda r: (r.end, r.job.submit, r.job.index))
    for level in range(6):
        mine = _likeness(job, level)
        lasted = [(r.end - r.start) * r.speed for r in ended if _likeness(r.job, level) == mine]
        if mine is not None and lasted:
            left = (_straight(_rest, lasted, work) + trust * left) / (_straight(_longer, lasted, work) + trust)
    return left


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

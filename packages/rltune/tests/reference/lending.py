"""Loans: a displaced job has its nodes back in time to end by its deadline."""

import math
from dataclasses import replace

from reference.ask import Job, Node
from reference.fit import eligible
from reference.remaining import believed_end

DAY = 86400.0


def is_bounded(m) -> bool:
    return m.settings.turns is not None and not math.isinf(min(m.settings.turns.late, m.settings.turns.times))


def loans(m) -> list[Job]:
    """List those who were displaced, and have not started since; also those whom a claim in question would displace."""
    return [job for job in [*m.waiting, *m.displaced, *m.would_lend] if job.lent]


def is_due(m, job: Job) -> bool:
    return bool(job.lent) and m.now >= job.due


def is_wanted_back(m, node: Node, job: Job, t: float) -> bool:
    """Say whether somebody else is due on the node before the job would be gone, if it started at t."""
    end = t + job.estimate / min(m.speeds[g] for g, group in enumerate(m.groups) if eligible(job, group))
    return any(
        end > lender.due and any(c.node == node.index for c in lender.lent)
        for lender in loans(m)
        if lender.index != job.index and not (is_due(m, job) and _turn(job) < _turn(lender))
    )


def _turn(job: Job) -> tuple:
    return (job.due, job.submit, job.index)


def terms(m, run, left: float) -> tuple[float, float]:
    """Return a running job's deadline, and when it would be due back if it were displaced now with so much left."""
    turns, job = m.settings.turns, run.job
    deadline = job.deadline
    if math.isinf(deadline):
        forecast = believed_end(m, run)
        more = ((turns.times - 1.0) * (forecast - job.submit), turns.late)
        deadline = forecast + max(x for x in more if not math.isinf(x))
    nodes = {c.node for c in run.chunks}
    dates = [lender.due for lender in loans(m) if nodes & {c.node for c in lender.lent}]
    return deadline, min([deadline, *dates]) - (job.restart_s + left) / run.speed


def may_lend(m, run, due: float, left: float) -> bool:
    """Say whether the job could be back in time on the same nodes."""
    length = run.job.restart_s + left
    nodes = [m.nodes[c.node] for c in run.chunks]
    clear = all(due + length / n.speed <= a or due >= b for n in nodes for a, b in n.windows)
    return due > m.now and clear


def lends(m, job: Job, run) -> Job:
    """Return the job that was displaced as it lends its nodes."""
    if run.job.index not in m.terms:
        return job
    deadline, due = m.terms[run.job.index]
    return replace(job, deadline=deadline, due=due, lent=run.chunks)


def turns_today(m, job: Job) -> int:
    return job.day_n if m.now - job.day_from < DAY else 0


def one_turn_more(m, job: Job) -> Job:
    """Count a displacement; one after the end of the last day begins another."""
    same = m.now - job.day_from < DAY
    day = {} if same else {"day_from": m.now}
    return replace(job, preemptions=job.preemptions + 1, day_n=turns_today(m, job) + 1, **day)

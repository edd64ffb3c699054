"""What taking turns costs a job, and what it may."""

import math
from dataclasses import replace

from reference.ask import Job

DAY = 86400.0


def is_bounded(m) -> bool:
    return m.settings.turns is not None and not math.isinf(min(m.settings.turns.late, m.settings.turns.times))


def is_away(job: Job) -> bool:
    """Say whether a job was displaced and has not started since."""
    return not math.isinf(job.due)


def is_due(m, job: Job) -> bool:
    """Say whether a displaced job has been away for as long as it may."""
    return m.now >= job.due


def allowance(m, run) -> float:
    """Return what turns may cost the job in all."""
    turns, job = m.settings.turns, run.job
    done = job.saved + max(0.0, (m.now - run.start) * run.speed - job.restart)
    more = ((turns.times - 1.0) * (job.first - job.submit + done / run.speed), turns.late)
    return max(x for x in more if not math.isinf(x))


def patience(m, run, again: float) -> float:
    """Return how long the job could be away, if it were displaced now and had so much to do again."""
    return allowance(m, run) - run.job.toll - again / run.speed


def least_patience(m, job: Job) -> float:
    """Return which patience a job must have more of to be displaced."""
    if not job.settled:
        return 0.0
    return math.inf if math.isinf(m.settings.turns.times) else 2 * m.settings.turns.min_run


def can_be_called_in(m, job: Job) -> bool:
    """Say whether a job may be displaced, now or later."""
    has_turns = job.preemptible and job.preemptions < m.settings.turns.max_preemptions
    return has_turns and not job.settled and not job.toll >= job.allowed


def gpus_to_spare(m, groups: set[int]) -> int:
    """Count GPUs of some groups that are free or can be called in, less those that displaced jobs are owed."""
    there = {n.index for n in m.nodes if n.group in groups}
    free = sum(m.free_gpus(n) for n in m.nodes if n.index in there)
    held = [c for r in m.running if can_be_called_in(m, r.job) for c in r.chunks if c.node in there]
    owed = sum(j.gpus for j in [*m.waiting, *m.displaced] if is_away(j) and groups & set(m.groups_of(j)))
    return free + sum(c.gpus for c in held) - owed


def debts_are_covered(m, claimant: Job, victims) -> bool:
    """Say whether there would be GPUs to bring the victims back, beside all who are away already."""
    if is_due(m, claimant):
        return True
    taken = sum(r.job.gpus for r in victims) + claimant.gpus * (not can_be_called_in(m, claimant))
    taken -= claimant.gpus * is_away(claimant)
    return all(gpus_to_spare(m, set(m.groups_of(r.job))) >= taken for r in victims)


def goes_away(m, job: Job, run) -> Job:
    """Return the job that is displaced as it waits from now on."""
    if run.job.index not in m.patience:
        return job
    allowed, patient = allowance(m, run), m.patience[run.job.index]
    return replace(
        job,
        allowed=allowed,
        toll=allowed - patient,
        away_from=m.now,
        due=m.now + max(0.0, patient - m.settings.turns.min_run),
    )


def comes_back(m, job: Job) -> Job:
    """Return the job as it starts again, or for the first time."""
    job = replace(job, first=m.now if math.isnan(job.first) else job.first)
    if not is_away(job):
        return job
    return replace(job, toll=job.toll + (m.now - job.away_from), settled=m.now >= job.due, due=math.inf)


def turns_today(m, job: Job) -> int:
    return job.day_n if m.now - job.day_from < DAY else 0


def one_turn_more(m, job: Job) -> Job:
    """Count a displacement; one after the end of the last day begins another."""
    same = m.now - job.day_from < DAY
    day = {} if same else {"day_from": m.now}
    return replace(job, preemptions=job.preemptions + 1, day_n=turns_today(m, job) + 1, **day)

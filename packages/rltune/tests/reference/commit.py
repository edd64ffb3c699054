"""RLScheduler's machine: the selected job stays selected until it has started."""

import math

from reference.ask import Job
from reference.backfill import shadow_time
from reference.machine import Machine, age


def run_committed(m: Machine) -> None:
    m.to_come = [job for job in m.to_come if m.can_ever_fit(job)]
    if m.to_come:
        _queue_next(m)
    while m.waiting:
        _start_one(m, m.in_order(m.in_view(m.waiting))[0])
        while not m.waiting and (m.to_come or m.running):
            _advance(m)
    while m.running:
        _advance(m)


def _start_one(m: Machine, selected: Job) -> None:
    if not m.place_now(selected):
        shadow = _shadow(m, selected)
        while not m.place_now(selected):
            if m.settings.backfill == "shadow":
                _backfill(m, shadow)
            _advance(m)
    m.start(selected, m.place_now(selected))


def _shadow(m: Machine, job: Job) -> float:
    return shadow_time(m, job, set(range(len(m.groups))))


def _backfill(m: Machine, shadow: float) -> None:
    for job in sorted(m.waiting, key=age):
        chunks = m.place_now(job)
        if chunks and m.now + job.estimate < shadow:
            m.start(job, chunks)


def _advance(m: Machine) -> None:
    next_submit = m.to_come[0].submit if m.to_come else math.inf
    next_end = min((run.end for run in m.running), default=math.inf)
    if m.to_come and next_submit <= next_end:
        _queue_next(m)
    else:
        _release_next(m)


def _queue_next(m: Machine) -> None:
    job = m.to_come.pop(0)
    m.waiting.append(job)
    m.now = max(m.now, job.submit)


def _release_next(m: Machine) -> None:
    run = min(m.running, key=lambda r: r.end)  # of equals the first: they are in order of start
    m.running.remove(run)
    m.ended[run.job.index] = run
    m.now = max(m.now, run.end)

"""The ordinary engine: one time after the other, and at each completions, node changes, arrivals, one pass."""

import math

from reference.ask import Job, Node
from reference.backfill import run_pass
from reference.machine import Machine, age, is_down
from reference.preempt import next_turn, stop


def run_events(m: Machine) -> None:
    _reject(m)
    while (t := _next_time(m)) < math.inf:
        if m.settings.cycle:
            m.ask(t)
        m.now = t
        _complete(m)
        m.renew_edition()
        _stop_on_down_nodes(m)
        _arrive(m)
        _release(m)
        run_pass(m)


def _reject(m: Machine) -> None:
    """Leave out what can never run, and what depends on it: nobody else notices."""
    m.rejected = {job.index for job in m.to_come if not (m.can_ever_fit(job) and m.limits_can_allow(job))}
    while hopeless := {j.index for j in m.to_come if j.index not in m.rejected and m.rejected & set(j.after)}:
        m.rejected |= hopeless
    m.to_come = [job for job in m.to_come if job.index not in m.rejected]


def _next_time(m: Machine) -> float:
    node_times = [t for n in m.nodes for outage in n.outages for t in outage if _changes_at(n, t)]
    node_times += [b for n in m.nodes for _, b in n.windows]
    times = [t for t in node_times if t > m.now]
    times += [run.end for run in m.running]
    times += [job.submit for job in m.to_come]
    if m.settings.turns:
        times.append(next_turn(m))
    return min(times, default=math.inf)


def _changes_at(node: Node, t: float) -> bool:
    """Say whether the node goes down or comes up then: where outages overlap, it stays down."""
    before = any(a < t <= b for a, b in node.outages)
    return before != is_down(node, t)


def _complete(m: Machine) -> None:
    done = [run for run in m.running if run.end <= m.now]
    m.ended |= {run.job.index: run for run in done}
    m.running = [run for run in m.running if run.end > m.now]


def _stop_on_down_nodes(m: Machine) -> None:
    stopped = [r for r in m.running if any(is_down(m.nodes[c.node], m.now) for c in r.chunks)]
    for run in stopped:
        m.running.remove(run)
        m.waiting.append(stop(m, run) if m.settings.turns else run.job)
        m.requeues[run.job.index] += 1
        m.told.pop(run.job.index, None)


def _arrive(m: Machine) -> None:
    m.held += [job for job in m.to_come if job.submit <= m.now]
    m.to_come = [job for job in m.to_come if job.submit > m.now]


def _release(m: Machine) -> None:
    """Let held jobs wait, the oldest first, if what they depend on has ended and their limits allow it."""
    for job in sorted(m.held, key=age):
        if _dependencies_ended(m, job) and m.may_wait(job):
            m.held.remove(job)
            m.waiting.append(job)


def _dependencies_ended(m: Machine, job: Job) -> bool:
    return all(i in m.ended for i in job.after)

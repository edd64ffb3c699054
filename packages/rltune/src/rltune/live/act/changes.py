"""From a decision to changes: only what differs, undoing first, the front of the queue before its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rltune.live.control_settings import Channel, ControlSettings, Steer
from rltune.live.decide.decision import Decision, Displacement, Waiting
from rltune.live.decide.priority_numbers import apart
from rltune.live.decide.ranking import tier_of
from rltune.live.see.backend import ChangeKind
from rltune.live.see.holdings import STEERING, Holdings, Intent, Value
from rltune.live.see.snapshot import LiveJob, Snapshot
from rltune.live.see.undoing import intent_of, undo, undo_all, undo_running

Wish = dict[ChangeKind, Value]
_NUMBERS = {Channel.SITE_FACTOR: ChangeKind.SITE_FACTOR, Channel.PRIORITY: ChangeKind.PRIORITY}


@dataclass(frozen=True)
class ChangePlan:
    """What is to be changed now, and how many changes must wait for a later cycle."""

    intents: tuple[Intent, ...]
    postponed: int = 0


def plan(snapshot: Snapshot, decision: Decision, holdings: Holdings, settings: ControlSettings) -> ChangePlan:
    """Return what to change so that the queue is as decided; nodes of jobs that do not start now are given back."""
    wishes = {w.job: _wish(w, snapshot, holdings, settings) for w in decision.waiting}
    undoing = list(_undoing(snapshot, decision, holdings, wishes))
    doing = list(_doing(snapshot, decision, holdings, wishes))
    room = settings.advanced.limits.changes_per_cycle
    return ChangePlan((*undoing, *doing[:room]), max(0, len(doing) - room))


def release(snapshot: Snapshot, holdings: Holdings) -> ChangePlan:
    """Return what to change so that every job is as Slurm alone would have it."""
    return ChangePlan(undo_all(snapshot, holdings))


def _undoing(
    snapshot: Snapshot, decision: Decision, holdings: Holdings, wishes: Mapping[int, Wish]
) -> Iterator[Intent]:
    yield from undo_running(snapshot, holdings)
    for job in snapshot.pending:
        for kind, hold in holdings.of(job).items():
            part = decision.by_job.get(job.id)
            out = part is not None and bool(part.kept)
            if kind not in wishes.get(job.id, {}) and (out or kind in STEERING):
                yield from undo(job, hold)


def _doing(snapshot: Snapshot, decision: Decision, holdings: Holdings, wishes: Mapping[int, Wish]) -> Iterator[Intent]:
    for part in decision.waiting:
        job = snapshot.job_by_id[part.job]
        for kind, value in wishes[part.job].items():
            hold = holdings.of(job).get(kind)
            has = _has(job, kind) if hold is None else hold.value
            if has is not None and has != value:
                yield intent_of(job, kind, value, before=has if hold is None else hold.before)


def _has(job: LiveJob, kind: ChangeKind) -> Value | None:
    """Return what a job has now, before our changes; None = Slurm does not tell, so it could not be restored."""
    match kind:
        case ChangeKind.SITE_FACTOR:
            return job.site_factor
        case ChangeKind.PRIORITY:
            return None if job.priority_by_hand is None else job.priority
        case ChangeKind.EXCLUDE_NODES:
            return job.excluded_nodes
        case _:
            return job.required_nodes


def _wish(part: Waiting, snapshot: Snapshot, holdings: Holdings, settings: ControlSettings) -> Wish:
    """Return what a job should have of ours."""
    if part.kept or not part.ours or part.number is None:
        return {}
    wish: Wish = {_NUMBERS[settings.numbers.channel]: part.number}
    if (part.starts or part.led_to) and settings.steer is not Steer.OFF:
        wish |= _steering(part, snapshot, holdings, settings.steer)
    return wish


def lifted(
    decision: Decision, turns: Sequence[Displacement], snapshot: Snapshot, settings: ControlSettings
) -> Decision:
    """Put those for whom others give way now before all of their tier: the nodes must not go to anybody else.

    The first of several comes to stand above the next, and each is led to its own nodes: none takes another's. Where
    a site bounds by how many ranks a job may move, they stay; the last look before a turn then may forbid it.
    """
    limits = settings.advanced.limits
    if not turns or limits.max_ranks or limits.max_ranks_per_cycle:
        return decision
    for turn in reversed(turns):
        claimant = replace(decision.by_job[turn.claimant], led_to=turn.nodes)
        decision = _with_on_top(decision, claimant, snapshot, settings)
    return decision


def _with_on_top(decision: Decision, part: Waiting, snapshot: Snapshot, settings: ControlSettings) -> Decision:
    if part.number is None:
        return decision
    tier = tier_of(snapshot.job_by_id[part.job], snapshot)
    others = [w for w in decision.waiting if w.job != part.job]
    below = [w for w in others if w.competes and tier_of(snapshot.job_by_id[w.job], snapshot) <= tier]
    top = max((_height(w, snapshot, settings) for w in below), default=0)
    lift = max(0, top + apart(settings.numbers.band) - _height(part, snapshot, settings))
    place = others.index(below[0]) if below else len(others)
    waiting = (*others[:place], replace(part, number=part.number + lift), *others[place:])
    return replace(decision, waiting=waiting)


def _height(part: Waiting, snapshot: Snapshot, settings: ControlSettings) -> int:
    """Return the priority that Slurm will see if a job has its number; its own if it is given none."""
    job = snapshot.job_by_id[part.job]
    if part.number is None:
        return job.priority
    adds = settings.numbers.channel is Channel.SITE_FACTOR
    return part.number + (job.own_priority if adds else 0)


def _steering(part: Waiting, snapshot: Snapshot, holdings: Holdings, steer: Steer) -> Wish:
    """Lead a job to the nodes chosen, if it could go elsewhere and has not chosen itself.

    Tasks of an array share one list of nodes, so only a last one is led. A job that was led in the last cycle and did
    not start is free in this one: Slurm may know better.
    """
    job, nodes = snapshot.job_by_id[part.job], part.led_to or part.nodes
    before = {kind: hold.before for kind, hold in holdings.of(job).items()}
    required = before.get(ChangeKind.REQUIRE_NODES, job.required_nodes)
    excluded = before.get(ChangeKind.EXCLUDE_NODES, job.excluded_nodes)
    assert isinstance(excluded, tuple)
    others = [name for name in _nodes_of(job, snapshot) if name not in nodes]
    if required or job.array_waiting > 1 or holdings.steers(job) or not set(others) - set(excluded):
        return {}
    if steer is Steer.PIN:
        return {ChangeKind.REQUIRE_NODES: nodes} if len(nodes) == max(1, job.nodes) else {}
    return {ChangeKind.EXCLUDE_NODES: tuple(dict.fromkeys((*excluded, *others)))}


def _nodes_of(job: LiveJob, snapshot: Snapshot) -> list[str]:
    partitions = set(job.partitions)
    return [node.name for node in snapshot.nodes if partitions & set(node.partitions)]

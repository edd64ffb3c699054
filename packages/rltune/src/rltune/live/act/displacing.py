"""Turns that are being taken: what is looked at before a job is stopped, and what is done until both are settled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from rltune.live.control_settings import ControlSettings
from rltune.live.decide.decision import Displacement, OpenTurn, Victim
from rltune.live.decide.ranking import by_slurm, tier_of
from rltune.live.decide.scope import out_of_scope
from rltune.live.see.backend import Change, ChangeKind
from rltune.live.see.holdings import Intent
from rltune.live.see.snapshot import RUNNING, LiveJob, LiveNode, Snapshot
from rltune.live.see.spell import Spell
from rltune.live.see.willing import unwilling


def refusal(turn: Displacement, snapshot: Snapshot, settings: ControlSettings) -> str:
    """Return why a turn must not be taken after all, by a look taken immediately before; "" if it may."""
    for victim in turn.victims:
        problem = _victim_problem(victim, snapshot.job_by_id.get(victim.job), settings)
        if problem:
            return problem
    claimant = snapshot.job_by_id.get(turn.claimant)
    if claimant is None or not claimant.pending or claimant.held:
        return f"job {turn.claimant} waits no more"
    return next(_rivals(claimant, turn, snapshot), "")


def _victim_problem(victim: Victim, job: LiveJob | None, settings: ControlSettings) -> str:
    name = f"job {victim.ref or victim.job}"
    if job is None or job.state != RUNNING:
        return f"{name} does not run any more"
    if job.spell != (victim.start_s, victim.restarts):
        return f"{name} runs another spell than the one decided on"
    problem = unwilling(job, settings.preempt) or out_of_scope(job, settings.scope)
    return f"{name} {problem}" if problem else ""


def _rivals(claimant: LiveJob, turn: Displacement, snapshot: Snapshot) -> Iterator[str]:
    """Name who would get the nodes in the claimant's place, as Slurm has them now."""
    freed = [node for node in snapshot.nodes if node.name in turn.nodes]
    for other in snapshot.pending:
        waits = other.held or other.dependency or other.begin_s > snapshot.taken_s
        if other.id == claimant.id or waits or not _could_use(other, freed):
            continue
        if tier_of(other, snapshot) > tier_of(claimant, snapshot):
            yield f"job {other.command_name} of a higher tier could take the nodes"
        elif by_slurm(other) < by_slurm(claimant):
            yield f"job {other.command_name} is still before job {claimant.command_name}"


def _could_use(job: LiveJob, nodes: Sequence[LiveNode]) -> bool:
    """Return whether some of the nodes are open to a job; what of them is free does not matter."""
    return any(
        set(job.partitions) & set(node.partitions)
        and node.name not in job.excluded_nodes
        and (not job.gpu_types or node.gpu_type in job.gpu_types)
        for node in nodes
    )


def requeues(turn: Displacement, snapshot: Snapshot) -> tuple[Intent, ...]:
    """Return the changes that stop the victims; who profits is kept as the value."""
    jobs = snapshot.job_by_id
    return tuple(
        Intent(
            Change(victim.job, ChangeKind.REQUEUE, value=turn.claimant, ref=victim.ref),
            jobs[victim.job].submit_s,
            before=victim.restarts,
        )
        for victim in turn.victims
    )


@dataclass(frozen=True)
class Settled:
    """What a turn came to; `freed_s` is the time from the command to the claimant's start, NaN if there was none."""

    turn: OpenTurn
    outcome: str
    freed_s: float = float("nan")

    @property
    def failed(self) -> bool:
        """Return whether the nodes went to nobody or to somebody else."""
        return self.outcome == NOT_STARTED


STARTED, GONE, NOT_MADE, NOT_STARTED = "started", "the claimant waits no more", "nobody was stopped", "not started"


@dataclass
class TurnsInHand:
    """All turns that are not over."""

    open: list[OpenTurn] = field(default_factory=list)

    @property
    def busy(self) -> frozenset[int]:
        """Name the jobs that a turn is being taken with: none of them has a part in another."""
        return frozenset(job for one in self.open for job in (one.turn.claimant, *(v.job for v in one.turn.victims)))

    @property
    def commanded(self) -> list[Spell]:
        """List the spells that were told to end."""
        return [
            Spell(v.job, v.submit_s, v.start_s, one.commanded_s, v.restarts, displaced=True)
            for one in self.open
            for v in one.turn.victims
        ]

    def look(self, snapshot: Snapshot, patience_s: float) -> tuple[list[Settled], list[Intent]]:
        """Return which turns are settled, and what lets their victims compete again."""
        settled, letting_in, still = [], [], []
        for one in self.open:
            if not one.settled and (outcome := _outcome(one, snapshot, patience_s)) is not None:
                settled.append(outcome)
                one = replace(one, settled=True)  # noqa: PLW2901
            if one.settled:
                letting_in += [intent for v in one.turn.victims for intent in _let_in(v, snapshot)]
            if not one.settled or any(_is_stopping(v, snapshot) for v in one.turn.victims):
                still.append(one)
        self.open = still
        return settled, letting_in


def _outcome(one: OpenTurn, snapshot: Snapshot, patience_s: float) -> Settled | None:
    job = snapshot.job_by_id.get(one.turn.claimant)
    if job is None or (not job.pending and job.start_s < one.commanded_s - 1.0):  # Slurm counts in whole seconds
        return Settled(one, GONE)
    if not job.pending:
        return Settled(one, STARTED, max(0.0, job.start_s - one.commanded_s)) if job.start_s > 0 else Settled(one, GONE)
    if snapshot.taken_s - one.commanded_s <= patience_s:
        return None
    # a controller that was killed may have noted a turn and not begun it
    return Settled(one, NOT_MADE if all(_runs_on(v, snapshot) for v in one.turn.victims) else NOT_STARTED)


def _runs_on(victim: Victim, snapshot: Snapshot) -> bool:
    job = snapshot.job_by_id.get(victim.job)
    return job is not None and job.state == RUNNING and job.spell == (victim.start_s, victim.restarts)


def _is_stopping(victim: Victim, snapshot: Snapshot) -> bool:
    """Return whether a victim has not come back to the queue yet, or waits there for its begin time."""
    job = snapshot.job_by_id.get(victim.job)
    if job is None or job.ended or job.restarts > victim.restarts + 1 or _runs_on(victim, snapshot):
        return False
    return not (job.state == RUNNING and job.restarts > victim.restarts) and not _competes(job, snapshot)


def _competes(job: LiveJob, snapshot: Snapshot) -> bool:
    return job.pending and not job.begin_s > snapshot.taken_s


def _let_in(victim: Victim, snapshot: Snapshot) -> Iterator[Intent]:
    """Lift the delay that Slurm gives a requeued job; before it is PENDING that would do nothing."""
    job = snapshot.job_by_id.get(victim.job)
    if job is not None and job.pending and job.restarts == victim.restarts + 1 and job.begin_s > snapshot.taken_s:
        yield Intent(Change(job.id, ChangeKind.BEGIN_NOW, ref=job.ref), job.submit_s, before=0)

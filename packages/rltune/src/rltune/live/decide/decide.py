"""From a snapshot to a decision: a pure function. It does no I/O, reads no clock and draws no number.

A search and the solver may be limited in time, by a timer that is handed in. What they had the time for is part of the
decision, and of what a replay is told: it needs no timer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from rltune.engine.known_history import taught
from rltune.jobs import Jobs
from rltune.live.control_settings import ControlSettings
from rltune.live.decide.claims import QueueOrder
from rltune.live.decide.decision import Decision, Waiting
from rltune.live.decide.engine_pass import Budget, CorePass, JobResult
from rltune.live.decide.job_table import Willing, pose
from rltune.live.decide.node_layout import lay_out
from rltune.live.decide.pinned import Pinned
from rltune.live.decide.ranking import Field, Ranking
from rltune.live.decide.run_times import estimate
from rltune.live.decide.scope import JobStanding, out_of_scope, standing
from rltune.live.see.holdings import Holdings
from rltune.live.see.snapshot import LiveJob, Snapshot
from rltune.live.see.untouched import untouched
from rltune.live.see.willing import may_give_way, unwilling


@dataclass(frozen=True)
class Situation:
    """What is decided on: a look at the cluster, and what in it is our doing."""

    snapshot: Snapshot  # as it is, with our changes in it
    holdings: Holdings = field(default_factory=Holdings)

    @cached_property
    def bare(self) -> Snapshot:
        """Return the snapshot as it would be without us."""
        return untouched(self.snapshot, self.holdings)


@dataclass(frozen=True)
class Known:
    """What is known of run times, and of a decision that is made again."""

    history: Jobs | None = field(default=None, repr=False)  # jobs that have ended
    estimates: Mapping[int, float] | None = field(default=None, repr=False)  # by job; None = to be made
    rollouts: int = 0  # orders that a search by the clock tried when this was decided first; 0 = it may ask the timer
    given_up: tuple[int, ...] | None = None  # solves that there was no time for then; None = it may ask the timer


_NOTHING = Known()


def decide(
    situation: Situation,
    settings: ControlSettings,
    pinned: Pinned,
    known: Known = _NOTHING,
    timer: Callable[[], float] = lambda: 0.0,
) -> Decision:
    """Return who should start where, and in which order the others should wait."""
    snapshot = situation.bare
    judged = {job.id: standing(job, snapshot, settings, situation.holdings) for job in snapshot.pending}
    competing = [job for job in snapshot.pending if judged[job.id].competes]
    estimates = known.estimates
    if estimates is None:
        estimates = estimate(snapshot, pinned.estimator, known.history)
    if not competing or not snapshot.nodes:
        return Decision(snapshot.taken_s, _left(snapshot, judged, estimates), {})
    layout = lay_out(snapshot, competing)
    problem = pose(snapshot, layout, competing, dict(estimates), _willing(snapshot, settings))
    pipeline = taught(pinned.pipeline, known.history)
    core = CorePass(problem, layout, pipeline, snapshot.taken_s, _budget(settings, known, timer), known.history)
    queue = core.order()
    field_ = Field(
        jobs=[job for job in competing if job.id in queue.score],
        now=situation.snapshot.job_by_id,
        ours=frozenset(job.id for job in competing if judged[job.id].ours),
        place={job: place for place, job in enumerate(queue.jobs)},
        holdings=situation.holdings,
        settings=settings,
        claims=queue.claims,
        fixed=frozenset(job.id for job in competing if not judged[job.id].movable),
    )
    ranking = field_.rank(snapshot)
    core.run(ranking.order)
    told = _Told(judged, estimates, queue, ranking, core.results())
    waiting = told.in_order({job.id: job for job in snapshot.pending})
    work = core.work()
    turns = core.displace(field_.ours, settings.preempt.per_cycle) if settings.preempt.on else ()
    return Decision(snapshot.taken_s, waiting, work, turns)


def _willing(snapshot: Snapshot, settings: ControlSettings) -> Willing:
    """Find who has agreed to give way and is in scope."""
    preempt = settings.preempt
    if not preempt.on:
        return Willing()
    agreed = [job for job in snapshot.jobs if not job.ended and not unwilling(job, preempt)]
    agreed = [job for job in agreed if not out_of_scope(job, settings.scope)]
    return Willing(
        agreed=frozenset(job.id for job in agreed),
        may_give_way=frozenset(job.id for job in agreed if may_give_way(job, preempt)),
        checkpoint_s=preempt.checkpoint,
        restart_s=preempt.restart,
    )


def _budget(settings: ControlSettings, known: Known, timer: Callable[[], float]) -> Budget:
    if known.given_up is None:
        return Budget(timer, settings.advanced.pipeline.solver_s, known.rollouts)
    return Budget(rollouts=known.rollouts, given_up=known.given_up)


@dataclass(frozen=True)
class _Told:
    """What is known of every job after the pass."""

    judged: Mapping[int, JobStanding]
    estimates: Mapping[int, float]
    queue: QueueOrder
    ranking: Ranking
    results: Mapping[int, JobResult]

    def in_order(self, pending: Mapping[int, LiveJob]) -> tuple[Waiting, ...]:
        slurm = {job: rank for rank, job in enumerate(self.ranking.slurm)}
        ranked = [self._ranked(job, rank, slurm[job]) for rank, job in enumerate(self.ranking.order)]
        rest = [self._rest(job) for job in pending if job not in slurm]
        return (*ranked, *rest)

    def _ranked(self, job: int, rank: int, slurm_rank: int) -> Waiting:
        result, judged = self.results[job], self.judged[job]
        return Waiting(
            job=job,
            reason=result.reason,
            competes=True,
            ours=judged.ours,
            kept=judged.kept,
            score=self.queue.score[job],
            estimate_s=self.estimates[job],
            slurm_rank=slurm_rank,
            rank=rank,
            number=self.ranking.number.get(job),
            tasks=result.tasks,
            nodes=result.nodes,
            reserved_s=result.reserved_s,
            owed_since_s=self.queue.claims.owed_since_s.get(job),
        )

    def _rest(self, job: int) -> Waiting:
        judged = self.judged[job]
        reason = judged.left or self.results[job].reason  # left to Slurm, or larger than the cluster
        return Waiting(job=job, reason=reason, kept=judged.kept, estimate_s=self.estimates[job])


def _left(snapshot: Snapshot, judged: Mapping[int, JobStanding], estimates: Mapping[int, float]) -> tuple[Waiting, ...]:
    """Return the reasons of jobs none of which competes."""
    return tuple(
        Waiting(
            job=job.id,
            reason=judged[job.id].left or "there are no nodes",
            kept=judged[job.id].kept,
            estimate_s=estimates[job.id],
        )
        for job in snapshot.pending
    )

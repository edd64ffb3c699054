"""The core's state filled from a running cluster, and one pass over it. Nothing is ordered or fitted anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rltune.engine.filled_moment import FilledMoment, Seats, fill
from rltune.engine.known_history import GivenAfter, long_ago
from rltune.engine.lookahead import PassMaker
from rltune.engine.pipeline import PLANNING, Pipeline
from rltune.engine.run import Machine
from rltune.engine.search import Searcher
from rltune.engine.view import scores_of
from rltune.jobs import Jobs
from rltune.kernel.backfill.could_claim import rank_movable
from rltune.kernel.backfill.easy import reservation
from rltune.kernel.backfill.preempt import claim, sort_movable, weigh_movable
from rltune.kernel.build.prepare import Factors, Likeness, Net
from rltune.kernel.score.overtaking import fill_claims, guard_queue, put_due_first
from rltune.kernel.score.rules import GIVEN, queue_end_in_view, score_queue
from rltune.kernel.state import arrays as core
from rltune.kernel.state.queue import settle_queue
from rltune.kernel.state.score_heap import fill_order
from rltune.live.decide.claims import Claims, QueueOrder
from rltune.live.decide.decision import Displacement, Victim
from rltune.live.decide.job_table import Problem
from rltune.live.decide.node_layout import NodeLayout
from rltune.live.see.snapshot import LiveJob
from rltune.policy.base import Networked, Policy, Scored

_SOME_TIME_S = 1e-6  # shorter than any spell


@dataclass(frozen=True)
class _Ranked:
    """A policy whose scores are worked out first and then given to the pass, so that tiers and bounds can enter."""

    inner: Policy
    code: int = GIVEN
    dynamic: bool = True

    @property
    def name(self) -> str:
        return self.inner.name

    def factors(self, jobs: Jobs) -> Factors:
        return self.inner.factors(jobs)

    def likeness(self, jobs: Jobs) -> Likeness | None:
        return self.inner.likeness(jobs)


@dataclass(frozen=True)
class _RankedNetwork(_Ranked):
    @property
    def net(self) -> Net:
        assert isinstance(self.inner, Networked)
        return self.inner.net

    @property
    def view(self) -> int:
        assert isinstance(self.inner, Networked)
        return self.inner.view


def _ranked(policy: Policy) -> _Ranked:
    return _RankedNetwork(policy) if isinstance(policy, Networked) else _Ranked(policy)


@dataclass(frozen=True)
class Budget:
    """What a pass may take, by a timer; of a pass that is made again, what it took then, and no timer is asked."""

    timer: Callable[[], float] = lambda: 0.0  # without one no time passes
    solver_s: float = float("inf")
    rollouts: int = 0  # orders that a search had the time to try; 0 = as many as it has now
    given_up: tuple[int, ...] = ()  # solves, by number, that there was no time for


_UNLIMITED = Budget()


class CorePass:
    """The core at one moment of a running cluster."""

    def __init__(
        self,
        problem: Problem,
        layout: NodeLayout,
        pipeline: Pipeline,
        now_s: float,
        budget: Budget = _UNLIMITED,
        history: Jobs | None = None,
    ) -> None:
        policy = pipeline.policy
        self._search, self._budget = pipeline.search, budget
        self._problem, self._layout, self._policy = problem, layout, policy
        ranked = replace(pipeline, policy=_ranked(policy))
        known = long_ago(history) if history is not None and len(history) else None
        machine = Machine.of_some(problem.jobs, layout.cluster, ranked, GivenAfter(problem.estimate_s, before=known))
        # The scores are given, so that nothing is scored anew within the pass.
        self._m = replace(machine, options=machine.options._replace(explain=True, relook=False))
        # Tiers and bounds come between the guard's order and the pass: it protects heads there, and orders nobody.
        self._given = self._m.options._replace(guard_orders=False, turns=core.NO_TURNS, max_preemptions=0)
        self._rule = self._m.options._replace(guard_orders=False, policy=policy.code)
        self._searched: dict[str, float | int] = {}
        self._fill(now_s)

    def _fill(self, now_s: float) -> None:
        """Let run what runs, take nodes away that are not up, let wait what waits."""
        pieces = self._problem.pieces
        seats = Seats.of((row, p.start_s, p.job.served_s if p.job else 0.0, p.nodes) for row, p in pieces)
        waiting = ((row, job.served_s) for row, job in self._problem.tasks)
        fill(self._m, self._rule, FilledMoment.of(now_s, seats, waiting, self._layout.down))
        turn = self._m.state.turn
        for row, piece in pieces if self._m.world.has_tolls else ():
            if piece.job:
                turn.toll[row], turn.settled[row] = piece.job.toll_s, piece.job.settled

    def _let_be_due(self, *, due: bool) -> None:
        """Let jobs come first again that gave way and have been away for as long as they may, or let nobody."""
        if self._m.world.has_tolls:
            for row, job in self._problem.tasks:
                self._m.state.turn.due[row] = job.due_s if due else np.inf

    @property
    def _queue(self) -> slice:
        return slice(int(self._m.state.n[core.Q_HEAD]), int(self._m.state.n[core.Q_TAIL]))

    def order(self) -> QueueOrder:
        """Order the waiting jobs, an array record by its best task."""
        m, here = self._m, self._queue
        self._score()
        job_of = self._jobs_of_rows()
        score: dict[int, float] = {}
        for job, of_row in zip(job_of, m.state.queue.score[here].tolist(), strict=True):
            score[job] = min(of_row, score.get(job, np.inf))
        claims = self._claims(job_of)
        if m.options.guarded:
            guard_queue(m.w, m.s, m.options, here.stop)
        if m.world.has_tolls:
            self._let_be_due(due=True)
            put_due_first(m.w, m.s, here.stop)
            self._let_be_due(due=False)  # tiers and bounds come next: the pass is given an order
        rows = np.empty(here.stop - here.start, dtype=np.int64)
        fill_order(m.s, here.stop, rows)
        return QueueOrder(tuple(dict.fromkeys(job_of[row - here.start] for row in rows.tolist())), score, claims)

    def _jobs_of_rows(self) -> list[int]:
        """Name the job in each place of the queue."""
        job_of = {row: job.id for row, job in self._problem.tasks}
        return [job_of[row] for row in self._m.state.queue.job[self._queue].tolist()]

    def _claims(self, job_of: Sequence[int]) -> Claims:
        """Ask the core's guard who comes first now."""
        m, here = self._m, self._queue
        if not m.options.guarded:
            return Claims()
        since = np.empty(len(job_of))
        fill_claims(m.w, m.s, m.options, here.stop, since)
        first = {job: s for job, s in zip(job_of, since.tolist(), strict=True) if not np.isnan(s)}
        sla = frozenset(job for job, s in first.items() if s == -np.inf)
        return Claims(sla, {job: s for job, s in first.items() if job not in sla})

    def _score(self) -> None:
        """Score the queue as the policy does; those out of its view come last."""
        m, queue = self._m, self._m.state.queue
        queue.score[self._queue] = np.inf
        here = slice(self._queue.start, queue_end_in_view(m.s, m.options.in_view))
        if isinstance(self._policy, Scored):
            queue.score[here] = scores_of(self._policy, m.view(queue.job[here]))
        else:
            score_queue(m.w, m.s, self._rule, here.stop, False)
        if self._search:
            self._look_for_a_better_order()

    def _look_for_a_better_order(self) -> None:
        """Search around the policy's order; if another is better, its places are the scores.

        What is drawn at random depends on the moment alone. A replay is told how many orders the clock allowed then.
        """
        m = self._m
        options = m.options._replace(policy=self._policy.code, explain=False)
        seed = m.pipeline.seed + int(m.state.now[0])
        searcher = Searcher(m.arrays, options, self._search, seed, self._budget.rollouts, self._budget.timer)
        searcher.look()
        self._searched = searcher.to_dict()

    def run(self, order: Sequence[int]) -> None:
        """Make the pass, the jobs in this order."""
        place = {job: float(i) for i, job in enumerate(order)}
        m, here = self._m, self._queue
        m.state.queue.score[here] = [place[job] for job in self._jobs_of_rows()]
        self._has_heads = here.stop > here.start and m.pipeline.backfill not in PLANNING
        b = self._budget
        maker = PassMaker(m.arrays, self._given, m.placer, solver_s=b.solver_s, given_up=b.given_up, timer=b.timer)
        maker.make_pass()
        m.work.update(_without_clock(maker.to_dict()))

    def displace(self, ours: Collection[int], most: int) -> tuple[Displacement, ...]:
        """Let jobs of ours that found no room, in order, take the nodes of running ones; at most so many give way.

        Each is asked as in a pass of a simulation; here the pass is over, so whoever fits has started.
        """
        m, s = self._m, self._m.state
        # Whoever has started in this pass has run for no time at all, and must not be stopped in it.
        options = self._rule._replace(guard_orders=True, min_run_s=max(self._rule.min_run_s, _SOME_TIME_S))
        settle_queue(m.s)
        self._let_be_due(due=True)
        score_queue(m.w, m.s, options, self._queue.stop, False)
        rows = np.empty(self._queue.stop - self._queue.start, dtype=np.int64)
        fill_order(m.s, self._queue.stop, rows)
        claimants = s.queue.job[rows].tolist()
        s.n[core.PASSES] += 1
        rank_movable(m.w, m.s, options)
        weigh_movable(m.w, m.s, options)
        sort_movable(m.s)
        job_of, found = dict(self._problem.tasks), []
        touched: set[str] = set()
        for row in claimants:
            job = job_of[row]
            if job.id not in ours or job.array_tasks or s.life.reason[row] != core.RESOURCES:
                continue
            turn = self._claimed(row, job, options)
            if turn is None:
                continue
            # one turn may come to nothing: none is begun that counts on another
            if len(turn.victims) > most or touched & set(turn.nodes):
                break
            found.append(turn)
            most -= len(turn.victims)
            touched |= {*turn.nodes, *(name for v in turn.victims for name in self._nodes_of[v.job])}
        return tuple(found)

    @property
    def _nodes_of(self) -> dict[int, tuple[str, ...]]:
        return {piece.job.id: piece.job.node_names for _, piece in self._problem.pieces if piece.job}

    def _claimed(self, row: int, job: LiveJob, options: core.Options) -> Displacement | None:
        """Let one job displace others if the core allows."""
        m, s = self._m, self._m.state
        place = int(np.flatnonzero(s.queue.job[self._queue] == row)[0]) + self._queue.start
        score = float(s.queue.score[place])
        head = s.pool.head[s.demand.pool[s.queue.asks[place]]]
        if not claim(m.w, m.s, options, place, bool(head not in {-1, row})):
            return None
        victims = s.victim[: s.n[core.VICTIMS_N]].tolist()
        settle_queue(m.s)
        piece_of = dict(self._problem.pieces)
        stopped = [piece_of[number].job for number in victims]
        lost = sum(s.turn.loss[number] for number in victims)
        scores = ", ".join(f"{s.turn.score[number]:.6g}" for number in victims)
        order = m.pipeline.turns.order
        return Displacement(
            claimant=job.id,
            victims=tuple(Victim(v.id, v.submit_s, v.start_s, v.restarts, v.ref) for v in stopped if v is not None),
            nodes=_PassResults(m, self._layout.names, {}, False).of(row).nodes,
            reason=f"by {order} it stands at {score:.6g} and they at {scores}; {lost:,.0f} GPU-seconds are lost",
        )

    def results(self) -> dict[int, JobResult]:
        """Return what became of every job."""
        told = _PassResults(self._m, self._layout.names, dict(self._problem.tasks), self._has_heads)
        results: dict[int, JobResult] = {}
        for row, job in self._problem.tasks:
            results[job.id] = told.of(row).joined(results.get(job.id))
        return results

    def work(self) -> dict[str, Any]:
        """Count what the pass did."""
        tried = int(self._m.state.n[core.TRIES])
        return {"placements_tried": tried, "placer": self._m.placer.name, **self._m.work, **self._searched}


class _PassResults:
    """What a pass came to; columns are read once, since there may be ten thousand jobs."""

    def __init__(
        self, machine: Machine, node_names: Sequence[str], job_of: Mapping[int, LiveJob], has_heads: bool
    ) -> None:
        self._m, self._node_names, self._job_of = machine, node_names, job_of
        life, world = machine.state.life, machine.world
        self._status = life.status.tolist()
        self._reason = life.reason.tolist()
        self._planned = life.planned.tolist()
        self._pool = machine.state.demand.pool[world.job.asks].tolist()
        self._heads = self._find_heads() if has_heads else {}

    def _find_heads(self) -> dict[int, tuple[int, float]]:
        """Return each pool's blocked head, and when it could start by estimates."""
        m, pool = self._m, self._m.state.pool
        heads = {}
        for g in np.flatnonzero((pool.pool == np.arange(len(pool))) & (pool.head >= 0)).tolist():
            time = float(pool.reserved[g])
            if np.isnan(time):
                time = float(reservation(m.w, m.s, g))
            heads[g] = (int(pool.head[g]), time if np.isfinite(time) else np.nan)
        return heads

    def of(self, row: int) -> JobResult:
        """Return what became of one task."""
        if row in self._m.reject_reason:
            return JobResult(reason=self._m.reject_reason[row])
        if self._status[row] == core.RUNNING:
            return JobResult(tasks=1, nodes=self._nodes(row))
        head, reserved = self._heads.get(self._pool[row], (-1, np.nan))
        if head != row or not np.isnan(self._planned[row]):
            reserved = self._planned[row]
        return JobResult(reason=self._why(row, head), reserved_s=reserved)

    def _nodes(self, row: int) -> tuple[str, ...]:
        world, state = self._m.world, self._m.state
        first = int(world.job.chunk_at[row])
        last = first + int(world.shape.chunks[state.life.form[row]])
        return tuple(self._node_names[node] for node in dict.fromkeys(state.at.node[first:last].tolist()))

    def _why(self, row: int, head: int) -> str:
        ahead = f"job {self._job_of[head].command_name}" if head in self._job_of and head != row else "a job"
        return _WHY.get(self._reason[row], "waits").format(ahead)


_WHY = {
    core.RESOURCES: "no room for it now",
    core.BEHIND_HEAD: "waits behind {}",
    core.WOULD_DELAY_HEAD: "would delay {}",
    core.RESERVED_LATER: "has its place reserved later",
    core.OUT_OF_VIEW: "is not among the oldest jobs in view",
}


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a pass came to for one job."""

    reason: str = ""
    tasks: int = 0
    nodes: tuple[str, ...] = ()
    reserved_s: float = float("nan")

    def joined(self, other: JobResult | None) -> JobResult:
        """Join the results of tasks of one array: those that start count, with the first one's nodes."""
        if other is None:
            return self
        if not other.tasks or not self.tasks:
            return other if other.tasks else self
        return replace(other, tasks=other.tasks + self.tasks)


def _without_clock(work: Mapping[str, Any]) -> dict[str, Any]:
    """Drop what was timed: a decision that is replayed must come out the same."""
    return {name: value for name, value in work.items() if "_ms" not in name}

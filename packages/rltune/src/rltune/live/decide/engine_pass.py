"""The core's state filled from a running cluster, and one pass over it. Nothing is ordered or fitted anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rltune.engine.pipeline import Pipeline, learns
from rltune.engine.run import Machine
from rltune.engine.search import Searcher
from rltune.engine.view import scores_of
from rltune.estimate import Given
from rltune.jobs import Jobs
from rltune.kernel.backfill.easy import reservation
from rltune.kernel.backfill.scheduling_pass import decide
from rltune.kernel.build.prepare import Factors, Likeness, Net
from rltune.kernel.fit.node_index import index_remove
from rltune.kernel.fit.running import start_job
from rltune.kernel.rollout.event_loop import arrive
from rltune.kernel.score.rules import GIVEN, queue_end_in_view, score_queue
from rltune.kernel.state import arrays as core
from rltune.kernel.state.queue import enqueue
from rltune.live.decide.claims import Claims
from rltune.live.decide.job_table import Problem
from rltune.live.decide.node_layout import Layout
from rltune.live.see.snapshot import LiveJob
from rltune.placement.look_ahead import LookAhead
from rltune.policy.base import Networked, Policy, Scored

_LONG_AGO_S = 1e10  # history is shifted by so much: policies ask what had ended before the first job of the table


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


def taught(pipeline: Pipeline, history: Jobs | None) -> Pipeline:
    """Let a policy that learns know all history that there is."""
    if history is None or not len(history) or not learns(pipeline.policy):
        return pipeline
    known = history.with_columns(
        submit_s=history.submit_s - _LONG_AGO_S, recorded_start_s=history.recorded_start_s - _LONG_AGO_S
    )
    return replace(pipeline, policy=pipeline.policy.after(known))  # type: ignore[attr-defined]


class CorePass:
    """The core at one moment of a running cluster."""

    def __init__(
        self,
        problem: Problem,
        layout: Layout,
        pipeline: Pipeline,
        now_s: float,
        rollouts: int = 0,
    ) -> None:
        policy = pipeline.policy
        self._search, self._rollouts = pipeline.search, rollouts
        self._problem, self._layout, self._policy = problem, layout, policy
        ranked = replace(pipeline, policy=_ranked(policy))
        machine = Machine.of(problem.jobs, layout.cluster, ranked, Given(problem.estimate_s))
        # The scores are given, so that nothing is scored anew within the pass.
        self._m = replace(machine, options=machine.options._replace(explain=True, relook=False))
        self._rule = self._m.options._replace(policy=policy.code, guarded=False)  # claims are the ranking's business
        self._searched: dict[str, float | int] = {}
        self._fill(now_s)

    def _fill(self, now_s: float) -> None:
        """Let run what runs, take nodes away that are not up, let wait what waits."""
        m, s = self._m, self._m.state
        for row, piece in self._problem.pieces:
            s.now[0] = piece.start_s
            enqueue(m.w, m.s, row, True)
            s.pick[0] = piece.node
            start_job(m.w, m.s, row)
            s.n[core.Q_HEAD] = s.n[core.Q_TAIL] = 0
        for node in self._layout.down:
            index_remove(m.w, m.s, node)
            s.node.up[node] = 0
        s.now[0] = now_s
        for row, _ in sorted(self._problem.tasks, key=lambda task: task[0]):
            arrive(m.w, m.s, self._rule, row)
        s.n[core.ARRIVED] = len(m.jobs)

    @property
    def _queue(self) -> slice:
        return slice(int(self._m.state.n[core.Q_HEAD]), int(self._m.state.n[core.Q_TAIL]))

    def scores(self) -> dict[int, float]:
        """Score the waiting jobs, an array record by its best task; those out of the policy's view come last."""
        m, queue = self._m, self._m.state.queue
        queue.score[self._queue] = np.inf
        here = slice(self._queue.start, queue_end_in_view(m.s, m.options.in_view))
        if isinstance(self._policy, Scored):
            queue.score[here] = scores_of(self._policy, m.view(queue.job[here]))
        else:
            score_queue(m.w, m.s, self._rule, here.stop, False)
        if self._search:
            self._look_for_a_better_order()
        of_row = dict(zip(queue.job[self._queue].tolist(), queue.score[self._queue].tolist(), strict=True))
        scores: dict[int, float] = {}
        for row, job in self._problem.tasks:
            if row in of_row:
                scores[job.id] = min(of_row[row], scores.get(job.id, np.inf))
        return scores

    def _look_for_a_better_order(self) -> None:
        """Search around the policy's order; if another is better, its places are the scores.

        What is drawn at random depends on the moment alone. A replay is told how many orders the clock allowed then.
        """
        m = self._m
        options = m.options._replace(policy=self._policy.code, explain=False)
        seed = m.pipeline.seed + int(m.state.now[0])
        searcher = Searcher(m.arrays, options, self._search, seed, self._rollouts)
        searcher.look()
        self._searched = searcher.to_dict()

    def run(self, order: Sequence[int], claims: Claims) -> None:
        """Make the pass, the jobs in this order."""
        place = {job: float(i) for i, job in enumerate(order)}
        job_of = {row: job.id for row, job in self._problem.tasks}
        queue, here = self._m.state.queue, self._queue
        queue.score[here] = [place[job_of[row]] for row in queue.job[here].tolist()]
        self._has_heads = here.stop > here.start and self._m.options.backfill != core.CONSERVATIVE
        if self._m.options.guarded and not self._guard_agrees(order, claims):
            self._m = replace(self._m, options=self._m.options._replace(guarded=False))
        self._pass()()

    def _guard_agrees(self, order: Sequence[int], claims: Claims) -> bool:
        """Return whether the core's guard, which knows no tiers and nobody who is not ours, has the same order."""
        jobs = {job.id: job for _, job in self._problem.tasks}
        first = [job for job in order if job in claims]
        return list(order[: len(first)]) == sorted(first, key=lambda job: claims.turn(jobs[job]))

    def _pass(self) -> Callable[[], None]:
        m = self._m
        if not m.placer.solves:
            return lambda: decide(m.w, m.s, m.options)
        ahead = LookAhead(m.arrays, m.options, m.placer.k)

        def look_and_decide() -> None:
            ahead.make_pass()
            m.work.update(_without_clock(ahead.to_dict()))

        return look_and_decide

    def results(self) -> dict[int, Result]:
        """Say of every job what became of it."""
        told = _Outcome(self._m, self._layout.names, dict(self._problem.tasks), self._has_heads)
        results: dict[int, Result] = {}
        for row, job in self._problem.tasks:
            results[job.id] = told.of(row).joined(results.get(job.id))
        return results

    def work(self) -> dict[str, float | int | str]:
        """Count what the pass did."""
        tried = int(self._m.state.n[core.TRIES])
        return {"placements_tried": tried, "placer": self._m.placer.name, **self._m.work, **self._searched}


class _Outcome:
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

    def of(self, row: int) -> Result:
        """Say what became of one task."""
        if row in self._m.reject_reason:
            return Result(reason=self._m.reject_reason[row])
        if self._status[row] == core.RUNNING:
            return Result(tasks=1, nodes=self._nodes(row))
        head, reserved = self._heads.get(self._pool[row], (-1, np.nan))
        if head != row or not np.isnan(self._planned[row]):
            reserved = self._planned[row]
        return Result(reason=self._why(row, head), reserved_s=reserved)

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
class Result:
    """What a pass came to for one job."""

    reason: str = ""
    tasks: int = 0
    nodes: tuple[str, ...] = ()
    reserved_s: float = float("nan")

    def joined(self, other: Result | None) -> Result:
        """Join the results of tasks of one array: those that start count, with the first one's nodes."""
        if other is None:
            return self
        if not other.tasks or not self.tasks:
            return other if other.tasks else self
        return replace(other, tasks=other.tasks + self.tasks)


def _without_clock(work: Mapping[str, object]) -> dict[str, object]:
    """Drop what was timed: a decision that is replayed must come out the same."""
    return {name: value for name, value in work.items() if "_ms" not in name}

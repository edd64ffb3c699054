"""Replays a workload on a cluster under a pipeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rltune.cluster import Cluster
from rltune.engine.checks import rejections, require_possible
from rltune.engine.estimator_looks import MOMENTS, LookingOn
from rltune.engine.lookahead import PassMaker
from rltune.engine.pipeline import BACKFILLS, BEHIND, PLANNING, SECOND_ROUND, Pipeline
from rltune.engine.turns import ORDERS, Turns
from rltune.engine.view import queue_view, scores_of
from rltune.errors import InputError
from rltune.estimate.estimators import Estimator, Given, estimated, likeness
from rltune.estimate.remainders import HISTORY_NAME, survival_of
from rltune.jobs import Jobs
from rltune.kernel.build.prepare import Likeness, Survival, prepare
from rltune.kernel.rollout.event_loop import advance, next_moment, run, run_before, run_while
from rltune.kernel.rollout.rlscheduler_machine import run_committed
from rltune.kernel.score.rules import FCFS, INSPECTED
from rltune.kernel.state import arrays as core
from rltune.kernel.state.handles import Arrays, arrays_of
from rltune.kernel.state.online_survival import BY_ESTIMATE
from rltune.labels import Labels
from rltune.opt_in import opted_in
from rltune.placement.placers import Placer
from rltune.policy.base import Networked, QueueView, Scored
from rltune.policy.multifactor import Multifactor
from rltune.policy.portfolio import settled
from rltune.schedule import Placements, Schedule, Settings, Spells, TurnsTaken

_MOMENTS_A_SLICE = 100_000  # between two looks at the progress bar and at Ctrl-C

Progress = Callable[[int, int], None]  # jobs ended, jobs in all
Timer = Callable[[], float]  # seconds; handed in, since nothing here reads a clock


def run_pipeline(
    jobs: Jobs,
    cluster: Cluster,
    pipeline: Pipeline,
    estimator: Estimator,
    progress: Progress | None = None,
    timer: Timer = lambda: 0.0,
) -> Schedule:
    """Run the jobs to their end under a pipeline; by the timer, if given, the solver's work is told in milliseconds."""
    if pipeline.search.ms is not None:
        told = f"search {pipeline.search}: by the clock results would depend on the machine; leave out the ms"
        raise InputError(told)
    jobs = opted_in(jobs, cluster)
    order = np.argsort(jobs.submit_s, kind="stable")
    if isinstance(estimator, Given):
        estimator = estimator.in_order(jobs, order)
    machine = Machine.of(jobs.take(order), cluster, pipeline, estimator)
    machine.run(progress, timer)
    return machine.schedule(jobs, order)


@dataclass(frozen=True)
class Machine:
    """A run in progress: the arrays of the core, and what asks it to go on."""

    jobs: Jobs  # in order of submit time
    cluster: Cluster
    pipeline: Pipeline
    settings: Settings
    options: core.Options
    arrays: Arrays
    placer: Placer
    reject_reason: dict[int, str]
    work: dict[str, Any]  # what search and solver did
    cut_short: list[Spells]  # of jobs by number: spells that ended before their jobs did
    looking: LookingOn | None = None  # if the estimator looks again and again

    @classmethod
    def of(cls, jobs: Jobs, cluster: Cluster, pipeline: Pipeline, estimator: Estimator) -> Machine:
        """Prepare a run of all jobs: without turns, whatever was asked for, if none of them takes any."""
        jobs = opted_in(jobs, cluster)
        pipeline = _settled(pipeline)  # by what was asked for, whoever is willing
        made = replace(pipeline, turns=Turns()) if _nobody_takes_turns(jobs, pipeline) else pipeline
        return replace(cls.of_some(jobs, cluster, made, estimator), settings=pipeline.settings(estimator.name))

    @classmethod
    def of_some(cls, jobs: Jobs, cluster: Cluster, pipeline: Pipeline, estimator: Estimator) -> Machine:
        """Prepare a run of the jobs of a moment, after whom others come; who can never start is rejected here."""
        jobs = opted_in(jobs, cluster)
        pipeline = _settled(pipeline)
        policy = pipeline.policy.on(cluster) if isinstance(pipeline.policy, Multifactor) else pipeline.policy
        placer = pipeline.placement.placer(jobs, cluster, pipeline.backfill)
        require_possible(jobs, cluster, pipeline, placer)
        estimates = estimated(estimator, jobs, pipeline.seed)
        own = policy.likeness(jobs)
        if own is None and estimates.rank_s is not None:
            own = likeness(jobs, (), trust=1.0, own=estimates.rank_s)
        looks = None if pipeline.commit else estimates.looks
        options = _options(pipeline, placer, jobs, online=estimates.likeness is not None, ranks=own is not None)
        options = options._replace(dynamic=options.dynamic or looks is not None)
        world, state = prepare(
            jobs,
            cluster,
            estimates.values_s,
            policy.factors(jobs),
            (estimates.likeness or Likeness.none(len(jobs)), own or Likeness.none(len(jobs))),
            sorts=options.dynamic or pipeline.backfill in PLANNING,
            wider=placer.solves,
            whole_nodes=placer.whole_nodes,
            net=policy.net if isinstance(policy, Networked) else None,
            turns=bool(pipeline.turns),
            tolls=pipeline.turns.bounded,
            survival=_survival(pipeline, estimator, jobs, looked_at=looks is not None),
        )
        world.job.sla = pipeline.guard.sla_jobs(jobs)
        arrays = arrays_of(world, state)
        reasons = rejections(jobs, cluster, arrays, options.placement)
        state.n[core.TRIES] = 0
        state.life.status[list(reasons)] = core.REJECTED
        looking = None if looks is None else LookingOn(looks, arrays, options)
        settings = pipeline.settings(estimator.name)
        return cls(jobs, cluster, pipeline, settings, options, arrays, placer, reasons, {}, [], looking)

    @property
    def world(self) -> core.World:
        """Return what never changes in a run."""
        return self.arrays.world

    @property
    def state(self) -> core.State:
        """Return what a run changes."""
        return self.arrays.state

    @property
    def w(self) -> core.World:
        """Return the world as compiled code takes it."""
        return self.arrays.w

    @property
    def s(self) -> core.State:
        """Return the state as compiled code takes it."""
        return self.arrays.s

    def run(self, progress: Progress | None = None, timer: Timer = lambda: 0.0) -> None:
        """Simulate to the end."""
        if self.pipeline.commit:
            run_committed(self.w, self.s, self.options)
        elif self.placer.solves or self.pipeline.search or isinstance(self.pipeline.policy, Scored):
            self._run_pass_by_pass(progress, timer)
        elif self.looking:
            self._run_with_looks(self.looking, progress)
        else:
            while run(self.w, self.s, self.options, _MOMENTS_A_SLICE):
                self.take_spells()
                self._tell(progress)
            self.take_spells()
        self._tell(progress)
        self._reject_stranded()

    def run_while(self, until_s: float = np.inf, rows: range | None = None) -> None:
        """Simulate while something happens by a time and one of these jobs (of all, if not told) has to start.

        The clock stops at what happened last. Nobody is rejected for still waiting.
        """
        watched = range(len(self.jobs)) if rows is None else rows
        if self.placer.solves or self.pipeline.search or isinstance(self.pipeline.policy, Scored):
            while next_moment(self.w, self.s, self.options) <= until_s and self._any_waits(watched):
                advance(self.w, self.s, self.options)
                self.make_pass()
            return
        self.state.n[core.WATCHED] = watched.start
        while run_while(self.w, self.s, self.options, until_s, watched.stop, _MOMENTS_A_SLICE):
            self.take_spells()
        self.take_spells()

    def run_to(self, now_s: float) -> None:
        """Simulate all that happens by a time: also how jobs end after the last has started."""
        self.run_while(until_s=now_s)
        while self._any_is_there() and next_moment(self.w, self.s, self.options) <= now_s:
            advance(self.w, self.s, self.options)
            self.make_pass()
        self.take_spells()

    def _any_is_there(self) -> bool:
        return bool((self.state.life.status <= core.RUNNING).any())

    def _any_waits(self, rows: range) -> bool:
        return bool((self.state.life.status[rows.start : rows.stop] <= core.WAITING).any())

    def make_pass(self, *, explain: bool = False) -> None:
        """Make one pass as of now; `explain`: every job that is left waiting gets its reason."""
        if isinstance(self.pipeline.policy, Scored):
            self._let_python_score(self.pipeline.policy)
        options = self.options._replace(explain=True, relook=False) if explain else self.options
        PassMaker(self.arrays, options, self.placer, self.pipeline.search, self.pipeline.seed).make_pass()

    def view(self, rows: NDArray[np.int64]) -> QueueView:
        """Show a policy the waiting jobs as it may see them."""
        return queue_view(self.jobs, self.world, self.state, rows)

    def schedule(self, jobs: Jobs, order: NDArray[np.intp]) -> Schedule:
        """Put the results into the order in which the jobs were given."""
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        s, w = self.state, self.world
        rejected = s.life.status == core.REJECTED
        nothing = np.where(rejected, np.nan, 0.0)
        return Schedule(
            jobs=jobs,
            cluster=self.cluster,
            settings=self.settings,
            start_s=((s.turn.first if w.takes_turns else s.life.start) + nothing)[back],
            end_s=(s.life.end + nothing)[back],
            estimate_s=self._estimates_s()[back],
            rejected=rejected[back],
            reject_reason=self._reasons(back),
            requeues=s.life.requeues[back],
            placements=_placements(w, s, rejected, back),
            passes=int(s.n[core.PASSES]),
            work=self._counted(),
            turns=self._turns(order, back, rejected) if w.takes_turns else None,
        )

    def _turns(self, order: NDArray[np.intp], back: NDArray[np.intp], rejected: NDArray[np.bool_]) -> TurnsTaken:
        """Return what only jobs that take turns have, in the order in which the jobs were given."""
        life, turn = self.state.life, self.state.turn
        spells = Spells.joined(self.cut_short).of_jobs(~rejected, order)
        lost_s = np.where(rejected, np.nan, turn.lost + turn.restart)
        last = np.where(rejected, np.nan, life.start)
        return TurnsTaken(turn.preemptions[back], lost_s[back], last[back], spells)

    def _estimates_s(self) -> NDArray[np.float64]:
        """Return what was believed of each job when it was submitted."""
        state = self.state
        if self.looking:
            return np.where(self.looking.told_s > 0, self.looking.told_s, state.life.estimate)
        return np.asarray(state.turn.estimate if self.world.takes_turns else state.life.estimate)

    def _run_with_looks(self, looking: LookingOn, progress: Progress | None) -> None:
        """Leave compiled code now and then, for the estimator to look."""
        moments = 0
        while run_before(self.w, self.s, self.options, MOMENTS, looking.due):
            self.take_spells()
            looking.look()
            moments += 1
            if moments % 100 == 0:
                self._tell(progress)
        self.take_spells()

    def take_spells(self) -> None:
        """Take the spells that the core has recorded, so that it has room for more; none where nobody takes turns."""
        n = self.state.n
        spell, at = self.state.spell[: n[core.SPELLS_N]], self.state.spell_at[: n[core.SPELL_CHUNKS_N]]
        if len(spell):
            ptr = np.concatenate([[0], np.cumsum(spell["chunks"])])
            where = Placements(ptr, at["node"].copy(), at["gpus"].copy())
            self.cut_short.append(Spells(spell["job"].copy(), spell["start"].copy(), spell["end"].copy(), where))
        n[core.SPELLS_N] = n[core.SPELL_CHUNKS_N] = 0

    def _tell(self, progress: Progress | None) -> None:
        if progress is not None:
            progress(int(self.state.n[core.ENDED]), len(self.jobs) - len(self.reject_reason))

    def _run_pass_by_pass(self, progress: Progress | None, timer: Timer) -> None:
        """Leave compiled code in every pass: for a function of the user, a search or the solver."""
        search, seed = self.pipeline.search, self.pipeline.seed
        maker = PassMaker(self.arrays, self.options, self.placer, search, seed, timer=timer)
        moments = 0
        while True:
            if self.looking and self.looking.is_due:
                self.looking.look()
            if not advance(self.w, self.s, self.options):
                break
            if isinstance(self.pipeline.policy, Scored):
                self._let_python_score(self.pipeline.policy)
            maker.make_pass()
            moments += 1
            if moments % 1000 == 0:
                self._tell(progress)
        self.work.update(maker.to_dict())

    def _let_python_score(self, policy: Scored) -> None:
        s = self.state
        head, tail = s.n[core.Q_HEAD], s.n[core.Q_TAIL]
        if self.pipeline.view:
            tail = min(tail, head + self.pipeline.view)
        if tail > head:
            s.queue.score[head:tail] = scores_of(policy, self.view(s.queue.job[head:tail]))

    def _reject_stranded(self) -> None:
        """Report jobs that were still waiting when nothing more could happen."""
        status = self.state.life.status
        left = np.flatnonzero((status != core.DONE) & (status != core.REJECTED))
        self.reject_reason.update(dict.fromkeys(left.tolist(), "could not start before the end of the simulation"))
        status[left] = core.REJECTED

    def _reasons(self, back: NDArray[np.intp]) -> Labels:
        if not self.reject_reason:
            return Labels.none(len(back))
        return Labels.of([self.reject_reason.get(int(i)) for i in back], len(back))

    def _counted(self) -> dict[str, Any]:
        tried = int(self.state.n[core.TRIES])
        return {"placements_tried": tried, "placer": self.placer.name, **self._model_work(), **self.work}

    def _model_work(self) -> dict[str, int]:
        """Return how often a model was asked about what it was not trained on, and what it refused."""
        n = self.state.n
        if not isinstance(self.pipeline.policy, Networked):
            return {}
        drift = {
            "model_scores": int(n[core.SCORED]),
            "scores_outside_training": int(n[core.DRIFTED]),
            "model_looks": int(n[core.LOOKED]),
            "looks_by_base_policy": int(n[core.FELL_BACK]),
        }
        inspects = self.pipeline.policy.code == INSPECTED
        return {**drift, "refusals": int(n[core.REFUSALS_N])} if inspects else drift


def _settled(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with the policy that orders, if it is a portfolio that nobody told of a history."""
    return replace(pipeline, policy=settled(pipeline.policy, networks=not pipeline.turns))


def _nobody_takes_turns(jobs: Jobs, pipeline: Pipeline) -> bool:
    """Return whether no job may be displaced, nor keeps any work when a node fails, nor is ordered by its index."""
    kept = jobs.preemptible.any() or np.isfinite(jobs.checkpoint_s).any() or jobs.restart_s.any()
    return not (kept or pipeline.sees_index)


def _survival(pipeline: Pipeline, estimator: Estimator, jobs: Jobs, *, looked_at: bool) -> Survival:
    """Return what is known of how long jobs last; where they take turns, remainders always come from it.

    Nobody ends "now" of whom an estimator looks again and again: it says what is left.
    """
    if looked_at and not pipeline.turns:
        return Survival.none(len(jobs), BY_ESTIMATE)
    if not pipeline.turns:
        return survival_of(estimator, jobs, pipeline.remaining)
    order = pipeline.turns.order
    indexed = order == "gittins" or pipeline.sees_index
    return survival_of(estimator, jobs, HISTORY_NAME, orders=indexed or order != "policy", indexed=indexed)


def _options(pipeline: Pipeline, placer: Placer, jobs: Jobs, *, online: bool, ranks: bool) -> core.Options:
    """Return the pipeline in numbers, as compiled code takes it."""
    policy, guard, turns = pipeline.policy, pipeline.guard, pipeline.turns
    networked = isinstance(policy, Networked)
    by_index = bool(turns) and turns.order != "policy"
    view = pipeline.view or (policy.view if isinstance(policy, Networked) else 0)
    by_age = pipeline.commit or view > 0 or pipeline.backfill in SECOND_ROUND or pipeline.cycle_s > 0
    return core.Options(
        policy=policy.code,
        dynamic=policy.dynamic or by_age or bool(guard) or bool(pipeline.search) or bool(turns),
        backfill=BACKFILLS[pipeline.backfill],
        behind=BEHIND.get(pipeline.backfill, FCFS),
        placement=placer.rule,
        global_head=pipeline.head == "global" or pipeline.commit,  # RLScheduler's machine is one pool
        in_view=view,
        estimate_by_history=online,
        rank_by_history=ranks,
        guarded=bool(guard),
        sla_by_base=bool(guard.sla_by_base),
        guard_orders=True,
        grace_s=guard.grace_s,
        grace_times=guard.times or 0.0,
        cycle_s=float(pipeline.cycle_s),
        relook=networked
        and (not turns or by_index)
        and pipeline.cycle_s == 0
        and pipeline.backfill not in {*PLANNING, *SECOND_ROUND},
        explain=False,
        turns=ORDERS[turns.order],
        shared=by_index and not jobs.preemptible.all(),
        min_run_s=float(turns.min_run_s),
        max_preemptions=turns.max_preemptions,
        turn_s=float(turns.turn_s),
        margin=float(turns.margin),
        cost_once=float(turns.cost_once),
        cost_each=float(turns.cost_each),
        max_a_day=turns.max_a_day,
        late_s=float(turns.late_s),
        late_times=float(turns.late_times),
        covered=bool(turns.cover),
        gain=float(turns.gain),
    )


def _placements(w: core.World, s: core.State, rejected: NDArray[np.bool_], back: NDArray[np.intp]) -> Placements:
    """Gather every job's chunks, in the order in which the jobs were given."""
    count = np.where(rejected, 0, w.shape.chunks[s.life.form])[back]
    ptr = np.zeros(len(back) + 1, dtype=np.int64)
    np.cumsum(count, out=ptr[1:])
    at = np.repeat(w.job.chunk_at[back] - ptr[:-1], count) + np.arange(ptr[-1])
    return Placements(ptr, s.at.node[at], s.at.gpus[at])

"""Replays a workload on a cluster under a policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rltune.cluster import Cluster
from rltune.engine.guard import Guard, get_guard
from rltune.engine.search import Search, Searcher, get_search
from rltune.errors import InputError, unknown
from rltune.estimate import Estimator, Given, estimated, get_estimator
from rltune.inputs import require_inputs
from rltune.jobs import Jobs
from rltune.kernel.backfill.scheduling_pass import decide
from rltune.kernel.build.prepare import Likeness, prepare
from rltune.kernel.fit.allocate import find
from rltune.kernel.rollout.event_loop import advance, run
from rltune.kernel.rollout.rlscheduler_machine import run_committed
from rltune.kernel.score.rules import INSPECTED
from rltune.kernel.state import arrays as core
from rltune.kernel.state.handles import state_handle, world_handle
from rltune.labels import Labels
from rltune.placement.placers import NAMES, Placer, get_placer
from rltune.policy.base import Networked, Policy, QueueView, Score, Scored
from rltune.policy.by_name import get_policy
from rltune.policy.extended import Extended, extended, searches, taken_apart
from rltune.schedule import Placements, Schedule, Settings

BACKFILLS = {
    "none": core.NO_BACKFILL,
    "fit-first": core.FIT_FIRST,
    "easy": core.EASY,
    "conservative": core.CONSERVATIVE,
    "shadow": core.SHADOW,
}
INSPECTED_BACKFILLS = ("none", "fit-first", "easy")
PLACEMENTS = NAMES
HEADS = ("pool", "global")
_MOMENTS_A_SLICE = 100_000  # between two looks at the progress bar and at Ctrl-C

Progress = Callable[[int, int], None]  # jobs ended, jobs in all


def simulate(
    jobs: Jobs,
    cluster: Cluster,
    policy: str | Policy | Score = "fcfs",
    backfill: str = "none",
    placement: str = "best-fit",
    estimator: str | Estimator | NDArray[np.float64] = "oracle",
    head: str = "pool",
    commit: bool = False,
    seed: int = 0,
    *,
    view: int = 0,
    cycle_s: float = 0.0,
    guard: str | Guard | None = None,
    search: str | int | Search | None = None,
    progress: Progress | None = None,
) -> Schedule:
    """Run the jobs to their end and say when and where each ran, in the order given.

    Args:
        jobs: The workload, from `rltune.read_trace(path)` or `rltune.Jobs.from_...`.
        cluster: The machine, from `rltune.Cluster.load(name_or_path)` or `rltune.Cluster.uniform(...)`.
        policy: Who runs next: a name (`rltune policies` lists them), a model's file, `mine.py:score`, a function that
            scores the queue, or an object.
        backfill: Who may overtake: "none", "fit-first", "easy", "conservative" or "shadow".
        placement: How nodes are chosen: "best-fit", "first-fit", "spread", "hierarchical", "milp" or "auto".
        estimator: What is known of run times: a name, `mine.py:Name`, an object, or one number of seconds a job.
        head: What a job that does not fit blocks: its "pool", or all others ("global").
        commit: Whether to run as RLScheduler's machine does.
        seed: For everything that is drawn.
        view: How many of the oldest waiting jobs the policy sees; 0 = all.
        cycle_s: How often the policy is asked; 0 = in every pass.
        guard: A bound on how long a job may be overtaken, such as "24h:4x".
        search: How many orders are tried before each pass, such as 16.
        progress: Called with the jobs ended and the jobs in all.

    Returns the schedule: it prints itself; `.summary()` measures it, `.to_polars()` has a row a job.

        schedule = rltune.simulate(jobs, cluster, policy="saf", backfill="easy", estimator="history")
    """
    require_inputs(jobs, cluster)
    order = np.argsort(jobs.submit_s, kind="stable")
    rule, guess = extended(get_policy(policy), guard, search), get_estimator(estimator)
    settings = Settings(
        policy=rule.name,
        backfill=backfill,
        placement=placement,
        estimator=guess.name,
        head=head,
        commit=commit,
        view=view,
        cycle_s=cycle_s,
        seed=seed,
    )
    if isinstance(guess, Given):
        guess = Given(guess.estimate(jobs, seed).values_s[order], guess.name)  # checked before it is put in order
    machine = Machine.of(jobs.take(order), cluster, rule, guess, settings)
    if machine.search.ms is not None:
        raise InputError(f"search {machine.search}: by the clock results would depend on the machine; leave out the ms")
    machine.run(progress)
    return machine.schedule(jobs, order)


@dataclass(frozen=True)
class Machine:
    """A run in progress: the arrays of the core, and what asks it to go on."""

    jobs: Jobs  # in order of submit time
    cluster: Cluster
    policy: Policy
    settings: Settings
    options: core.Options
    world: core.World
    state: core.State
    w: core.World  # handles of the two for compiled code
    s: core.State
    placer: Placer
    reject_reason: dict[int, str]
    placer_work: dict[str, Any]

    @classmethod
    def of(cls, jobs: Jobs, cluster: Cluster, policy: Policy, estimator: Estimator, settings: Settings) -> Machine:
        """Prepare a run; jobs that can never start are rejected here."""
        policy, settings = taken_apart(policy, settings)
        guard = get_guard(settings.guard)
        _check(jobs, cluster, settings)
        if settings.commit and isinstance(policy, Scored):
            raise InputError(f"commit mode knows only rules of the core, not policy {policy.name}")
        if settings.cycle_s > 0:
            _check_cycle(policy, settings)
        if policy.code == INSPECTED:
            _check_inspected(jobs, cluster, policy, settings)
        estimates = estimated(estimator, jobs, settings.seed)
        own = policy.likeness(jobs)
        placer = get_placer(settings.placement, jobs, cluster, settings.backfill)
        net, view = (policy.net, policy.view) if isinstance(policy, Networked) else (None, 0)
        options = _options(
            policy,
            replace(settings, view=settings.view or view),
            placer,
            guard,
            asks_net=net is not None,
            online=estimates.likeness is not None,
            ranks=own is not None,
        )
        likeness = (estimates.likeness or Likeness.none(len(jobs)), own or Likeness.none(len(jobs)))
        sorts = options.dynamic or settings.backfill == "conservative"
        values, factors = estimates.values_s, policy.factors(jobs)
        world, state = prepare(jobs, cluster, values, factors, likeness, sorts=sorts, wider=placer.solves, net=net)
        world.job.sla = guard.sla_jobs(jobs)
        s = state_handle(state)
        w = world_handle(world)
        misfits = _misfits(cluster, world, w, s, options)
        reasons = _rejections(jobs, world, state, misfits)
        state.n[core.TRIES] = 0
        state.life.status[list(reasons)] = core.REJECTED
        return cls(jobs, cluster, policy, settings, options, world, state, w, s, placer, reasons, {})

    def run(self, progress: Progress | None = None) -> None:
        """Simulate to the end."""
        if self.settings.commit:
            run_committed(self.w, self.s, self.options)
        elif self.placer.solves or self.search or isinstance(self.policy, Scored):
            self._run_pass_by_pass(progress)
        else:
            while run(self.w, self.s, self.options, _MOMENTS_A_SLICE):
                self._tell(progress)
        self._tell(progress)
        self._reject_stranded()

    def _tell(self, progress: Progress | None) -> None:
        if progress is not None:
            progress(int(self.state.n[core.ENDED]), len(self.jobs) - len(self.reject_reason))

    @property
    def search(self) -> Search:
        """Return what is searched for before each pass."""
        return get_search(self.settings.search)

    def _run_pass_by_pass(self, progress: Progress | None) -> None:
        """Leave compiled code in every pass: for a function of the user, a search or the solver."""
        make_pass, told = self._decides()
        if self.search:
            searcher = Searcher(self.world, self.state, self.w, self.s, self.options, self.search, self.settings.seed)
            self._run_with_python(lambda: make_pass(searcher.look()), progress)
            self.placer_work.update(searcher.to_dict())
        else:
            self._run_with_python(lambda: make_pass(self.options), progress)
        self.placer_work.update(told())

    def _decides(self) -> tuple[Callable[[core.Options], None], Callable[[], dict[str, Any]]]:
        """Return what makes a pass under some options, and what tells what it did."""
        if not self.placer.solves:
            return lambda options: decide(self.w, self.s, options), dict
        from rltune.placement.look_ahead import LookAhead

        ahead = LookAhead(self.world, self.state, self.w, self.s, self.options, self.placer.k)
        return ahead.make_pass, ahead.to_dict

    def _run_with_python(self, make_pass: Callable[[], None], progress: Progress | None) -> None:
        """Leave compiled code in every pass, to let a Python function score the queue or place jobs."""
        s = self.state
        policy = self.policy if isinstance(self.policy, Scored) else None
        moments = 0
        while advance(self.w, self.s, self.options):
            head, tail = s.n[core.Q_HEAD], s.n[core.Q_TAIL]
            if self.settings.view:
                tail = min(tail, head + self.settings.view)
            if tail > head and policy:
                s.queue.score[head:tail] = _checked_scores(policy, self.view(s.queue.job[head:tail]))
            make_pass()
            moments += 1
            if moments % 1000 == 0:
                self._tell(progress)

    def view(self, rows: NDArray[np.int64]) -> QueueView:
        """Show a policy the waiting jobs: copies of what it may know, so that nothing leads back to the table."""
        jobs, s = self.jobs, self.state
        return QueueView(
            now_s=float(s.now[0]),
            submit_s=jobs.submit_s[rows],
            estimate_s=s.life.estimate[rows],
            limit_s=jobs.limit_s[rows],
            gpus=jobs.gpus[rows],
            nodes=jobs.nodes[rows],
            cpus=jobs.cpus[rows],
            mem_gib=jobs.mem_gib[rows],
            vc=_names(jobs.vc, rows),
            user=_names(jobs.user, rows),
            account=_names(jobs.account, rows),
            qos=_names(jobs.qos, rows),
            name=_names(jobs.name, rows),
            node_free_gpus=s.node.gpu.copy(),
            node_gpus=self.world.group.gpus[s.node.group],
        )

    def _reject_stranded(self) -> None:
        """Report jobs that were still waiting when nothing more could happen."""
        status = self.state.life.status
        left = np.flatnonzero((status != core.DONE) & (status != core.REJECTED))
        self.reject_reason.update(dict.fromkeys(left.tolist(), "could not start before the end of the simulation"))
        status[left] = core.REJECTED

    def _model_work(self) -> dict[str, int]:
        """Say how often a model was asked about what it was not trained on, and what it refused."""
        n = self.state.n
        if not isinstance(self.policy, Networked):
            return {}
        drift = {"scores_outside_training": int(n[core.DRIFTED]), "looks_by_base_policy": int(n[core.FELL_BACK])}
        return {**drift, "refusals": int(n[core.REFUSALS_N])} if self.policy.code == INSPECTED else drift

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
            start_s=(s.life.start + nothing)[back],
            end_s=(s.life.end + nothing)[back],
            estimate_s=s.life.estimate[back],
            rejected=rejected[back],
            reject_reason=Labels.of([self.reject_reason.get(int(i)) for i in back], len(back))
            if self.reject_reason
            else Labels.none(len(back)),
            requeues=s.life.requeues[back],
            placements=_placements(w, s, rejected, back),
            passes=int(s.n[core.PASSES]),
            work={
                "placements_tried": int(s.n[core.TRIES]),
                "placer": self.placer.name,
                **self._model_work(),
                **self.placer_work,
            },
        )


def _options(
    policy: Policy,
    settings: Settings,
    placer: Placer,
    guard: Guard,
    *,
    asks_net: bool,
    online: bool,
    ranks: bool,
) -> core.Options:
    by_age = (
        settings.commit
        or settings.view > 0
        or settings.backfill == "shadow"
        or settings.cycle_s > 0
        or bool(guard)
        or bool(get_search(settings.search))
    )
    return core.Options(
        policy=policy.code,
        dynamic=policy.dynamic or by_age,
        backfill=BACKFILLS[settings.backfill],
        placement=placer.rule,
        global_head=settings.head == "global" or settings.commit,  # RLScheduler's machine is one pool
        in_view=settings.view,
        estimate_by_history=online,
        rank_by_history=ranks,
        guarded=bool(guard),
        grace_s=guard.grace_s,
        grace_times=guard.times or 0.0,
        cycle_s=float(settings.cycle_s),
        relook=asks_net and settings.cycle_s == 0 and settings.backfill not in {"conservative", "shadow"},
        explain=False,
    )


def _check(jobs: Jobs, cluster: Cluster, settings: Settings) -> None:
    for what, value, known in (
        ("backfill", settings.backfill, tuple(BACKFILLS)),
        ("head", settings.head, HEADS),
    ):
        if value not in known:
            raise unknown(what, value, known)
    if not 0 <= settings.cycle_s < np.inf:
        raise InputError(f"a cycle should last some seconds, or 0 to ask in every pass, not {settings.cycle_s:g}")
    if settings.view < 0:
        raise InputError(f"view should be 0 (all) or more, not {settings.view}")
    placer = get_placer(settings.placement, jobs, cluster, settings.backfill)
    if settings.commit:
        if placer.solves:
            raise InputError(
                f"commit mode places jobs one at a time: placement {settings.placement!r} needs commit=False"
            )
        _check_commit(jobs, cluster, settings)


def takes_cycles(policy: Policy) -> bool:
    """Return whether a policy may be asked once a cycle: a search, an inspector and Python decide in every pass."""
    inner = policy.inner if isinstance(policy, Extended) else policy
    return not (searches(policy) or inner.code == INSPECTED or isinstance(inner, Scored))


def _check_cycle(policy: Policy, settings: Settings) -> None:
    """Refuse what decides in every pass by its nature."""
    searched = bool(get_search(settings.search))
    if settings.commit or searched or not takes_cycles(policy):
        what = "commit mode" if settings.commit else "a search" if searched else f"policy {policy.name}"
        raise InputError(f"{what} decides in every pass: leave out the cycle of {settings.cycle_s:g} s")


def _check_inspected(jobs: Jobs, cluster: Cluster, policy: Policy, settings: Settings) -> None:
    """Refuse what an inspector, who is asked about one job at a time, does not go with."""
    if settings.commit or settings.backfill not in INSPECTED_BACKFILLS:
        known = ", ".join(INSPECTED_BACKFILLS)
        what = "commit mode" if settings.commit else f"backfill {settings.backfill!r}"
        raise InputError(f"policy {policy.name} inspects one job at a time: {what} is not for it; there are: {known}")
    if get_placer(settings.placement, jobs, cluster, settings.backfill).solves:
        several = f"placement {settings.placement!r} places several"
        raise InputError(f"policy {policy.name} inspects one job at a time: {several}")


def _check_commit(jobs: Jobs, cluster: Cluster, settings: Settings) -> None:
    """Refuse what RLScheduler's machine does not know."""
    if get_guard(settings.guard):
        raise InputError("commit mode knows no guard: a selected job stays selected until it fits")
    if get_search(settings.search):
        raise InputError("commit mode knows no search: one job is selected at a time, and stays so")
    if settings.backfill not in {"none", "shadow"}:
        raise InputError(f"commit mode backfills by 'none' or 'shadow', not {settings.backfill!r}")
    if cluster.limits or cluster.outages or cluster.maintenance or len(jobs.after) or (jobs.array_limit > 0).any():
        raise InputError("commit mode knows no limits, outages, maintenance, dependencies or array throttles")


def _misfits(cluster: Cluster, world: core.World, w: core.World, s: core.State, o: core.Options) -> dict[int, str]:
    """Find the shapes that do not fit the empty, healthy cluster, and say why."""
    healthy = world_handle(world._replace(has_pauses=False)) if world.has_pauses else w
    return {i: _misfit(cluster, world, i) for i in range(len(world.shape)) if not find(healthy, s, i, 0.0, o.placement)}


def _rejections(jobs: Jobs, w: core.World, s: core.State, misfits: dict[int, str]) -> dict[int, str]:
    """Find the jobs that can never start, and say why."""
    bad = np.isin(w.job.asks, np.array(list(misfits), dtype=np.int32))
    reasons = {int(job): misfits[int(w.job.asks[job])] for job in np.flatnonzero(bad)}
    if w.has_limits:
        _add_limited(jobs, w, s, reasons)
    return _with_dependants(jobs, reasons)


def _misfit(cluster: Cluster, w: core.World, shape: int) -> str:
    if not w.mask_has[w.shape.mask[shape]].any():
        return "no node group has an accepted GPU type and admits its VC"
    wanted = " + ".join(f"{n} x {g}" for n, g in zip(w.chunk.n[shape], w.chunk.gpus[shape], strict=True) if n > 0)
    return f"larger than the cluster of {cluster.gpu_count} GPUs: needs nodes with {wanted} GPUs, their CPUs and memory"


def _add_limited(jobs: Jobs, w: core.World, s: core.State, reasons: dict[int, str]) -> None:
    for job in np.flatnonzero((w.counters >= 0).any(axis=1)):
        for c in w.counters[job][w.counters[job] >= 0]:
            if jobs.gpus[job] > s.limit.max_gpus[c]:
                reasons.setdefault(int(job), f"asks for more than its limit of {s.limit.max_gpus[c]} GPUs")
            if s.limit.max_running[c] == 0 or s.limit.max_submitted[c] == 0:
                reasons.setdefault(int(job), "its limit allows no job at all")


def _with_dependants(jobs: Jobs, reasons: dict[int, str]) -> dict[int, str]:
    """Reject what depends on a rejected job, and so on."""
    if len(jobs.after) == 0:
        return reasons
    waiter = np.repeat(np.arange(len(jobs)), np.diff(jobs.after_ptr))
    rejected = np.zeros(len(jobs), dtype=np.bool_)
    rejected[list(reasons)] = True
    while True:
        more = np.setdiff1d(waiter[rejected[jobs.after]], np.flatnonzero(rejected))
        if len(more) == 0:
            return reasons
        reasons.update(dict.fromkeys(more.tolist(), "depends on a job that was rejected"))
        rejected[more] = True


def _names(labels: Labels, rows: NDArray[np.int64]) -> list[str | None]:
    """Spell some rows out, in time that depends on them alone."""
    return [labels.names[code] if code >= 0 else None for code in labels.codes[rows].tolist()]


def _checked_scores(policy: Scored, view: QueueView) -> NDArray[np.float64]:
    """Ask a user's function, and take nothing from it but one number a job."""
    count = len(view)
    try:
        scores = np.array(policy.score(view), dtype=np.float64)
    except Exception as error:  # whatever it raises, the user wrote it
        what = f"{type(error).__name__}: {error}"
        raise InputError(f"policy {policy.name} failed at {view.now_s:g} s, {count} jobs waiting: {what}") from error
    if scores.shape != (count,):
        raise InputError(f"policy {policy.name} gave scores of shape {scores.shape} for {count} jobs, not ({count},)")
    if np.isnan(scores).any():
        raise InputError(f"policy {policy.name} gave NaN as the score of {int(np.isnan(scores).sum())} of {count} jobs")
    return scores


def _placements(w: core.World, s: core.State, rejected: NDArray[np.bool_], back: NDArray[np.intp]) -> Placements:
    """Gather every job's chunks, in the order in which the jobs were given."""
    count = np.where(rejected, 0, w.shape.chunks[s.life.form])[back]
    ptr = np.zeros(len(back) + 1, dtype=np.int64)
    np.cumsum(count, out=ptr[1:])
    at = np.repeat(w.job.chunk_at[back] - ptr[:-1], count) + np.arange(ptr[-1])
    return Placements(ptr, s.at.node[at], s.at.gpus[at])

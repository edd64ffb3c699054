"""What a decision of the solver costs, and that skipping it where it cannot help loses nothing."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from rltune.cluster import Cluster, NodeGroup, Slowdown
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import Machine
from rltune.estimate import get_estimator
from rltune.jobs import Jobs
from rltune.kernel.rollout.event_loop import advance
from rltune.placement import program as models
from rltune.placement.greedy import started
from rltune.placement.highs import Solver
from rltune.placement.look_ahead import LookAhead
from rltune.placement.program import Program
from rltune.placement.realise import realise
from rltune.placement.solver_work import Work
from rltune.trace import synthesise
from rltune.trials.intervals import over_windows, ratio

KS = (4, 8, 16)
SKIP_CELLS = (("fcfs", "easy"), ("fcfs", "none"), ("saf", "easy"), ("saf", "none"))


def full_cluster(nodes: int, seed: int, extra_rack: float) -> tuple[Jobs, Cluster]:
    """A cluster of 8-GPU nodes that is nearly full at time 0, and a queue that fills what ends."""
    rng = np.random.default_rng(seed)
    groups = (NodeGroup(count=nodes, gpus=8, cpus=96, mem_gib=512, nodes_per_rack=18),)
    cluster = Cluster(groups, slowdown=Slowdown(extra_rack=extra_rack))
    filling = int(nodes * 8 / 2.55 * 1.02)
    later = 400
    n = filling + later
    gpus = np.concatenate(
        [rng.choice([1, 2, 4, 8], filling, p=[0.45, 0.25, 0.2, 0.1]), rng.choice([1, 2, 4, 8, 16], later)]
    )
    return (
        Jobs.from_arrays(
            submit_s=np.concatenate([np.zeros(filling), np.sort(rng.uniform(1, 400, later))]),
            duration_s=rng.lognormal(6.5, 1.2, n),
            gpus=gpus,
            cpus=gpus * rng.choice([4.0, 8.0, 12.0], n),
        ),
        cluster,
    )


class Stopwatch(LookAhead):
    """Times each solve; and for some also every node by itself, all of them candidates, and cvxpy."""

    def watch(self, every: int, *, apart: bool, cvxpy: bool) -> None:
        self.every, self.apart, self.cvxpy = every, apart, cvxpy
        self.cpu_ms: list[float] = []
        self.ours_ms: list[float] = []  # of the decisions that the others made, too
        self.apart_ms: list[float] = []
        self.cvxpy_ms: list[float] = []

    def _solve(self, jobs, pool, fitting, k):
        sampled = len(self.cpu_ms) % self.every == 0
        if sampled:
            self._by_others(jobs, pool, fitting)
        begin = thread_time()
        super()._solve(jobs, pool, fitting, k)
        self.cpu_ms.append((thread_time() - begin) * 1e3)
        if sampled:
            self.ours_ms.append(self.cpu_ms[-1])

    def _by_others(self, jobs, pool, fitting) -> None:
        model = self._model(jobs, pool, fitting, aggregate=True)
        if self.cvxpy and model.cost:
            self.cvxpy_ms.append(by_cvxpy(model))
        if self.apart:
            pruned, models.MOST_CLASSES = models.MOST_CLASSES, (10**9, 10**9)
            begin = thread_time()
            Solver().answer(self._model(jobs, pool, fitting, aggregate=False), 10.0)
            self.apart_ms.append((thread_time() - begin) * 1e3)
            models.MOST_CLASSES = pruned


def by_cvxpy(model: Program) -> float:
    import cvxpy as cp
    from scipy.sparse import coo_matrix

    begin = thread_time()
    x = cp.Variable(len(model.cost), integer=True)
    rows = [(r, i, a) for r, row in enumerate(model.rows) for i, a in row.terms]
    r, i, a = zip(*rows, strict=True)
    matrix = coo_matrix((a, (r, i)), shape=(len(model.rows), len(model.cost))).tocsr()
    bound = np.array([row.bound for row in model.rows], dtype=float)
    equal = np.array([row.equal for row in model.rows])
    limits = [x >= 0, x <= np.array(model.upper), matrix[~equal] @ x <= bound[~equal]]
    if equal.any():
        limits.append(matrix[equal] @ x == bound[equal])
    cp.Problem(cp.Maximize(np.array(model.cost, dtype=float) @ x), limits).solve(solver=cp.HIGHS)
    return (thread_time() - begin) * 1e3


@dataclass(frozen=True)
class Cost:
    """Milliseconds of decisions where the solver runs: CPU time, and the clock's."""

    nodes: int
    k: int
    solves: int
    p50: float
    p99: float
    clock_p50: float
    clock_p99: float
    ours: list[float]  # p50 and p99 on the sample that the others solved, too
    apart: list[float]
    cvxpy: list[float]
    extra_rack: float


def latency(nodes: list[int], solves: int, others: int, cvxpy: bool, extra_rack: float) -> Iterator[dict[str, Any]]:
    print("\nMilliseconds per decision where the solver runs: snapshot, model, solver, choice of nodes")
    for count in nodes:
        for k in KS:
            ahead = contended_run(count, k, solves, others, cvxpy=cvxpy, extra_rack=extra_rack)
            clock = _pair(ahead.work.solve_ms)
            sampled = (_pair(ms) for ms in (ahead.ours_ms, ahead.apart_ms, ahead.cvxpy_ms))
            row = asdict(Cost(count, k, len(ahead.cpu_ms), *_pair(ahead.cpu_ms), *clock, *sampled, extra_rack))
            print(row, flush=True)
            yield row


def _pair(ms: list[float]) -> list[float]:
    return [round(float(np.percentile(ms, p)), 2) for p in (50, 99)] if ms else []


def contended_run(nodes: int, k: int, solves: int, others: int, *, cvxpy: bool, extra_rack: float) -> Stopwatch:
    jobs, cluster = full_cluster(nodes, seed=nodes, extra_rack=extra_rack)
    pipeline = parse_pipeline("fcfs", "easy", f"milp:{k}")
    m = Machine.of(jobs, cluster, pipeline, get_estimator("oracle"))
    ahead = Stopwatch(m.arrays, m.options, k, timer=perf_counter)
    ahead.watch(max(1, solves // max(others, 1)), apart=nodes <= 128 and others > 0, cvxpy=cvxpy and others > 0)
    while len(ahead.cpu_ms) < solves and advance(m.w, m.s, m.options):
        ahead.make_pass()
    return ahead


class Eager(LookAhead):
    """Solves in every pass in which a job could start, and leaves best fit for any better answer: also for idle nodes,
    larger holes and fewer nodes.
    """

    def _choose(self, jobs, pool, fitting, *, aggregate):
        model = self._model(jobs, pool, fitting, aggregate=aggregate)
        answer = self._answer(model)
        if started(model, answer.values) < max(fitting, started(model, answer.greedy)):
            return []
        starts, broken = realise(model, answer.values, self._rack_of)
        if broken >= 0:
            return self._choose(jobs, pool, fitting, aggregate=False) if aggregate else []
        return starts


@dataclass(frozen=True)
class Run:
    """A run of the part about skipping: what the solver did, and every job's wait."""

    work: Work
    wait_s: np.ndarray


def skipping(count: int, seeds: int, checked: int) -> Iterator[dict[str, Any]]:
    print("\nSkipping, on Philly-like runs of the slice (K = 8): milliseconds over all passes, skipped ones included")
    for policy, backfill in SKIP_CELLS:
        cell = (count, policy, backfill)
        ours = [_one_run(*cell, seed, LookAhead, always=False) for seed in range(seeds)]
        never = [_one_run(*cell, seed, LookAhead, always=True) for seed in range(min(checked, seeds))]
        eager = [_one_run(*cell, seed, Eager, always=True) for seed in range(seeds)]
        row = {"policy": policy, "backfill": backfill, **_compared(ours, never, eager)}
        print(row, flush=True)
        yield row


def _compared(ours: list[Run], never: list[Run], eager: list[Run]) -> dict[str, Any]:
    """Compare with runs that never skip, to the second, and with those that use every answer, by their mean waits."""
    ms = np.concatenate([run.work.ms for run in ours])
    mine, theirs = (np.array([run.wait_s.mean() for run in runs]) for runs in (ours, eager))
    loss = over_windows(mine, theirs, ratio, confidence=0.95, resamples=5000, seed=0)
    return {
        "seeds": len(ours),
        "passes": len(ms),
        "skip_rate": 1 - _solves(ours) / len(ms),
        "pass_ms": _pair(ms.tolist()),
        "mean_wait_s": float(mine.mean()),
        "checked": len(never),
        "solves": [_solves(ours[: len(never)]), _solves(never)],
        "jobs_that_differ": int(sum((a.wait_s != b.wait_s).sum() for a, b in zip(ours, never, strict=False))),
        "eager_solves": _solves(eager) / _solves(ours),
        "loss": [float(x - 1) for x in (loss.estimate, loss.low, loss.high)],
    }


def _solves(runs: list[Run]) -> int:
    return sum(len(run.work.solve_ms) for run in runs)


def _one_run(count: int, policy: str, backfill: str, seed: int, how: type[LookAhead], *, always: bool) -> Run:
    pipeline = parse_pipeline(policy, backfill, "milp:8")
    cluster = Cluster.preset("philly-slice")
    jobs = synthesise("philly", count, seed=100 + seed, cluster=cluster, load=0.9)
    m = Machine.of(jobs, cluster, pipeline, get_estimator("oracle"))
    ahead = how(m.arrays, m.options, 8, always=always, timer=perf_counter)
    while advance(m.w, m.s, m.options):
        ahead.make_pass()
    return Run(ahead.work, m.state.life.start - m.world.job.submit)

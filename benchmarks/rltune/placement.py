"""Where a job runs: what a decision of the solver costs, what skipping it loses, and what its schedules are worth.

python benchmarks/rltune/placement.py                       # all tables, about ten minutes on two cores
python benchmarks/rltune/placement.py latency --nodes 36 128
python benchmarks/rltune/placement.py schedules --philly philly_jobs.csv.gz --pai pai.csv.gz
"""

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, thread_time

import numpy as np

import rltune
from rltune.cluster import Cluster, NodeGroup, Slowdown
from rltune.core.loop import advance
from rltune.estimate import get_estimator
from rltune.evaluate import WindowSpec, compare
from rltune.jobs import Jobs
from rltune.placement import drive
from rltune.placement import model as models
from rltune.placement.drive import LookAhead
from rltune.placement.milp import Effort, Solver
from rltune.placement.model import Model, build
from rltune.policy.registry import get_policy
from rltune.schedule import Settings
from rltune.sim import Machine
from rltune.trace import read_trace, synthesise

KS = (4, 8, 16)
NODES = (36, 128, 1000, 10_000)
SEEDS = (5, 6, 7, 8)
METRICS = ("wait", "large-wait", "utilisation", "fragmentation")


# latency


def full_cluster(nodes: int, seed: int) -> tuple[Jobs, Cluster]:
    """A cluster of 8-GPU nodes that is nearly full at time 0, and a queue that fills what ends."""
    rng = np.random.default_rng(seed)
    cluster = Cluster((NodeGroup(count=nodes, gpus=8, cpus=96, mem_gib=512, nodes_per_rack=18),))
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
    """Times each solve; and for every tenth or so also every node by itself, all of them candidates, and cvxpy."""

    def watch(self, every: int, *, apart: bool, cvxpy: bool) -> None:
        self.every, self.apart, self.cvxpy = every, apart, cvxpy
        self.cpu_ms: list[float] = []
        self.ours_ms: list[float] = []  # of the decisions that the others made, too
        self.apart_ms: list[float] = []
        self.cvxpy_ms: list[float] = []
        self.sizes: list[tuple[int, int, int]] = []

    def _solve(self, jobs, pool, fitting):
        sampled = len(self.cpu_ms) % self.every == 0
        if sampled:
            self._by_others(jobs, pool, fitting)
        begin = thread_time()
        super()._solve(jobs, pool, fitting)
        self.cpu_ms.append((thread_time() - begin) * 1e3)
        if sampled:
            self.ours_ms.append(self.cpu_ms[-1])

    def _by_others(self, jobs, pool, fitting) -> None:
        model = self._model(jobs, pool, fitting, aggregate=True)
        self.sizes.append((len(model.snapshot.classes), len(model.cost), len(model.rows)))
        if self.cvxpy and model.cost:
            self.cvxpy_ms.append(by_cvxpy(model))
        if self.apart:
            pruned, models.MOST_CLASSES = models.MOST_CLASSES, (10**9, 10**9)
            begin = thread_time()
            Solver().answer(self._model(jobs, pool, fitting, aggregate=False), 10.0)
            self.apart_ms.append((thread_time() - begin) * 1e3)
            models.MOST_CLASSES = pruned

    def _model(self, jobs, pool, fitting, *, aggregate) -> Model:
        return build(
            self._camera.take(self._w, self._s, self._state, jobs, pool, drive.SLOTS, fitting, aggregate=aggregate)
        )


def by_cvxpy(model: Model) -> float:
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


def latency(nodes: tuple[int, ...], solves: int, others: int, cvxpy: bool) -> None:
    print("\nMilliseconds per decision where the solver runs (snapshot, model, solver, choice of nodes).")
    print(
        "Right of the bar, CPU milliseconds on a sample of the decisions: ours, every node by itself, cvxpy with HiGHS"
    )
    print(
        " nodes   K  solves  classes  columns  rows |    p50     p99     max | CPU p50     p99"
        " |  ours p50     p99 | apart p50     p99 | cvxpy p50     p99"
    )
    for count in nodes:
        for k in KS:
            ahead = contended_run(count, k, solves, others, cvxpy=cvxpy)
            ms = np.array(ahead.work.solve_ms or [np.nan])
            size = np.median(np.array(ahead.sizes), axis=0) if ahead.sizes else (0, 0, 0)
            cells = [f"{count:6,} {k:3} {len(ms):7} {size[0]:8.0f} {size[1]:8.0f} {size[2]:5.0f}"]
            cells.append(f"{np.median(ms):6.1f} {np.percentile(ms, 99):7.1f} {ms.max():7.1f}")
            cells += [_pair(ahead.cpu_ms)[2:], _pair(ahead.ours_ms), _pair(ahead.apart_ms), _pair(ahead.cvxpy_ms)]
            print(" | ".join(cells), flush=True)


def _pair(ms: list[float]) -> str:
    return f"{np.median(ms):9.1f} {np.percentile(ms, 99):7.1f}" if ms else "        -       -"


def contended_run(nodes: int, k: int, solves: int, others: int, *, cvxpy: bool) -> Stopwatch:
    jobs, cluster = full_cluster(nodes, seed=nodes)
    settings = Settings(placement=f"milp:{k}", backfill="easy")
    m = Machine.of(jobs, cluster, get_policy("fcfs"), get_estimator("oracle"), settings)
    ahead = Stopwatch(m.world, m.state, m.w, m.s, m.options, k)
    ahead.watch(max(1, solves // max(others, 1)), apart=nodes <= 128, cvxpy=cvxpy)
    while len(ahead.work.solve_ms) < solves and advance(m.w, m.s, m.options):
        ahead.make_pass()
    return ahead


# skipping


def skipping(jobs_count: int) -> None:
    print("\nSkipping, on Philly-like runs of the slice (K = 8): milliseconds over all passes, skipped ones included")
    print("policy  backfill  passes  skip rate  pass p50     p99 | mean wait s  never skipping     loss")
    for policy, backfill in (("fcfs", "none"), ("fcfs", "easy"), ("saf", "none"), ("saf", "easy")):
        skip = [one_run(jobs_count, seed, policy, backfill, always=False) for seed in SEEDS]
        never = [one_run(jobs_count, seed, policy, backfill, always=True) for seed in SEEDS]
        ms = np.concatenate([ahead.work.ms for ahead, _ in skip])
        solved = sum(len(ahead.work.solve_ms) for ahead, _ in skip)
        wait, unskipped = (np.mean([w for _, w in runs]) for runs in (skip, never))
        print(
            f"{policy:6}  {backfill:8}  {len(ms):6,}  {1 - solved / len(ms):9.1%}  {np.median(ms):8.3f}"
            f" {np.percentile(ms, 99):7.2f} | {wait:11,.0f}  {unskipped:14,.0f}  {wait / unskipped - 1:+7.2%}",
            flush=True,
        )


def one_run(count: int, seed: int, policy: str, backfill: str, *, always: bool) -> tuple[LookAhead, float]:
    """Give the solver's work and the mean wait."""
    settings = Settings(policy=policy, placement="milp:8", backfill=backfill)
    jobs, cluster = philly_like(count, seed), Cluster.preset("philly-slice")
    m = Machine.of(jobs, cluster, get_policy(policy), get_estimator("oracle"), settings)
    ahead = LookAhead(m.world, m.state, m.w, m.s, m.options, 8, always=always)
    while advance(m.w, m.s, m.options):
        ahead.make_pass()
    return ahead, float((m.state.life.start - m.world.job.submit).mean())


# schedules


@dataclass(frozen=True)
class Workload:
    name: str
    jobs: Jobs
    cluster: Cluster
    estimator: str = "oracle"
    windows: WindowSpec = field(default_factory=lambda: WindowSpec(10, 1024))


def philly_like(n: int, seed: int) -> Jobs:
    return synthesise("philly", n, seed=seed, cluster=Cluster.preset("philly-slice"), load=0.9)


def workloads(args: argparse.Namespace) -> list[Workload]:
    philly, pai = Cluster.preset("philly-slice"), Cluster.preset("pai-slice")
    spec = WindowSpec(args.windows, args.size)
    made = [
        Workload("Philly-like", philly_like(args.windows * args.size, 1), philly, windows=spec),
        Workload(
            "PAI-like", synthesise("pai", args.windows * args.size, seed=2, cluster=pai, load=0.9), pai, windows=spec
        ),
    ]
    busy = WindowSpec(args.windows, args.size, choice="random", min_wait_s=600.0)
    if args.philly:
        made.append(Workload("Philly", read_trace(args.philly), philly, windows=busy))
    if args.pai:
        made.append(Workload("PAI", read_trace(args.pai), pai, windows=busy))
    return made


def schedules(args: argparse.Namespace) -> None:
    for work in workloads(args):
        for policy in args.policies:
            for slow in (1.0, 1.2) if args.slow else (1.0,):
                cluster = Cluster(work.cluster.groups, work.cluster.name, slowdown=Slowdown(extra_node=slow))
                one_workload(work, policy, cluster, args.backfills, slow)


def one_workload(work: Workload, policy: str, cluster: Cluster, backfills: list[str], slow: float) -> None:
    placements = ("first-fit", "best-fit", "hierarchical", "milp:8")
    for backfill in backfills:
        begin = perf_counter()
        result = compare(work.jobs, cluster, [policy], [backfill], placements, work.windows, work.estimator)
        about = (
            f"{work.name}, {policy}, backfill {backfill}, {len(result.windows)} windows of {work.windows.size:,} jobs"
        )
        print(f"\n{about}" + (f", a node more costs {slow - 1:.0%}" if slow > 1 else ""), flush=True)
        print(f"{'placement':14}" + "".join(f"{m:>34}" for m in METRICS))
        labels = [c.label for c in result.contenders]
        for place, name in enumerate(placements):
            cells = []
            for metric in METRICS:
                standing = result.against(labels[1], metric).standings[place]
                ratio = standing.ratio
                cells.append(
                    f"{standing.value:12,.4g} {ratio.estimate - 1:+7.1%} [{ratio.low - 1:+.1%}, {ratio.high - 1:+.1%}]"
                )
            print(f"{name:14}" + "".join(f"{c:>34}" for c in cells), flush=True)
        print(f"(differences from best fit with 95 % intervals over windows; {perf_counter() - begin:.0f} s)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("latency", "skipping", "schedules"))
    parser.add_argument("--nodes", type=int, nargs="*", default=NODES)
    parser.add_argument("--solves", type=int, default=150)
    parser.add_argument("--others", type=int, default=15, help="solves that are also made apart and by cvxpy")
    parser.add_argument("--no-cvxpy", action="store_true")
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--windows", type=int, default=10)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--policies", nargs="*", default=["fcfs", "saf"])
    parser.add_argument("--backfills", nargs="*", default=["none", "easy"])
    parser.add_argument("--slow", action="store_true", help="also with a slowdown of 20 %% for one node more")
    parser.add_argument("--philly", type=Path, help="the real Philly trace")
    parser.add_argument("--pai", type=Path, help="the real PAI trace")
    args = parser.parse_args()
    print(f"rltune {rltune.__version__}")
    if args.part in {None, "latency"}:
        latency(tuple(args.nodes), args.solves, args.others, cvxpy=not args.no_cvxpy)
    if args.part in {None, "skipping"}:
        skipping(args.jobs)
    if args.part in {None, "schedules"}:
        schedules(args)


if __name__ == "__main__":
    main()

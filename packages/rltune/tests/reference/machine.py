"""The machine: who runs, who waits, and what may be asked of it."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from reference.ask import Job, Node, read_jobs, read_nodes
from reference.fit import Chunk, Free, eligible, free_on, place
from reference.guard import Guard
from reference.network import Network
from reference.remaining import believed_end, worked
from reference.scores import score
from reference.tolls import comes_back, is_due
from reference.turns import Turns, turn_score
from rltune.cluster import Slowdown

UNASKED = (3, 0.0)


@dataclass(frozen=True)
class Settings:
    policy: str | Network
    backfill: str
    placement: str
    head: str
    view: int
    guard: Guard | None = None
    cycle: float = 0.0
    turns: Turns | None = None
    remaining: str = "ends-now"
    trust: float = 16.0  # of remainders from history


@dataclass(frozen=True)
class Run:
    """A job that is running, or has run."""

    job: Job
    start: float
    end: float
    planned_end: float  # start + estimate / f
    chunks: tuple[Chunk, ...]
    speed: float  # f


@dataclass(frozen=True)
class Result:
    start_s: list[float]
    end_s: list[float]
    rejected: list[bool]
    placements: list[tuple[tuple[int, int], ...]]
    requeues: list[int]
    preemptions: list[int]
    lost_s: list[float]
    spells: list[tuple[int, float, float, tuple[tuple[int, int], ...]]]  # job, start, end, (node, GPUs) pairs


class Machine:
    """Everything that is known at one moment."""

    def __init__(self, jobs, cluster, estimates, settings: Settings) -> None:
        self.settings = settings
        self.groups = cluster.groups
        self.limits = cluster.limits
        self.slowdown = cluster.slowdown
        self.nodes = read_nodes(cluster)
        self.speeds = [cluster.speed.get(group.gpu_type, 1.0) for group in cluster.groups]
        self.jobs = read_jobs(jobs, estimates)
        self.now = -math.inf
        self.to_come = sorted(self.jobs, key=age)
        self.held: list[Job] = []
        self.waiting: list[Job] = []
        self.running: list[Run] = []  # in order of start
        self.ended: dict[int, Run] = {}
        self.edition: dict[int, Run] = {}  # those of them that the orders know of
        self.rejected: set[int] = set()
        self.requeues = [0] * len(self.jobs)
        self.stopped: list[Run] = []  # spells that ended before their jobs did
        self.displaced: list[Job] = []  # in the last pass
        self.patience: dict[int, float] = {}  # of those that may be displaced in this pass
        self.queue_length = 0  # when this pass began
        self.shares: dict[int, float] = {}  # scores of waiting jobs that may not be displaced, in this pass
        self.weight = 0.0  # of what a victim loses, in this pass
        self.told: dict[int, tuple[int, float]] = {}  # ranks when the policy was last asked
        self.until: dict[int, float] = {}  # by conservative backfilling, of jobs that have started in this pass
        self.reserved: dict[int, tuple[float, tuple[Chunk, ...]]] = {}  # by conservative backfilling, in the last pass

    def result(self) -> Result:
        """What never ran is rejected."""
        runs = [self.ended.get(j.index) for j in self.jobs]
        spells = [r for r in self.stopped if r.job.index in self.ended] + [r for r in runs if r]
        spells.sort(key=lambda r: (r.job.index, r.start, r.end))
        first = {r.job.index: r.start for r in reversed(spells)} if self.settings.turns else {}
        return Result(
            start_s=[first.get(run.job.index, run.start) if run else math.nan for run in runs],
            preemptions=[run.job.preemptions if run else 0 for run in runs],
            lost_s=[run.job.lost + run.job.restart if run else math.nan for run in runs],
            spells=[(r.job.index, r.start, r.end, tuple((c.node, c.gpus) for c in r.chunks)) for r in spells],
            end_s=[run.end if run else math.nan for run in runs],
            rejected=[run is None for run in runs],
            placements=[tuple((c.node, c.gpus) for c in run.chunks) if run else () for run in runs],
            requeues=self.requeues,
        )

    # what is true of a job

    def groups_of(self, job: Job) -> list[int]:
        return [g for g, group in enumerate(self.groups) if eligible(job, group)]

    def can_ever_fit(self, job: Job) -> bool:
        empty = place(job, self.groups, self.nodes, lambda n: free_on(n, []), self.settings.placement)
        return empty is not None

    def in_order(self, jobs: Iterable[Job]) -> list[Job]:
        ranked = sorted(jobs, key=lambda j: (self.rank(j), *age(j)))
        if self.settings.guard is None or not self.settings.guard.sla_by_base:
            return ranked
        first = [j for j in ranked if self.rank(j)[0] < 2]
        return first + self.between_sla([j for j in ranked if self.rank(j)[0] == 2])

    def between_sla(self, ranked: list[Job]) -> list[Job]:
        """Order all by the base policy, then those between two SLA jobs as they were ranked."""
        guard, parts = self.settings.guard, [[]]
        for job in sorted(ranked, key=lambda j: (score(guard.base, j, self.now), *age(j))):
            if job.labels["qos"] in guard.sla_by_base:
                parts += [[job], []]
            else:
                parts[-1].append(job)
        return [job for part in parts for job in sorted(part, key=ranked.index)]

    def rank(self, job: Job) -> tuple[int, float]:
        """Rank as of now, or as when the policy was last asked: who came since is last."""
        return self.told.get(job.index, UNASKED) if self.settings.cycle else self.rank_now(job)

    def ask(self, until: float) -> None:
        """Ask the policy at the last multiple of the cycle before the next event."""
        asked = math.floor(until / self.settings.cycle) * self.settings.cycle
        if asked > self.now:
            self.now = asked
            self.told |= {job.index: self.rank_now(job) for job in self.in_view(self.waiting)}

    def rank_now(self, job: Job) -> tuple[int, float]:
        """Put due jobs before SLA and those before owed ones; the rest alone are in the policy's order."""
        if is_due(self, job):
            return (-1, job.due)
        if self.is_sla(job):
            return (0, 0.0)
        return (1, 0.0) if self.is_owed(job) else (2, self.score_of(job))

    def score_of(self, job: Job) -> float | tuple[float, float]:
        """Score by the policy, or by the order of turns and then by the policy."""
        if self.settings.turns is not None and self.settings.turns.by_network:
            return turn_score(self, job)
        by_policy = score(self.settings.policy, job, self.now)
        if self.settings.turns is None or self.settings.turns.order == "policy":
            return by_policy
        return (turn_score(self, job), by_policy)

    def gpu_times(self) -> list[float]:
        """List the GPU time of every job that the orders know: what it held less restarts and work done again."""
        return [max(1, run.job.gpus) * worked(run) for run in self.edition.values()]

    def renew_edition(self) -> None:
        """Let the orders know of those that have ended, if they are enough more than they know."""
        if len(self.ended) - len(self.edition) > len(self.edition) // 32:
            self.edition = dict(self.ended)

    def is_sla(self, job: Job) -> bool:
        guard = self.settings.guard
        return guard is not None and job.labels["qos"] in guard.sla

    def is_owed(self, job: Job) -> bool:
        guard = self.settings.guard
        return guard is not None and self.now - job.submit >= guard.grace(job.whole)

    def in_view(self, jobs: Iterable[Job]) -> list[Job]:
        oldest = sorted(jobs, key=age)
        return oldest[: self.settings.view] if self.settings.view else oldest

    # fitting

    def place_at(self, job: Job, t: float, free_of: Callable[[Node], Free]) -> tuple[Chunk, ...] | None:
        """Place the job at time t on nodes that are up (as of now) and have no maintenance in the way."""
        nodes = [n for n in self.nodes if not is_down(n, self.now) and not in_the_way(n, job, t)]
        return place(job, self.groups, nodes, free_of, self.settings.placement)

    def place_now(self, job: Job) -> tuple[Chunk, ...] | None:
        taken = [c for run in self.running for c in run.chunks]
        return self.place_at(job, self.now, lambda n: free_on(n, taken))

    def free_gpus(self, node: Node) -> int:
        """Count what is free now of a node that is up."""
        return 0 if is_down(node, self.now) else free_on(node, [c for run in self.running for c in run.chunks]).gpus

    def length_on(self, job: Job, chunks: Iterable[Chunk]) -> float:
        """Say how long the job is expected to run there."""
        return job.estimate / self.speed_on(job, chunks)

    def speed_on(self, job: Job, chunks: Iterable[Chunk]) -> float:
        """By the slowest of its nodes, by racks it would not need, and by what others use on its nodes now."""
        nodes = [self.nodes[c.node] for c in chunks]
        slowest = min(n.speed for n in nodes)
        if self.slowdown == Slowdown():
            return slowest
        factor = 1.0
        for _ in range(len({n.rack for n in nodes}) - self.racks_needed(job, len(nodes))):
            factor *= self.slowdown.extra_rack
        taken = [c for run in self.running for c in run.chunks]
        cpu = max(_used_share(n.cpus, sum(c.cpus for c in taken if c.node == n.index)) for n in nodes)
        mem = max(_used_share(n.mem, sum(c.mem for c in taken if c.node == n.index)) for n in nodes)
        factor *= 1.0 + (self.slowdown.cpu_contention - 1.0) * cpu
        factor *= 1.0 + (self.slowdown.mem_contention - 1.0) * mem
        return slowest / factor

    def racks_needed(self, job: Job, chunks: int) -> int:
        """Count the largest racks until their eligible nodes are as many as the chunks."""
        mine = Counter(n.rack for n in self.nodes if eligible(job, self.groups[n.group]))
        sizes = sorted(mine.values(), reverse=True)
        return next(k for k in range(1, len(sizes) + 1) if sum(sizes[:k]) >= chunks)

    def expected_end(self, run: Run) -> float:
        return believed_end(self, run)

    def start(self, job: Job, chunks: tuple[Chunk, ...]) -> None:
        f = self.speed_on(job, chunks)
        self.waiting.remove(job)
        job = comes_back(self, job)
        self.running.append(Run(job, self.now, self.now + job.duration / f, self.now + job.estimate / f, chunks, f))

    # limits

    def limits_can_allow(self, job: Job) -> bool:
        """Say whether the limits would let the job run if it were the only one."""
        mine = limits_on(job, self.limits)
        none_at_all = any(0 in {limit.max_running, limit.max_submitted} for limit in mine)
        return not none_at_all and all(limit.max_gpus is None or job.gpus <= limit.max_gpus for limit in mine)

    def may_run(self, job: Job) -> bool:
        if job.array >= 0 and job.array_limit > 0:
            tasks = sum(run.job.array == job.array for run in self.running)
            if tasks + 1 > job.array_limit:
                return False
        for limit in limits_on(job, self.limits):
            alike = [r.job for r in self.running if _whose(r.job, limit) == _whose(job, limit)]
            if limit.max_running is not None and len(alike) + 1 > limit.max_running:
                return False
            if limit.max_gpus is not None and sum(j.gpus for j in alike) + job.gpus > limit.max_gpus:
                return False
        return True

    def may_wait(self, job: Job) -> bool:
        """Say whether the limits on submitted jobs (those that wait or run) leave room for one more."""
        submitted = [*self.waiting, *(run.job for run in self.running)]
        for limit in limits_on(job, self.limits):
            alike = [j for j in submitted if _whose(j, limit) == _whose(job, limit)]
            if limit.max_submitted is not None and len(alike) + 1 > limit.max_submitted:
                return False
        return True


def _used_share(of_node: int | None, used: int) -> float:
    return used / of_node if of_node else 0.0


def age(job: Job) -> tuple[float, int]:
    return (job.submit, job.index)


def is_down(node: Node, t: float) -> bool:
    return any(a <= t < b for a, b in node.outages)


def in_the_way(node: Node, job: Job, t: float) -> bool:
    """Say whether a maintenance window of the node keeps the job from starting there at t."""
    return any(not (t + job.estimate / node.speed <= a or t >= b) for a, b in node.windows)


def limits_on(job: Job, limits: Iterable) -> list:
    """Every limit that names the job's user (account, VC, QOS) or stands for each of them."""
    named = [(limit, _whose(job, limit), _folded(limit.name, limit)) for limit in limits]
    return [limit for limit, name, of in named if name is not None and of in {"*", name}]


def _whose(job: Job, limit) -> str | None:
    """Who of a limit's kind the job is of."""
    name = job.labels[limit.scope]
    return name if name is None else _folded(name, limit)


def _folded(name: str, limit) -> str:
    """Partitions are one however they are spelled."""
    return name.lower() if limit.scope == "vc" else name

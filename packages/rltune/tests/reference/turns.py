"""Settings and scores of jobs that take turns."""

import math
from dataclasses import dataclass
from itertools import pairwise

from reference.ask import Job
from reference.remaining import EDGES, best_rate, work_left

LEVELS = (3600.0, 36000.0)  # GPU-seconds, while few jobs are known
FEW = 16
QUANTILES = (0.9, 0.99)


@dataclass(frozen=True)
class Turns:
    order: str
    min_run: float = 600.0
    max_preemptions: int = 5
    turn: float = 300.0
    margin: float = 2.0
    cost_once: float = 1.0
    cost_each: float = 0.3
    max_a_day: int = 0  # 0 = any number
    late: float = math.inf
    times: float = math.inf
    cover: int = 0
    gain: float = math.inf
    by_network: bool = False  # the policy is a network

    @property
    def by_work(self) -> bool:
        return self.order in {"srsf", "gittins"} or self.by_network


def turn_score(m, job: Job) -> float:
    """Score a job as it waits; a running one is asked about as if it were stopped without loss."""
    if job.index in m.shares:
        return m.shares[job.index]
    order, n = m.settings.turns.order, max(1, job.gpus)
    if order == "policy":
        return m.settings.policy.score(m, job)
    if order == "las":
        service = job.service if job.preemptible else job.whole
        return float(sum(n * service >= level for level in _levels(m.gpu_times())))
    return n / best_rate(m, job, job.saved) if order == "gittins" else n * work_left(m, job, job.saved)


def _levels(gpu_times: list[float]) -> tuple[float, ...]:
    return LEVELS if len(gpu_times) < FEW else tuple(_quantile(gpu_times, q) for q in QUANTILES)


def _quantile(gpu_times: list[float], share: float) -> float:
    """Where so many still go on, on a straight line between two edges."""
    wanted = len(gpu_times) - share * len(gpu_times)
    for low, high in pairwise(EDGES):
        above = len(gpu_times) if low == 0 else sum(t > low for t in gpu_times)
        beyond = sum(t > high for t in gpu_times)
        if beyond <= wanted:
            return low + ((above - wanted) / (above - beyond) if above > beyond else 1.0) * (high - low)
    return EDGES[-1]

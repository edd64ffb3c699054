"""Placers by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rltune.core import state as core
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.cluster import Cluster
    from rltune.jobs import Jobs

GREEDY = {
    "first-fit": core.FIRST_FIT,
    "best-fit": core.BEST_FIT,
    "spread": core.SPREAD,
    "hierarchical": core.HIERARCHICAL,
}
NAMES = (*GREEDY, "milp", "auto")
SHOWN = "first-fit, best-fit, spread, hierarchical, milp (milp:8 looks at 8 jobs always), auto"


@dataclass(frozen=True)
class Placer:
    """How nodes are chosen: by a greedy rule of the core alone, or by the solver with best fit for the rest.

    `k` is how many jobs the solver looks at; 0 = it adapts.
    """

    name: str
    rule: int
    solves: bool = False
    k: int = 0


def get_placer(spec: str, jobs: Jobs | None = None, cluster: Cluster | None = None) -> Placer:
    """Take a placer by its name; `auto` needs the jobs and the cluster to choose."""
    name, _, number = spec.partition(":")
    if name == "milp":
        return Placer(spec, core.BEST_FIT, solves=True, k=_k(spec, number) if number else 0)
    if spec == "auto":
        chosen = "milp" if jobs is None or cluster is None or pays(jobs, cluster) else "best-fit"
        return get_placer(chosen)
    if spec not in GREEDY:
        raise InputError(f"no placement {spec!r}; there are: {SHOWN}")
    return Placer(spec, GREEDY[spec])


def _k(spec: str, text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise InputError(f"placement {spec!r}: the number of jobs to look at should be from 1 to 64")
    return int(text)


def pays(jobs: Jobs, cluster: Cluster) -> bool:
    """Tell whether the solver has won on work like this: jobs of several GPUs that share nodes, and no other way out.

    On one-GPU jobs best fit is as good, and where a job slows down on more nodes than it needs (slowdown.extra_node),
    cutting jobs costs what it gains.
    """
    shared = (jobs.gpus >= 2) & (jobs.nodes == 0) & (jobs.gpus_per_node == 0)
    largest = max(g.gpus for g in cluster.groups)
    return bool(shared.mean() >= 0.05) and largest >= 4 and cluster.slowdown.extra_node == 1.0 if len(jobs) else False

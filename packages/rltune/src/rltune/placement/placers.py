"""Placers by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rltune.errors import InputError, unknown
from rltune.kernel.state import arrays as core

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


@dataclass(frozen=True)
class Placer:
    """How nodes are chosen: by a greedy rule of the core alone, or by the solver with a rule for the rest.

    `k` is how many jobs the solver looks at; 0 = it adapts.
    """

    name: str
    rule: int
    solves: bool = False
    k: int = 0


def get_placer(spec: str, jobs: Jobs | None = None, cluster: Cluster | None = None, backfill: str = "none") -> Placer:
    """Take a placer by its name; `auto` chooses by the jobs, the cluster and the backfilling."""
    name, _, number = spec.partition(":")
    if name == "milp":
        racks_cost = cluster is not None and cluster.slowdown.extra_rack > 1.0
        rest = core.HIERARCHICAL if racks_cost else core.BEST_FIT
        return Placer(spec, rest, solves=True, k=_k(spec, number) if number else 0)
    if spec == "auto":
        wins = jobs is None or cluster is None or pays(jobs, cluster, backfill)
        return get_placer("milp" if wins else "best-fit", cluster=cluster)
    if spec not in GREEDY:
        raise unknown("placement", spec, NAMES, more=" (milp:8 looks at 8 jobs always)")
    return Placer(spec, GREEDY[spec])


def _k(spec: str, text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise InputError(f"placement {spec!r}: the number of jobs to look at should be from 1 to 64")
    return int(text)


def pays(jobs: Jobs, cluster: Cluster, backfill: str) -> bool:
    """Return whether the solver has been measured to win on work like this (docs/explanation/placement.md).

    It needs jobs of several GPUs that share nodes. It won wherever nothing is backfilled, and with backfilling on
    clusters of one GPU type; it was not tried with more than a fifth lost for a node more, be it in another rack.
    """
    if not len(jobs):
        return False
    shared = (jobs.gpus >= 2) & (jobs.nodes == 0) & (jobs.gpus_per_node == 0)
    one_type = len({g.gpu_type for g in cluster.groups}) == 1
    large = max(g.gpus for g in cluster.groups) >= 4
    wins = backfill == "none" or one_type
    cheap = cluster.slowdown.extra_node * cluster.slowdown.extra_rack <= 1.2
    return bool(shared.mean() >= 0.05) and large and wins and cheap

"""Placers by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rltune.errors import InputError, unknown
from rltune.kernel.state import arrays as core

if TYPE_CHECKING:
    from rltune.cluster import Cluster
    from rltune.jobs import Jobs

SLURM = "slurm"  # as Slurm takes nodes for jobs that nobody leads to some
EXCLUSIVE = "exclusive"  # nodes are not shared
GREEDY = {
    "first-fit": core.FIRST_FIT,
    "best-fit": core.BEST_FIT,
    "spread": core.SPREAD,
    "hierarchical": core.HIERARCHICAL,
    SLURM: core.BUSIEST_CPUS,
    EXCLUSIVE: core.BEST_FIT,
}
NAMES = (*GREEDY, "milp", "auto")


@dataclass(frozen=True)
class Placer:
    """How nodes are chosen: by a greedy rule of the core alone, or by the solver with a rule for the rest.

    `k` is how many jobs the solver looks at; 0 = it adapts. `whole_nodes`: no two jobs share a node.
    """

    name: str
    rule: int
    solves: bool = False
    k: int = 0
    whole_nodes: bool = False


@dataclass(frozen=True)
class Placement:
    """How nodes are to be chosen, as a user names it; `auto` leaves the choice to the jobs and the cluster."""

    name: str = "best-fit"  # without the number
    k: int = 0  # jobs that the solver looks at; 0 = it adapts

    def __str__(self) -> str:
        return f"{self.name}:{self.k}" if self.k else self.name

    @property
    def may_solve(self) -> bool:
        """Return whether the solver may be asked."""
        return self.name not in GREEDY

    def placer(self, jobs: Jobs, cluster: Cluster, backfill: str) -> Placer:
        """Choose the placer for these jobs on this cluster."""
        if self.name in GREEDY:
            return Placer(self.name, GREEDY[self.name], whole_nodes=self.name == EXCLUSIVE)
        if self.name == "auto" and not pays(jobs, cluster, backfill):
            return Placer("best-fit", core.BEST_FIT)
        rest = core.HIERARCHICAL if cluster.slowdown.extra_rack > 1.0 else core.BEST_FIT
        return Placer(f"milp:{self.k}" if self.k else "milp", rest, solves=True, k=self.k)


BEST_FIT = Placement()


def get_placement(spec: str | Placement) -> Placement:
    """Read a placement such as `spread` or `milp:8`."""
    if isinstance(spec, Placement):
        return spec
    name, colon, number = spec.partition(":")
    if name not in NAMES or (colon and name != "milp"):
        raise unknown("placement", spec, NAMES, more=" (milp:8 looks at 8 jobs always)")
    return Placement(name, _k(spec, number) if colon else 0)


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

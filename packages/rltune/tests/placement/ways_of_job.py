"""The distinct undominated ways to place a waiting job now. The work is done in kernel/fit/ways.py."""

from __future__ import annotations

from dataclasses import dataclass

from rltune.kernel.fit import ways as kernels
from rltune.kernel.state.arrays import BEST_FIT, HIERARCHICAL, SPREAD, State, World

RULES = {BEST_FIT: "pack", SPREAD: "spread", HIERARCHICAL: "hierarchical"}


@dataclass(frozen=True)
class Way:
    """One way: tier 1 takes as few nodes as the job needs, tier 2 one more. Nodes are in order of the job's chunks."""

    rule: str
    tier: int
    nodes: tuple[int, ...]
    racks: int
    idle_left: int  # nodes that the job may use and that nothing uses
    largest_left: int  # GPUs, on one node
    shape: int


def ways(w: World, s: State, shape: int, estimate_s: float) -> tuple[Way, ...]:
    """Return the ways of a request that would last so long; w and s are handles of a run."""
    table, nodes = kernels.ways_now(w, s, shape, estimate_s)
    return tuple(
        Way(
            rule=RULES[row[kernels.RULE]],
            tier=1 if row[kernels.SHAPE] == shape else 2,
            nodes=tuple(chosen[: row[kernels.NODES]]),
            racks=row[kernels.RACKS],
            idle_left=row[kernels.WHOLE],
            largest_left=row[kernels.LARGEST],
            shape=row[kernels.SHAPE],
        )
        for row, chosen in zip(table.tolist(), nodes.tolist(), strict=True)
    )


def num_ways(w: World, s: State, shape: int, estimate_s: float) -> int:
    """Count the ways."""
    return len(kernels.ways_now(w, s, shape, estimate_s)[0])


def can_schedule_now(w: World, s: State, shape: int, estimate_s: float) -> bool:
    """Return whether there is any."""
    return num_ways(w, s, shape, estimate_s) > 0

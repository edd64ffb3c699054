"""Nodes as a map: a cell for each, sorted by type, with a square for each GPU while there are few."""

from __future__ import annotations

from dataclasses import dataclass

from rltune.serve.sight import Sight

MOST_WITH_SQUARES = 300  # nodes; above, a cell is coloured by the share in use
MOST_SQUARES = 16  # GPUs of a node that are drawn one by one
_SHADES = 3


@dataclass(frozen=True)
class NodeCell:
    """One node."""

    name: str
    about: str  # for whoever points at it or cannot see it
    used: int
    free: int
    gone: int
    shade: str  # free, part1 to part3, full or gone

    @property
    def gpus(self) -> int:
        """Return how many GPUs it has."""
        return self.used + self.free + self.gone


@dataclass(frozen=True)
class TypeOfNodes:
    """The nodes with GPUs of one type."""

    gpu_type: str
    cells: tuple[NodeCell, ...]
    whole_free: int  # nodes


@dataclass(frozen=True)
class NodeMap:
    """All nodes by type."""

    types: tuple[TypeOfNodes, ...]
    squares: bool  # a square for each GPU; else a cell for each node


def node_map(sight: Sight) -> NodeMap:
    """Draw the nodes of a look."""
    by_type: dict[str, list[NodeCell]] = {}
    for node in sight.snapshot.nodes:
        used = min(node.gpus_used, node.gpus)
        rest = node.gpus - used
        free, gone = (rest, 0) if node.up else (0, rest)
        state = "" if node.up else f", {node.state.lower() or 'not available'}"
        about = (
            f"{node.name}: {used} of {node.gpus} GPUs in use{state}" if node.gpus else f"{node.name}: no GPUs{state}"
        )
        cell = NodeCell(node.name, about, used, free, gone, _shade(used, free, up=node.up))
        by_type.setdefault(node.gpu_type or ("gpu" if node.gpus else ""), []).append(cell)
    types = tuple(
        TypeOfNodes(kind, tuple(cells), sum(cell.free == cell.gpus > 0 for cell in cells))
        for kind, cells in sorted(by_type.items())
    )
    count = len(sight.snapshot.nodes)
    most = max((cell.gpus for kind in types for cell in kind.cells), default=0)
    return NodeMap(types, squares=count <= MOST_WITH_SQUARES and most <= MOST_SQUARES)


def _shade(used: int, free: int, *, up: bool) -> str:
    """Return how a node is coloured where there is no room for its GPUs."""
    if not up:
        return "gone"
    if not used:
        return "free"
    return "full" if not free else f"part{1 + used * _SHADES // (used + free)}"

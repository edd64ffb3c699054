"""Who may run where: eligible groups, chunks, and the choice of nodes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from reference.ask import Job, Node

UNLIMITED = float("inf")


@dataclass(frozen=True)
class Chunk:
    """A part of a job on one node."""

    node: int
    gpus: int
    cpus: int
    mem: int


@dataclass(frozen=True)
class Free:
    """What a node has left; more than any number where it is not modelled."""

    gpus: float
    cpus: float
    mem: float
    empty: bool  # nobody is on it


def eligible(job: Job, group) -> bool:
    right_type = not job.types or group.gpu_type.lower() in [name.lower() for name in job.types]
    vc = job.labels["vc"]
    right_vc = not group.vc or vc is None or vc.lower() in [name.lower() for name in group.vc]
    return right_type and right_vc and (job.gpus == 0 or group.gpus > 0)


def chunk_sizes(job: Job, groups: Iterable) -> list[int]:
    """Split the job's GPUs into chunks, largest first; `groups` are the eligible ones."""
    if job.gpus == 0:
        return [0] * max(1, job.nodes)
    if job.nodes:
        share, more = divmod(job.gpus, job.nodes)
        return [share + 1] * more + [share] * (job.nodes - more)
    if job.gpus_per_node:
        count, rest = divmod(job.gpus, job.gpus_per_node)
        return [job.gpus_per_node] * count + [rest] * (rest > 0)
    groups = list(groups)
    if not groups or job.gpus <= max(g.gpus for g in groups):
        return [job.gpus]
    return _whole_nodes(job.gpus, groups)


def _whole_nodes(rest: int, groups: list) -> list[int]:
    sizes: list[int] = []
    for size in sorted({g.gpus for g in groups}, reverse=True):
        owned = sum(g.count for g in groups if g.gpus == size)
        taken = min(rest // size, owned)
        sizes += [size] * taken
        rest -= size * taken
    return sorted(sizes + [rest] * (rest > 0), reverse=True)


def chunk_on(job: Job, gpus: int, node: Node) -> Chunk:
    """Say what a chunk of that many GPUs takes of this node."""
    chunks = max(1, job.nodes)
    if job.gpus == 0:
        cpus = 1000 if job.cpus is None else job.cpus // chunks
        mem = 0 if job.mem is None else job.mem // chunks
    else:
        cpus = _share(node.cpus, gpus, node.gpus) if job.cpus is None else job.cpus * gpus // job.gpus
        mem = _share(node.mem, gpus, node.gpus) if job.mem is None else job.mem * gpus // job.gpus
    return Chunk(node.index, gpus, cpus, mem)


def _share(of_node: int | None, gpus: int, node_gpus: int) -> int:
    return 0 if of_node is None else of_node * gpus // node_gpus


def free_on(node: Node, chunks: Iterable[Chunk]) -> Free:
    """Subtract what the chunks take of the node from what it has."""
    here = [c for c in chunks if c.node == node.index]
    return Free(
        gpus=node.gpus - sum(c.gpus for c in here),
        cpus=UNLIMITED if node.cpus is None else node.cpus - sum(c.cpus for c in here),
        mem=UNLIMITED if node.mem is None else node.mem - sum(c.mem for c in here),
        empty=not here,
    )


def fits(chunk: Chunk, free: Free) -> bool:
    return chunk.gpus <= free.gpus and chunk.cpus <= free.cpus and chunk.mem <= free.mem


def place(
    job: Job, groups: tuple, nodes: list[Node], free_of: Callable[[Node], Free], rule: str
) -> tuple[Chunk, ...] | None:
    """Choose a node for every chunk, or say that they do not fit; `nodes` are those that may take the job now."""
    mine = [n for n in nodes if eligible(job, groups[n.group])]
    free = {n.index: free_of(n) for n in mine}
    if rule == "exclusive":
        mine, rule = [n for n in mine if free[n.index].empty], "best-fit"
    sizes = chunk_sizes(job, [g for g in groups if eligible(job, g)])
    if rule == "hierarchical" and len(sizes) > 1:
        return _in_racks(job, sizes, mine, free)
    placed, left = _fill(job, sizes, mine, free, "best-fit" if rule == "hierarchical" else rule)
    return None if left else tuple(placed)


def _fill(
    job: Job, sizes: list[int], nodes: list[Node], free: dict[int, Free], rule: str
) -> tuple[list[Chunk], list[int]]:
    """Place the chunks one by one; give those placed and the sizes that found no node."""
    placed: list[Chunk] = []
    left: list[int] = []
    for gpus in sizes:
        open_nodes = [n for n in nodes if n.index not in {c.node for c in placed}]
        options = [n for n in open_nodes if fits(chunk_on(job, gpus, n), free[n.index])]
        if options:
            best = min(options, key=lambda n: _preference(rule, n, free[n.index]))
            placed.append(chunk_on(job, gpus, best))
        else:
            left.append(gpus)
    return placed, left


def _in_racks(job: Job, sizes: list[int], nodes: list[Node], free: dict[int, Free]) -> tuple[Chunk, ...] | None:
    """Take the fullest rack that holds the job; else go through the racks, the emptiest first, and fill each."""
    racks: dict[int, list[Node]] = {}
    for n in sorted(nodes, key=lambda n: n.rack):
        racks.setdefault(n.rack, []).append(n)

    def all_free(rack: list[Node]) -> float:
        return sum(max(0, free[n.index].gpus) for n in rack)

    order = sorted(racks.values(), key=all_free)
    for rack in order:
        placed, left = _fill(job, sizes, rack, free, "best-fit")
        if not left:
            return tuple(placed)
    placed, left = [], sizes
    for rack in sorted(racks.values(), key=lambda rack: -all_free(rack)):
        here, left = _fill(job, left, rack, free, "best-fit")
        placed += here
    return None if left else tuple(placed)


def _preference(rule: str, node: Node, free: Free) -> tuple[float, int]:
    return ({"best-fit": free.gpus, "first-fit": 0, "spread": -free.gpus, "slurm": free.cpus}[rule], node.index)

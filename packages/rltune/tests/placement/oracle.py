"""A dense, exact search for tiny snapshots: every job at every slot in every form on every set of single nodes.

It shares the meaning of the objective with the model, and none of its code.
"""

import itertools
from dataclasses import dataclass

from rltune.kernel.state.arrays import UNLIMITED
from rltune.placement.solver_view import SolverView


@dataclass(frozen=True)
class Chunk:
    node: int
    takes: tuple[int, int, int]


def value_of(snapshot: SolverView, plan: list) -> tuple[int, ...]:
    """Terms of the objective, best first, all to be maximised; plan[j] = None or (slot, form, chunks)."""
    slots = len(snapshot.slots_s)
    now = [p for p in plan if p and p[0] == 0]
    early = sum(slots - p[0] for p in plan if p and p[0] > 0)
    touched = {c.node for p in now for c in p[2]}
    node_class = {n: c for c in snapshot.classes for n in c.nodes}
    size = max(snapshot.groups[c.group].gpus for c in snapshot.classes)
    idle = sum(node_class[n].free[0][0] == snapshot.groups[node_class[n].group].gpus == size for n in touched)
    over = sum(min(3, node_class[c.node].free[0][0] - c.takes[0]) for p in now for c in p[2])
    largest = 0
    for g in {c.group for c in snapshot.classes}:
        free = [c.free[0][0] for n, c in node_class.items() if c.group == g and n not in touched]
        largest += max(free, default=0)
    racks = sum(len({node_class[c.node].rack for c in p[2]}) for p in now)
    return len(now), early, -idle, largest, -sum(len(p[2]) for p in now), -racks, -over


def best(snapshot: SolverView) -> tuple[int, ...]:
    """Try everything."""
    node_class = {n: c for c in snapshot.classes for n in c.nodes}
    found = [value_of(snapshot, [])]

    def search(j: int, plan: list, blocked: bool) -> None:
        if j == len(snapshot.asks):
            found[0] = max(found[0], value_of(snapshot, plan))
            return
        for option in _options(snapshot, node_class, snapshot.asks[j]):
            if option is not None and option[0] == 0 and blocked:
                continue
            if option is None or _fits(snapshot, node_class, [*plan, option]):
                search(j + 1, [*plan, option], blocked or option is None or option[0] > 0)

    search(0, [], False)
    return found[0]


def _options(snapshot: SolverView, node_class: dict, ask):
    yield None
    for slot in range(len(snapshot.slots_s)):
        for f, form in enumerate(ask.forms if slot == 0 else ask.forms[:1]):
            kinds = [k for k in form.kinds for _ in range(k.n)]
            nodes = [n for n, c in node_class.items() if ask.open[c.group][slot]]
            for chosen in itertools.permutations(nodes, len(kinds)):
                pairs = list(zip(chosen, kinds, strict=True))
                if any(
                    k.gpus < form.pieces_below and node_class[n].free[0][0] == snapshot.groups[node_class[n].group].gpus
                    for n, k in pairs
                ):
                    continue
                yield slot, f, tuple(Chunk(n, _takes(snapshot.groups[node_class[n].group], k)) for n, k in pairs)


def _takes(group, kind) -> tuple[int, int, int]:
    def part(asked: int, capacity: int) -> int:
        if asked >= 0:
            return asked
        return 0 if capacity >= UNLIMITED else capacity * kind.gpus // group.gpus

    return kind.gpus, part(kind.cpu, group.cpu), part(kind.mem, group.mem)


def _fits(snapshot: SolverView, node_class: dict, plan: list) -> bool:
    for s, time in enumerate(snapshot.slots_s):
        used: dict[int, list[int]] = {}
        for ask, p in zip(snapshot.asks, plan, strict=False):
            if p is None or p[0] > s:
                continue
            for chunk in p[2]:
                speed = snapshot.groups[node_class[chunk.node].group].speed
                if p[0] == s or snapshot.slots_s[p[0]] + ask.length_s / speed > time:
                    for r in range(3):
                        used.setdefault(chunk.node, [0, 0, 0])[r] += chunk.takes[r]
        if any(u > f for n, us in used.items() for u, f in zip(us, node_class[n].free[s], strict=True)):
            return False
    return True

"""What an answer promises to jobs that do not start now, as far as the nodes themselves can keep it.

The program counts chunks on classes of nodes, and in later slots a class can be promised more than its nodes hold: the
chunks of a gang must be on different nodes. No pass is changed for the sake of a promise that cannot be kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from rltune.placement.greedy import Values
from rltune.placement.program import Option, Program, starts
from rltune.placement.realise import Start

Amount = tuple[int, int, int]  # GPUs, CPUs, memory


def early(model: Program, values: Values) -> int:
    """Count the slots by which jobs that start later start early, as the program counts them."""
    return sum(len(model.snapshot.slots_s) - o.slot for o in _later(model, values))


def kept_early(model: Program, values: Values, now: Iterable[Start]) -> int:
    """Count them for those jobs alone that find their nodes beside what starts now."""
    nodes = _Nodes(model, now)
    return sum(len(model.snapshot.slots_s) - o.slot for o in _later(model, values) if nodes.take(o, values))


def _later(model: Program, values: Values) -> list[Option]:
    """Return the options taken at later slots, in the order of slots and of jobs."""
    taken = [o for o in model.options if o.slot > 0 and any(values[i] for i in starts(o))]
    return sorted(taken, key=lambda o: (o.slot, o.ask))


class _Nodes:
    """What every node has free at every slot."""

    def __init__(self, model: Program, now: Iterable[Start]) -> None:
        self._model = model
        self._class_of = {n: c for c, members in enumerate(model.snapshot.classes) for n in members.nodes}
        self._free: dict[int, list[Amount]] = {}
        number = {ask.job: j for j, ask in enumerate(model.snapshot.asks)}
        for start in now:
            ask = model.snapshot.asks[number[start.job]]
            form = next(f for f in ask.forms if f.shape == start.shape)
            kinds = (k for k in form.kinds for _ in range(k.n))
            for node, kind in zip(start.nodes, kinds, strict=True):
                group = model.snapshot.classes[self._class_of[node]].group
                takes = model.snapshot.groups[group].takes(kind)
                self._give(node, takes, self._span(number[start.job], 0, group), -1)

    def take(self, option: Option, values: Values) -> bool:
        """Find nodes for all chunks of an option, best fit, each on its own; take none if some find none."""
        taken: list[tuple[int, Amount, range]] = []
        kinds = self._model.snapshot.asks[option.ask].forms[option.form].kinds
        for kind, columns in zip(kinds, option.puts, strict=True):
            for column in columns:
                members = self._model.snapshot.classes[self._model.puts[column].node_class]
                takes = self._model.snapshot.groups[members.group].takes(kind)
                span = self._span(option.ask, option.slot, members.group)
                for _ in range(values[column]):
                    mine = {node for node, _, _ in taken}
                    node = self._best([n for n in members.nodes if n not in mine], takes, span)
                    if node < 0:
                        for other, amount, slots in taken:
                            self._give(other, amount, slots, 1)
                        return False
                    self._give(node, takes, span, -1)
                    taken.append((node, takes, span))
        return True

    def _span(self, ask: int, slot: int, group: int) -> range:
        """Return the slots during which a job that starts at one holds its nodes."""
        slots_s = self._model.snapshot.slots_s
        end_s = slots_s[slot] + self._model.snapshot.asks[ask].length_s / self._model.snapshot.groups[group].speed
        return range(slot, max(slot + 1, sum(time < end_s for time in slots_s)))

    def _at(self, node: int) -> list[Amount]:
        return self._free.setdefault(node, list(self._model.snapshot.classes[self._class_of[node]].free))

    def _best(self, nodes: list[int], takes: Amount, span: range) -> int:
        """Return the node with the least free GPUs that has room all the time; -1 if none has."""
        fits = [n for n in nodes if all(min(_less(self._at(n)[s], takes, 1)) >= 0 for s in span)]
        return min(fits, key=lambda n: (self._at(n)[span.start][0], n), default=-1)

    def _give(self, node: int, amount: Amount, span: range, sign: int) -> None:
        free = self._at(node)
        for s in span:
            free[s] = _less(free[s], amount, -sign)


def _less(free: Amount, amount: Amount, times: int) -> Amount:
    return free[0] - times * amount[0], free[1] - times * amount[1], free[2] - times * amount[2]

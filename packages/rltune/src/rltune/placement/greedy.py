"""The greedy answer to a model, and what any answer is worth. The solver starts from it and must beat it."""

from __future__ import annotations

from rltune.placement.program import Option, Program, starts

Values = list[int]  # of the columns, in order


def greedy(model: Program, *, wider: bool = False) -> Values:
    """Take jobs in order and give each the earliest slot and the best-fitting nodes it can have.

    That is what best fit does. With `wider` a job that does not fit now may be cut for one node more.
    """
    room = _Room(model)
    by_ask: dict[int, list[Option]] = {}
    for option in model.options:
        by_ask.setdefault(option.ask, []).append(option)
    blocked = False
    for ask in range(len(model.snapshot.asks)):
        options = [o for o in by_ask.get(ask, ()) if not (blocked and o.slot == 0) and (wider or o.form == 0)]
        taken = next((o for o in options if room.take(o)), None)
        blocked = blocked or taken is None or taken.slot > 0
    return finish(model, room.values)


class _Room:
    """What is left in the rows that are about capacity."""

    def __init__(self, model: Program) -> None:
        self.model = model
        self.values = [0] * len(model.cost)
        self.left = {i: model.rows[i].bound for i in model.slot_rows}
        for c, packing in model.packing.items():
            for p in packing:
                self.left[p.row] = p.unit * model.snapshot.classes[c].count
        self.uses = model.uses

    def take(self, option: Option) -> bool:
        """Place all chunks of an option, or none."""
        placed: list[tuple[int, int]] = []
        for columns, needed in zip(option.puts, option.needs, strict=True):
            missing = needed
            for column in columns:
                n = min(missing, self.model.upper[column], self._most(column))
                if n > 0:
                    self._put(column, n)
                    placed.append((column, n))
                    missing -= n
                if missing == 0:
                    break
            if missing:
                for column, n in placed:
                    self._put(column, -n)
                return False
        if option.start >= 0:
            self.values[option.start] = 1
        return True

    def _most(self, column: int) -> int:
        return min((self.left[i] // amount for i, amount in self.uses[column]), default=1 << 30)

    def _put(self, column: int, n: int) -> None:
        self.values[column] += n
        for i, amount in self.uses[column]:
            self.left[i] -= n * amount


def finish(model: Program, values: Values) -> Values:
    """Set the columns that follow from where chunks are: racks, nodes touched, the largest request still possible."""
    values = list(values)
    for column, puts in model.racks.items():
        values[column] = int(any(values[i] for i in puts))
    for c, column in model.touch.items():
        values[column] = touched(model, values, c)
    best: dict[int, int] = {}
    for c, column in model.spare.items():
        values[column] = 0
        node_class = model.snapshot.classes[c]
        if values[model.touch[c]] < node_class.count:
            other = best.get(node_class.group)
            if other is None or model.cost[column] > model.cost[other]:
                best[node_class.group] = column
    for column in best.values():
        values[column] = 1
    return values


def touched(model: Program, values: Values, c: int) -> int:
    """Return the least number of nodes of a class that take what is put there now."""
    most = 0
    skip = model.touch.get(c)
    for p in model.packing[c]:
        load = sum(values[i] * amount for i, amount in model.rows[p.row].terms if i != skip)
        if load:
            most = max(most, -(-load // p.unit) if p.unit else 1 << 30)
    return most


def worth(model: Program, values: Values) -> int:
    """Return the objective, exactly."""
    return sum(cost * value for cost, value in zip(model.cost, values, strict=True) if value)


def started(model: Program, values: Values) -> int:
    """Count the jobs that start now."""
    return sum(values[i] for o in model.options if o.slot == 0 for i in starts(o))
